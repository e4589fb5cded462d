"""Computes any step by its ops' own functions, on an engine's arrays: for ops that the engine has no kernel for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any, Protocol

from cntk_core.network.node import Node
from cntk_core.ops.language.framing import run_forward
from cntk_core.ops.language.op import OpContext
from cntk_core.plan.plan import GradientStep, Step
from cntk_kit_engines.foreign_results import check_value, foreign_nodes, wrong_value
from cntk_kit_engines.gradient_flow import flow_back

Array = Any
"""An array of NumPy or of a module like it."""

Run = Callable[[], None]


class Place(Protocol):
    """Where a step is computed: what its ops are given, and how results become the engine's.

    Attributes:
        xp: NumPy, or a module like it.
        shares: ``given`` and ``take`` give the engine's arrays themselves, so that what ops write there is written.
    """

    xp: Any
    shares: bool

    def given(self, node: Node) -> Any:
        """What an op is given of a node: its value, or a sparse matrix. What nothing keeps is zeros of its shape."""

    def take(self, array: Array) -> Array:
        """An array of the engine for the ops, of the same shape."""

    def put(self, target: Array, result: Array, *, accumulate: bool = False) -> None:
        """Write a result of the ops to an array of the engine, whose shape it has or is broadcast to."""


class Site(Protocol):
    """What a step is bound to.

    Attributes:
        values, gradients: arrays by node.
        contexts: what ops see beside their inputs, by node.
        path: for each node through which a gradient flows, which inputs want one.
        made: values of nodes that make dynamic axes.
        interpreted: nodes that look at their contexts, which are then kept up to date.
    """

    @property
    def values(self) -> Mapping[Node, Array]:
        """``(frames, *shape)`` by node."""

    @property
    def gradients(self) -> Mapping[Node, Array]:
        """Of the shapes of the values."""

    @property
    def contexts(self) -> Mapping[Node, OpContext]: ...  # noqa: D102
    @property
    def path(self) -> Mapping[Node, Sequence[bool]]: ...  # noqa: D102

    @property
    def made(self) -> MutableMapping[Node, Array]:
        """``(frames, *shape)`` by node."""

    @property
    def interpreted(self) -> set[Node]: ...  # noqa: D102


def forward(site: Site, step: Step, place: Place) -> Run:
    """Return what computes a step node by node.

    Results are written when all are there, because one may lie where an input lies.

    Running it raises WrongResult if an op gives no array of the shape of its value.
    """
    site.interpreted.update(step.nodes)
    foreign = foreign_nodes(step.writes)

    def compute() -> None:
        inner: dict[Node, Array] = {}
        for node in step.nodes:
            inputs = [inner[child] if child in inner else place.given(child) for child in node.inputs]
            context = site.contexts[node]
            context.saved.clear()
            inner[node] = run_forward(node.op, place.xp, inputs, node.attributes, context)
            if context.training and node.op.updates and not place.shares:
                _keep_updates(site, place, node, inputs)
        for node in foreign:
            check_value(node.op, inner[node], site.values[node].shape)
        for node, result in zip(step.writes, apart([inner[node] for node in step.writes]), strict=True):
            try:
                place.put(site.values[node], result)
            except (TypeError, ValueError, AttributeError):
                raise wrong_value(node.op, result, site.values[node].shape) from None

    return compute


def _keep_updates(site: Site, place: Place, node: Node, inputs: Sequence[Array]) -> None:
    """Write what an op has changed in copies of its inputs (running statistics) to the engine's arrays."""
    for index in node.op.updates:
        if index < len(inputs):
            place.put(site.values[node.inputs[index]], inputs[index])


def apart(arrays: Sequence[Array]) -> list[Array]:
    """Copy those of several results that are views of others; shapes stay. One may lie where another is written to."""
    if len(arrays) == 1:
        return list(arrays)
    return [array if getattr(array, "base", array) is None else array.copy() for array in arrays]


def new_axis(site: Site, step: Step, place: Place, own: Callable[[Array], Array] | None = None) -> Run:
    """Return what computes a node that makes a dynamic axis; its size is known only then.

    Args:
        site: gets the value in ``made``.
        step: of the node.
        place: where it is computed.
        own: makes an array of the engine of the value; None if it is one.
    """
    (node,) = step.nodes
    site.interpreted.add(node)

    def compute() -> None:
        inputs = [place.given(child) for child in node.inputs]
        made = run_forward(node.op, place.xp, inputs, node.attributes, site.contexts[node])
        site.made[node] = made if own is None else own(made)

    return compute


def gradient(site: Site, step: GradientStep, place: Place) -> Run:
    """Return what computes all gradients of a step."""
    site.interpreted.update(step.step.nodes)
    members, targets = step.step.nodes, [target.node for target in step.targets]

    def compute() -> None:
        gradients: dict[Node, Array] = {node: place.take(site.gradients[node]) for node in step.sources}
        flow_back(
            members, gradients, place.xp, place.given, lambda node: site.contexts[node], site.path, targets=targets
        )
        # Where no gradient comes, it is zero.
        found = [
            gradients[node] if node in gradients else place.xp.zeros((), dtype=site.gradients[node].dtype)
            for node in targets
        ]
        for target, change in zip(step.targets, apart(found), strict=True):
            place.put(site.gradients[target.node], change, accumulate=target.accumulate)

    return compute
