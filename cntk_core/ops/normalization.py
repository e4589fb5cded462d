"""Batch normalization and local response normalization.

Batch normalization: S. Ioffe and C. Szegedy, ICML 2015; with running statistics that a minibatch enters with a share,
and that take part in the normalization of training minibatches with another.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from cntk_core.errors import NetworkError, ShapeError
from cntk_core.ops.define import define_op, first_shape, guess_first
from cntk_core.ops.framing import sample_shape, samples
from cntk_core.ops.geometry import is_legacy
from cntk_core.ops.op import Array, OpContext
from cntk_core.ops.shapes import Shape, elements, show


@attrs.frozen
class BatchNormalizationAttributes:
    """Attributes of BatchNormalization.

    Attributes:
        spatial: one mean and variance for each channel instead of each element.
        normalization_time_constant: samples after which running statistics forget; 0 keeps only the last minibatch,
            infinity freezes them.
        blend_time_constant: weight of the running statistics, in samples, against those of the minibatch.
        epsilon: added to the variance.
        use_cntk_engine: which engine the original used; no effect here.
        image_layout: ``CHW`` or ``HWC``; spatial normalization needs ``CHW``.
        disable_regularization: weight decay leaves scale and bias alone.
    """

    spatial: bool = False
    normalization_time_constant: float = 0.0
    blend_time_constant: float = 0.0
    epsilon: float = 1e-5
    use_cntk_engine: bool = True
    image_layout: str = "CHW"
    disable_regularization: bool = False


def statistics_size(data: Shape, attributes: BatchNormalizationAttributes) -> int:
    """How many means there are: one for each channel (CNTK's last axis) if spatial, else for each element."""
    return data[0] if attributes.spatial and data else elements(data)


def _infer_normalization(shapes: Sequence[Shape], attributes: BatchNormalizationAttributes) -> Shape:
    data = shapes[0]
    if not data:
        raise ShapeError("a single number has no elements to normalize")
    if attributes.spatial and is_legacy(attributes.image_layout):
        raise ShapeError("spatial batch normalization takes images in the layout CHW only")
    size = statistics_size(data, attributes)
    for name, shape in zip(("scale", "bias", "mean", "variance"), shapes[1:5], strict=False):
        if elements(shape) != size:
            raise ShapeError(f"the {name} {show(shape)} has {elements(shape)} elements, not {size}")
    if len(shapes) > 5 and elements(shapes[5]) != 1:
        raise ShapeError(f"the sample count must be a single number, not {show(shapes[5])}")
    return data


def _complete_normalization(shapes: Sequence[Shape], attributes: BatchNormalizationAttributes) -> Sequence[Shape]:
    """Fill in the one dimension 0 of scale, bias and statistics: CNTK's [0 x 1] or [0]."""
    size = statistics_size(shapes[0], attributes)

    def filled(shape: Shape) -> Shape:
        if shape.count(0) == 1 and elements([dim or 1 for dim in shape]) == 1:
            return tuple(dim or size for dim in shape)
        if shape and all(dim == 0 for dim in shape):
            return shapes[0]
        return shape

    return [shapes[0], *(filled(shape) for shape in shapes[1:5]), *shapes[5:]]


def _channels(value: Array, framed: bool, size: int, *, spatial: bool) -> Array:
    """The data as ``(frames, statistics, elements of each)``."""
    rows = samples(value, framed)
    return rows.reshape(len(rows), size, rows.shape[1] // size if spatial else 1)


def update_share(attributes: BatchNormalizationAttributes, frames: int, count: float | None) -> float:
    """Return with which share a minibatch of so many frames enters the running statistics."""
    constant = attributes.normalization_time_constant
    if constant < 0:
        return frames / (frames + (count or 0.0))
    if count == 0:
        return 1.0
    if math.isinf(constant):
        return 0.0
    return 1.0 - math.exp(-frames / constant) if constant > 0 else 1.0


def blend_share(attributes: BatchNormalizationAttributes, frames: int, count: float | None) -> float:
    """Return with which share the running statistics take part in the normalization of a training minibatch."""
    constant = attributes.blend_time_constant
    if count == 0:
        return 0.0
    if math.isinf(constant):
        return 1.0
    return constant / (constant + frames) if constant > 0 else 0.0


@attrs.frozen(eq=False)
class _Statistics:
    """What a minibatch was normalized with: minibatch mean and variance, and the blended mean and inverse deviation."""

    mean: Array
    variance: Array
    used_mean: Array
    inverse: Array
    blend: float


def _statistics(xp: Any, data: Array, inputs: Sequence[Array], attributes: Any, context: OpContext) -> _Statistics:
    """Work out the statistics of a minibatch, and update the running ones in training."""
    run_mean, run_variance = inputs[3].reshape(-1), inputs[4].reshape(-1)
    count = float(inputs[5].reshape(-1)[0]) if len(inputs) > 5 else None
    epsilon = attributes.epsilon
    if not context.training or not len(data):  # an empty minibatch has no statistics
        if count == 0 and not context.training:
            raise NetworkError(
                "batch normalization has no statistics yet: its sample count is 0", hint="Train the network first."
            )
        return _Statistics(run_mean, run_variance, run_mean, 1.0 / xp.sqrt(run_variance + epsilon), 1.0)
    share = update_share(attributes, context.frames, count)
    blend = blend_share(attributes, context.frames, count)
    mean = xp.mean(data, axis=(0, 2))
    variance = xp.mean((data - mean[:, None]) ** 2, axis=(0, 2))
    used_mean = blend * run_mean + (1.0 - blend) * mean
    inverse = blend / xp.sqrt(run_variance + epsilon) + (1.0 - blend) / xp.sqrt(variance + epsilon)
    size = data.shape[0] * data.shape[2]
    unbiased = variance * (size / (size - 1)) if size > 1 else xp.zeros_like(variance)
    _renew(inputs[3], share, mean)
    _renew(inputs[4], share, unbiased)
    if len(inputs) > 5 and (share != 0.0 or blend != 1.0):
        inputs[5][...] += context.frames
    return _Statistics(mean, variance, used_mean, inverse, blend)


def _renew(running: Array, share: float, value: Array) -> None:
    running[...] = share * value.reshape(running.shape) + (1.0 - share) * running


def _normalization_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: BatchNormalizationAttributes,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    found: _Statistics = context.saved["statistics"]
    scale = inputs[1].reshape(-1)
    data = _channels(inputs[0], context.framed[0], scale.size, spatial=attributes.spatial)
    incoming = gradient.reshape(data.shape)
    centred = data - found.used_mean[:, None]
    inverse = found.inverse[:, None]
    to_scale = xp.sum(incoming * centred * inverse, axis=(0, 2))
    to_bias = xp.sum(incoming, axis=(0, 2))
    scaled = incoming * scale[:, None]
    to_data = scaled * inverse
    own = 1.0 - found.blend
    if own > 0.0:
        size = data.shape[0] * data.shape[2]
        # Through the mean and through the variance of the minibatch.
        by_mean = xp.sum(scaled, axis=(0, 2)) * found.inverse * (own / size)
        slope = xp.sum(scaled * centred, axis=(0, 2)) * (found.variance + attributes.epsilon) ** -1.5
        to_data = to_data - by_mean[:, None] - (data - found.mean[:, None]) * (slope * (own / size))[:, None]
    rest: list[Array | None] = [None] * (len(inputs) - 3)
    return [
        to_data.reshape(inputs[0].shape),
        to_scale.reshape(inputs[1].shape),
        to_bias.reshape(inputs[2].shape),
        *rest,
    ]


@define_op(
    "BatchNormalization",
    inputs=(5, 6),
    infer=_infer_normalization,
    complete=_complete_normalization,
    guess=guess_first,
    gradient=_normalization_gradient,
    attributes=BatchNormalizationAttributes,
    differentiable=(True, True, True, False),
    reads_output=False,
    updates=frozenset({3, 4, 5}),
    unframed=frozenset({1, 2, 3, 4, 5}),
)
def BATCH_NORMALIZATION(
    xp: Any, inputs: Sequence[Array], attributes: BatchNormalizationAttributes, context: OpContext
) -> Array:
    """(x - mean) / deviation * scale + bias; inputs: x, scale, bias, running mean and variance [, sample count]."""
    scale, bias = inputs[1].reshape(-1), inputs[2].reshape(-1)
    data = _channels(inputs[0], context.framed[0], scale.size, spatial=attributes.spatial)
    found = _statistics(xp, data, inputs, attributes, context)
    context.saved["statistics"] = found
    normalized = (data - found.used_mean[:, None]) * (found.inverse * scale)[:, None] + bias[:, None]
    return xp.asarray(normalized, dtype=inputs[0].dtype).reshape(inputs[0].shape)


@attrs.frozen
class LocalResponseNormalizationAttributes:
    """Attributes of LocalResponseNormalization: x / (bias + alpha * sum of squares of neighbours) ^ beta.

    The neighbours are the channels at a distance of at most ``depth_radius``.
    """

    depth_radius: int
    bias: float = 1.0
    alpha: float = 1.0
    beta: float = 0.5


def _neighbours(xp: Any, values: Array, radius: int) -> Array:
    """Sums over channels at a distance of at most ``radius``: values ``(frames, channels, elements)``."""
    channels = values.shape[1]
    sums = xp.concatenate([xp.zeros_like(values[:, :1]), xp.cumsum(values, axis=1)], axis=1)
    place = np.arange(channels)
    return sums[:, np.minimum(place + radius + 1, channels)] - sums[:, np.maximum(place - radius, 0)]


def _divisor(xp: Any, data: Array, attributes: LocalResponseNormalizationAttributes) -> Array:
    return attributes.bias + attributes.alpha * _neighbours(xp, data * data, attributes.depth_radius)


def _response_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: LocalResponseNormalizationAttributes,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    framed = context.framed[0]
    data = _channels(inputs[0], framed, sample_shape(inputs[0], framed)[0], spatial=True)
    incoming = gradient.reshape(data.shape)
    divisor = _divisor(xp, data, attributes)
    own = incoming * divisor**-attributes.beta
    others = _neighbours(xp, incoming * data * divisor ** (-attributes.beta - 1.0), attributes.depth_radius)
    return ((own - 2.0 * attributes.alpha * attributes.beta * data * others).reshape(inputs[0].shape),)


@define_op(
    "LocalResponseNormalization",
    infer=first_shape,
    guess=guess_first,
    gradient=_response_gradient,
    attributes=LocalResponseNormalizationAttributes,
    reads_output=False,
)
def LOCAL_RESPONSE_NORMALIZATION(
    xp: Any, inputs: Sequence[Array], attributes: LocalResponseNormalizationAttributes, context: OpContext
) -> Array:
    """Each element divided by a power of the sum of squares over neighbouring channels (CNTK's last axis)."""
    framed = context.framed[0]
    data = _channels(inputs[0], framed, sample_shape(inputs[0], framed)[0], spatial=True)
    return (data * _divisor(xp, data, attributes) ** -attributes.beta).reshape(inputs[0].shape)


OPS = (BATCH_NORMALIZATION, LOCAL_RESPONSE_NORMALIZATION)
