"""From a static axis to samples; and what stands in models of CNTK 2.7 that cannot run here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cntk_core.errors import ShapeError
from cntk_core.ops.language.define import declare_op, define_op, first_shape
from cntk_core.ops.language.layouts import frame_layout
from cntk_core.ops.language.op import Array, OpContext
from cntk_core.ops.language.shapes import Shape, show


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
    return (gradient.reshape(inputs[0].shape),)


@define_op(
    "ToBatch",
    infer=_infer_to_batch,
    gradient=_to_batch_gradient,
    new_axis=True,
    unframed=frozenset({0}),
    reads_inputs=False,
    reads_output=False,
    aliases={"model": ("ToBatchAxis",)},
)
def TO_BATCH(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
    """The last static axis of a value without a dynamic axis becomes samples, one frame each."""
    context.new_layout = frame_layout(len(inputs[0]))
    return inputs[0]


UNPACK_BATCH = declare_op(
    "UnpackBatch",
    "The samples of a minibatch become the last static axis.",
    infer=first_shape,
    reduces_frames=True,
)

CUSTOM_PROXY_OP = declare_op(
    "CustomProxyOp",
    "A function of somebody's own library, of which CNTK 2.7 keeps the name and the inputs.",
    inputs=(1, None),
    infer=first_shape,
    differentiable=(False,),
)

OPS = (TO_BATCH, UNPACK_BATCH, CUSTOM_PROXY_OP)
