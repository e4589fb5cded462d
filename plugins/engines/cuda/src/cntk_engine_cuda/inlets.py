"""All inputs of a plan on the device: those that stay sparse, labels that may, and the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cntk_core.api import Input, Node, Parameter, Plan, StreamData
from cntk_core.api.engines import label_inputs, sparse_inputs
from cntk_engine_cuda.gpu import Array, Gpu
from cntk_engine_cuda.inputs import Inlet
from cntk_engine_cuda.site import elements_of
from cntk_engine_cuda.sparse import SparseInlet


class Inlets:
    """Takes in minibatches.

    Args:
        gpu: the device.
        plan: its inputs.
        dtype: precision.
    """

    def __init__(self, gpu: Gpu, plan: Plan, dtype: np.dtype[Any]) -> None:
        stays_sparse = sparse_inputs(plan.steps, plan.roots)
        labels = label_inputs(plan.steps, (*plan.roots, *plan.by))
        self._by_rows: Mapping[Parameter, tuple[Input, ...]] = plan.sparse
        occurring = {node for inputs in plan.sparse.values() for node in inputs}
        self._labels = {node: SparseInlet(gpu, node, dtype) for node in plan.inputs if node in labels}
        self._sparse = {node: SparseInlet(gpu, node, dtype) for node in plan.inputs if node in stays_sparse | occurring}
        self._dense = {node: Inlet(gpu, node, dtype) for node in plan.inputs if node not in stays_sparse}
        self._sparse_labels: frozenset[Node] = frozenset()

    @property
    def nbytes(self) -> int:
        """Bytes of copies on the device."""
        return sum(inlet.nbytes for inlet in self._dense.values())

    def note_labels(self, streams: Mapping[Input, StreamData]) -> bool:
        """Note which labels are sparse in this minibatch. Returns whether it is otherwise than in the one before."""
        found = frozenset(node for node in self._labels if streams[node].sparse)
        changed = found != self._sparse_labels
        self._sparse_labels = found
        return changed

    def reserve(self, axes: set[str], capacity: Mapping[str, int]) -> None:
        """Have places for as many frames as there is room for, on some axes."""
        for node, inlet in self._dense.items():
            if not node.framed:
                inlet.reserve(1)
            elif node.axis in axes:
                inlet.reserve(capacity[node.axis])

    def take(self, streams: Mapping[Input, StreamData]) -> bool:
        """Send a minibatch to its places. Returns whether arrays of the device are others now.

        Raises:
            DataError: samples have another size than their input.
        """
        moved = False
        for node, stream in streams.items():
            if node in self._sparse:
                moved |= self._sparse[node].take(stream)
            if node in self._sparse_labels:
                moved |= self._labels[node].take(stream)
            elif node in self._dense:
                self._dense[node].take(stream)
        return moved

    def sparse(self) -> dict[Node, SparseInlet]:
        """The inputs that are sparse in this minibatch."""
        found: dict[Node, SparseInlet] = {
            node: inlet for node, inlet in self._sparse.items() if node not in self._dense
        }
        return found | {node: self._labels[node] for node in self._labels if node in self._sparse_labels}

    def values(self, frames: Mapping[str, int]) -> dict[Node, Array]:
        """The values of the other inputs, for so many frames."""
        sparse = self.sparse()
        return {
            node: inlet.view(frames[node.axis]) if node.framed else inlet.view(1)[0]
            for node, inlet in self._dense.items()
            if node not in sparse
        }

    def touch(self, touched: Any) -> None:
        """Note which rows of parameters with sparse gradients the minibatch has come to.

        Args:
            touched: ``(parameter, rows) -> flags``, to be set.
        """
        for parameter, inputs in self._by_rows.items():
            flags = touched(parameter, elements_of(inputs[0]))
            for node in inputs:
                flags[self._sparse[node].columns] = True
