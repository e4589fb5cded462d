"""Convolution and pooling, as XLA's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cntk_core.api import (
    Geometry,
    Node,
    convolution_geometry,
    elements,
    from_cntk,
    image_pooling_geometry,
    is_legacy,
    pooling_geometry,
    samples,
    sharing_of,
)
from cntk_engine_xla.lowering import Array, Lowering, Trace


def _pads(geometry: Geometry) -> list[tuple[int, int]]:
    """Padding before and after each axis, memory order; negative where elements are left out."""
    axes = zip(geometry.input, geometry.kernel, geometry.stride, geometry.lower, geometry.counts, strict=True)
    return [(lower, (count - 1) * step + width - lower - size) for size, width, step, lower, count in axes][::-1]


# -- convolution ------------------------------------------------------------------------------------------


def _is_shared(node: Node) -> bool:
    """Whether all windows of a convolution have the same weights, in the layout CHW."""
    weights, data = node.inputs
    geometry = convolution_geometry(weights.known_shape, data.known_shape, node.attributes)
    return not is_legacy(node.attributes.image_layout) and all(sharing_of(geometry, node.attributes))


def _correlate(geometry: Geometry, image: Array, weights: Array) -> Array:
    """Return ``(rows, maps, *counts)``: the products of weights with the windows on images ``(rows, *sizes)``."""
    from jax import lax

    sizes, kernel, stride = (from_cntk(of) for of in (geometry.input, geometry.kernel, geometry.stride))
    pads = _pads(geometry)
    maps = elements(geometry.maps)
    whole = kernel[0] == sizes[0] and pads[0] == (0, 0)
    if whole:  # the channels, which every window covers, are XLA's features
        data, filters = image, weights.reshape(maps, *kernel)
        stride, pads = stride[1:], pads[1:]
    else:
        data, filters = image[:, None], weights.reshape(maps, 1, *kernel)
    found = lax.conv_general_dilated(data, filters, stride, pads, precision=lax.Precision.HIGHEST)
    return found[:, :, None] if whole else found


def _maps_back(geometry: Geometry, products: Array, shape: Sequence[int]) -> Array:
    """Products ``(rows, maps, *counts)`` in the order of memory: an axis with several maps holds one after another."""
    maps, counts = from_cntk(geometry.maps), from_cntk(geometry.counts)
    rank = len(counts)
    shaped = products.reshape(products.shape[0], *maps, *counts)
    order = [0, *(index for axis in range(rank) for index in (1 + axis, 1 + rank + axis))]
    return shaped.transpose(order).reshape(shape)


def _maps(geometry: Geometry, rows: Array) -> Array:
    """The inverse of :func:`_maps_back`."""
    maps, counts = from_cntk(geometry.maps), from_cntk(geometry.counts)
    rank = len(counts)
    pairs = [size for pair in zip(maps, counts, strict=True) for size in pair]
    shaped = rows.reshape(rows.shape[0], *pairs)
    order = [0, *range(1, 2 * rank, 2), *range(2, 2 * rank + 1, 2)]
    return shaped.transpose(order).reshape(rows.shape[0], elements(maps), *counts)


def _convolve(trace: Trace, node: Node, weights: Array, data: Array) -> Array:
    import jax
    import jax.numpy as jnp

    geometry = convolution_geometry(node.inputs[0].known_shape, node.inputs[1].known_shape, node.attributes)
    framed = bool(node.inputs[1].framed)
    rows = samples(data, framed)
    shape = trace.shape(node)
    sizes = from_cntk(geometry.input)
    if not node.attributes.transpose:
        products = _correlate(geometry, rows.reshape(rows.shape[0], *sizes), weights)
        return _maps_back(geometry, products, shape)
    like = jnp.zeros((rows.shape[0], *sizes), data.dtype)
    _, pull = jax.vjp(lambda image: _correlate(geometry, image, weights), like)
    (image,) = pull(_maps(geometry, rows))
    return image.reshape(shape)


def _convolution(trace: Trace, node: Node, inputs: list[Array]) -> Array:
    return _convolve(trace, node, inputs[0], inputs[1])


def _convolution_gradient(
    trace: Trace, node: Node, arriving: Array, inputs: list[Array], needs: Sequence[bool]
) -> Sequence[Array | None]:
    import jax

    weights, data = inputs
    to_weights = to_data = None
    if needs[0]:
        _, pull = jax.vjp(lambda value: _convolve(trace, node, value, data), weights)
        (to_weights,) = pull(arriving)
    if needs[1]:
        _, pull = jax.vjp(lambda value: _convolve(trace, node, weights, value), data)
        (to_data,) = pull(arriving)
    return to_weights, to_data


# -- pooling ----------------------------------------------------------------------------------------------


def _pool(node: Node) -> tuple[Geometry, tuple[int, ...], bool, bool]:
    """Where the windows stand, the sizes of the image, and whether it is a mean and counts the padding."""
    attributes, sample = node.attributes, node.inputs[0].known_shape
    if node.op.name == "Pooling":
        geometry = pooling_geometry(sample, attributes)
        return geometry, from_cntk(geometry.input), attributes.pool_kind.lower() == "average", attributes.include_pad
    geometry = image_pooling_geometry(sample, attributes)
    return geometry, from_cntk(geometry.input), node.op.name == "AveragePooling", False


def _pooling(trace: Trace, node: Node, inputs: list[Array]) -> Array:
    import jax.numpy as jnp
    from jax import lax

    geometry, sizes, average, include_pad = _pool(node)
    rows = samples(inputs[0], bool(node.inputs[0].framed))
    image = rows.reshape(rows.shape[0], *sizes)
    window, stride = (1, *from_cntk(geometry.kernel)), (1, *from_cntk(geometry.stride))
    pads = _pads(geometry)
    kept = tuple(slice(max(0, -low), size + min(0, high)) for size, (low, high) in zip(sizes, pads, strict=True))
    image = image[(slice(None), *kept)]
    padding = [(0, 0), *((max(0, low), max(0, high)) for low, high in pads)]
    if average:
        totals = lax.reduce_window(image, 0.0, lax.add, window, stride, padding)
        covered: Any = elements(geometry.kernel)
        if not include_pad:
            ones = jnp.ones((1, *image.shape[1:]), image.dtype)
            covered = lax.reduce_window(ones, 0.0, lax.add, window, stride, padding)
        found = totals / covered
    else:
        found = lax.reduce_window(image, -jnp.inf, lax.max, window, stride, padding)
    return found.reshape(trace.shape(node))


def _pooling_gradient(
    trace: Trace, node: Node, arriving: Array, inputs: list[Array], needs: Sequence[bool]
) -> Sequence[Array | None]:
    import jax

    _, pull = jax.vjp(lambda value: _pooling(trace, node, [value]), inputs[0])
    return (pull(arriving)[0],)


def _has_image(node: Node) -> bool:
    """Whether the windows stand on the sample as it lies in memory; those of the legacy layout do not."""
    return node.op.name == "Pooling" or not is_legacy(node.attributes.image_layout)


POOLING = Lowering(_pooling, _pooling_gradient, applies=_has_image)
LOWERINGS = {
    "Convolution": Lowering(_convolution, _convolution_gradient, applies=_is_shared),
    **dict.fromkeys(("Pooling", "MaxPooling", "AveragePooling"), POOLING),
}
