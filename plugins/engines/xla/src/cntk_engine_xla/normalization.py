"""Batch normalization over the frames of a minibatch, from which its padding is left out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import jax.numpy as jnp
from numpy.typing import NDArray

from cntk_core.api import Node, Parameter
from cntk_core.api.engines import check_statistics, kernels, samples, statistics_used
from cntk_engine_xla.lowering import Array, Trace

_VARIANCE, _COUNT = 4, 5
"""Inputs that are the running variance, and of how many samples."""


@attrs.frozen(eq=False)
class _Statistics:
    """What a minibatch is normalized with, for each mean.

    Attributes:
        mean: of the minibatch.
        used_mean, inverse: mean and inverse deviation that the data are normalized with.
        own_inverse: the inverse deviation of the minibatch alone.
        blend: with which share the running statistics take part.
        size: how many numbers each mean is taken of.
    """

    mean: Array
    used_mean: Array
    inverse: Array
    own_inverse: Array
    blend: Array
    size: Array


def _groups(trace: Trace, node: Node, value: Array, used: int) -> Array:
    """The data as ``(rows, means, elements of each)``."""
    rows = samples(value, bool(node.inputs[0].framed))
    return rows.reshape(rows.shape[0], used, rows.shape[1] // max(1, used))


def _used(node: Node) -> int:
    data, scale = node.inputs[:2]
    return statistics_used(data.known_shape, scale.known_shape, node.attributes)


def _first(parameter: Array, count: int) -> Array:
    return parameter.reshape(-1)[:count]


def _frames(trace: Trace, node: Node, dtype: Any) -> Array:
    axis = trace.axis_of(node)
    return jnp.asarray(1 if axis is None else trace.counts[axis]).astype(dtype)


def _kept(trace: Trace, node: Node, data: Array) -> Array:
    axis = trace.axis_of(node)
    return data if axis is None else trace.masked(data, axis)


def _shares(node: Node, frames: Array, count: Array | None) -> tuple[Array, Array]:
    """With which share a minibatch enters the running statistics, and with which these take part in it."""
    attributes = node.attributes
    forget, blend = attributes.normalization_time_constant, attributes.blend_time_constant
    none = jnp.zeros_like(frames)
    if forget < 0:
        update = frames / (frames + (none if count is None else count))
    elif math.isinf(forget):
        update = none
    else:
        update = 1.0 - jnp.exp(-frames / forget) if forget > 0 else none + 1.0
    part = none + 1.0 if math.isinf(blend) else blend / (blend + frames) if blend > 0 else none
    if count is None:
        return update, part
    fresh = count == 0
    return (update if forget < 0 else jnp.where(fresh, 1.0, update)), jnp.where(fresh, 0.0, part)


def _statistics(trace: Trace, node: Node, inputs: list[Array], data: Array) -> _Statistics:
    """Find what to normalize with; in training the running statistics change."""
    used, epsilon = data.shape[1], node.attributes.epsilon
    run_mean, run_variance = _first(inputs[3], used), _first(inputs[4], used)
    frames = _frames(trace, node, jnp.float64)
    size = frames * data.shape[2]
    run_inverse = 1.0 / jnp.sqrt(run_variance + epsilon)
    if not trace.training or not data.shape[0] * data.shape[2]:
        if trace.training:  # without frames they stay what they are
            for place in range(3, len(inputs)):
                _keep(trace, node, place, inputs[place])
        return _Statistics(run_mean, run_mean, run_inverse, run_inverse, jnp.ones((), data.dtype), size)
    divisor = size.astype(data.dtype)
    mean = jnp.sum(_kept(trace, node, data), axis=(0, 2)) / divisor
    centred = data - mean[:, None]
    variance = jnp.sum(_kept(trace, node, centred * centred), axis=(0, 2)) / divisor
    count = inputs[5].reshape(-1)[0].astype(jnp.float64) if len(inputs) > 5 else None
    update, blend = _shares(node, frames, count)
    unbiased = variance * jnp.where(size > 1, size / jnp.maximum(size - 1, 1), 0.0).astype(data.dtype)
    _renew(trace, node, 3, update, mean)
    _renew(trace, node, 4, update, unbiased)
    if count is not None:
        counted = jnp.where((update != 0.0) | (blend != 1.0), count + frames, count)
        _keep(trace, node, 5, counted.astype(data.dtype))
    own_inverse = 1.0 / jnp.sqrt(variance + epsilon)
    share = blend.astype(data.dtype)
    # With a share of 0 the running statistics must not count even if they are not finite.
    blended = share > 0
    used_mean = jnp.where(blended, share * run_mean + (1 - share) * mean, mean)
    inverse = jnp.where(blended, share * run_inverse + (1 - share) * own_inverse, own_inverse)
    return _Statistics(mean, used_mean, inverse, own_inverse, share, size)


def _renew(trace: Trace, node: Node, place: int, share: Array, value: Array) -> None:
    """Let the statistics of a minibatch enter the first numbers of the running ones."""
    running = trace.value(node.inputs[place])
    flat = running.reshape(-1)
    part = share.astype(flat.dtype)
    renewed = flat.at[: value.size].set(part * value + (1 - part) * flat[: value.size])
    _keep(trace, node, place, renewed.reshape(running.shape))


def _keep(trace: Trace, node: Node, place: int, value: Array) -> None:
    parameter = node.inputs[place]
    if isinstance(parameter, Parameter):
        trace.updates[parameter] = value.reshape(parameter.known_shape)


def _forward(trace: Trace, node: Node, inputs: list[Array]) -> Array:
    used = _used(node)
    data = _groups(trace, node, inputs[0], used)
    found = _statistics(trace, node, inputs, data)
    trace.context(node).saved = {"statistics": attrs.astuple(found)}
    factor = (found.inverse * _first(inputs[1], used))[:, None]
    normalized = (data - found.used_mean[:, None]) * factor + _first(inputs[2], used)[:, None]
    return normalized.astype(inputs[0].dtype).reshape(inputs[0].shape)


def _gradient(
    trace: Trace, node: Node, arriving: Array, inputs: list[Array], needs: Sequence[bool]
) -> Sequence[Array | None]:
    found = _Statistics(*trace.context(node).saved["statistics"])
    used = _used(node)
    data = _groups(trace, node, inputs[0], used)
    incoming = arriving.reshape(data.shape)
    to_scale = jnp.sum((data - found.used_mean[:, None]) * incoming, axis=(0, 2)) * found.inverse
    to_bias = jnp.sum(incoming, axis=(0, 2))
    to_data = None
    if needs[0]:
        scale = _first(inputs[1], used)
        factor = found.inverse * scale
        # Through the mean and through the variance of the minibatch.
        share = (1 - found.blend) / jnp.maximum(found.size, 1).astype(data.dtype)
        slope = share * scale * to_scale * found.own_inverse**3 / found.inverse
        through = (data - found.mean[:, None]) * slope[:, None] + (share * factor * to_bias)[:, None]
        own = jnp.where(found.blend < 1, through, jnp.zeros((), data.dtype))
        to_data = _kept(trace, node, incoming * factor[:, None] - own).reshape(inputs[0].shape)
    rest: list[Array | None] = [None] * (len(inputs) - 3)
    return [to_data, _placed(to_scale, inputs[1]), _placed(to_bias, inputs[2]), *rest]


def _placed(values: Array, parameter: Array) -> Array:
    """The gradient of a parameter of which the first numbers are used."""
    zeros = jnp.zeros(parameter.size, values.dtype)
    return zeros.at[: values.size].set(values).reshape(parameter.shape)


def _check(node: Node, value: Callable[[int], NDArray[Any]]) -> bool:
    """Make sure that there are running statistics, if their samples are counted; once they are, they stay."""
    if len(node.inputs) <= _COUNT:
        return True
    number = float(value(_COUNT).reshape(-1)[0])
    check_statistics(number, value(_VARIANCE))
    return number > 0


KERNELS = kernels("xla", ["BatchNormalization"], _forward, _gradient, in_loops=True, check=_check)
