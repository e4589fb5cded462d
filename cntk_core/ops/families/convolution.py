"""Convolution, transposed convolution, and the legacy form for images."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from cntk_core.errors import ShapeError
from cntk_core.ops.families.correlation import Correlation, Unshared
from cntk_core.ops.families.geometry import (
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
from cntk_core.ops.families.reshaping import ints
from cntk_core.ops.families.sequence_convolution import convolution_along_sequences
from cntk_core.ops.families.window_places import of_windows
from cntk_core.ops.families.windows import Windows
from cntk_core.ops.language.define import define_op
from cntk_core.ops.language.framing import sample_shape, samples
from cntk_core.ops.language.op import LATER, Array, Op, OpContext
from cntk_core.ops.language.placement import Placement, inverse_of
from cntk_core.ops.language.shapes import Shape, elements, from_cntk, show, to_cntk
from cntk_core.ops.language.traits import Traits


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
        dilation: distance between the kernel's places in the input; the last value is repeated, but not for channels
            that the kernel takes whole.
        groups: parts of the channels (the last axis) and of the maps: a map sees the channels of its own part alone,
            and so many of them have the weights. With as many groups as channels it is a depthwise convolution. For a
            transposed one, the output's channels are divided.
        sequential: the last axis of the kernel before the channels goes along the sequence.
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
    dilation: Dims = attrs.field(default=(1,), converter=ints, metadata=LATER)
    groups: int = attrs.field(default=1, metadata=LATER)
    sequential: bool = attrs.field(default=False, metadata=LATER)

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
        output: dimensions of the result in CNTK's order; width, height and channels whatever the layout.
        kernel: dimensions of the weights of one kernel: of the window's channels those of one group.
    """

    geometry: Geometry
    window: Window
    output: Dims
    kernel: Dims


def convolution_setup(weights: Shape, data: Shape, attributes: ConvolutionAttributes) -> Setup:
    """Prepare a convolution of ``data`` (sample shape, memory order).

    Raises:
        ShapeError: kernel, maps, padding and input do not fit.
    """
    legacy = is_legacy(attributes.image_layout)
    dims = to_cntk(data)
    if attributes.convolution_2d or legacy:
        image = ImageDims.of(dims, attributes.image_layout)
        dims = image.dims("CHW")
        attributes = _image_settings(attributes, image.channels) if attributes.convolution_2d else attributes
    attributes = _whole_channels(attributes, len(dims))
    window = window_of(dims, attributes, reduces=True, dilation=attributes.dilation)
    kernel = (*window.kernel[:-1], window.kernel[-1] // attributes.groups)
    maps = _maps(weights, dims, window, attributes)
    if attributes.transpose:
        geometry = _transposed(dims, window, maps, attributes)
        output = geometry.input
    else:
        geometry = make_geometry(dims, window, maps)
        output = geometry.output
        wanted = attributes.output_shape
        if elements(wanted) and wanted != in_layout(output, attributes):
            shown = show(from_cntk(in_layout(output, attributes)))
            raise ShapeError(f"outputShape is {show(from_cntk(wanted))}, but the result is {shown}")
    _check_groups(geometry, attributes)
    return Setup(_legacy_windows(geometry, window, attributes) if legacy else geometry, window, output, kernel)


def _whole_channels(attributes: ConvolutionAttributes, rank: int) -> ConvolutionAttributes:
    """The settings with a kernel of all groups' channels, where it was given with those of one."""
    if attributes.groups == 1 or len(attributes.kernel_shape) < rank or attributes.convolution_2d:
        return attributes
    *others, channels = attributes.kernel_shape
    return attrs.evolve(attributes, kernel_shape=(*others, channels * attributes.groups))


def _check_groups(geometry: Geometry, attributes: ConvolutionAttributes) -> None:
    """Make sure that the channels and the maps can be divided.

    Raises:
        ShapeError: they cannot.
    """
    groups, channels, maps = attributes.groups, geometry.input[-1], geometry.maps[-1]
    if groups == 1:
        return
    if groups < 1 or channels % groups or maps % groups:
        raise ShapeError(f"{channels} channels and {maps} output maps cannot be divided into {groups} groups")
    whole = geometry.counts[-1] == 1 and geometry.kernel[-1] == channels and not geometry.lower[-1]
    if not whole or elements(geometry.maps[:-1]) > 1 or not all(sharing_of(geometry, attributes)):
        raise ShapeError(
            "a convolution in groups takes the channels whole, with shared weights and maps for the channels only"
        )


def in_layout(dims: Dims, attributes: ConvolutionAttributes) -> Dims:
    """Dimensions width x height x channels in the order of the image layout; others stay as they are."""
    if is_legacy(attributes.image_layout) and len(dims) == 3:
        return ImageDims.of(dims, "CHW").dims("HWC")
    return dims


def _legacy_windows(geometry: Geometry, window: Window, attributes: ConvolutionAttributes) -> Geometry:
    """Windows of the legacy layout: padded ones are centred on the first element, wherever that leaves the last.

    Raises:
        ShapeError: there are several maps along width or height, or weights that are not shared.
    """
    if elements(geometry.maps[:2]) > 1 or not all(sharing_of(geometry, attributes)) or attributes.groups > 1:
        raise ShapeError(
            "the image layout HWC has shared weights without groups, and output maps for the channels only",
            hint="Use the layout CHW (imageLayout='CHW', NDL: cudnn).",
        )
    axes = zip(geometry.reach[:2], window.auto[:2], geometry.lower[:2], strict=True)
    return attrs.evolve(
        geometry, lower=(*(reach // 2 if auto else low for reach, auto, low in axes), geometry.lower[2])
    )


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
    kernel, count = elements(window.kernel) // attributes.groups, elements(weights)
    if attributes.transpose and not count:  # the maps are the channels of what comes in
        return (dims[-1],)
    if not attributes.transpose and not all(attributes.sharing):
        kernel *= _places(make_geometry(dims, window), attributes)
    if not count or count % kernel:
        raise ShapeError(
            f"the number of output maps cannot be inferred from the weights {show(weights)}", hint="Give mapCount."
        )
    return (count // kernel,)


def _transposed(dims: Dims, window: Window, maps: Dims, attributes: ConvolutionAttributes) -> Geometry:
    wanted = attributes.output_shape
    if elements(wanted) and is_legacy(attributes.image_layout):
        wanted = ImageDims.of(wanted, attributes.image_layout).dims("CHW")
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


def sharing_of(geometry: Geometry, attributes: ConvolutionAttributes) -> tuple[bool, ...]:
    """Whether windows share their weights along each axis (CNTK's order); where there is one window they do."""
    found = extended(attributes.sharing, len(attributes.kernel_shape), len(geometry.input), True)
    return tuple(shared or count == 1 for shared, count in zip(found, geometry.counts, strict=True))


def _places(geometry: Geometry, attributes: ConvolutionAttributes) -> int:
    """How many windows have weights of their own."""
    counts = zip(geometry.counts, sharing_of(geometry, attributes), strict=True)
    return elements([1 if shared else count for count, shared in counts])


def _kernels(setup: Setup, attributes: ConvolutionAttributes) -> int:
    """How many kernels there are: one for each map, and for each place along axes that share no weights."""
    return elements(setup.geometry.maps) * _places(setup.geometry, attributes)


def _infer_convolution(shapes: Sequence[Shape], attributes: ConvolutionAttributes) -> Shape:
    weights, data = shapes
    setup = convolution_setup(weights, data, attributes)
    wanted = elements(setup.kernel) * _kernels(setup, attributes)
    if elements(weights) != wanted:
        kernel = show(from_cntk(setup.kernel))
        raise ShapeError(
            f"the weights {show(weights)} have {elements(weights)} elements, but {_kernels(setup, attributes)} kernels "
            f"{kernel} have {wanted}"
        )
    return from_cntk(in_layout(setup.output, attributes))


def _complete_convolution(shapes: Sequence[Shape], attributes: ConvolutionAttributes) -> Sequence[Shape]:
    """Give weights with dimensions 0 their shape: the kernel and the maps, as a matrix if they were declared as one."""
    weights, data = shapes
    known, declared = attributes, weights[-1 if len(weights) == 2 else 0] if weights else 0
    if not elements(attributes.map_count) and declared:
        known = attrs.evolve(attributes, map_count=(declared,))
    setup = convolution_setup(weights, data, known)
    maps = known.map_count if elements(known.map_count) else setup.geometry.maps[-1:]
    if _places(setup.geometry, attributes) > 1:
        return [_filled(weights, elements(setup.kernel) * _kernels(setup, attributes)), data]
    if len(weights) == 2:
        dims: Dims = (elements(maps), elements(setup.kernel))
    else:
        dims = (*setup.kernel, *maps)
    return [from_cntk(dims), data]


def _filled(weights: Shape, count: int) -> Shape:
    """Weights whose only dimension 0 makes them ``count``."""
    others = elements([dim for dim in weights if dim])
    return tuple(dim or count // others for dim in weights) if weights.count(0) == 1 else weights


def convolution_geometry(weights: Shape, data: Shape, attributes: ConvolutionAttributes) -> Geometry:
    """Return where the windows of a convolution stand: on its input, for a transposed one on its output.

    Raises:
        ShapeError: kernel, maps, padding and input do not fit.
    """
    return convolution_setup(weights, data, attributes).geometry


@attrs.frozen(eq=False)
class _Form:
    """A convolution of arrays in memory order. The legacy layout is turned into the other and back.

    ``image`` is the side that windows cover, ``(frames, *sizes)``, ``maps`` the side with one value for each of them,
    ``(frames, all maps, *counts)``; a transposed convolution goes from the second to the first.
    """

    geometry: Geometry
    legacy: bool
    products: Correlation | Unshared

    @classmethod
    def make(cls, inputs: Sequence[Array], attributes: ConvolutionAttributes, context: OpContext) -> _Form:
        weights, data = (sample_shape(value, framed) for value, framed in zip(inputs, context.framed, strict=True))
        geometry, legacy = convolution_geometry(weights, data, attributes), is_legacy(attributes.image_layout)
        windows = Windows.of(geometry)
        sharing = sharing_of(geometry, attributes)
        if all(sharing):
            return cls(geometry, legacy, Correlation.of(windows, elements(geometry.maps), attributes.groups))
        return cls(geometry, legacy, Unshared(windows, from_cntk(geometry.maps), tuple(reversed(sharing))))

    def image(self, value: Array, framed: bool) -> Array:
        """Samples of the covered side. Legacy ones lie column by column, channels fastest."""
        rows = samples(value, framed)
        if not self.legacy:
            return rows.reshape(len(rows), *from_cntk(self.geometry.input))
        return rows.reshape(len(rows), *self.geometry.input).transpose(0, 3, 2, 1)

    def image_back(self, image: Array, shape: Sequence[int]) -> Array:
        return (image.transpose(0, 3, 2, 1) if self.legacy else image).reshape(shape)

    def maps(self, value: Array, framed: bool) -> Array:
        """Samples of the other side; an axis with several maps holds one after another."""
        rows = samples(value, framed)
        counts, maps = self.geometry.counts, self.geometry.maps
        if self.legacy:
            return rows.reshape(len(rows), counts[0], counts[1], maps[2]).transpose(0, 3, 2, 1)[:, :, None]
        rank = len(counts)
        pairs = [dim for pair in zip(from_cntk(maps), from_cntk(counts), strict=True) for dim in pair]
        shaped = rows.reshape(len(rows), *pairs)
        order = [0, *range(1, 2 * rank, 2), *range(2, 2 * rank + 1, 2)]
        return shaped.transpose(order).reshape(len(rows), elements(maps), *from_cntk(counts))

    def maps_back(self, products: Array, shape: Sequence[int]) -> Array:
        """The inverse of :meth:`maps`."""
        if self.legacy:
            return products[:, :, 0].transpose(0, 3, 2, 1).reshape(shape)
        rank = len(self.geometry.counts)
        shaped = products.reshape(len(products), *from_cntk(self.geometry.maps), *from_cntk(self.geometry.counts))
        order = [0, *(index for axis in range(rank) for index in (1 + axis, 1 + rank + axis))]
        return shaped.transpose(order).reshape(shape)

    def weights(self, value: Array) -> Array:
        """Weights ``(maps, kernel elements)``. Legacy ones are a matrix with the maps fastest."""
        if isinstance(self.products, Unshared):
            return value.reshape(self.products.weights_shape)
        if not self.legacy:
            return value.reshape(elements(self.geometry.maps), -1)
        width, height, channels = self.geometry.kernel
        count = self.geometry.maps[2]
        return value.reshape(channels, width, height, count).transpose(3, 0, 2, 1).reshape(count, -1)

    def weights_back(self, matrix: Array, shape: Sequence[int]) -> Array:
        if not self.legacy:
            return matrix.reshape(shape)
        width, height, channels = self.geometry.kernel
        count = self.geometry.maps[2]
        return matrix.reshape(count, channels, height, width).transpose(1, 3, 2, 0).reshape(shape)


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
    weights, data = inputs
    framed = context.framed[1]
    image, maps = (gradient, data) if attributes.transpose else (data, gradient)
    to_weights = to_data = None
    if needs[0]:
        found = form.products.to_weights(xp, form.image(image, framed), form.maps(maps, framed))
        to_weights = form.weights_back(found, weights.shape)
    if needs[1] and attributes.transpose:
        products = form.products.forward(xp, form.image(gradient, framed), form.weights(weights))
        to_data = form.maps_back(products, data.shape)
    elif needs[1]:
        found = form.products.to_data(xp, form.maps(gradient, framed), form.weights(weights))
        to_data = form.image_back(found, data.shape)
    return to_weights, to_data


def _placement(shapes: Sequence[Shape], attributes: ConvolutionAttributes, index: int) -> Placement | None:
    if index != 1:
        return None
    found = of_windows(convolution_setup(shapes[0], shapes[1], attributes).geometry)
    return found if attributes.transpose else inverse_of(found)


def _form_of(attributes: ConvolutionAttributes) -> Op:
    return CONVOLUTION_ALONG_SEQUENCES if attributes.sequential else CONVOLUTION


ALIASES = {"ndl": ("Convolve",)}


def _operations(shapes: Sequence[Shape], shape: Shape, attributes: ConvolutionAttributes) -> int:
    """Two for each weight in each place of the window: one for each element of a map."""
    image = shapes[1] if attributes.transpose else shape
    maps = image[0 if attributes.image_layout.upper() == "CHW" else -1] if image else 1
    return 2 * elements(shapes[0]) * elements(image) // max(1, maps)


@define_op(
    "Convolution",
    inputs=2,
    infer=_infer_convolution,
    complete=_complete_convolution,
    gradient=_convolution_gradient,
    attributes=ConvolutionAttributes,
    unframed=frozenset({0}),
    placement=_placement,
    reads_output=False,
    aliases=ALIASES,
    form=_form_of,
    traits=Traits(operations=_operations),
)
def CONVOLUTION(xp: Any, inputs: Sequence[Array], attributes: ConvolutionAttributes, context: OpContext) -> Array:
    """Convolution of the second input with the weights (the first), in any number of dimensions; also transposed."""
    form = _Form.make(inputs, attributes, context)
    weights, framed = form.weights(inputs[0]), context.framed[1]
    sample = _infer_convolution(
        [sample_shape(value, has) for value, has in zip(inputs, context.framed, strict=True)], attributes
    )
    shape = (inputs[1].shape[0], *sample) if framed else sample
    if attributes.transpose:
        return form.image_back(form.products.to_data(xp, form.maps(inputs[1], framed), weights), shape)
    return form.maps_back(form.products.forward(xp, form.image(inputs[1], framed), weights), shape)


assert CONVOLUTION.forward is not None
CONVOLUTION_ALONG_SEQUENCES = convolution_along_sequences(
    ConvolutionAttributes,
    _form_of,
    (_infer_convolution, _complete_convolution),
    (CONVOLUTION.forward, _convolution_gradient),
    ALIASES,
)

OPS = (CONVOLUTION,)
