"""Convolution and pooling, as XLA's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import attrs
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

from cntk_core.api import Node, elements, from_cntk
from cntk_core.api.engines import (
    Geometry,
    convolution_geometry,
    is_legacy,
    kernels,
    legacy_pooling_geometry,
    pooling_geometry,
    samples,
    sharing_of,
)
from cntk_engine_xla.lowering import Array, Forward, Gradient, Trace


def _pads(geometry: Geometry) -> list[tuple[int, int]]:
    """Padding before and after each axis, memory order; negative where elements are left out."""
    return list(zip(geometry.lower, geometry.upper, strict=True))[::-1]


# -- convolution ------------------------------------------------------------------------------------------


def _correlate(geometry: Geometry, image: Array, weights: Array, groups: int) -> Array:
    """Return ``(rows, maps, *counts)``: the products of weights with the windows on images ``(rows, *sizes)``.

    Of several groups, each part of the channels goes into as many maps of its own.
    """
    sizes, kernel, stride = (from_cntk(of) for of in (geometry.input, geometry.kernel, geometry.stride))
    pads, dilation = _pads(geometry), from_cntk(geometry.dilation)
    maps = elements(geometry.maps)
    whole = kernel[0] == sizes[0] and pads[0] == (0, 0)
    if whole:  # the channels, which every window covers, are XLA's features
        data, filters = image, weights.reshape(maps, kernel[0] // groups, *kernel[1:])
        stride, pads, dilation = stride[1:], pads[1:], dilation[1:]
    else:
        data, filters = image[:, None], weights.reshape(maps, 1, *kernel)
    found = lax.conv_general_dilated(
        data,
        filters,
        stride,
        pads,
        rhs_dilation=dilation,
        feature_group_count=groups,
        precision=lax.Precision.HIGHEST,
    )
    return found[:, :, None] if whole else found


def _correlate_apart(geometry: Geometry, shared: Sequence[bool], image: Array, weights: Array) -> Array:
    """Do the same with weights that differ from place to place along the axes that are not ``shared`` (CNTK's order).

    Weights are ``(maps, places, maps, places, ..., kernel elements)``, with one place along shared axes.
    """
    maps, counts, kernel = from_cntk(geometry.maps), from_cntk(geometry.counts), elements(geometry.kernel)
    places = [1 if one else count for one, count in zip(reversed(shared), counts, strict=True)]
    rank = len(counts)
    pairs = [size for pair in zip(maps, places, strict=True) for size in pair]
    order = [*range(0, 2 * rank, 2), 2 * rank, *range(1, 2 * rank, 2)]
    own = weights.reshape(*pairs, kernel).transpose(order).reshape(elements(maps), kernel, *places)
    spread = jnp.broadcast_to(own, (elements(maps), kernel, *counts)).reshape(elements(maps), kernel, -1)
    # What a window has outside of the image is the zero behind it.
    flat = jnp.pad(image.reshape(image.shape[0], -1), [(0, 0), (0, 1)])
    found = jnp.einsum("mkw,rkw->rmw", spread, flat[:, covered_places(geometry)], precision="highest")
    return found.reshape(image.shape[0], elements(maps), *counts)


@lru_cache(maxsize=64)
def covered_places(geometry: Geometry) -> NDArray[np.int32]:
    """Return where in a sample each window has each element of the kernel, ``(kernel elements, windows)``.

    Places outside of the sample have the number behind the last.
    """
    sizes, kernel, counts = (from_cntk(of) for of in (geometry.input, geometry.kernel, geometry.counts))
    stride, lower, dilation = (from_cntk(of) for of in (geometry.stride, geometry.lower, geometry.dilation))
    rank = len(sizes)
    index, outside = np.zeros((*kernel, *counts), np.int32), np.zeros((*kernel, *counts), bool)
    for axis, size in enumerate(sizes):
        along = np.arange(kernel[axis])[:, None] * dilation[axis] + np.arange(counts[axis]) * stride[axis] - lower[axis]
        dims = [1] * (2 * rank)
        dims[axis], dims[rank + axis] = kernel[axis], counts[axis]
        shaped = along.reshape(dims)
        index = index * size + shaped
        outside |= (shaped < 0) | (shaped >= size)
    index[outside] = elements(sizes)
    found: NDArray[np.int32] = index.reshape(elements(kernel), -1).astype(np.int32)
    return found


@attrs.frozen(eq=False)
class _Form:
    """How the arrays of a convolution lie. The legacy layout has columns of pixels, channels fastest.

    ``image`` is the side that windows cover, ``(rows, *sizes)``, ``maps`` the side with one value for each of them,
    ``(rows, all maps, *counts)``; a transposed convolution goes from the second to the first.
    """

    geometry: Geometry
    legacy: bool
    shared: tuple[bool, ...]
    groups: int

    @classmethod
    def of(cls, node: Node) -> _Form:
        """Return that of a node whose first inputs are weights and data."""
        weights, data = node.inputs[:2]
        geometry = convolution_geometry(weights.known_shape, data.known_shape, node.attributes)
        legacy, shared = is_legacy(node.attributes.image_layout), sharing_of(geometry, node.attributes)
        return cls(geometry, legacy, shared, node.attributes.groups)

    def products(self, image: Array, weights: Array) -> Array:
        """Products of the weights with the windows on an image."""
        if not all(self.shared):
            return _correlate_apart(self.geometry, self.shared, image, weights)
        if self.legacy:
            width, height, channels = self.geometry.kernel
            weights = weights.reshape(channels, width, height, self.geometry.maps[2]).transpose(3, 0, 2, 1)
        return _correlate(self.geometry, image, weights, self.groups)

    def image(self, rows: Array) -> Array:
        """Samples of the covered side, from rows as they lie in memory."""
        if self.legacy:
            return rows.reshape(rows.shape[0], *self.geometry.input).transpose(0, 3, 2, 1)
        return rows.reshape(rows.shape[0], *from_cntk(self.geometry.input))

    def image_back(self, image: Array) -> Array:
        """The inverse of :meth:`image`, but for the shape."""
        return image.transpose(0, 3, 2, 1) if self.legacy else image

    def maps(self, rows: Array) -> Array:
        """Samples of the other side; an axis with several maps holds one after another."""
        maps, counts = from_cntk(self.geometry.maps), from_cntk(self.geometry.counts)
        if self.legacy:
            return rows.reshape(rows.shape[0], *counts[:0:-1], maps[0]).transpose(0, 3, 2, 1)[:, :, None]
        rank = len(counts)
        pairs = [size for pair in zip(maps, counts, strict=True) for size in pair]
        shaped = rows.reshape(rows.shape[0], *pairs)
        order = [0, *range(1, 2 * rank, 2), *range(2, 2 * rank + 1, 2)]
        return shaped.transpose(order).reshape(rows.shape[0], elements(maps), *counts)

    def maps_back(self, products: Array) -> Array:
        """The inverse of :meth:`maps`, but for the shape."""
        if self.legacy:
            return products[:, :, 0].transpose(0, 3, 2, 1)
        maps, counts = from_cntk(self.geometry.maps), from_cntk(self.geometry.counts)
        rank = len(counts)
        shaped = products.reshape(products.shape[0], *maps, *counts)
        order = [0, *(index for axis in range(rank) for index in (1 + axis, 1 + rank + axis))]
        return shaped.transpose(order)


def _convolve(node: Node, shape: Sequence[int], weights: Array, data: Array) -> Array:
    """The convolution, of this shape, that a node computes or whose derivative by the weights it is."""
    form = _Form.of(node)
    rows = samples(data, bool(node.inputs[1].framed))
    if not node.attributes.transpose:
        return form.maps_back(form.products(form.image(rows), weights)).reshape(shape)
    like = jnp.zeros((rows.shape[0], *from_cntk(form.geometry.input)), data.dtype)
    _, pull = jax.vjp(lambda image: form.products(image, weights), like)
    (image,) = pull(form.maps(rows))
    return form.image_back(image).reshape(shape)


def _convolution(trace: Trace, node: Node, inputs: list[Array]) -> Array:
    return _convolve(node, trace.shape(node), inputs[0], inputs[1])


def _convolution_gradient(
    trace: Trace, node: Node, arriving: Array, inputs: list[Array], needs: Sequence[bool]
) -> Sequence[Array | None]:
    weights, data = inputs
    shape = trace.shape(node)
    to_weights = to_data = None
    if needs[0]:
        _, pull = jax.vjp(lambda value: _convolve(node, shape, value, data), weights)
        (to_weights,) = pull(arriving)
    if needs[1]:
        _, pull = jax.vjp(lambda value: _convolve(node, shape, weights, value), data)
        (to_data,) = pull(arriving)
    return to_weights, to_data


def _weights(trace: Trace, node: Node, inputs: list[Array]) -> Array:
    """The gradient of a convolution by its weights, a sum over the rows that are frames."""
    weights, data, above = (
        trace.masked(value, child.axis) if child.framed else value
        for child, value in zip(node.inputs, inputs, strict=True)
    )
    _, pull = jax.vjp(lambda value: _convolve(node, above.shape, value, data), weights)
    (found,) = pull(above)
    return found


def _weights_gradient(
    trace: Trace, node: Node, arriving: Array, inputs: list[Array], needs: Sequence[bool]
) -> Sequence[Array | None]:
    weights, *others = inputs
    _, pull = jax.vjp(lambda *values: _weights(trace, node, [weights, *values]), *others)
    return None, *(found if needed else None for found, needed in zip(pull(arriving), needs[1:], strict=True))


# -- pooling ----------------------------------------------------------------------------------------------


Pool = tuple[Geometry, bool, bool]
"""Where the windows stand, whether it is a mean, and whether that counts the padding."""


def _general(node: Node) -> Pool:
    """The windows of Pooling."""
    attributes = node.attributes
    geometry = pooling_geometry(node.inputs[0].known_shape, attributes)
    return geometry, attributes.pool_kind.lower() == "average", attributes.include_pad


def _largest(node: Node) -> Pool:
    """The windows of MaxPooling."""
    return legacy_pooling_geometry(node.inputs[0].known_shape, node.attributes), False, False


def _mean(node: Node) -> Pool:
    """The windows of AveragePooling."""
    return legacy_pooling_geometry(node.inputs[0].known_shape, node.attributes), True, False


@attrs.frozen(eq=False)
class _Windows:
    """Windows on images, as XLA takes them: image, size of the windows, distance between them, padding."""

    image: Array
    window: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]

    @classmethod
    def on(cls, geometry: Geometry, rows: Array) -> _Windows:
        """Place the windows on rows; what none of them covers is left out."""
        sizes, pads = from_cntk(geometry.input), _pads(geometry)
        kept = tuple(slice(max(0, -low), size + min(0, high)) for size, (low, high) in zip(sizes, pads, strict=True))
        return cls(
            rows.reshape(rows.shape[0], *sizes)[(slice(None), *kept)],
            (1, *from_cntk(geometry.kernel)),
            (1, *from_cntk(geometry.stride)),
            ((0, 0), *((max(0, low), max(0, high)) for low, high in pads)),
        )

    def reduced(self, first: float, how: Callable[[Array, Array], Array], image: Array | None = None) -> Array:
        """What is left of each window, of this image or another."""
        image = self.image if image is None else image
        return lax.reduce_window(image, first, how, self.window, self.stride, self.padding)


def largest(geometry: Geometry, rows: Array) -> Array:
    """Return the largest element of each window: ``(rows, *counts)``."""
    return _Windows.on(geometry, rows).reduced(-jnp.inf, lax.max)


def _pooling_by(windows_of: Callable[[Node], Pool]) -> tuple[Forward, Gradient]:
    """How a pooling with such windows computes its value and its gradient."""

    def forward(trace: Trace, node: Node, inputs: list[Array]) -> Array:
        geometry, average, include_pad = windows_of(node)
        rows = samples(inputs[0], bool(node.inputs[0].framed))

        def shaped(found: Array) -> Array:
            if is_legacy(node.attributes.image_layout):  # less than all windows
                found = found.reshape(rows.shape[0], -1)[:, : elements(node.known_shape)]
            return found.reshape(trace.shape(node))

        if not average:
            return shaped(largest(geometry, rows))
        windows = _Windows.on(geometry, rows)
        covered: Any = elements(geometry.kernel)
        if not include_pad:
            covered = windows.reduced(0.0, lax.add, jnp.ones((1, *windows.image.shape[1:]), rows.dtype))
        return shaped(windows.reduced(0.0, lax.add) / covered)

    def gradient(
        trace: Trace, node: Node, arriving: Array, inputs: list[Array], needs: Sequence[bool]
    ) -> Sequence[Array | None]:
        _, pull = jax.vjp(lambda value: forward(trace, node, [value]), inputs[0])
        return (pull(arriving)[0],)

    return forward, gradient


KERNELS = (
    *kernels("xla", ["Convolution"], _convolution, _convolution_gradient),
    *kernels("xla", ["ConvolutionWeights"], _weights, _weights_gradient),
    *kernels("xla", ["Pooling"], *_pooling_by(_general)),
    *kernels("xla", ["MaxPooling"], *_pooling_by(_largest)),
    *kernels("xla", ["AveragePooling"], *_pooling_by(_mean)),
)
