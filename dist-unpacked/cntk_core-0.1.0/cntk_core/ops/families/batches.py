"""From a static axis to samples and back; and what stands in models of CNTK 2.7 that cannot run here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cntk_core.errors import DataError, ShapeError
from cntk_core.ops.families.frame_moves import layout_of
from cntk_core.ops.language.define import declare_op, define_op, first_shape
from cntk_core.ops.language.layouts import frame_layout
from cntk_core.ops.language.op import Array, OpContext
from cntk_core.ops.language.shapes import Shape, samples_axis, show
from cntk_core.records.layout import IntArray, SequenceLayout


def _places(layout: SequenceLayout | None) -> IntArray:
    """Return for each row of a minibatch which of the reader's samples it is.

    Raises:
        DataError: the minibatch has sequences.
    """
    assert layout is not None, "what has samples has a layout"
    if not layout.is_frames:
        raise DataError(
            "UnpackBatch makes an axis of samples, and those of this minibatch are sequences",
            hint="UnpackSequence makes an axis of the steps of each; sequence.last takes one step of each.",
        )
    # Slots without frames come last and have no row.
    return np.argsort(np.argsort(layout.order[: layout.frames], kind="stable"))


def _infer_to_batch(shapes: Sequence[Shape], attributes: Any) -> Shape:
    if len(shapes[0]) < 2:
        raise ShapeError(f"the input {show(shapes[0])} has no axis of samples and one of their elements")
    return shapes[0][1:]


def _to_batch_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: Any,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    if context.new_layout is not None:
        return (gradient.reshape(inputs[0].shape),)
    by_value = xp.zeros_like(inputs[0])
    by_value[_places(context.layout)] = gradient
    return (by_value,)


@define_op(
    "ToBatch",
    infer=_infer_to_batch,
    gradient=_to_batch_gradient,
    new_axis=lambda shape, attributes: samples_axis(shape) is None,
    unframed=frozenset({0}),
    reads_inputs=False,
    reads_output=False,
    aliases={"model": ("ToBatchAxis",)},
)
def TO_BATCH(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
    """The last static axis of a value without a dynamic axis becomes samples, one frame each."""
    if context.layout is not None:  # that of the samples which UnpackBatch has made an axis of
        return inputs[0][_places(context.layout)]
    context.new_layout = frame_layout(len(inputs[0]))
    return inputs[0]


def _unpack_batch_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: Any,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    return (gradient[_places(layout_of(context, 0))],)


@define_op(
    "UnpackBatch",
    infer=first_shape,
    gradient=_unpack_batch_gradient,
    reduces_frames=True,
    unpacks=True,
    reads_inputs=False,
    reads_output=False,
)
def UNPACK_BATCH(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
    """The samples of a minibatch become the last static axis, in their order; of no samples one of zeros."""
    (value,) = inputs
    out = xp.zeros((max(1, len(value)), *value.shape[1:]), value.dtype)
    out[_places(layout_of(context, 0))] = value
    return out


CUSTOM_PROXY_OP = declare_op(
    "CustomProxyOp",
    "A function of somebody's own library, of which CNTK 2.7 keeps the name and the inputs.",
    inputs=(1, None),
    infer=first_shape,
    differentiable=(False,),
)

OPS = (TO_BATCH, UNPACK_BATCH, CUSTOM_PROXY_OP)
