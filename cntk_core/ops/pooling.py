"""Pooling: the largest or mean element of windows, its inverse, and pooling of regions of interest."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from cntk_core.errors import ShapeError
from cntk_core.ops.convolution import flags
from cntk_core.ops.define import declare_op
from cntk_core.ops.geometry import Dims, Geometry, ImageDims, is_legacy, make_geometry, window_of
from cntk_core.ops.op import Op
from cntk_core.ops.reshaping import ints
from cntk_core.ops.shapes import Shape, from_cntk, show, to_cntk

KINDS = ("max", "average")
"""What a pooling can take of a window."""


@attrs.frozen
class PoolingAttributes:
    """Attributes of Pooling and MaxUnpooling. Dimensions are in CNTK's order.

    Attributes:
        pool_kind: ``max`` or ``average``; MaxUnpooling knows only ``max``.
        kernel_shape: the window; axes that it lacks are not pooled.
        stride: distance between windows; the last value is repeated.
        auto_padding: for each axis, pad so that every ``stride``-th element is the centre of a window.
        lower_pad, upper_pad: explicit padding, where there is no automatic one.
        ceil_out_dim: a last, incomplete window counts too.
        include_pad: an average counts the padded elements (as 0).
        image_layout: must be ``CHW``.
    """

    kernel_shape: Dims = attrs.field(converter=ints)
    pool_kind: str = "max"
    stride: Dims = attrs.field(default=(1,), converter=ints)
    auto_padding: tuple[bool, ...] = attrs.field(default=(True,), converter=flags)
    lower_pad: Dims = attrs.field(default=(0,), converter=ints)
    upper_pad: Dims = attrs.field(default=(0,), converter=ints)
    ceil_out_dim: bool = False
    include_pad: bool = False
    image_layout: str = "CHW"


def pooling_geometry(data: Shape, attributes: PoolingAttributes) -> Geometry:
    """Place the windows of a pooling on an input of a sample shape.

    Raises:
        ShapeError: window, settings and input do not fit.
    """
    if is_legacy(attributes.image_layout):
        raise ShapeError("pooling takes images in the layout CHW only", hint="Give the input imageLayout CHW too.")
    if attributes.pool_kind.lower() not in KINDS:
        raise ShapeError(f"there is no pooling '{attributes.pool_kind}'", hint=f"Kinds: {', '.join(KINDS)}")
    dims = to_cntk(data)
    return make_geometry(dims, window_of(dims, attributes, reduces=False), ceil=attributes.ceil_out_dim)


def _infer_pooling(shapes: Sequence[Shape], attributes: PoolingAttributes) -> Shape:
    return from_cntk(pooling_geometry(shapes[0], attributes).output)


def _infer_unpooling(shapes: Sequence[Shape], attributes: PoolingAttributes) -> Shape:
    pooled = from_cntk(pooling_geometry(shapes[1], attributes).output)
    if pooled != shapes[0]:
        raise ShapeError(f"pooling {show(shapes[1])} gives {show(pooled)}, not the first input {show(shapes[0])}")
    return shapes[1]


@attrs.frozen
class LegacyPoolingAttributes:
    """Attributes of MaxPooling and AveragePooling: a window without padding over width and height of an image."""

    window_width: int
    window_height: int
    horizontal_subsample: int
    vertical_subsample: int
    image_layout: str = "HWC"


def image_pooling_geometry(data: Shape, attributes: LegacyPoolingAttributes) -> Geometry:
    """Place the windows of MaxPooling or AveragePooling; its axes are those of the image layout.

    Raises:
        ShapeError: the input is no image, or smaller than the window.
    """
    layout = attributes.image_layout
    image = ImageDims.of(to_cntk(data), layout)
    kernel = ImageDims(attributes.window_width, attributes.window_height, 1)
    stride = ImageDims(attributes.horizontal_subsample, attributes.vertical_subsample, 1)
    settings = PoolingAttributes(
        kernel.dims(layout), stride=stride.dims(layout), auto_padding=(False,), image_layout="CHW"
    )
    dims = image.dims(layout)
    return make_geometry(dims, window_of(dims, settings, reduces=False))


def _infer_image_pooling(shapes: Sequence[Shape], attributes: LegacyPoolingAttributes) -> Shape:
    return from_cntk(image_pooling_geometry(shapes[0], attributes).output)


@attrs.frozen
class ROIPoolingAttributes:
    """Attributes of ROIPooling: width and height of the output, and the scale from pixels of the image to the input."""

    roi_output_shape: Dims = attrs.field(converter=ints)
    spatial_scale: float = 0.0625


def _infer_roi(shapes: Sequence[Shape], attributes: ROIPoolingAttributes) -> Shape:
    data, regions = shapes
    if len(data) != 3:
        raise ShapeError(f"the input must be an image [W x H x C], not {show(data)}")
    if len(attributes.roi_output_shape) != 2:
        raise ShapeError("the output of a region has width and height")
    width, height = attributes.roi_output_shape
    if data[2] < width or data[1] < height:
        raise ShapeError(f"the input {show(data)} is smaller than the output of a region, {width} x {height}")
    if len(regions) != 2 or regions[-1] != 4:
        raise ShapeError(f"the regions must be [4 x number of regions], not {show(regions)}")
    return (regions[0], data[0], height, width)


def _image_pooling(name: str, what: str) -> Op:
    return declare_op(
        name,
        f"{what} of windows of an image, without padding (the old form of Pooling).",
        infer=_infer_image_pooling,
        attributes=LegacyPoolingAttributes,
    )


POOLING = declare_op(
    "Pooling", "Largest or mean element of windows.", infer=_infer_pooling, attributes=PoolingAttributes
)
MAX_POOLING = _image_pooling("MaxPooling", "Largest element")
AVERAGE_POOLING = _image_pooling("AveragePooling", "Mean element")
MAX_UNPOOLING = declare_op(
    "MaxUnpooling",
    "The inverse of max pooling: each element goes to the place where the second input's window is largest.",
    inputs=2,
    infer=_infer_unpooling,
    attributes=PoolingAttributes,
    differentiable=(True, False),
)
ROI_POOLING = declare_op(
    "ROIPooling",
    "Largest elements of a grid over each region of interest; inputs: image, regions (x1, y1, x2, y2 in pixels).",
    inputs=2,
    infer=_infer_roi,
    attributes=ROIPoolingAttributes,
    differentiable=(True, False),
)

OPS = (POOLING, MAX_POOLING, AVERAGE_POOLING, MAX_UNPOOLING, ROI_POOLING)
