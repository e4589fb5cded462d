"""Shift: values from elsewhere along the dynamic axis or a static one.

``y_t = x_{t + fromOffset}``. Beyond the ends stands the second input: the same for all sequences, or with a dynamic
axis of its own, of which the last frame counts before the begin and the first one behind the end; or, by
``boundaryMode``, the frame at the end itself. The original has the operation in its sources; it was never finished.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from cntk_core.errors import DataError, ShapeError
from cntk_core.ops.families.delays import delay_forward, delay_gradient, rows_of
from cntk_core.ops.families.frame_moves import layout_of
from cntk_core.ops.language.define import define_op, guess_first
from cntk_core.ops.language.framing import align, sample_shape, unbroadcast
from cntk_core.ops.language.layouts import sequence_layout
from cntk_core.ops.language.op import Array, OpContext
from cntk_core.ops.language.rows import sequence_rows, sequence_table
from cntk_core.ops.language.shapes import Shape, broadcast, show
from cntk_core.records.layout import IntArray

REACH_ACROSS, DUPLICATE = -1, 0
"""What stands beyond the ends: the boundary value, or the element at the end."""

OVER_TIME = -1
"""The dynamic axis; others count from 1."""


@attrs.frozen
class ShiftAttributes:
    """Attributes of Shift.

    Attributes:
        from_offset: distance to the element that is taken; negative is the past.
        boundary_mode: how elements beyond the ends are made: -1 takes the boundary value, 0 repeats the element there.
        dim: the axis (from 1); -1 is the dynamic axis.
    """

    from_offset: int
    boundary_mode: int = REACH_ACROSS
    dim: int = OVER_TIME


def _without_ones(shape: Shape, rank: int) -> Shape:
    """A shape without the axes of length 1 that are too many: CNTK's [1 x 1] is a number."""
    while len(shape) > rank and shape[0] == 1:
        shape = shape[1:]
    return shape


def _fitted(inputs: Sequence[Array], framed: Sequence[bool]) -> list[Array]:
    """The inputs, the boundary value with no more axes than the value."""
    value, boundary = inputs
    rank = len(sample_shape(value, framed[0]))
    shape = _without_ones(sample_shape(boundary, framed[1]), rank)
    return [value, boundary.reshape(*boundary.shape[: int(framed[1])], *shape)]


def _infer_shift(shapes: Sequence[Shape], attributes: ShiftAttributes) -> Shape:
    value, boundary = shapes
    if attributes.boundary_mode not in (REACH_ACROSS, DUPLICATE):
        raise ShapeError(
            f"there is no boundaryMode {attributes.boundary_mode}", hint="Modes: -1 (boundary value), 0 (repeat)"
        )
    if attributes.dim != OVER_TIME and not 1 <= attributes.dim <= len(value):
        raise ShapeError(f"the input {show(value)} has no axis {attributes.dim}")
    if broadcast([value, _without_ones(boundary, len(value))]) != value:
        raise ShapeError(f"the boundary value {show(boundary)} does not fit the value {show(value)}")
    return value


# -- along the dynamic axis -------------------------------------------------------------------------------


def _boundary_rows(context: OpContext, shift: int) -> IntArray:
    """The row of the boundary value that counts for each sequence on its axis, in the order of the reader."""
    layout = layout_of(context, 1)
    table = sequence_table(layout)
    steps = table.length - 1 if shift > 0 else np.zeros_like(table.length)
    return table.rows(layout, np.arange(len(table.number)), steps)


def _with_single_frames(context: OpContext) -> OpContext:
    """The context of a boundary value that has one frame left for each sequence."""
    numbers = sequence_table(layout_of(context, 1)).number
    lengths = np.zeros(int(numbers[-1]) + 1 if len(numbers) else 0, np.int64)
    lengths[numbers] = 1
    return attrs.evolve(context, layouts=(context.layouts[0], sequence_layout(lengths)))


def _ends(context: OpContext, shift: int) -> IntArray:
    """For each row that reads beyond its sequence, the row at that end of it."""
    assert context.layout is not None
    rows = sequence_rows(context.layout)
    initial = rows_of(context, shift).initial
    steps = (rows.first if shift > 0 else rows.last)[initial]
    found: IntArray = context.layout.start[steps] + rows.slot[initial]
    return found


def _over_time(xp: Any, inputs: Sequence[Array], attributes: ShiftAttributes, context: OpContext) -> Array:
    shift = -attributes.from_offset
    value, boundary = inputs
    if attributes.boundary_mode == DUPLICATE:
        values = delay_forward(xp, [value], context, shift, 0.0)
        values[rows_of(context, shift).initial] = value[_ends(context, shift)]
        return values
    if not context.framed[1]:
        return delay_forward(xp, inputs, context, shift, 0.0)
    chosen = boundary[_boundary_rows(context, shift)]
    return delay_forward(xp, [value, chosen], _with_single_frames(context), shift, 0.0)


def _over_time_gradient(
    xp: Any,
    gradient: Array,
    inputs: Sequence[Array],
    attributes: ShiftAttributes,
    context: OpContext,
    needs: Sequence[bool],
) -> list[Array | None]:
    shift = -attributes.from_offset
    value, boundary = inputs
    if attributes.boundary_mode == DUPLICATE:
        (to_value,) = delay_gradient(xp, gradient, [value], context, shift, [needs[0]])
        if to_value is not None:
            np.add.at(to_value, _ends(context, shift), gradient[rows_of(context, shift).initial])
        return [to_value, xp.zeros_like(boundary) if needs[1] else None]
    if not context.framed[1]:
        return delay_gradient(xp, gradient, inputs, context, shift, needs)
    rows = _boundary_rows(context, shift)
    single = _with_single_frames(context)
    to_value, to_chosen = delay_gradient(xp, gradient, [value, boundary[rows]], single, shift, needs)
    if to_chosen is None:
        return [to_value, None]
    to_boundary = xp.zeros_like(boundary)
    to_boundary[rows] = to_chosen
    return [to_value, to_boundary]


# -- along a static axis ----------------------------------------------------------------------------------


def _sources(size: int, offset: int) -> tuple[IntArray, IntArray, IntArray]:
    """For each place of an axis the place it reads, kept inside; the places that read inside, and those beyond."""
    wanted = np.arange(size) + offset
    inside = (wanted >= 0) & (wanted < size)
    return np.clip(wanted, 0, size - 1), np.flatnonzero(inside), np.flatnonzero(~inside)


def _edge(boundary: Array, framed: bool, axis: int, offset: int) -> Any:
    """The part of a boundary value that counts: its last element along the axis before the begin, else its first."""
    if boundary.ndim - int(framed) < -axis:
        return ...
    index: list[Any] = [slice(None)] * boundary.ndim
    index[axis] = slice(-1, None) if offset < 0 else slice(0, 1)
    return tuple(index)


def _over_places(xp: Any, inputs: Sequence[Array], attributes: ShiftAttributes, context: OpContext) -> Array:
    value, boundary = inputs
    axis = -attributes.dim
    source, _, beyond = _sources(value.shape[axis], attributes.from_offset)
    found = xp.take(value, source, axis=axis)
    if context.framed[1] and not (context.framed[0] and len(boundary) == len(value)):
        raise DataError("Shift along a static axis: the boundary value has another dynamic axis than the value")
    if attributes.boundary_mode == REACH_ACROSS and len(beyond):
        rank = value.ndim - int(context.framed[0])
        edge = align(boundary, context.framed[1], rank)
        edge = edge[_edge(edge, context.framed[1], axis, attributes.from_offset)]
        whole = xp.broadcast_to(edge, [1 if place == found.ndim + axis else n for place, n in enumerate(found.shape)])
        xp.moveaxis(found, axis, 0)[beyond] = xp.moveaxis(whole, axis, 0)
    return found


def _over_places_gradient(
    xp: Any,
    gradient: Array,
    inputs: Sequence[Array],
    attributes: ShiftAttributes,
    context: OpContext,
    needs: Sequence[bool],
) -> list[Array | None]:
    value, boundary = inputs
    axis = -attributes.dim
    framed = context.framed[0]
    duplicates = attributes.boundary_mode == DUPLICATE
    source, inside, beyond = _sources(value.shape[axis], attributes.from_offset)
    to_value = to_boundary = None
    if needs[0]:
        whole = xp.zeros_like(gradient)
        used = np.arange(len(source)) if duplicates else inside
        np.add.at(xp.moveaxis(whole, axis, 0), source[used], xp.moveaxis(gradient, axis, 0)[used])
        to_value = unbroadcast(xp, whole, value.shape, context.framed[0], framed)
    if needs[1]:
        to_boundary = xp.zeros_like(boundary)
        if not duplicates and len(beyond):
            arrived = xp.take(gradient, beyond, axis=axis).sum(axis=axis, keepdims=True)
            part = _edge(boundary, context.framed[1], axis, attributes.from_offset)
            shape = to_boundary[part].shape
            to_boundary[part] = unbroadcast(xp, arrived, shape, context.framed[1], framed)
    return [to_value, to_boundary]


# -- the op -----------------------------------------------------------------------------------------------


def _shift_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: ShiftAttributes,
    context: OpContext,
    needs: Sequence[bool],
) -> list[Array | None]:
    compute = _over_time_gradient if attributes.dim == OVER_TIME else _over_places_gradient
    fitted = _fitted(inputs, context.framed)
    to_value, to_boundary = compute(xp, gradient, fitted, attributes, context, needs)
    return [to_value, None if to_boundary is None else to_boundary.reshape(inputs[1].shape)]


@define_op(
    "Shift",
    inputs=2,
    infer=_infer_shift,
    guess=guess_first,
    gradient=_shift_gradient,
    attributes=ShiftAttributes,
    axis_of=0,
    reads_inputs=False,
    reads_output=False,
)
def SHIFT(xp: Any, inputs: Sequence[Array], attributes: ShiftAttributes, context: OpContext) -> Array:
    """The first input moved along an axis; the second is the value beyond the ends."""
    compute = _over_time if attributes.dim == OVER_TIME else _over_places
    return compute(xp, _fitted(inputs, context.framed), attributes, context)


OPS = (SHIFT,)
