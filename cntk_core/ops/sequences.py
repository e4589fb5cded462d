"""Ops that change the dynamic axis: choose frames, move them, make sequences of axes and axes of sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from cntk_core.errors import DataError, ShapeError, UnsupportedError
from cntk_core.interfaces.layout import SequenceLayout
from cntk_core.ops.define import declare_op, define_op, first_shape, guess_first, scalar_shape
from cntk_core.ops.op import Array, OpContext
from cntk_core.ops.rows import sequence_rows
from cntk_core.ops.shapes import Shape, elements, show


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


WHERE = declare_op(
    "Where",
    "The indices of the frames of each sequence where the condition is not 0; makes a new dynamic axis.",
    infer=_infer_where,
    attributes=WhereAttributes,
    new_axis=True,
    differentiable=(False,),
)


def _infer_packed_index(shapes: Sequence[Shape], attributes: Any) -> Shape:
    _need_scalar(shapes[1], "index")
    return shapes[1]


PACKED_INDEX = declare_op(
    "PackedIndex",
    "From indices in a sequence to rows of the minibatch; inputs: the sequences that the indices mean, indices.",
    inputs=2,
    infer=_infer_packed_index,
    axis_of=1,
    differentiable=(False,),
)


def _infer_gather_packed(shapes: Sequence[Shape], attributes: Any) -> Shape:
    _need_scalar(shapes[0], "index")
    return shapes[1]


GATHER_PACKED = declare_op(
    "GatherPacked",
    "The frames of the second input at the rows that the first gives, on the dynamic axis of the first.",
    inputs=2,
    infer=_infer_gather_packed,
    guess=lambda shapes, attributes: shapes[1],
    axis_of=0,
    differentiable=(False, True),
)


def _infer_scatter_packed(shapes: Sequence[Shape], attributes: Any) -> Shape:
    _need_scalar(shapes[1], "index")
    return shapes[2]


SCATTER_PACKED = declare_op(
    "ScatterPacked",
    "The inverse of GatherPacked; inputs: a value with the wanted dynamic axis, rows, frames. Other frames are 0.",
    inputs=3,
    infer=_infer_scatter_packed,
    guess=lambda shapes, attributes: shapes[2],
    axis_of=0,
    differentiable=(False, False, True),
)


def _source_rows(context: OpContext) -> Array | None:
    """Rows of the first input for each frame of the second's axis; None if they stand in the same order.

    Raises:
        DataError: sequences are not equally long, nor those of the first input one frame long.
    """
    mine, wanted = context.layouts if context.layouts else (None, None)
    if mine is None or wanted is None or _same_layout(mine, wanted):
        return None
    own, other = sequence_rows(mine), sequence_rows(wanted)
    row_at = {
        (number, step - first): row
        for row, (number, step, first) in enumerate(
            zip(own.number.tolist(), own.step.tolist(), own.first.tolist(), strict=True)
        )
    }
    length = dict(zip(own.number.tolist(), (own.last - own.first + 1).tolist(), strict=True))
    found = []
    for number, step, first, last in zip(
        other.number.tolist(), other.step.tolist(), other.first.tolist(), other.last.tolist(), strict=True
    ):
        steps = length.get(number, 0)
        if steps not in (1, last - first + 1):
            raise DataError(
                f"ReconcileDynamicAxis: a sequence has {steps} frames on one axis and {last - first + 1} on the other"
            )
        found.append(row_at[number, 0 if steps == 1 else step - first])
    return np.array(found, np.int64)


def _same_layout(first: SequenceLayout, second: SequenceLayout) -> bool:
    if first is second:
        return True
    fields = ("lengths", "order", "begins")
    return all(np.array_equal(getattr(first, name), getattr(second, name)) for name in fields)


def _reconcile_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: Any,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    if not context.framed[0]:
        return xp.sum(gradient, axis=0), None
    rows = _source_rows(context)
    if rows is None:
        return gradient, None
    result = np.zeros_like(inputs[0])
    np.add.at(result, rows, gradient)
    return result, None


_RECONCILE = ("ReconcileMBLayout",)


@define_op(
    "ReconcileDynamicAxis",
    inputs=2,
    infer=first_shape,
    guess=guess_first,
    gradient=_reconcile_gradient,
    axis_of=1,
    differentiable=(True, False),
    reads_output=False,
    aliases={"ndl": _RECONCILE, "brainscript": _RECONCILE, "model": _RECONCILE},
)
def RECONCILE_DYNAMIC_AXIS(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
    """The first input on the dynamic axis of the second: sequences of equal length, or a frame for all of one."""
    value, like = inputs
    if not context.framed[0]:
        return xp.broadcast_to(value, (like.shape[0], *value.shape)) if context.framed[1] else value
    rows = _source_rows(context)
    return value if rows is None else value[rows]


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


TO_SEQUENCE = declare_op(
    "ToSequence",
    "The last static axis becomes a dynamic one; inputs: value [, length of each sequence].",
    inputs=(1, 2),
    infer=_infer_to_sequence,
    attributes=ToSequenceAttributes,
    new_axis=True,
    differentiable=(True, False),
)

TO_SEQUENCE_LIKE = declare_op(
    "ToSequenceLike",
    "The last static axis becomes the dynamic axis of the second input.",
    inputs=2,
    infer=_drop_last,
    axis_of=1,
    differentiable=(True, False),
)


@attrs.frozen
class UnpackAttributes:
    """Attributes of UnpackSequence: the value of missing frames, and whether the mask output is left out."""

    padding_value: float = 0.0
    suppress_mask_output: bool = False


def _infer_unpack(shapes: Sequence[Shape], attributes: Any) -> Shape:
    raise UnsupportedError(
        "UnpackSequence makes an axis as long as the longest sequence of each minibatch, which is not supported yet"
    )


UNPACK_SEQUENCE = declare_op(
    "UnpackSequence",
    "The dynamic axis becomes a static one as long as the longest sequence.",
    infer=_infer_unpack,
    attributes=UnpackAttributes,
    new_axis=True,
)


def _infer_gather(shapes: Sequence[Shape], attributes: Any) -> Shape:
    """Rows of the second input (CNTK's last axis) by the numbers of the first."""
    index, table = shapes
    if not table:
        raise ShapeError("a single number has no rows to gather")
    return (*index, *table[1:])


GATHER = declare_op(
    "Gather",
    "Slices of the second input along its last axis, by the numbers in the first.",
    inputs=2,
    infer=_infer_gather,
    differentiable=(False, True),
)


@attrs.frozen
class MultiplexerAttributes:
    """Attributes of OutputMultiplexer: which output of its input it stands for."""

    output_index: int = 0


OUTPUT_MULTIPLEXER = declare_op(
    "OutputMultiplexer",
    "One output of an operation that has several.",
    infer=first_shape,
    attributes=MultiplexerAttributes,
)

SEQUENCE_DECODER = declare_op(
    "SequenceDecoder",
    "Best path through a sequence; inputs: labels, scores of states, scores of transitions.",
    inputs=3,
    infer=lambda shapes, attributes: shapes[1],
    differentiable=(False,),
)


def _infer_crf(shapes: Sequence[Shape], attributes: Any) -> Shape:
    labels, scores, transitions = shapes
    size = elements(scores)
    if elements(labels) != size:
        raise ShapeError(f"the labels {show(labels)} and the scores {show(scores)} must have the same size")
    if elements(transitions) != size * size:
        raise ShapeError(f"the transitions must be [{size} x {size}], not {show(transitions)}")
    return scalar_shape(shapes, attributes)


CRF = declare_op(
    "CRF",
    "-log of the probability of the label path of a linear chain; inputs: labels, scores, transitions.",
    inputs=3,
    infer=_infer_crf,
    reduces_frames=True,
    role="criterion",
    differentiable=(False, True, True),
)

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
    OUTPUT_MULTIPLEXER,
    SEQUENCE_DECODER,
    CRF,
)
