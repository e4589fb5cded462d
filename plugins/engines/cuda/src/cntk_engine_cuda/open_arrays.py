"""Storage of nodes with a dimension that every minibatch has its own of: the length of its longest sequence."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cntk_core.api import Node, Plan
from cntk_core.api.engines import Loop, Step, is_open, longest_axes
from cntk_engine_cuda.gpu import Array, Gpu
from cntk_engine_cuda.site import Site


class OpenArrays:
    """Arrays that grow, one for each such value and gradient of a plan; they share no buffers.

    Attributes:
        axes: the dynamic axes whose longest sequences are dimensions, sorted.
    """

    def __init__(self, plan: Plan, gpu: Gpu, dtype: np.dtype[Any]) -> None:
        self._values = plan.open_values
        self._gradients = plan.open_gradients
        self._gpu = gpu
        self._dtype = dtype
        nodes = (*plan.open_values, *plan.open_gradients)
        self.axes = sorted(frozenset[str]().union(*(longest_axes(node.known_shape) for node in nodes)))
        self._held: dict[tuple[Node, bool], Array] = {}

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(int(array.nbytes) for array in self._held.values())

    def add(self, site: Site, values: dict[Node, Array], gradients: dict[Node, Array], before: Site | None) -> None:
        """Add the arrays of nodes whose sizes are known at a site. Values of an earlier stage stay where they are."""
        for node in self._values:
            if _is_known(node, site):
                earlier = before.values.get(node) if before is not None else None
                values[node] = earlier if earlier is not None else self._array((node, False), site.shape(node))
        for node in self._gradients:
            if _is_known(node, site):
                gradients[node] = self._array((node, True), site.shape(node))

    def _array(self, key: tuple[Node, bool], shape: tuple[int, ...]) -> Array:
        size = math.prod(shape)
        held = self._held.get(key)
        if held is None or held.size < size:
            grown = size if held is None else max(size, held.size + held.size // 4)
            held = self._held[key] = self._gpu.empty(grown, self._dtype)
        return held[:size].reshape(shape)


def _is_known(node: Node, site: Site) -> bool:
    return longest_axes(node.known_shape) <= site.longest.keys() and (not node.framed or node.axis in site.frames)


def reaches_open(step: Step | Loop) -> bool:
    """Whether a step has values with a dimension that every minibatch has its own of; no kernel takes them."""
    return any(is_open(node) for node in (*step.nodes, *step.reads))
