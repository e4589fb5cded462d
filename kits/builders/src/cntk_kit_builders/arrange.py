"""Where the boxes of a drawing go: layers, order inside a layer, positions.

The usual steps for layered drawings (Sugiyama, Tagawa and Toda, 1981): a layer for each node by its longest path, a
dummy on each layer that a long edge crosses, a few sweeps that order every layer by the mean position of its
neighbours, and positions that are as near to the neighbours as the widths allow.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import attrs

_ORDER_SWEEPS = 8
_PLACE_SWEEPS = 40
_STRAIGHT = 3.0
"""How much more the dummies of a long edge insist on their place than boxes do, so that the edge is straight."""
_INWARD = 0.12
"""How much boxes are drawn to the middle of the drawing, so that it stays narrow."""


@attrs.define(eq=False)
class Box:
    """Something with a width that gets a place. ``item`` is None for a dummy on a long edge."""

    item: object
    width: float
    layer: int = 0
    x: float = 0.0
    above: list[Box] = attrs.field(factory=list, repr=False)
    below: list[Box] = attrs.field(factory=list, repr=False)


@attrs.frozen(eq=False)
class Arrangement:
    """Boxes in layers, from top to bottom and from left to right.

    Attributes:
        layers: the boxes of each layer, dummies included; ``x`` is the middle of a box.
        routes: for each edge, in the order given, the boxes on its way from the upper to the lower end.
        width: of the whole drawing; positions are in ``0 .. width``.
    """

    layers: tuple[tuple[Box, ...], ...]
    routes: tuple[tuple[Box, ...], ...]
    width: float


def arrange(widths: Sequence[float], edges: Sequence[tuple[int, int]], *, gap: float, dummy: float) -> Arrangement:
    """Arrange boxes.

    Args:
        widths: of the boxes, by index.
        edges: pairs (upper, lower) of indices, without cycles.
        gap: least distance between neighbours.
        dummy: width kept free for an edge that passes a layer.
    """
    boxes = [Box(index, width) for index, width in enumerate(widths)]
    _layer(boxes, edges)
    layers: list[list[Box]] = [[] for _ in range(max((box.layer for box in boxes), default=-1) + 1)]
    for box in boxes:
        layers[box.layer].append(box)
    routes = [_route(boxes[upper], boxes[lower], layers, dummy) for upper, lower in edges]
    _order(layers)
    width = _place(layers, gap)
    return Arrangement(tuple(tuple(layer) for layer in layers), tuple(routes), width)


def _layer(boxes: Sequence[Box], edges: Sequence[tuple[int, int]]) -> None:
    """Longest path from the top; boxes without anything above them then move down to their first neighbour."""
    below: list[list[int]] = [[] for _ in boxes]
    waiting = [0] * len(boxes)
    for upper, lower in edges:
        below[upper].append(lower)
        waiting[lower] += 1
    sources = [index for index, count in enumerate(waiting) if count == 0]
    ready = list(sources)
    while ready:
        index = ready.pop()
        for lower in below[index]:
            boxes[lower].layer = max(boxes[lower].layer, boxes[index].layer + 1)
            waiting[lower] -= 1
            if waiting[lower] == 0:
                ready.append(lower)
    for index in sources:
        boxes[index].layer = max(0, min((boxes[lower].layer for lower in below[index]), default=1) - 1)


def _route(upper: Box, lower: Box, layers: list[list[Box]], width: float) -> tuple[Box, ...]:
    path = [upper]
    for layer in range(upper.layer + 1, lower.layer):
        stop = Box(None, width, layer)
        layers[layer].append(stop)
        path.append(stop)
    path.append(lower)
    for first, second in pairwise(path):
        first.below.append(second)
        second.above.append(first)
    return tuple(path)


def _order(layers: list[list[Box]]) -> None:
    for layer in layers:
        for position, box in enumerate(layer):
            box.x = position
    for sweep in range(_ORDER_SWEEPS):
        downward = sweep % 2 == 0
        for layer in layers if downward else reversed(layers):
            layer.sort(key=lambda box: _mean(box, box.above if downward else box.below))
            for position, box in enumerate(layer):
                box.x = position


def _mean(box: Box, neighbours: Sequence[Box]) -> float:
    return sum(other.x for other in neighbours) / len(neighbours) if neighbours else box.x


def _place(layers: list[list[Box]], gap: float) -> float:
    for layer in layers:
        left = 0.0
        for box in layer:
            box.x = left + box.width / 2
            left += box.width + gap
        for box in layer:
            box.x -= (left - gap) / 2
    for sweep in range(_PLACE_SWEEPS):
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            _spread(layer, [(1 - _INWARD) * _mean(box, box.above + box.below) for box in layer], gap)
    left = min((box.x - box.width / 2 for layer in layers for box in layer), default=0.0)
    right = max((box.x + box.width / 2 for layer in layers for box in layer), default=0.0)
    for layer in layers:
        for box in layer:
            box.x -= left
    return right - left


def _spread(layer: Sequence[Box], wanted: Sequence[float], gap: float) -> None:
    """Put the boxes of a layer as near to where they want to be as their widths allow (weighted least squares).

    Subtracting each box's least offset turns the problem into isotonic regression, which pooling solves exactly.
    """
    offsets = [0.0]
    for first, second in pairwise(layer):
        offsets.append(offsets[-1] + (first.width + second.width) / 2 + gap)
    pools: list[tuple[float, float, int]] = []
    for box, target, offset in zip(layer, wanted, offsets, strict=True):
        weight = _STRAIGHT if box.item is None else 1.0
        total, count = weight * (target - offset), 1
        while pools and pools[-1][0] / pools[-1][1] > total / weight:
            more, heavier, members = pools.pop()
            total, weight, count = total + more, weight + heavier, count + members
        pools.append((total, weight, count))
    places = [total / weight for total, weight, count in pools for _ in range(count)]
    for box, place, offset in zip(layer, places, offsets, strict=True):
        box.x = place + offset
