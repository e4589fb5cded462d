"""Ops that take, join or repeat elements: Slice, RowStack, RowRepeat, Diagonal, OneHot.

Axes in attributes are CNTK's: from 1, CNTK's first axis being our last in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from cntk_core.errors import ShapeError
from cntk_core.ops.families.reshaping import ints, reshaped
from cntk_core.ops.language.define import define_op
from cntk_core.ops.language.framing import align, sample_shape, unbroadcast
from cntk_core.ops.language.op import LATER, Array, Op, OpContext
from cntk_core.ops.language.shapes import Shape, show
from cntk_core.ops.language.traits import BY_ROWS, Traits


@attrs.frozen
class SliceAttributes:
    """Attributes of Slice: for each axis (from 1) the range ``begin`` (from 0) up to, not including, ``end``.

    Negative numbers count from the end; an ``end`` of 0 is the end. Single numbers may be given for one axis. Of the
    range every ``stride``-th index is taken, from its last one backwards if it is negative.
    """

    begin: tuple[int, ...] = attrs.field(converter=ints)
    end: tuple[int, ...] = attrs.field(converter=ints)
    axis: tuple[int, ...] = attrs.field(default=(1,), converter=ints)
    stride: tuple[int, ...] = attrs.field(default=(1,), converter=ints, metadata=LATER)

    def __attrs_post_init__(self) -> None:
        if not len(self.begin) == len(self.end) == len(self.axis):
            counts = f"{len(self.begin)} begins, {len(self.end)} ends, {len(self.axis)} axes"
            raise ShapeError(f"Slice needs as many begins as ends and axes, not {counts}")
        if len(self.stride) not in (1, len(self.axis)) or 0 in self.stride:
            given = ", ".join(map(str, self.stride))
            raise ShapeError(
                f"Slice cannot have a stride of {given} along {len(self.axis)} axes",
                hint="Give one for all axes or for each, not 0.",
            )

    @property
    def strides(self) -> tuple[int, ...]:
        """The stride of each axis."""
        return self.stride * len(self.axis) if len(self.stride) == 1 else self.stride


def slice_ranges(shape: Shape, attributes: SliceAttributes) -> dict[int, tuple[int, int]]:
    """Return for each sliced memory axis of a sample the first and the past-the-end index.

    Raises:
        ShapeError: there is no such axis, or no such range in it.
    """
    found: dict[int, tuple[int, int]] = {}
    for begin, end, axis in zip(attributes.begin, attributes.end, attributes.axis, strict=True):
        if not 1 <= axis <= len(shape):
            raise ShapeError(f"the input {show(shape)} has no axis {axis}")
        size = shape[-axis]
        first = begin + size if begin < 0 else begin
        last = end + size if end <= 0 else end
        if not 0 <= first <= last <= size:
            raise ShapeError(f"the range {begin} to {end} of axis {axis} is not inside {show(shape)}")
        found[len(shape) - axis] = (first, last)
    return found


def slice_parts(shape: Shape, attributes: SliceAttributes) -> tuple[slice, ...]:
    """Return for each memory axis of a sample the part that is taken; raises as :func:`slice_ranges` does."""
    ranges, rank = slice_ranges(shape, attributes), len(shape)
    strides = {rank - axis: step for axis, step in zip(attributes.axis, attributes.strides, strict=True)}
    found = []
    for axis in range(rank):
        step = strides.get(axis, 1)
        if axis not in ranges:
            found.append(slice(None))
        elif step > 0:
            found.append(slice(*ranges[axis], step))
        else:  # a slice that ends before the first element has no number for it
            first, last = ranges[axis]
            found.append(slice(last - 1, first - 1 if first else None, step) if last > first else slice(0, 0))
    return tuple(found)


def _infer_slice(shapes: Sequence[Shape], attributes: SliceAttributes) -> Shape:
    taken = zip(slice_parts(shapes[0], attributes), shapes[0], strict=True)
    return tuple(len(range(*part.indices(dim))) if part != slice(None) else dim for part, dim in taken)


def _guess_slice(shapes: Sequence[Shape | None], attributes: SliceAttributes) -> Shape | None:
    """In a loop, the input may be taken for smaller than it is: a range that counts from the front tells its length."""
    if shapes[0] is None:
        return None
    rank = max(len(shapes[0]), *attributes.axis)
    sizes = [*((1,) * (rank - len(shapes[0]))), *shapes[0]]
    ranges = zip(attributes.begin, attributes.end, attributes.axis, attributes.strides, strict=True)
    for begin, end, axis, step in ranges:
        if not 0 <= begin < end:
            return None
        sizes[rank - axis] = -((begin - end) // abs(step))
    return tuple(sizes)


def _index(value: Array, framed: bool, attributes: SliceAttributes) -> tuple[slice, ...]:
    parts = slice_parts(sample_shape(value, framed), attributes)
    return (slice(None), *parts) if framed else parts


def _slice_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: SliceAttributes,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    result = xp.zeros_like(inputs[0])
    result[_index(inputs[0], context.framed[0], attributes)] = gradient
    return (result,)


def _slice_form(attributes: SliceAttributes) -> Op:
    return SLICE_BY_STRIDES if set(attributes.stride) - {1} else SLICE


def _slice(traits: Traits) -> Op:
    @define_op(
        "Slice",
        infer=_infer_slice,
        guess=_guess_slice,
        gradient=_slice_gradient,
        attributes=SliceAttributes,
        reads_inputs=False,
        reads_output=False,
        aliases={"ndl": ("RowSlice",), "model": ("RowSlice",)},
        traits=traits,
        form=_slice_form,
    )
    def made(xp: Any, inputs: Sequence[Array], attributes: SliceAttributes, context: OpContext) -> Array:
        """A range of indices of one or several axes, or every so many of it."""
        return inputs[0][_index(inputs[0], context.framed[0], attributes)]

    return made


SLICE = _slice(attrs.evolve(BY_ROWS, in_place="gradient", part=slice_ranges))
SLICE_BY_STRIDES = _slice(attrs.evolve(BY_ROWS, in_place="gradient"))
"""The form of it with strides: no part that lies in one piece."""


@attrs.frozen
class StackAttributes:
    """Attributes of RowStack: the axis (from 1) along which the inputs are joined; it may be a new one."""

    axis: int = 1


def _padded_rank(shapes: Sequence[Shape], attributes: StackAttributes) -> int:
    if attributes.axis < 1:
        raise ShapeError(f"inputs cannot be stacked along axis {attributes.axis}")
    return max(attributes.axis, *(len(shape) for shape in shapes))


def _infer_stack(shapes: Sequence[Shape], attributes: StackAttributes) -> Shape:
    rank = _padded_rank(shapes, attributes)
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    place = rank - attributes.axis
    result = []
    for axis, dims in enumerate(zip(*padded, strict=True)):
        others = set(dims) - {1}
        if axis == place:
            result.append(sum(dims))
        elif len(others) > 1:
            listed = " and ".join(show(shape) for shape in shapes)
            raise ShapeError(f"{listed} cannot be stacked along axis {attributes.axis}: axis {rank - axis} differs")
        else:
            result.append(others.pop() if others else 1)
    return tuple(result)


def _stack_parts(inputs: Sequence[Array], attributes: StackAttributes, context: OpContext) -> tuple[list[Array], int]:
    """The inputs with samples of equal rank, and the memory axis of a sample along which they are joined."""
    shapes = [sample_shape(value, framed) for value, framed in zip(inputs, context.framed, strict=True)]
    rank = _padded_rank(shapes, attributes)
    parts = [
        align(value, True, rank) if framed else value.reshape((1,) * (rank - value.ndim) + value.shape)
        for value, framed in zip(inputs, context.framed, strict=True)
    ]
    return parts, rank - attributes.axis


def _stack_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: StackAttributes,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    parts, place = _stack_parts(inputs, attributes, context)
    out_framed = any(context.framed)
    results: list[Array | None] = []
    begin = 0
    for part, value, framed in zip(parts, inputs, context.framed, strict=True):
        end = begin + part.shape[place + int(framed)]
        index = (slice(None),) * (place + int(out_framed)) + (slice(begin, end),)
        results.append(unbroadcast(xp, gradient[index], value.shape, framed, out_framed))
        begin = end
    return results


@define_op(
    "RowStack",
    inputs=(1, None),
    infer=_infer_stack,
    gradient=_stack_gradient,
    attributes=StackAttributes,
    reads_inputs=False,
    reads_output=False,
    traits=BY_ROWS,
)
def ROW_STACK(xp: Any, inputs: Sequence[Array], attributes: StackAttributes, context: OpContext) -> Array:
    """The inputs joined along an axis; other axes of length 1 are repeated."""
    parts, place = _stack_parts(inputs, attributes, context)
    out_framed = any(context.framed)
    shapes = [sample_shape(value, framed) for value, framed in zip(inputs, context.framed, strict=True)]
    whole = _infer_stack(shapes, attributes)
    wide = []
    for part, framed in zip(parts, context.framed, strict=True):
        size = part.shape[place + int(framed)]
        sample = (*whole[:place], size, *whole[place + 1 :])
        wide.append(xp.broadcast_to(part, (context.frames, *sample) if out_framed else sample))
    return xp.concatenate(wide, axis=place + int(out_framed))


@attrs.frozen
class RepeatAttributes:
    """Attributes of RowRepeat: how many times."""

    num_repeats: int = 1


def _infer_repeat(shapes: Sequence[Shape], attributes: RepeatAttributes) -> Shape:
    if attributes.num_repeats < 1:
        raise ShapeError(f"RowRepeat needs at least 1 repetition, not {attributes.num_repeats}")
    return (shapes[0][0] * attributes.num_repeats, *shapes[0][1:])


def _repeat_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: RepeatAttributes,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    framed = context.framed[0]
    sample = sample_shape(inputs[0], framed)
    blocks = reshaped(gradient, framed, (attributes.num_repeats, *sample))
    return (xp.sum(blocks, axis=int(framed)),)


@define_op(
    "RowRepeat",
    infer=_infer_repeat,
    gradient=_repeat_gradient,
    attributes=RepeatAttributes,
    reads_inputs=False,
    reads_output=False,
    traits=BY_ROWS,
)
def ROW_REPEAT(xp: Any, inputs: Sequence[Array], attributes: RepeatAttributes, context: OpContext) -> Array:
    """The sample several times, one after the other along its last axis in CNTK's order."""
    return xp.concatenate([inputs[0]] * attributes.num_repeats, axis=int(context.framed[0]))


def _infer_diagonal(shapes: Sequence[Shape], attributes: Any) -> Shape:
    shape = shapes[0]
    if len(shape) != 2 or shape[0] != shape[1]:
        raise ShapeError(f"only a square matrix has a diagonal, not {show(shape)}")
    return (shape[0], 1)


def _diagonal_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: Any,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    return (xp.eye(inputs[0].shape[-1], dtype=gradient.dtype) * gradient,)


@define_op(
    "Diagonal",
    infer=_infer_diagonal,
    gradient=_diagonal_gradient,
    reads_inputs=False,
    reads_output=False,
    traits=BY_ROWS,
)
def DIAGONAL(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
    """The diagonal of a square matrix, as a row."""
    return xp.diagonal(inputs[0], axis1=-2, axis2=-1)[..., None]


@attrs.frozen
class OneHotAttributes:
    """Attributes of OneHot: how many classes, and where the new axis stands (from 0, negative from the end)."""

    num_class: int
    axis: int = -1


def _one_hot_place(shape: Shape, attributes: OneHotAttributes) -> int:
    """Memory place of the new axis in a sample."""
    rank = len(shape)
    return rank - attributes.axis % (rank + 1)


def _infer_one_hot(shapes: Sequence[Shape], attributes: OneHotAttributes) -> Shape:
    if attributes.num_class < 1:
        raise ShapeError(f"OneHot needs at least 1 class, not {attributes.num_class}")
    place = _one_hot_place(shapes[0], attributes)
    return (*shapes[0][:place], attributes.num_class, *shapes[0][place:])


@define_op("OneHot", infer=_infer_one_hot, attributes=OneHotAttributes, traits=BY_ROWS)
def ONE_HOT(xp: Any, inputs: Sequence[Array], attributes: OneHotAttributes, context: OpContext) -> Array:
    """For each element, which is a class number, a vector with a 1 at its place; other numbers give zeros."""
    value, framed = inputs[0], context.framed[0]
    place = _one_hot_place(sample_shape(value, framed), attributes) + int(framed)
    classes = xp.arange(attributes.num_class).reshape(-1, *(1,) * (value.ndim - place))
    # A fraction counts as the class below it; everything outside the range hits no class.
    number = xp.where(value >= 0, xp.floor(value), -1.0)
    return (xp.expand_dims(number, place) == classes).astype(value.dtype)


OPS = (SLICE, ROW_STACK, ROW_REPEAT, DIAGONAL, ONE_HOT)
