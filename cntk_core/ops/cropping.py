"""Crop."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from cntk_core.errors import ShapeError
from cntk_core.ops.define import declare_op
from cntk_core.ops.shapes import Shape, show


@attrs.frozen
class CropAttributes:
    """Attributes of Crop: where the part begins; None works it out from the network (receptive fields)."""

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


CROP = declare_op(
    "Crop",
    "The part of the first input that has the width and height of the second; with two further inputs the place is "
    "worked out from the paths to them.",
    inputs=(2, 4),
    infer=_infer_crop,
    attributes=CropAttributes,
    differentiable=(True, False),
)

OPS = (CROP,)
