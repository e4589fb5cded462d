"""All inputs of a plan: those that stay sparse, labels that may, and the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from cntk_core.contract.store import ParameterStore
from cntk_core.network.node import Input, Node, Parameter
from cntk_core.plan.plan import Plan
from cntk_core.records.minibatch import StreamData
from cntk_kit_engines.plan_values import mark_rows
from cntk_kit_engines.sparse_inputs import label_inputs, sparse_inputs


class DenseInlet(Protocol):
    """Takes in the stream of an input as an array."""

    def take(self, stream: StreamData) -> Any:
        """Take in a minibatch."""


class SparseInlet(Protocol):
    """Takes in the stream of an input as a sparse matrix."""

    @property
    def columns(self) -> Any:
        """The elements that occur in the minibatch."""

    def take(self, stream: StreamData) -> Any:
        """Take in a minibatch."""


D = TypeVar("D", bound=DenseInlet)
S = TypeVar("S", bound=SparseInlet)


class Inlets(Generic[D, S]):
    """Takes in minibatches.

    Args:
        plan: its inputs.
        dense: makes what takes in an input as an array.
        sparse: makes what takes in an input as a sparse matrix.

    Attributes:
        dense: by input, what takes in those that do not stay sparse.
        read_dense: the parameters with sparse gradients of which an input is needed as an array, too.
    """

    def __init__(self, plan: Plan, dense: Callable[[Input], D], sparse: Callable[[Input], S]) -> None:
        stays_sparse = sparse_inputs(plan.steps, plan.roots)
        labels = label_inputs(plan.steps, (*plan.roots, *plan.by))
        occurring = {node for inputs in plan.sparse.values() for node in inputs}
        self._plan = plan
        self._labels: dict[Input, S] = {node: sparse(node) for node in plan.inputs if node in labels}
        self._sparse: dict[Node, S] = {node: sparse(node) for node in plan.inputs if node in stays_sparse | occurring}
        self.dense: dict[Node, D] = {node: dense(node) for node in plan.inputs if node not in stays_sparse}
        self.read_dense: tuple[Parameter, ...] = tuple(
            parameter for parameter, inputs in plan.sparse.items() if any(node in self.dense for node in inputs)
        )
        self._sparse_labels: frozenset[Node] = frozenset()

    def note_labels(self, streams: Mapping[Input, StreamData]) -> bool:
        """Note which labels are sparse in this minibatch. Returns whether it is otherwise than in the one before."""
        if not self._labels:
            return False
        found = frozenset(node for node in self._labels if streams[node].sparse)
        changed = found != self._sparse_labels
        self._sparse_labels = found
        return changed

    def take(self, streams: Mapping[Input, StreamData]) -> tuple[dict[Input, Any], list[Any]]:
        """Take in a minibatch, after :meth:`note_labels`.

        Returns:
            What those that are arrays have given, by input; and what those that are sparse have given.

        Raises:
            DataError: samples have another size than their input.
        """
        arrays: dict[Input, Any] = {}
        matrices: list[Any] = []
        for node, stream in streams.items():
            if node in self._sparse:
                matrices.append(self._sparse[node].take(stream))
            if node in self._sparse_labels:
                matrices.append(self._labels[node].take(stream))
            elif node in self.dense:
                arrays[node] = self.dense[node].take(stream)
        return arrays, matrices

    def sparse(self) -> dict[Node, S]:
        """What takes in the inputs that have no arrays in this minibatch."""
        found = {node: inlet for node, inlet in self._sparse.items() if node not in self.dense}
        return found | {node: inlet for node, inlet in self._labels.items() if node in self._sparse_labels}

    def mark(self, store: ParameterStore, parameters: tuple[Parameter, ...] | None = None) -> None:
        """Note in the store which rows of parameters (all with sparse gradients) the minibatch has come to."""
        chosen = tuple(self._plan.sparse) if parameters is None else parameters
        if chosen:  # to find the elements takes time
            nodes: list[Node] = [node for each in chosen for node in self._plan.sparse[each]]
            mark_rows(self._plan, store, {node: self._sparse[node].columns for node in nodes}, chosen)
