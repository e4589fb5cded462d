"""Convolution, transposed convolution, and the legacy form for images."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from cntk_core.errors import ShapeError
from cntk_core.ops.define import declare_op
from cntk_core.ops.geometry import (
    Dims,
    Geometry,
    ImageDims,
    Window,
    extended,
    is_legacy,
    make_geometry,
    transposed_dims,
    window_of,
)
from cntk_core.ops.reshaping import ints
from cntk_core.ops.shapes import Shape, elements, from_cntk, show, to_cntk


def flags(value: bool | Iterable[bool]) -> tuple[bool, ...]:
    """Return one truth value or several as a tuple."""
    return (value,) if isinstance(value, bool) else tuple(bool(item) for item in value)


@attrs.frozen
class ConvolutionAttributes:
    """Attributes of Convolution. Dimensions are in CNTK's order.

    Attributes:
        kernel_shape: the kernel; axes that it lacks are summed over whole.
        map_count: output maps, for the last axis or for each; 0 takes them from the weights.
        stride: distance between windows; the last value is repeated.
        sharing: whether the weights are shared along an axis.
        auto_padding: for each axis, pad so that every ``stride``-th element is the centre of a window.
        lower_pad, upper_pad: explicit padding, where there is no automatic one.
        transpose: the transposed convolution (deconvolution).
        output_shape: for the transposed one, the output; 0 infers it.
        image_layout: ``CHW`` or ``HWC``.
        max_temp_mem_size_in_samples: a hint for the work space; no effect on the result.
        convolution_2d: NDL's form for images: kernel and stride are width and height, the weights a matrix
            [maps x kernel elements].
    """

    kernel_shape: Dims = attrs.field(converter=ints)
    map_count: Dims = attrs.field(default=(0,), converter=ints)
    stride: Dims = attrs.field(default=(1,), converter=ints)
    sharing: tuple[bool, ...] = attrs.field(default=(True,), converter=flags)
    auto_padding: tuple[bool, ...] = attrs.field(default=(True,), converter=flags)
    lower_pad: Dims = attrs.field(default=(0,), converter=ints)
    upper_pad: Dims = attrs.field(default=(0,), converter=ints)
    transpose: bool = False
    output_shape: Dims = attrs.field(default=(0,), converter=ints)
    image_layout: str = "CHW"
    max_temp_mem_size_in_samples: int = 0
    convolution_2d: bool = False

    @classmethod
    def image(
        cls,
        kernel_width: int,
        kernel_height: int,
        output_channels: int,
        horizontal_subsample: int,
        vertical_subsample: int,
        *,
        zero_padding: bool = False,
        image_layout: str = "HWC",
        max_temp_mem_size_in_samples: int = 0,
    ) -> ConvolutionAttributes:
        """NDL's form: ``Convolution(w, x, kernelWidth, kernelHeight, outputChannels, hSub, vSub)``."""
        return cls(
            kernel_shape=(kernel_width, kernel_height),
            map_count=(output_channels,),
            stride=(horizontal_subsample, vertical_subsample),
            auto_padding=(zero_padding,),
            image_layout=image_layout,
            max_temp_mem_size_in_samples=max_temp_mem_size_in_samples,
            convolution_2d=True,
        )


@attrs.frozen
class Setup:
    """A convolution made ready for an input: the geometry of its forward direction, and its output.

    Attributes:
        geometry: from ``dims`` of the convolution's input; for a transposed one from those of its output.
        window: the settings for each axis.
        output: dimensions of the result in CNTK's order, in the image layout.
    """

    geometry: Geometry
    window: Window
    output: Dims


def convolution_setup(weights: Shape, data: Shape, attributes: ConvolutionAttributes) -> Setup:
    """Prepare a convolution of ``data`` (sample shape, memory order).

    Raises:
        ShapeError: kernel, maps, padding and input do not fit.
    """
    legacy = is_legacy(attributes.image_layout)
    dims = to_cntk(data)
    if attributes.convolution_2d:
        image = ImageDims.of(dims, attributes.image_layout)
        dims = image.dims("CHW")
        attributes = _image_settings(attributes, image.channels)
    window = window_of(dims, attributes, reduces=True)
    maps = _maps(weights, window, attributes)
    if attributes.transpose:
        geometry = _transposed(dims, window, maps, attributes)
        output = geometry.input
    else:
        geometry = make_geometry(dims, window, maps)
        output = geometry.output
        wanted = attributes.output_shape
        if elements(wanted) and wanted != output:
            raise ShapeError(f"outputShape is {show(from_cntk(wanted))}, but the result is {show(from_cntk(output))}")
    if legacy and len(output) == 3:
        output = ImageDims.of(output, "CHW").dims("HWC")
    return Setup(geometry, window, output)


def _image_settings(attributes: ConvolutionAttributes, channels: int) -> ConvolutionAttributes:
    """The settings of NDL's form with the channels as third axis."""
    if len(attributes.kernel_shape) < 2 or len(attributes.stride) < 2:
        raise ShapeError("a convolution of images needs width and height of kernel and stride")
    return attrs.evolve(
        attributes,
        kernel_shape=(*attributes.kernel_shape[:2], channels),
        stride=(*attributes.stride[:2], channels),
        auto_padding=extended(attributes.auto_padding[:2], 2, 3, False),
        map_count=(elements(attributes.map_count),),
    )


def _maps(weights: Shape, window: Window, attributes: ConvolutionAttributes) -> Dims:
    if elements(attributes.map_count):
        return attributes.map_count
    kernel, count = elements(window.kernel), elements(weights)
    if not count or count % kernel:
        raise ShapeError(
            f"the number of output maps cannot be inferred from the weights {show(weights)}", hint="Give mapCount."
        )
    return (count // kernel,)


def _transposed(dims: Dims, window: Window, maps: Dims, attributes: ConvolutionAttributes) -> Geometry:
    wanted = attributes.output_shape
    output = wanted if elements(wanted) else transposed_dims(dims, window, maps)
    if len(output) != len(dims):
        raise ShapeError(f"outputShape {show(from_cntk(output))} needs {len(dims)} axes")
    geometry = make_geometry(output, window, maps)
    if geometry.output != dims:
        shown = show(from_cntk(geometry.output))
        raise ShapeError(
            f"a convolution of {show(from_cntk(output))} gives {shown}, not the operand {show(from_cntk(dims))}"
        )
    return geometry


def _kernels(setup: Setup, attributes: ConvolutionAttributes) -> int:
    """How many kernels there are: one for each map, and for each place along axes that share no weights."""
    geometry = setup.geometry
    rank = len(geometry.input)
    sharing = extended(attributes.sharing, len(attributes.kernel_shape), rank, True)
    return elements(
        [
            maps if shared else maps * count
            for maps, count, shared in zip(geometry.maps, geometry.counts, sharing, strict=True)
        ]
    )


def _infer_convolution(shapes: Sequence[Shape], attributes: ConvolutionAttributes) -> Shape:
    weights, data = shapes
    setup = convolution_setup(weights, data, attributes)
    wanted = elements(setup.window.kernel) * _kernels(setup, attributes)
    if elements(weights) != wanted:
        kernel = show(from_cntk(setup.window.kernel))
        raise ShapeError(
            f"the weights {show(weights)} have {elements(weights)} elements, but {_kernels(setup, attributes)} kernels "
            f"{kernel} have {wanted}"
        )
    return from_cntk(setup.output)


def _complete_convolution(shapes: Sequence[Shape], attributes: ConvolutionAttributes) -> Sequence[Shape]:
    """Give weights with dimensions 0 their shape: the kernel and the maps, as a matrix if they were declared as one."""
    weights, data = shapes
    known = attributes
    if not elements(attributes.map_count) and weights and weights[0]:
        known = attrs.evolve(attributes, map_count=(weights[0] if len(weights) != 2 else weights[-1],))
    setup = convolution_setup(weights, data, known)
    maps = tuple(known.map_count)
    if len(weights) == 2:
        dims: Dims = (elements(maps), elements(setup.window.kernel))
    else:
        dims = (*setup.window.kernel, *maps)
    return [from_cntk(dims), data]


CONVOLUTION = declare_op(
    "Convolution",
    "Convolution of the second input with the weights (the first), in any number of dimensions; also transposed.",
    inputs=2,
    infer=_infer_convolution,
    complete=_complete_convolution,
    attributes=ConvolutionAttributes,
    aliases={"ndl": ("Convolve",)},
)

OPS: tuple[Any, ...] = (CONVOLUTION,)
