"""Binds what only gives elements other places: Slice, RowStack, RowRepeat, TransposeDimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs
import numpy as np

from cntk_core.api import Node
from cntk_core.api.engines import GradientStep, Step, elements_of, slice_ranges, symbol, transposed_axes
from cntk_engine_cuda.elementwise import Operand, Space, sum_calls
from cntk_engine_cuda.gpu import THREADS, Array, Call
from cntk_engine_cuda.site import Site
from cntk_engine_cuda.source import Result

AXES = 4
"""Axes of a box that the kernel knows."""


@attrs.frozen(eq=False)
class Part:
    """Places in an array that lies in one piece.

    Attributes:
        array: where.
        first: the first place.
        strides: elements from one index of a box to the next along each axis.
    """

    array: Array
    first: int
    strides: tuple[int, ...]


def strides_of(shape: Sequence[int]) -> tuple[int, ...]:
    """Elements from one index to the next along each axis of an array in one piece."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def move(site: Site, sizes: Sequence[int], given: Part, out: Part, *, accumulate: bool = False) -> list[Call] | None:
    """The calls that write (or add) the elements of a box; None if it has too many axes for the kernel."""
    count = math.prod(sizes)
    if not count:
        return []
    axes = _joined(sizes, given.strides, out.strides)
    if len(axes) > AXES:
        return None
    n, i, o = zip(*((1, 0, 0),) * (AXES - len(axes)), *axes, strict=True)
    kernel = site.gpu.named("moves", "move_box", site.dtype)
    numbers = (count, *n[1:], given.first, *i, out.first, *o, int(accumulate))
    arguments = (given.array, out.array, *map(np.int64, numbers))
    return [site.gpu.launch(kernel, site.gpu.grid(count), (THREADS,), arguments)]


def _joined(sizes: Sequence[int], first: Sequence[int], second: Sequence[int]) -> list[tuple[int, int, int]]:
    """The axes of a box, those that follow each other in both arrays as one: size and both strides of each."""
    axes: list[tuple[int, int, int]] = []
    for size, one, other in zip(sizes, first, second, strict=True):
        if size == 1:
            continue
        if axes and axes[-1][1:] == (one * size, other * size):
            size *= axes.pop()[0]
        axes.append((size, one, other))
    return axes


def _rows(site: Site, node: Node) -> tuple[int, ...]:
    """The frames of a node, if it has any, as the first sizes of a box."""
    return (site.rows(node),) if node.framed else ()


def _missing(site: Site, node: Node) -> bool:
    return any(child in site.sparse for child in node.inputs)


# -- Slice --------------------------------------------------------------------------------------------------


def _sliced(site: Site, node: Node, array: Array) -> tuple[tuple[int, ...], Part]:
    """The box of a slice, and its part of an array of the input's shape."""
    (given,) = node.inputs
    shape = given.known_shape
    strides = strides_of(shape)
    first = sum(begin * strides[axis] for axis, (begin, _) in slice_ranges(shape, node.attributes).items())
    frames = _rows(site, node)
    return (*frames, *node.known_shape), Part(array, first, (elements_of(given),) * len(frames) + strides)


def _whole(site: Site, node: Node, array: Array) -> Part:
    return Part(array, 0, strides_of((*_rows(site, node), *node.known_shape)))


def bind_slice(site: Site, step: Step) -> list[Call] | None:
    """Return the calls of Slice."""
    (node,) = step.nodes
    if _missing(site, node):
        return None
    sizes, part = _sliced(site, node, site.values[node.inputs[0]])
    return move(site, sizes, part, _whole(site, node, site.values[node]))


def bind_slice_gradient(site: Site, step: GradientStep) -> list[Call] | None:
    """Return the calls of its gradient: zeros beside the slice."""
    (node,) = step.step.nodes
    (target,) = step.targets
    out = site.gradients[target.node]
    sizes, part = _sliced(site, node, out)
    moved = move(site, sizes, _whole(site, node, site.gradients[node]), part, accumulate=target.accumulate)
    if moved is None:
        return None
    return moved if target.accumulate else [*site.gpu.fill(out, 0.0), *moved]


# -- RowStack -----------------------------------------------------------------------------------------------


@attrs.frozen(eq=False)
class _Piece:
    """What becomes of one input of RowStack.

    Attributes:
        node: the input.
        sizes: of the box, frames included.
        strides: in the input; 0 where it is repeated.
        first: its first place in the result.
    """

    node: Node
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    first: int

    @property
    def is_repeated(self) -> bool:
        """Whether elements stand in the result several times."""
        return any(size > 1 and not stride for size, stride in zip(self.sizes, self.strides, strict=True))


def _pieces(site: Site, node: Node) -> list[_Piece]:
    shape = node.known_shape
    frames = _rows(site, node)
    place = len(shape) - node.attributes.axis
    found, begin = [], 0
    for child in node.inputs:
        own = (1,) * (len(shape) - len(child.known_shape)) + tuple(child.known_shape)
        strides = tuple(
            stride if size > 1 else 0 for size, stride in zip(own, strides_of(own), strict=True)
        )  # a size of 1 is repeated where the result has more
        sizes = (*shape[:place], own[place], *shape[place + 1 :])
        by_frame = (elements_of(child) if child.framed else 0,) * len(frames)
        found.append(_Piece(child, (*frames, *sizes), (*by_frame, *strides), begin * strides_of(shape)[place]))
        begin += own[place]
    return found


def bind_stack(site: Site, step: Step) -> list[Call] | None:
    """Return the calls of RowStack: a copy of each input."""
    (node,) = step.nodes
    if _missing(site, node):
        return None
    whole = _whole(site, node, site.values[node]).strides
    calls: list[Call] = []
    for piece in _pieces(site, node):
        given = Part(site.values[piece.node], 0, piece.strides)
        moved = move(site, piece.sizes, given, Part(site.values[node], piece.first, whole))
        if moved is None:
            return None
        calls += moved
    return calls


def bind_stack_gradient(site: Site, step: GradientStep) -> list[Call] | None:
    """Return the calls of its gradient; None where elements of an input stand in the result several times."""
    (node,) = step.step.nodes
    accumulate = {target.node: target.accumulate for target in step.targets}
    whole = _whole(site, node, site.gradients[node]).strides
    calls: list[Call] = []
    for piece in _pieces(site, node):
        if piece.node not in accumulate:
            continue
        if piece.is_repeated:
            return None
        given, out = Part(site.gradients[node], piece.first, whole), site.gradients[piece.node]
        moved = move(site, piece.sizes, given, Part(out, 0, piece.strides), accumulate=accumulate[piece.node])
        if moved is None:
            return None
        calls += moved
        accumulate[piece.node] = True  # an input may stand there twice
    return calls


# -- TransposeDimensions ------------------------------------------------------------------------------------


def _turned(site: Site, node: Node, array: Array) -> tuple[tuple[int, ...], Part]:
    """The box of the result, and its places in an array of the input's shape."""
    (given,) = node.inputs
    axes = transposed_axes(given.known_shape, node.attributes)
    padded = (1,) * (len(axes) - len(given.known_shape)) + tuple(given.known_shape)
    strides = strides_of(padded)
    frames = _rows(site, node)
    by_frame = (elements_of(given),) * len(frames)
    return (*frames, *node.known_shape), Part(array, 0, (*by_frame, *(strides[axis] for axis in axes)))


def bind_transpose(site: Site, step: Step) -> list[Call] | None:
    """Return the calls of TransposeDimensions."""
    (node,) = step.nodes
    if _missing(site, node):
        return None
    sizes, part = _turned(site, node, site.values[node.inputs[0]])
    return move(site, sizes, part, _whole(site, node, site.values[node]))


def bind_transpose_gradient(site: Site, step: GradientStep) -> list[Call] | None:
    """Return the calls of its gradient."""
    (node,) = step.step.nodes
    (target,) = step.targets
    sizes, part = _turned(site, node, site.gradients[target.node])
    given = _whole(site, node, site.gradients[node])
    return move(site, sizes, given, part, accumulate=target.accumulate)


# -- RowRepeat ----------------------------------------------------------------------------------------------


def bind_repeat(site: Site, step: Step) -> list[Call] | None:
    """Return the calls of RowRepeat."""
    (node,) = step.nodes
    if _missing(site, node):
        return None
    size = elements_of(node.inputs[0])
    sizes = (site.rows(node), node.attributes.num_repeats, size)
    given = Part(site.values[node.inputs[0]], 0, (size, 0, 1))
    return move(site, sizes, given, Part(site.values[node], 0, strides_of(sizes)))


def bind_repeat_gradient(site: Site, step: GradientStep) -> list[Call]:
    """Return the calls of its gradient: the sum over repetitions."""
    (node,) = step.step.nodes
    (target,) = step.targets
    space = Space((site.rows(node), node.attributes.num_repeats, elements_of(node.inputs[0])), known=False)
    operands = {"g": Operand(site.gradients[node].reshape(-1), (True, True, True))}
    result = Result(symbol("g"), target.accumulate)
    outputs = [site.gradients[target.node]]
    return sum_calls(site.gpu, space, operands, [result], outputs, (True, False, True), site.workspace)
