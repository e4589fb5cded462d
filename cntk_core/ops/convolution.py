"""Convolution, transposed convolution, and the legacy form for images."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from cntk_core.errors import ShapeError
from cntk_core.ops.define import define_op
from cntk_core.ops.framing import flat_rows, sample_shape, samples
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
from cntk_core.ops.op import Array, OpContext
from cntk_core.ops.reshaping import ints
from cntk_core.ops.shapes import Shape, elements, from_cntk, show, to_cntk
from cntk_core.ops.windows import gathered, put_back


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
    maps = _maps(weights, dims, window, attributes)
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


def _maps(weights: Shape, dims: Dims, window: Window, attributes: ConvolutionAttributes) -> Dims:
    if elements(attributes.map_count):
        return attributes.map_count
    kernel, count = elements(window.kernel), elements(weights)
    if attributes.transpose and not count:  # the maps are the channels of what comes in
        return (dims[-1],)
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
    maps = known.map_count if elements(known.map_count) else setup.geometry.maps[-1:]
    if len(weights) == 2:
        dims: Dims = (elements(maps), elements(setup.window.kernel))
    else:
        dims = (*setup.window.kernel, *maps)
    return [from_cntk(dims), data]


def _limits(attributes: ConvolutionAttributes) -> str | None:
    if not all(attributes.sharing):
        return "with weights that are not shared"
    if any(count > 1 for count in attributes.map_count[:-1]):
        return "with output maps along several axes"
    if is_legacy(attributes.image_layout) and not attributes.convolution_2d:
        return "in the image layout HWC with a kernel of any dimensions"
    return None


@attrs.frozen(eq=False)
class _Form:
    """A convolution as products of matrices. The legacy layout is turned into the other and back.

    Data come and go as ``(frames, elements)``, weights as ``(maps, kernel elements)``, products as
    ``(frames, windows, maps)``.
    """

    geometry: Geometry
    legacy: bool
    maps: int

    @classmethod
    def make(cls, inputs: Sequence[Array], attributes: ConvolutionAttributes, context: OpContext) -> _Form:
        weights, data = (sample_shape(value, framed) for value, framed in zip(inputs, context.framed, strict=True))
        setup = convolution_setup(weights, data, attributes)
        geometry, legacy = setup.geometry, is_legacy(attributes.image_layout)
        if legacy and all(attributes.auto_padding):
            # The legacy form centres its windows on the first element, also where the last ones leave more room.
            geometry = attrs.evolve(geometry, lower=(*(size // 2 for size in geometry.kernel[:2]), 0))
        return cls(geometry, legacy, geometry.maps[-1])

    def data(self, value: Array, framed: bool) -> Array:
        """Samples as rows. A legacy image lies column by column, channels fastest: ``(width, height, channels)``."""
        rows = samples(value, framed)
        if not self.legacy:
            return rows
        width, height, channels = self.geometry.input
        return flat_rows(rows.reshape(len(rows), width, height, channels).transpose(0, 3, 2, 1))

    def data_back(self, rows: Array, like: Array) -> Array:
        if not self.legacy:
            return rows.reshape(like.shape)
        width, height, channels = self.geometry.input
        return rows.reshape(len(rows), channels, height, width).transpose(0, 3, 2, 1).reshape(like.shape)

    def weights(self, value: Array) -> Array:
        """Weights by map. Legacy ones are a matrix with the maps fastest."""
        if not self.legacy:
            return value.reshape(self.maps, -1)
        width, height, channels = self.geometry.kernel
        return value.reshape(channels, width, height, self.maps).transpose(3, 0, 2, 1).reshape(self.maps, -1)

    def weights_back(self, matrix: Array, like: Array) -> Array:
        if not self.legacy:
            return matrix.reshape(like.shape)
        width, height, channels = self.geometry.kernel
        return matrix.reshape(self.maps, channels, height, width).transpose(1, 3, 2, 0).reshape(like.shape)

    def result(self, products: Array) -> Array:
        """Products ``(frames, windows, maps)`` as rows of the result."""
        frames = products.shape[0]
        if not self.legacy:
            return flat_rows(products.swapaxes(1, 2))
        width, height = self.geometry.counts[:2]
        return flat_rows(products.reshape(frames, height, width, self.maps).transpose(0, 2, 1, 3))

    def products(self, rows: Array) -> Array:
        """The inverse of :meth:`result`."""
        frames = rows.shape[0]
        if not self.legacy:
            return rows.reshape(frames, self.maps, rows.shape[1] // self.maps).swapaxes(1, 2)
        width, height = self.geometry.counts[:2]
        return (
            rows.reshape(frames, width, height, self.maps)
            .transpose(0, 2, 1, 3)
            .reshape(frames, width * height, self.maps)
        )


def _by_weights(products: Array, covered: Array) -> Array:
    """Gradient of the weights: ``(maps, kernel elements)``, from products and what the windows cover."""
    return products.reshape(-1, products.shape[2]).T @ covered.reshape(-1, covered.shape[2])


def _convolution_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: ConvolutionAttributes,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    form = _Form.make(inputs, attributes, context)
    weights = form.weights(inputs[0])
    framed = context.framed[1]
    to_weights = to_data = None
    if attributes.transpose:
        covered = gathered(xp, samples(gradient, framed), form.geometry, 0.0)
        if needs[0]:
            products = form.products(samples(inputs[1], framed))
            to_weights = form.weights_back(_by_weights(products, covered), inputs[0])
        if needs[1]:
            to_data = form.result(covered @ weights.T).reshape(inputs[1].shape)
        return to_weights, to_data
    products = form.products(samples(gradient, framed))
    if needs[0]:
        covered = gathered(xp, form.data(inputs[1], framed), form.geometry, 0.0)
        to_weights = form.weights_back(_by_weights(products, covered), inputs[0])
    if needs[1]:
        to_data = form.data_back(put_back(xp, products @ weights, form.geometry), inputs[1])
    return to_weights, to_data


@define_op(
    "Convolution",
    inputs=2,
    infer=_infer_convolution,
    complete=_complete_convolution,
    gradient=_convolution_gradient,
    attributes=ConvolutionAttributes,
    limits=_limits,
    unframed=frozenset({0}),
    reads_output=False,
    aliases={"ndl": ("Convolve",)},
)
def CONVOLUTION(xp: Any, inputs: Sequence[Array], attributes: ConvolutionAttributes, context: OpContext) -> Array:
    """Convolution of the second input with the weights (the first), in any number of dimensions; also transposed."""
    form = _Form.make(inputs, attributes, context)
    weights, framed = form.weights(inputs[0]), context.framed[1]
    shape = _infer_convolution(
        [sample_shape(value, has) for value, has in zip(inputs, context.framed, strict=True)], attributes
    )
    if attributes.transpose:
        rows = put_back(xp, form.products(samples(inputs[1], framed)) @ weights, form.geometry)
    else:
        rows = form.result(gathered(xp, form.data(inputs[1], framed), form.geometry, 0.0) @ weights.T)
    return rows.reshape((len(rows), *shape) if framed else shape)


OPS = (CONVOLUTION,)
