"""Convolution, pooling and normalization.

The windows of a network may cover the channels as well, and begin inside of a sample. What ONNX calls channels is
taken where a kernel takes them whole; else a sample is an image of one channel with one axis more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs

from cntk_core.api import Node, Shape, elements, from_cntk
from cntk_core.api.engines import (
    Geometry,
    convolution_geometry,
    is_legacy,
    legacy_pooling_geometry,
    pooling_geometry,
    sharing_of,
    statistics_used,
)
from cntk_model_onnx.export.graph import END, Refused
from cntk_model_onnx.export.scope import Scope, Value, plain, size_of
from cntk_model_onnx.export.table import writes
from cntk_model_onnx.sizes import are_free


@attrs.frozen
class _Windows:
    """Windows as ONNX describes them; memory order.

    Attributes:
        channels: the first axis of a sample has the channels; else there is one, with all axes.
        sizes: of a sample, all axes.
        skip: first elements of the axes that are left out.
    """

    channels: bool
    sizes: tuple[int, ...]
    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    lower: list[int]
    upper: list[int]
    skip: list[int]
    counts: tuple[int, ...]

    @classmethod
    def of(cls, geometry: Geometry, *, channels: bool) -> _Windows:
        first = int(channels)

        def along(values: Sequence[int]) -> list[int]:
            return [int(value) for value in from_cntk(values)[first:]]

        lower, upper = along(geometry.lower), along(geometry.upper)
        return cls(
            channels,
            from_cntk(geometry.input),
            along(geometry.kernel),
            along(geometry.stride),
            along(geometry.dilation),
            [max(0, pad) for pad in lower],
            [max(0, pad) for pad in upper],
            [max(0, -pad) for pad in lower],
            tuple(along(geometry.counts)),
        )

    @property
    def settings(self) -> dict[str, Any]:
        """Attributes of a node of ONNX."""
        pads = [*self.lower, *self.upper]
        return {"kernel_shape": self.kernel, "strides": self.strides, "pads": pads, "dilations": self.dilations}

    def image(self, scope: Scope, name: str, shape: Shape) -> str:
        """Samples ``(N, *shape)`` as ``(N, channels, *image)``, without what is left out."""
        if not self.channels:
            name = scope.op("Reshape", name, scope.ints(0, 1, *plain(self.sizes)))
        elif tuple(self.sizes) != tuple(shape):
            name = scope.op("Reshape", name, scope.ints(0, *plain(self.sizes)))
        if not any(self.skip):
            return name
        axes = range(2, 2 + len(self.skip))
        return scope.op("Slice", name, scope.ints(*self.skip), scope.ints(*[END] * len(self.skip)), scope.ints(*axes))


_STAND_IN = 960
"""A size that a free axis can have; so can be what follows."""


def _of_any_size(value: Value, strides: Sequence[int], of: Callable[[Shape], Geometry]) -> Geometry:
    """Return a geometry for samples that may have free axes, if windows lie alike in samples of all sizes.

    Raises:
        Refused: they do not, since a padding fills up the last window.
    """
    if not are_free(value.shape):
        return of(value.shape)
    tried = [
        of(tuple(_STAND_IN + more if are_free([size]) else size for size in value.shape))
        for more in range(max(strides))
    ]
    settings = [_Windows.of(one, channels=True).settings for one in tried]
    if value.lead > 1 or any(one != settings[0] for one in settings):
        raise Refused("how its windows lie depends on sizes that only the data have", "Give the input a fixed size.")
    return tried[0]


def _takes_channels_whole(geometry: Geometry) -> bool:
    """Whether windows have all channels (CNTK's last axis), so that they move over the other axes alone."""
    return len(geometry.input) > 1 and geometry.counts[-1] == 1 and geometry.kernel[-1] == geometry.input[-1]


@writes("Convolution")
def _convolution(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    weights, data = values
    attributes = node.attributes
    if attributes.sequential:
        raise Refused("it goes along sequences", "Write it with delays, or unpack the sequences.")
    geometry = _of_any_size(
        data, attributes.stride, lambda shape: convolution_geometry(weights.shape, shape, attributes)
    )
    if not all(sharing_of(geometry, attributes)):
        raise Refused("its windows share no weights", "Write such a layer as products.")
    legacy = is_legacy(attributes.image_layout)
    whole = _takes_channels_whole(geometry) and not geometry.lower[-1]
    free = are_free(data.shape)
    plain_maps = elements(geometry.maps[:-1]) == 1
    if free and (legacy or not whole or attributes.transpose or not plain_maps):
        raise Refused("it needs sizes that only the data have", "Give the input a fixed size.")
    windows = _Windows.of(geometry, channels=whole)
    windows = attrs.evolve(windows, sizes=data.shape) if free else windows
    maps = elements(geometry.maps)
    kernel = _kernel(scope, weights, geometry, attributes, whole=whole, legacy=legacy)
    merged = scope.merged(data)
    settings = {**windows.settings, "group": attributes.groups}
    if attributes.transpose:
        found = _transposed(scope, merged, kernel, geometry, windows, settings, legacy=legacy)
        return scope.unmerged(_shaped(scope, found, node.known_shape, legacy=legacy), data, node.known_shape)
    if legacy:
        width, height, channels = geometry.input
        merged = scope.op("Reshape", merged, scope.ints(0, width, height, channels))
        merged = scope.op("Transpose", merged, perm=[0, 3, 2, 1])
        image = windows.image(scope, merged, (channels, height, width))
    else:
        image = windows.image(scope, merged, data.shape)
    found = scope.op("Conv", image, kernel, **settings)
    if not legacy and (not whole or elements(geometry.maps[:-1]) > 1):
        found = _interleaved(scope, found, geometry, maps)
    return scope.unmerged(
        _shaped(scope, found, node.known_shape, legacy=legacy, same=not legacy), data, node.known_shape
    )


def _shaped(scope: Scope, name: str, shape: Shape, *, legacy: bool, same: bool = False) -> str:
    """Images ``(N, channels, ...)`` as the samples of a layout."""
    if legacy:
        name = scope.op("Transpose", name, perm=[0, 3, 2, 1])
    return name if same else scope.op("Reshape", name, scope.ints(0, *plain(shape)))


def _kernel(scope: Scope, weights: Value, geometry: Geometry, attributes: Any, *, whole: bool, legacy: bool) -> str:
    """Weights as ``(maps, channels of a group, *kernel)``."""
    maps, kernel = elements(geometry.maps), list(from_cntk(geometry.kernel))
    if legacy:
        width, height, channels = geometry.kernel
        shaped = scope.op("Reshape", weights.name, scope.ints(channels, width, height, maps))
        return scope.op("Transpose", shaped, perm=[3, 0, 2, 1])
    wanted = (maps, kernel[0] // attributes.groups, *kernel[1:]) if whole else (maps, 1, *kernel)
    return weights.name if weights.shape == wanted else scope.op("Reshape", weights.name, scope.ints(*wanted))


def _interleaved(scope: Scope, name: str, geometry: Geometry, maps: int) -> str:
    """Results ``(N, all maps, *counts)`` with the maps of each axis before its windows."""
    counts = from_cntk(geometry.counts)
    rank = len(counts)
    shaped = scope.op("Reshape", name, scope.ints(0, *from_cntk(geometry.maps), *plain(counts)))
    order = [0, *(index for axis in range(rank) for index in (1 + axis, 1 + rank + axis))]
    turned = scope.op("Transpose", shaped, perm=order)
    return scope.op("Reshape", turned, scope.ints(0, *plain(from_cntk(geometry.output))))


def _transposed(
    scope: Scope,
    merged: str,
    kernel: str,
    geometry: Geometry,
    windows: _Windows,
    settings: dict[str, Any],
    *,
    legacy: bool,
) -> str:
    """The transposed convolution: from one value for each window to the image that they cover."""
    if any(count > 1 for count in geometry.maps[:-1]):
        raise Refused("it is transposed and has maps along several axes")
    counts, maps = windows.counts, geometry.maps[-1]
    if legacy:
        width, height = geometry.counts[:2]
        shaped = scope.op("Reshape", merged, scope.ints(0, width, height, maps))
        image = scope.op("Transpose", shaped, perm=[0, 3, 2, 1])
    elif windows.channels:
        image = merged
    else:
        image = scope.op("Reshape", merged, scope.ints(0, maps, *plain(counts)))
    found = scope.op("ConvTranspose", image, kernel, **settings)
    first = int(windows.channels)
    upper = [int(pad) for pad in from_cntk(geometry.upper)[first:]]
    short = [max(0, -pad) for pad in upper]
    if any(windows.skip) or any(short):
        found = scope.op("Pad", found, scope.ints(0, 0, *windows.skip, 0, 0, *short), scope.number(0))
    return found


@writes("Pooling")
def _pooling(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    value, attributes = values[0], node.attributes
    geometry = _of_any_size(value, attributes.stride, lambda shape: pooling_geometry(shape, attributes))
    return _pooled(scope, node, value, geometry, attributes.pool_kind.lower(), include=attributes.include_pad)


@writes("MaxPooling", "AveragePooling")
def _image_pooling(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    value = values[0]
    geometry = legacy_pooling_geometry(value.shape, node.attributes)
    kind = "max" if node.op.name == "MaxPooling" else "average"
    if not is_legacy(node.attributes.image_layout):
        return _pooled(scope, node, value, geometry, kind)
    windows = _Windows.of(geometry, channels=True)
    found = _windowed(scope, windows.image(scope, scope.merged(value), value.shape), windows, kind)
    flat = scope.op("Reshape", found, scope.ints(0, -1))
    cut = scope.op("Slice", flat, scope.ints(0), scope.ints(elements(node.known_shape)), scope.ints(1))
    return scope.unmerged(_shaped(scope, cut, node.known_shape, legacy=False), value, node.known_shape)


def _channels_apart(geometry: Geometry) -> bool:
    return len(geometry.input) > 1 and geometry.kernel[-1] == geometry.stride[-1] == 1 and not geometry.lower[-1]


def _pooled(scope: Scope, node: Node, value: Value, geometry: Geometry, kind: str, *, include: bool = False) -> str:
    windows = _Windows.of(geometry, channels=_channels_apart(geometry))
    free = are_free(value.shape)
    if free and not windows.channels:
        raise Refused("it needs sizes that only the data have", "Give the input a fixed size.")
    windows = attrs.evolve(windows, sizes=value.shape) if free else windows
    image = windows.image(scope, scope.merged(value), value.shape)
    found = _windowed(scope, image, windows, kind, include=include)
    same = windows.channels and (free or from_cntk(geometry.output) == node.known_shape)
    return scope.unmerged(_shaped(scope, found, node.known_shape, legacy=False, same=same), value, node.known_shape)


def _windowed(scope: Scope, image: str, windows: _Windows, kind: str, *, include: bool = False) -> str:
    if kind == "max":
        return scope.op("MaxPool", image, **windows.settings)
    return scope.op("AveragePool", image, **windows.settings, count_include_pad=int(include))


@writes("MaxUnpooling")
def _unpooling(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    value, like = (scope.at_lead(each, scope.lead_of(node)) for each in values)
    geometry = pooling_geometry(like.shape, node.attributes)
    if max(geometry.lower, default=0) > 0 or min(geometry.lower) < 0 or not _channels_apart(geometry):
        raise Refused("its windows are padded", "Give it windows without padding.")
    windows = _Windows.of(geometry, channels=True)
    size_of(node.known_shape)
    if not value.lead or not like.lead:
        raise Refused("one of its inputs has no frames")
    image = scope.merged(like)
    settings = windows.settings
    _, places = scope.graph.ops("MaxPool", image, count=2, **settings)
    pooled = scope.merged(value)
    target = scope.op("Concat", scope.op("Shape", image, start=0, end=1), scope.ints(*node.known_shape), axis=0)
    del settings["dilations"]
    found = scope.op("MaxUnpool", pooled, places, target, **settings)
    return scope.unmerged(found, like, node.known_shape)


@writes("BatchNormalization")
def _batch_normalization(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    value, *parameters = values[:5]
    shape, attributes = value.shape, node.attributes
    used = statistics_used(shape, parameters[0].shape, attributes)
    vectors = [_vector(scope, parameter, used) for parameter in parameters]
    merged = scope.merged(value)
    apart = bool(shape) and shape[0] == used
    if not apart:
        merged = scope.op("Reshape", merged, scope.ints(0, used, -1))
    found = scope.op("BatchNormalization", merged, *vectors, epsilon=float(attributes.epsilon))
    if not apart:
        found = scope.op("Reshape", found, scope.ints(0, *plain(shape)))
    return scope.unmerged(found, value, shape)


def _vector(scope: Scope, parameter: Value, used: int) -> str:
    """The first numbers of a parameter."""
    name = parameter.name
    if len(parameter.shape) != 1:
        name = scope.op("Reshape", name, scope.ints(-1))
    return name if elements(parameter.shape) == used else scope.sliced(name, 0, 0, used)


@writes("LocalResponseNormalization")
def _response(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    value, attributes = values[0], node.attributes
    size = 2 * attributes.depth_radius + 1
    merged = scope.merged(value)
    is_image = len(value.shape) == 3  # onnxruntime has it for these alone
    if not is_image:
        merged = scope.op("Reshape", merged, scope.ints(0, value.shape[0], -1, 1))
    settings = {"size": size, "bias": float(attributes.bias), "beta": float(attributes.beta)}
    found = scope.op("LRN", merged, alpha=float(attributes.alpha * size), **settings)
    if not is_image:
        found = scope.op("Reshape", found, scope.ints(0, *plain(value.shape)))
    return scope.unmerged(found, value, value.shape)


@writes("LayerNormalization")
def _layer_normalization(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    value, *others = values
    count = node.attributes.rank_of(value.shape)
    normalized = value.shape[len(value.shape) - count :]
    epsilon = float(node.attributes.epsilon)
    if others and all(other.shape == normalized for other in others):
        return scope.op("LayerNormalization", value.name, *(each.name for each in others), axis=-count, epsilon=epsilon)
    ones = scope.op("Expand", scope.number(1), scope.ints(*normalized))
    size_of(normalized)
    found = scope.op("LayerNormalization", value.name, ones, axis=-count, epsilon=epsilon)
    for kind, other in zip(("Mul", "Add"), others, strict=False):
        found = scope.op(kind, found, other.name)
    return found
