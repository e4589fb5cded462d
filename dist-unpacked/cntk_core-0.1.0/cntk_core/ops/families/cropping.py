"""Crop."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import attrs

from cntk_core.errors import ShapeError
from cntk_core.ops.language.define import define_op
from cntk_core.ops.language.op import Array, OpContext
from cntk_core.ops.language.placement import Along, Placement
from cntk_core.ops.language.shapes import Shape, show
from cntk_core.ops.language.traits import BY_ROWS


@attrs.frozen
class CropAttributes:
    """Attributes of Crop: where the part begins; None is worked out from the network when shapes are inferred."""

    x_offset: int | None = None
    y_offset: int | None = None


def _infer_crop(shapes: Sequence[Shape], attributes: CropAttributes) -> Shape:
    image, like = shapes[0], shapes[1]
    if len(image) < 2 or len(like) < 2:
        raise ShapeError(f"only values with width and height can be cropped, not {show(image)} to {show(like)}")
    width, height = like[-1], like[-2]
    x, y = attributes.x_offset or 0, attributes.y_offset or 0
    if image[-1] < width + x or image[-2] < height + y:
        raise ShapeError(f"{show(image)} is too small for a part of {width} x {height} at {x}, {y}")
    return (*image[:-2], height, width)


def _placement(shapes: Sequence[Shape], attributes: CropAttributes, index: int) -> Placement | None:
    if index:
        return None
    x, y = (Along(shift=Fraction(-(offset or 0))) for offset in (attributes.x_offset, attributes.y_offset))
    return Placement(x, y)


def _window(inputs: Sequence[Array], attributes: CropAttributes) -> tuple[Any, ...]:
    height, width = inputs[1].shape[-2:]
    x, y = attributes.x_offset or 0, attributes.y_offset or 0
    return (..., slice(y, y + height), slice(x, x + width))


def _crop_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: CropAttributes,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    incoming = gradient if context.framed[0] or not any(context.framed) else xp.sum(gradient, axis=0)
    result = xp.zeros_like(inputs[0])
    result[_window(inputs, attributes)] = incoming
    return [result, *[None] * (len(inputs) - 1)]


@define_op(
    "Crop",
    inputs=(2, 4),
    infer=_infer_crop,
    gradient=_crop_gradient,
    attributes=CropAttributes,
    placement=_placement,
    differentiable=(True, False),
    reads_inputs=False,
    reads_output=False,
    traits=attrs.evolve(BY_ROWS, in_place="gradient"),
)
def CROP(xp: Any, inputs: Sequence[Array], attributes: CropAttributes, context: OpContext) -> Array:
    """The part of the first input that has the width and height of the second."""
    part = inputs[0][_window(inputs, attributes)]
    if any(context.framed) and not context.framed[0]:
        return xp.broadcast_to(part, (context.frames, *part.shape))
    return part


OPS = (CROP,)
