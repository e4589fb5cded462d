"""Storage of nodes with a dimension that every minibatch has its own of: the length of its longest sequence."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

from cntk_core.network.node import Node
from cntk_core.ops.language.shapes import longest_axes
from cntk_core.plan.plan import Loop, Plan, Step, is_open
from cntk_kit_engines.plan_values import ValueSizes

Array = Any
"""An array of NumPy or of a module like it."""


class OpenArrays:
    """Arrays that grow, one for each such value and gradient of a plan; they share no buffers.

    Args:
        plan: tells the nodes.
        empty: ``elements -> flat array``: storage.

    Attributes:
        axes: the dynamic axes whose longest sequences are dimensions, sorted.
    """

    def __init__(self, plan: Plan, empty: Callable[[int], Array]) -> None:
        self._values = plan.open_values
        self._gradients = plan.open_gradients
        self._empty = empty
        nodes = (*plan.open_values, *plan.open_gradients)
        self.axes = sorted(frozenset[str]().union(*(longest_axes(node.known_shape) for node in nodes)))
        self._held: dict[tuple[Node, bool], Array] = {}

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(int(array.nbytes) for array in self._held.values())

    def add(
        self,
        sizes: ValueSizes,
        values: MutableMapping[Node, Array],
        gradients: MutableMapping[Node, Array],
        before: Mapping[Node, Array] | None,
    ) -> None:
        """Add the arrays ``(frames, *shape)`` of nodes whose sizes are known.

        Args:
            sizes: of the minibatch.
            values, gradients: where they are added, by node.
            before: the values of an earlier stage, which stay where they are.
        """
        for node in self._values:
            if _is_known(node, sizes):
                earlier = before.get(node) if before is not None else None
                values[node] = earlier if earlier is not None else self._array((node, False), sizes.shape(node))
        for node in self._gradients:
            if _is_known(node, sizes):
                gradients[node] = self._array((node, True), sizes.shape(node))

    def _array(self, key: tuple[Node, bool], shape: tuple[int, ...]) -> Array:
        size = math.prod(shape)
        held = self._held.get(key)
        if held is None or held.size < size:
            grown = size if held is None else max(size, held.size + held.size // 4)
            held = self._held[key] = self._empty(grown)
        return held[:size].reshape(shape)


def _is_known(node: Node, sizes: ValueSizes) -> bool:
    return longest_axes(node.known_shape) <= sizes.longest.keys() and (not node.framed or node.axis in sizes.frames)


def reaches_open(step: Step | Loop) -> bool:
    """Whether a step has values with a dimension that every minibatch has its own of; no kernel takes them."""
    return any(is_open(node) for node in (*step.nodes, *step.reads))
