"""Ops that change the dynamic axis: choose frames, move them, make sequences of axes and axes of sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from cntk_core.errors import DataError, ShapeError
from cntk_core.ops.families.frame_moves import (
    layout_of,
    packed_index,
    reconciled_rows,
    scatter_add,
    sequence_places,
    single_frames,
    to_sequences,
    unpacked_places,
    where,
    whole,
)
from cntk_core.ops.language.define import define_op, first_shape, guess_first, scalar_shape
from cntk_core.ops.language.op import LATER, Array, Op, OpContext
from cntk_core.ops.language.rows import longest_sequence
from cntk_core.ops.language.shapes import Shape, elements, show
from cntk_core.ops.language.traits import Traits
from cntk_core.records.layout import IntArray


def _need_scalar(shape: Shape, what: str) -> None:
    if elements(shape) != 1:
        raise ShapeError(f"the {what} must be a single number for each frame, not {show(shape)}")


def _infer_where(shapes: Sequence[Shape], attributes: Any) -> Shape:
    _need_scalar(shapes[0], "condition")
    return (1,)


@attrs.frozen
class WhereAttributes:
    """Attributes of Where: the name of the dynamic axis that it makes; empty is the node's own name."""

    dynamic_axis_name: str = ""


@define_op("Where", infer=_infer_where, attributes=WhereAttributes, new_axis=True, along_sequences=frozenset({0}))
def WHERE(xp: Any, inputs: Sequence[Array], attributes: WhereAttributes, context: OpContext) -> Array:
    """The indices of the frames of each sequence where the condition is not 0; makes a new dynamic axis."""
    return where(context, inputs[0])


def _infer_packed_index(shapes: Sequence[Shape], attributes: Any) -> Shape:
    _need_scalar(shapes[1], "index")
    return shapes[1]


@define_op("PackedIndex", infer=_infer_packed_index, inputs=2, axis_of=1, along_sequences=frozenset({0}))
def PACKED_INDEX(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
    """From indices in a sequence to rows of the minibatch; inputs: the sequences that the indices mean, indices."""
    return packed_index(context, inputs[1])


def _infer_gather_packed(shapes: Sequence[Shape], attributes: Any) -> Shape:
    _need_scalar(shapes[0], "index")
    return shapes[1]


def _gather_gradient(
    xp: Any,
    grad: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: Any,
    context: OpContext,
    needs: Sequence[bool],
) -> list[Array | None]:
    return [None, scatter_add(xp, inputs[1], whole(inputs[0]), grad) if needs[1] else None]


@define_op(
    "GatherPacked",
    infer=_infer_gather_packed,
    inputs=2,
    gradient=_gather_gradient,
    guess=lambda shapes, attributes: shapes[1],
    axis_of=0,
    differentiable=(False, True),
    reads_output=False,
)
def GATHER_PACKED(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
    """The frames of the second input at the rows that the first gives, on the dynamic axis of the first."""
    return xp.take(inputs[1], whole(inputs[0]), axis=0)


def _infer_scatter_packed(shapes: Sequence[Shape], attributes: Any) -> Shape:
    _need_scalar(shapes[1], "index")
    return shapes[2]


def _scatter_gradient(
    xp: Any,
    grad: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: Any,
    context: OpContext,
    needs: Sequence[bool],
) -> list[Array | None]:
    return [None, None, xp.take(grad, whole(inputs[1]), axis=0) if needs[2] else None]


@define_op(
    "ScatterPacked",
    infer=_infer_scatter_packed,
    inputs=3,
    gradient=_scatter_gradient,
    guess=lambda shapes, attributes: shapes[2],
    axis_of=0,
    differentiable=(False, False, True),
    reads_output=False,
)
def SCATTER_PACKED(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
    """The inverse of GatherPacked; inputs: a value with the wanted axis, rows, frames. Other frames are 0."""
    out = xp.zeros((context.frames, *inputs[2].shape[1:]), inputs[2].dtype)
    out[whole(inputs[1])] = inputs[2]
    return out


def _reconcile_gradient(
    xp: Any,
    grad: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: Any,
    context: OpContext,
    needs: Sequence[bool],
) -> list[Array | None]:
    if not context.framed[0]:
        return [xp.sum(grad, axis=0).reshape(inputs[0].shape), None]
    rows = reconciled_rows(context)
    return [grad if rows is None else scatter_add(xp, inputs[0], rows, grad), None]


@define_op(
    "ReconcileDynamicAxis",
    infer=first_shape,
    inputs=2,
    gradient=_reconcile_gradient,
    guess=guess_first,
    axis_of=1,
    differentiable=(True, False),
    reads_output=False,
    aliases={
        "ndl": ("ReconcileMBLayout",),
        "brainscript": ("ReconcileMBLayout",),
        "model": ("ReconcileMBLayout",),
    },
    traits=Traits(keeps_nothing=True, passes_through=True),
)
def RECONCILE_DYNAMIC_AXIS(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
    """The first input on the dynamic axis of the second, whose sequences are as long, or the first's a frame each."""
    value, like = inputs
    if not context.framed[0]:
        return xp.broadcast_to(value, (len(like), *value.shape)) if context.framed[1] else value
    rows = reconciled_rows(context)
    return value if rows is None else xp.take(value, rows, axis=0)


def _drop_last(shapes: Sequence[Shape], attributes: Any) -> Shape:
    if len(shapes[0]) < 2:
        raise ShapeError(f"the input {show(shapes[0])} has no axis that could become a sequence; it needs two")
    return shapes[0][1:]


def _infer_to_sequence(shapes: Sequence[Shape], attributes: Any) -> Shape:
    if len(shapes) > 1:
        _need_scalar(shapes[1], "length")
    return _drop_last(shapes, attributes)


@attrs.frozen
class ToSequenceAttributes:
    """Attributes of ToSequence: how the new dynamic axis is called; empty is the node's own name."""

    dynamic_axis_prefix: str = ""


def _to_sequence_gradient(
    xp: Any,
    grad: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: Any,
    context: OpContext,
    needs: Sequence[bool],
) -> list[Array | None]:
    layout = context.new_layout if context.new_layout is not None else layout_of(context, 1)
    rows, steps = sequence_places(context, layout)
    by_value = xp.zeros_like(inputs[0])
    by_value[rows, steps] = grad
    return [by_value, *[None] * (len(inputs) - 1)]


@define_op(
    "ToSequence",
    infer=_infer_to_sequence,
    inputs=(1, 2),
    gradient=_to_sequence_gradient,
    attributes=ToSequenceAttributes,
    new_axis=True,
    differentiable=(True, False),
    reads_output=False,
)
def TO_SEQUENCE(xp: Any, inputs: Sequence[Array], attributes: ToSequenceAttributes, context: OpContext) -> Array:
    """The last static axis becomes a dynamic one; inputs: value [, length of each sequence]."""
    lengths = whole(inputs[1]).tolist() if len(inputs) > 1 else None
    made = context.new_layout = to_sequences(context, lengths, inputs[0].shape[1])
    return inputs[0][sequence_places(context, made)]


@define_op(
    "ToSequenceLike",
    infer=_drop_last,
    inputs=2,
    gradient=_to_sequence_gradient,
    axis_of=1,
    differentiable=(True, False),
    reads_output=False,
)
def TO_SEQUENCE_LIKE(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
    """The last static axis becomes the dynamic axis of the second input."""
    rows, steps = sequence_places(context, layout_of(context, 1))
    longest, size = int(steps.max(initial=-1)) + 1, inputs[0].shape[1]
    if longest > size:
        raise DataError(f"ToSequenceLike: a sequence of {longest} frames for an axis of {size}")
    return inputs[0][rows, steps]


@attrs.frozen
class UnpackAttributes:
    """Attributes of UnpackSequence.

    Attributes:
        padding_value: of missing frames.
        suppress_mask_output: whether the original left the mask out.
        with_mask: the node has two outputs, the frames and a mask: 1 for each that is there, 0 for missing ones.
    """

    padding_value: float = 0.0
    suppress_mask_output: bool = False
    with_mask: bool = attrs.field(default=False, metadata=LATER)


def _unpack_form(attributes: UnpackAttributes) -> Op:
    return _UNPACK_WITH_MASK if attributes.with_mask else UNPACK_SEQUENCE


def _unpack_gradient(
    xp: Any,
    grad: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: UnpackAttributes,
    context: OpContext,
    needs: Sequence[bool],
) -> list[Array | None]:
    assert context.new_layout is not None, "the gradient comes after the value"
    found = grad[unpacked_places(context, context.new_layout)]
    return [found[:, :-1].reshape(inputs[0].shape) if attributes.with_mask else found]


@define_op(
    "UnpackSequence",
    infer=first_shape,
    gradient=_unpack_gradient,
    attributes=UnpackAttributes,
    form=_unpack_form,
    new_axis=True,
    unpacks=True,
    along_sequences=frozenset({0}),
    reads_inputs=False,
    reads_output=False,
)
def UNPACK_SEQUENCE(xp: Any, inputs: Sequence[Array], attributes: UnpackAttributes, context: OpContext) -> Array:
    """The dynamic axis becomes a static one as long as the longest sequence; a sequence is one frame of a new axis."""
    made = context.new_layout = single_frames(context, "UnpackSequence")
    longest = longest_sequence(layout_of(context, 0))
    out = xp.full((made.frames, longest, *inputs[0].shape[1:]), attributes.padding_value, inputs[0].dtype)
    out[unpacked_places(context, made)] = inputs[0]
    return out


def _with_mask(xp: Any, inputs: Sequence[Array], attributes: UnpackAttributes, context: OpContext) -> Array:
    """Both outputs: beside the elements of each step whether it is there."""
    assert UNPACK_SEQUENCE.forward is not None
    frames = UNPACK_SEQUENCE.forward(xp, inputs, attributes, context)
    assert context.new_layout is not None
    mask = xp.zeros((*frames.shape[:2], 1), frames.dtype)
    mask[unpacked_places(context, context.new_layout)] = 1.0
    return xp.concatenate([frames.reshape(*frames.shape[:2], elements(frames.shape[2:])), mask], axis=-1)


_UNPACK_WITH_MASK = attrs.evolve(
    UNPACK_SEQUENCE,
    infer=lambda shapes, attributes: (elements(shapes[0]) + 1,),
    forward=_with_mask,
    outputs={"frames": first_shape, "mask": scalar_shape},
)


def _infer_gather(shapes: Sequence[Shape], attributes: Any) -> Shape:
    """Rows of the second input (CNTK's last axis) by the numbers of the first."""
    index, table = shapes
    if not table:
        raise ShapeError("a single number has no rows to gather")
    return (*index, *table[1:])


def gathered_places(indices: Array, size: int) -> IntArray:
    """Return the indices of Gather as whole numbers; ``size`` is the length of the axis.

    Raises:
        DataError: one lies outside.
    """
    found = np.asarray(indices).astype(np.int64)
    wrong = found[(found < 0) | (found >= size)]
    if wrong.size:
        raise DataError(f"Gather: the index {int(wrong.flat[0])} is not between 0 and {size - 1}")
    return found


def _gather_rows_gradient(
    xp: Any,
    grad: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: Any,
    context: OpContext,
    needs: Sequence[bool],
) -> list[Array | None]:
    table = inputs[1]
    places = gathered_places(inputs[0], len(table)).reshape(-1)
    return [None, scatter_add(xp, table, places, grad.reshape(len(places), *table.shape[1:]))]


@define_op(
    "Gather",
    inputs=2,
    infer=_infer_gather,
    gradient=_gather_rows_gradient,
    differentiable=(False, True),
    reads_output=False,
    unframed=frozenset({1}),
)
def GATHER(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
    """Slices of the second input along its last axis, by the numbers in the first."""
    return xp.take(inputs[1], gathered_places(inputs[0], len(inputs[1])), axis=0)


OPS = (
    WHERE,
    PACKED_INDEX,
    GATHER_PACKED,
    SCATTER_PACKED,
    RECONCILE_DYNAMIC_AXIS,
    TO_SEQUENCE,
    TO_SEQUENCE_LIKE,
    UNPACK_SEQUENCE,
    GATHER,
)
