"""Pooling: the largest or mean element of windows, its inverse, and pooling of regions of interest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from cntk_core.errors import ShapeError
from cntk_core.ops.families.convolution import flags
from cntk_core.ops.families.geometry import Dims, Geometry, ImageDims, is_legacy, make_geometry, window_of
from cntk_core.ops.families.reshaping import ints, reshaped
from cntk_core.ops.families.window_places import of_windows
from cntk_core.ops.families.windows import OUTSIDE, Windows, add_at
from cntk_core.ops.language.define import define_op
from cntk_core.ops.language.framing import flat_rows, sample_shape, samples
from cntk_core.ops.language.op import Array, Op, OpContext
from cntk_core.ops.language.placement import Placement, inverse_of
from cntk_core.ops.language.shapes import Shape, elements, from_cntk, show, to_cntk

KINDS = ("max", "average")
"""What a pooling can take of a window."""


@attrs.frozen
class PoolingAttributes:
    """Attributes of Pooling and MaxUnpooling. Dimensions are in CNTK's order.

    Attributes:
        pool_kind: ``max`` or ``average``; MaxUnpooling knows only ``max``.
        kernel_shape: the window; axes that it lacks are not pooled. Without any dimensions it is all axes but the last.
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
    geometry = make_geometry(dims, window_of(dims, attributes, reduces=False), ceil=attributes.ceil_out_dim)
    axes = zip(geometry.input, geometry.kernel, geometry.stride, geometry.lower, geometry.counts, strict=True)
    for axis, (size, width, step, lower, count) in enumerate(axes):
        if lower >= width or (count - 1) * step - lower >= size:
            raise ShapeError(
                f"along axis {axis + 1} a window of {width} lies wholly outside of the {size} elements",
                hint="Use less padding, a stride that is not larger than the kernel, or ceilOutDim=false.",
            )
    return geometry


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


@attrs.frozen(eq=False)
class Pool:
    """A pooling of samples given as rows."""

    geometry: Geometry
    average: bool
    include_pad: bool = False

    @classmethod
    def of(cls, geometry: Geometry, attributes: PoolingAttributes) -> Pool:
        """Make the pooling of Pooling."""
        return cls(geometry, attributes.pool_kind.lower() == "average", attributes.include_pad)

    @property
    def _windows(self) -> Windows:
        return Windows.of(self.geometry)

    def _padded(self, xp: Any, rows: Array) -> Array:
        data = rows.reshape(len(rows), *self._windows.sizes)
        return self._windows.pad(xp, data, 0.0 if self.average else -math.inf)

    def forward(self, xp: Any, rows: Array) -> Array:
        """Return the pooled rows ``(frames, windows)``."""
        return flat_rows(self._pooled(xp, self._padded(xp, rows)))

    def _pooled(self, xp: Any, padded: Array) -> Array:
        windows = self._windows
        places = windows.places()
        result = xp.array(windows.at(padded, next(places)))
        for place in places:
            (xp.add if self.average else xp.maximum)(result, windows.at(padded, place), out=result)
        if self.average:
            result /= self._counted(result.dtype)
        return result

    def gradient(self, xp: Any, gradient: Array, rows: Array) -> Array:
        """Return the gradient of the rows."""
        windows = self._windows
        incoming = gradient.reshape(len(gradient), *windows.counts)
        result = xp.zeros((len(gradient), *windows.padded), dtype=gradient.dtype)
        if self.average:
            share = incoming / self._counted(gradient.dtype)
            for place in windows.places():
                view = windows.at(result, place)
                view += share
        else:
            self._to_largest(xp, incoming, self._padded(xp, rows), result)
        return flat_rows(windows.unpad(xp, result))

    def tangent(self, xp: Any, change: Array, rows: Array) -> Array:
        """Return how the pooled rows change when the rows do: the adjoint of :meth:`gradient`."""
        if self.average:
            return self.forward(xp, change)
        places = self.largest(xp, rows)
        found = xp.take_along_axis(change, xp.maximum(places, 0), axis=1)
        return xp.where(places == OUTSIDE, xp.asarray(math.nan, dtype=change.dtype), found)  # windows with a NaN

    def _to_largest(self, xp: Any, incoming: Array, padded: Array, result: Array) -> None:
        """Add what comes in to the first largest element of each window."""
        windows = self._windows
        largest = self._pooled(xp, padded)
        waiting = xp.ones(largest.shape, dtype=bool)
        apart = all(step >= width for step, width in zip(windows.stride, windows.kernel, strict=True))
        for place in windows.places():
            found = windows.at(padded, place) == largest
            found &= waiting
            waiting ^= found
            view = windows.at(result, place)
            if apart:
                xp.multiply(incoming, found, out=view)
            else:
                view += incoming * found

    def largest(self, xp: Any, rows: Array) -> Array:
        """The place of the first largest element of each window: ``(frames, windows)``."""
        windows, padded = self._windows, self._padded(xp, rows)
        found = self._pooled(xp, padded)
        index = xp.full(found.shape, OUTSIDE)
        for place in windows.places():
            hit = (windows.at(padded, place) == found) & (index == OUTSIDE)
            index = xp.where(hit, xp.asarray(windows.index(place)), index)
        return flat_rows(index)

    def _counted(self, dtype: Any) -> Array:
        """How many elements of each window count."""
        if self.include_pad:
            return np.asarray(elements(self._windows.kernel), dtype)
        return self._windows.covered().astype(dtype)


def _rows(value: Array, framed: bool) -> Array:
    return samples(value, framed)


def _pool_of(inputs: Sequence[Array], attributes: PoolingAttributes, context: OpContext) -> Pool:
    geometry = pooling_geometry(sample_shape(inputs[0], context.framed[0]), attributes)
    return Pool.of(geometry, attributes)


def _pooling_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: PoolingAttributes,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    framed = context.framed[0]
    pool = _pool_of(inputs, attributes, context)
    return (pool.gradient(xp, _rows(gradient, framed), _rows(inputs[0], framed)).reshape(inputs[0].shape),)


def _pooling_placement(shapes: Sequence[Shape], attributes: PoolingAttributes, index: int) -> Placement | None:
    return inverse_of(of_windows(pooling_geometry(shapes[0], attributes)))


def _unpooling_placement(shapes: Sequence[Shape], attributes: PoolingAttributes, index: int) -> Placement | None:
    return of_windows(pooling_geometry(shapes[1], attributes)) if index == 0 else None


@define_op(
    "Pooling",
    infer=_infer_pooling,
    gradient=_pooling_gradient,
    attributes=PoolingAttributes,
    placement=_pooling_placement,
    reads_output=False,
)
def POOLING(xp: Any, inputs: Sequence[Array], attributes: PoolingAttributes, context: OpContext) -> Array:
    """Largest or mean element of windows."""
    framed = context.framed[0]
    result = _pool_of(inputs, attributes, context).forward(xp, _rows(inputs[0], framed))
    return reshaped(result, framed, _infer_pooling([sample_shape(inputs[0], framed)], attributes))


def legacy_pooling_geometry(data: Shape, attributes: LegacyPoolingAttributes) -> Geometry:
    """Place the windows of MaxPooling or AveragePooling on samples as they lie in memory.

    In the layout ``HWC`` CNTK 2.0 takes the axes of an image, channels x width x height, for width x height x channels:
    windows have one row and ``window_width`` columns, and stand on numbers that lie ``height`` apart. Of what they
    give, the first numbers are the output, as many as an image of its size has.

    Raises:
        ShapeError: the input is no image, or smaller than the window.
    """
    geometry = image_pooling_geometry(data, attributes)
    if not is_legacy(attributes.image_layout):
        return geometry
    height, width, channels = data
    settings = PoolingAttributes(
        (1, attributes.window_width, 1), stride=(1, attributes.horizontal_subsample, 1), auto_padding=(False,)
    )
    dims = (height, width, channels)
    return make_geometry(dims, window_of(dims, settings, reduces=False))


def _image_pooling(name: str, what: str, *, average: bool) -> Op:
    def forward(xp: Any, inputs: Sequence[Array], attributes: LegacyPoolingAttributes, context: OpContext) -> Array:
        framed = context.framed[0]
        sample = sample_shape(inputs[0], framed)
        result = Pool(legacy_pooling_geometry(sample, attributes), average).forward(xp, _rows(inputs[0], framed))
        shape = _infer_image_pooling([sample], attributes)
        return reshaped(result[:, : elements(shape)], framed, shape)

    def gradient(
        xp: Any,
        gradient: Array,
        output: Array,
        inputs: Sequence[Array],
        attributes: LegacyPoolingAttributes,
        context: OpContext,
        needs: Sequence[bool],
    ) -> Sequence[Array | None]:
        framed = context.framed[0]
        geometry = legacy_pooling_geometry(sample_shape(inputs[0], framed), attributes)
        given = _rows(gradient, framed)
        incoming = xp.zeros((len(given), elements(geometry.counts)), dtype=gradient.dtype)
        incoming[:, : given.shape[1]] = given
        found = Pool(geometry, average).gradient(xp, incoming, _rows(inputs[0], framed))
        return (found.reshape(inputs[0].shape),)

    return define_op(
        name,
        infer=_infer_image_pooling,
        gradient=gradient,
        attributes=LegacyPoolingAttributes,
        reads_output=False,
        doc=f"{what} of windows of an image, without padding (the old form of Pooling).",
    )(forward)


MAX_POOLING = _image_pooling("MaxPooling", "Largest element", average=False)
AVERAGE_POOLING = _image_pooling("AveragePooling", "Mean element", average=True)


def _unpooling_places(xp: Any, inputs: Sequence[Array], attributes: PoolingAttributes, context: OpContext) -> Array:
    like = inputs[1]
    geometry = pooling_geometry(sample_shape(like, context.framed[1]), attributes)
    places = Pool(geometry, average=False).largest(xp, _rows(like, context.framed[1]))
    return xp.broadcast_to(places, (context.frames if any(context.framed) else 1, places.shape[1]))


def _unpooling_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: PoolingAttributes,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    places = _unpooling_places(xp, inputs, attributes, context)
    rows = np.arange(len(places))[:, None]
    incoming = samples(gradient, any(context.framed))
    # Where windows overlap the last one wrote.
    writer = np.zeros(incoming.shape, np.int64)
    index = np.arange(places.shape[1])
    writer[rows, places] = index
    found = np.where(writer[rows, places] == index, incoming[rows, places], 0.0).astype(gradient.dtype)
    if not context.framed[0]:
        found = found.sum(axis=0)
    return found.reshape(inputs[0].shape), None


@define_op(
    "MaxUnpooling",
    inputs=2,
    infer=_infer_unpooling,
    gradient=_unpooling_gradient,
    attributes=PoolingAttributes,
    placement=_unpooling_placement,
    differentiable=(True, False),
    reads_output=False,
)
def MAX_UNPOOLING(xp: Any, inputs: Sequence[Array], attributes: PoolingAttributes, context: OpContext) -> Array:
    """The inverse of max pooling: elements go to the places where the second input's windows are largest."""
    places = _unpooling_places(xp, inputs, attributes, context)
    sample = sample_shape(inputs[1], context.framed[1])
    result = xp.zeros((len(places), elements(sample)), dtype=inputs[0].dtype)
    result[np.arange(len(places))[:, None], places] = _rows(inputs[0], context.framed[0])
    return reshaped(result, any(context.framed), sample)


def _bins(ends: tuple[float, float], scale: float, size: int, count: int, number: Any) -> list[tuple[int, int]]:
    """Begin and end of each bin of a region along an axis, inside the image; ``number`` is the precision of the data.

    The original multiplies by the rounded length of a bin: in single precision the last of 7 bins of 57 elements ends
    after 58.
    """
    begin, end = (_rounded(place * scale) for place in ends)
    length = number(max(end - begin + 1, 1)) / number(count)
    found = []
    for index in range(count):
        low, high = math.floor(number(index) * length), math.ceil(number(index + 1) * length)
        found.append((min(max(low + begin, 0), size), min(max(high + begin, 0), size)))
    return found


def _rounded(value: float) -> int:
    """Round halves away from 0, as C's ``round`` does and Python's does not."""
    return int(math.copysign(math.floor(abs(value) + 0.5), value))


def _region_places(data: Array, regions: Array, attributes: ROIPoolingAttributes) -> tuple[Array, Array]:
    """Largest elements of the bins, and their places in the sample: ``(regions, channels, height, width)`` each."""
    channels, height, width = data.shape
    columns, rows = attributes.roi_output_shape
    values = np.zeros((len(regions), channels, rows, columns), data.dtype)
    places = np.full(values.shape, OUTSIDE, np.int64)
    offsets = np.arange(channels) * height * width
    for number, (x1, y1, x2, y2) in enumerate(regions.tolist()):
        across = _bins((x1, x2), attributes.spatial_scale, width, columns, data.dtype.type)
        down = _bins((y1, y2), attributes.spatial_scale, height, rows, data.dtype.type)
        for row, (top, bottom) in enumerate(down):
            for column, (left, right) in enumerate(across):
                if bottom <= top or right <= left:
                    continue
                part = data[:, top:bottom, left:right].reshape(channels, -1)
                best = np.argmax(part, axis=1)
                values[number, :, row, column] = part[np.arange(channels), best]
                y, x = np.divmod(best, right - left)
                places[number, :, row, column] = offsets + (top + y) * width + left + x
    return values, places


def _roi_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: ROIPoolingAttributes,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    places = context.saved["places"]
    incoming = samples(gradient, any(context.framed))
    result = add_at(incoming, places, elements(sample_shape(inputs[0], context.framed[0])))
    return (result if context.framed[0] else result.sum(axis=0)).reshape(inputs[0].shape), None


@define_op(
    "ROIPooling",
    inputs=2,
    infer=_infer_roi,
    gradient=_roi_gradient,
    attributes=ROIPoolingAttributes,
    differentiable=(True, False),
    reads_output=False,
)
def ROI_POOLING(xp: Any, inputs: Sequence[Array], attributes: ROIPoolingAttributes, context: OpContext) -> Array:
    """Largest elements of a grid over each region; inputs: image, regions of interest (x1, y1, x2, y2 in pixels)."""
    data, regions = inputs
    frames = context.frames if any(context.framed) else 1
    found = [
        _region_places(
            data[frame] if context.framed[0] else data, regions[frame] if context.framed[1] else regions, attributes
        )
        for frame in range(frames)
    ]
    shape = (
        len(found),
        *_infer_roi([sample_shape(*each) for each in zip(inputs, context.framed, strict=True)], attributes),
    )
    values, places = np.zeros(shape, data.dtype), np.zeros(shape, np.int64)
    for frame, each in enumerate(found):
        values[frame], places[frame] = each
    context.saved["places"] = flat_rows(places)
    return xp.asarray(values if any(context.framed) else values[0])


OPS = (POOLING, MAX_POOLING, AVERAGE_POOLING, MAX_UNPOOLING, ROI_POOLING)
