"""How the arrays of a convolution lie: as its products want them, or in the legacy layout; then they are turned."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from cntk_core.api import Node
from cntk_engine_cuda.correlation import Operand
from cntk_engine_cuda.gpu import THREADS, Array, Call
from cntk_engine_cuda.site import Site

SIDES = (0, 3, 2, 1)
"""How axes of images and maps are turned: ``(frames, width, height, channels)``; the way back is the same."""

WEIGHTS = (3, 0, 2, 1)
"""How axes of weights are turned: ``(channels, width, height, maps)``."""


class Plain:
    """Arrays that lie as products want them: images and maps by rows, weights with a row for each map.

    Args:
        site: where they lie.
        node: the convolution.
        dims: for each operand, its dimensions as products see them; samples lie along the first of images and maps.
    """

    def __init__(self, site: Site, node: Node, dims: dict[Operand, tuple[int, ...]]) -> None:
        self.site = site
        self.node = node
        self.dims = dims

    def rows(self, operand: Operand, array: Array) -> Array:
        """An array as a matrix."""
        first, *rest = self.dims[operand]
        return array.reshape(first, math.prod(rest))

    def given(self, operand: Operand, array: Array) -> tuple[Array, list[Call]]:
        """What products read, and the calls that make it so."""
        return self.rows(operand, array), []

    def wanted(self, operand: Operand, array: Array, *, accumulate: bool) -> tuple[Array, bool, list[Call]]:
        """Where products write, whether they add, and the calls that bring it from there to the array."""
        return self.rows(operand, array), accumulate, []


class Legacy(Plain):
    """Images that lie column by column with their channels together (``HWC``), and weights with their maps together."""

    def _room(self, operand: Operand) -> Array:
        first, *rest = self.dims[operand]
        purpose, each = f"turned {operand.name.lower()}", math.prod(rest)
        if operand is Operand.WEIGHTS:
            return self.rows(operand, self.site.fixed(self.node, purpose, first * each))
        return self.rows(operand, self.site.scratch(self.node, purpose, each)[: first * each])

    def _order(self, operand: Operand) -> tuple[int, ...]:
        return WEIGHTS if operand is Operand.WEIGHTS else SIDES

    def given(self, operand: Operand, array: Array) -> tuple[Array, list[Call]]:
        """What products read, and the calls that make it so."""
        room, dims, order = self._room(operand), self.dims[operand], self._order(operand)
        return room, turn(self.site, array, room, [dims[axis] for axis in np.argsort(order)], order)

    def wanted(self, operand: Operand, array: Array, *, accumulate: bool) -> tuple[Array, bool, list[Call]]:
        """Where products write, whether they add, and the calls that bring it from there to the array."""
        room, back = self._room(operand), [int(axis) for axis in np.argsort(self._order(operand))]
        return room, False, turn(self.site, room, array, self.dims[operand], back, accumulate=accumulate)


def turn(
    site: Site, given: Array, out: Array, dims: Sequence[int], order: Sequence[int], *, accumulate: bool = False
) -> list[Call]:
    """The calls that write ``given``, of four dimensions, with its axes in another order."""
    count = math.prod(dims)
    if not count:
        return []
    apart = [math.prod(dims[axis + 1 :]) for axis in range(len(dims))]
    sizes, steps = [dims[axis] for axis in order], [apart[axis] for axis in order]
    kernel = site.gpu.named("turn", "turn_axes", site.dtype)
    arguments = (given, out, *map(np.int64, [*sizes, *steps]), np.int64(accumulate))
    return [site.gpu.launch(kernel, site.gpu.grid(count), (THREADS,), arguments)]
