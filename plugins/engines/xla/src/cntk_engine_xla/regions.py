"""MaxUnpooling and ROIPooling: where the largest elements stand is found by the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from cntk_core.api import Node, elements
from cntk_core.api.engines import Geometry, kernels, pooling_geometry, samples
from cntk_engine_xla.images import covered_places, largest
from cntk_engine_xla.lowering import Array, Trace


def _numbered(trace: Trace, node: Node) -> int:
    """Rows of the value of a node."""
    return trace.sizes[node.axis] if node.framed else 1


# -- unpooling --------------------------------------------------------------------------------------------


def _places(trace: Trace, node: Node, like: Array) -> Array:
    """The place of the first largest element of each window: ``(rows, windows)``."""
    rows = samples(like, bool(node.inputs[1].framed))
    covered = covered_places(pooling_geometry(node.inputs[1].known_shape, node.attributes))
    padded = jnp.pad(rows, [(0, 0), (0, 1)], constant_values=-jnp.inf)
    best = jnp.argmax(padded[:, covered], axis=1)
    found = jnp.take_along_axis(jnp.asarray(covered)[None], best[:, None], axis=1)[:, 0]
    return jnp.broadcast_to(found, (_numbered(trace, node), found.shape[1]))


def _writes(places: Array, size: int) -> Array:
    """Which windows write to their place: where windows share one, the last does."""
    rows, index = jnp.arange(places.shape[0])[:, None], jnp.arange(places.shape[1], dtype=jnp.int32)
    writer = jnp.full((places.shape[0], size), -1, jnp.int32).at[rows, places].max(index)
    return jnp.take_along_axis(writer, places, axis=1) == index


def _apart(geometry: Geometry) -> bool:
    """Whether no two windows share an element."""
    return all(step >= width for step, width in zip(geometry.stride, geometry.kernel, strict=True))


def _unpooling(trace: Trace, node: Node, inputs: list[Array]) -> Array:
    geometry = pooling_geometry(node.inputs[1].known_shape, node.attributes)
    rows, size = _numbered(trace, node), elements(node.known_shape)
    like, values = (samples(inputs[place], bool(node.inputs[place].framed)) for place in (1, 0))
    values = jnp.broadcast_to(values, (rows, values.shape[1]))
    if _apart(geometry):  # the way back of a pooling, which XLA does without adding at places
        like = jnp.broadcast_to(like, (rows, size))
        pooled, pull = jax.vjp(lambda image: largest(geometry, image), like)
        return pull(values.reshape(pooled.shape))[0]
    places = _places(trace, node, inputs[1])
    values = jnp.where(_writes(places, size), values, jnp.zeros((), values.dtype))
    zeros = jnp.zeros((rows, size), values.dtype)
    return zeros.at[jnp.arange(rows)[:, None], places].add(values)


def _unpooling_gradient(
    trace: Trace, node: Node, arriving: Array, inputs: list[Array], needs: Sequence[bool]
) -> Sequence[Array | None]:
    places, size = _places(trace, node, inputs[1]), elements(node.known_shape)
    incoming = jnp.take_along_axis(samples(arriving, bool(node.framed)), places, axis=1)
    apart = _apart(pooling_geometry(node.inputs[1].known_shape, node.attributes))
    found = incoming if apart else jnp.where(_writes(places, size), incoming, jnp.zeros((), incoming.dtype))
    if not node.inputs[0].framed:
        found = jnp.sum(trace.masked(found, node.axis) if node.framed else found, axis=0)
    return found.reshape(inputs[0].shape), None


# -- regions of interest ----------------------------------------------------------------------------------


def _bins(ends: tuple[Array, Array], scale: float, size: int, count: int, number: Any) -> Array:
    """Which places of an axis lie in each bin of regions: ``(regions, bins, size)``; lengths are numbers of a kind."""
    # Halves go away from 0, as C rounds; jnp.round takes them to the even number.
    begin, end = (jnp.copysign(jnp.floor(jnp.abs(place * scale) + 0.5), place) for place in ends)
    whole = jnp.maximum(end - begin + 1.0, 1.0)[:, None].astype(number)
    # By one number XLA does not divide: it multiplies by its inverse.
    length = whole / jax.lax.optimization_barrier(jnp.full_like(whole, count))  # type: ignore[no-untyped-call]
    index = jnp.arange(count)
    low = jnp.floor(index.astype(number) * length) + begin[:, None]
    high = jnp.ceil((index + 1).astype(number) * length) + begin[:, None]
    place = jnp.arange(size)
    return (place >= low[:, :, None]) & (place < high[:, :, None])


def _largest(trace: Trace, node: Node, inputs: list[Array]) -> tuple[Array, Array]:
    """Largest elements of the bins, and their places in the image: ``(rows, regions, channels, height, width)``.

    The place of a bin without elements is the one behind the last.
    """
    data, regions = inputs
    channels, height, width = node.inputs[0].known_shape
    columns, lines = node.attributes.roi_output_shape
    rows = _numbered(trace, node)
    images = jnp.broadcast_to(data.reshape(-1, channels, height, width), (rows, channels, height, width))
    boxes = jnp.broadcast_to(regions.reshape(-1, *node.inputs[1].known_shape), (rows, *node.inputs[1].known_shape))
    lowest = jnp.asarray(-jnp.inf, data.dtype)

    def one(image: Array, across: Array, down: Array) -> tuple[Array, Array]:
        # First along the lines, then over the lines: of equal elements the first one in memory is found.
        wide = jnp.where(across[None, None], image[:, :, None, :], lowest)
        along, best = jnp.argmax(wide, axis=3), jnp.max(wide, axis=3)
        tall = jnp.where(down[None, :, None, :], best.transpose(0, 2, 1)[:, None], lowest)
        line = jnp.argmax(tall, axis=3)
        column = jnp.take_along_axis(along.transpose(0, 2, 1)[:, None], line[..., None], axis=3)[..., 0]
        offset = (jnp.arange(channels) * height * width)[:, None, None]
        some = jnp.any(down, axis=1)[:, None] & jnp.any(across, axis=1)
        place = jnp.where(some, offset + line * width + column, channels * height * width)
        return jnp.where(some, jnp.max(tall, axis=3), jnp.zeros((), data.dtype)), place.astype(jnp.int32)

    def row(given: tuple[Array, Array]) -> tuple[Array, Array]:
        image, box = given
        exact = box.astype(jnp.float64)
        scale = node.attributes.spatial_scale
        across = _bins((exact[:, 0], exact[:, 2]), scale, width, columns, data.dtype)
        down = _bins((exact[:, 1], exact[:, 3]), scale, height, lines, data.dtype)
        found: tuple[Array, Array] = jax.lax.map(lambda each: one(image, *each), (across, down))
        return found

    found: tuple[Array, Array] = jax.lax.map(row, (images, boxes))
    return found


def _roi(trace: Trace, node: Node, inputs: list[Array]) -> Array:
    values, places = _largest(trace, node, inputs)
    trace.context(node).saved = {"places": places.reshape(places.shape[0], -1)}
    return values


def _roi_gradient(
    trace: Trace, node: Node, arriving: Array, inputs: list[Array], needs: Sequence[bool]
) -> Sequence[Array | None]:
    places = trace.context(node).saved["places"]
    incoming = samples(arriving, bool(node.framed))
    zeros = jnp.zeros((places.shape[0], elements(node.inputs[0].known_shape)), incoming.dtype)
    found = zeros.at[jnp.arange(places.shape[0])[:, None], places].add(incoming, mode="drop")
    if not node.inputs[0].framed:
        found = jnp.sum(trace.masked(found, node.axis) if node.framed else found, axis=0)
    return found.reshape(inputs[0].shape), None


KERNELS = (
    *kernels("xla", ["MaxUnpooling"], _unpooling, _unpooling_gradient),
    *kernels("xla", ["ROIPooling"], _roi, _roi_gradient),
)
