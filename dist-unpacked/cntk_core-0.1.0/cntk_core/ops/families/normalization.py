"""Batch normalization and local response normalization.

Batch normalization: S. Ioffe and C. Szegedy, ICML 2015; with running statistics that a minibatch enters with a share,
and that take part in the normalization of training minibatches with another.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np

from cntk_core.errors import ShapeError
from cntk_core.ops.families.geometry import is_legacy
from cntk_core.ops.language.define import define_op, first_shape, guess_first
from cntk_core.ops.language.framing import sample_shape, samples
from cntk_core.ops.language.op import Array, OpContext
from cntk_core.ops.language.placement import stays
from cntk_core.ops.language.shapes import Shape, elements, show
from cntk_core.ops.language.traits import BY_ROWS, Traits


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
    """How many means there should be: one for each channel (CNTK's last axis) if spatial, else for each element."""
    return data[0] if attributes.spatial and data else elements(data)


def statistics_used(data: Shape, scale: Shape, attributes: BatchNormalizationAttributes) -> int:
    """How many means are used: as many as CNTK's first dimension of the scale says.

    The original takes the parameters as matrices and reads the first column. With ``[C]`` or ``[C x 1]`` that is all
    of them, with ``[1 x 1 x C]`` a single number for all channels. Its other engine reads all; that is
    ``use_cntk_engine`` off.
    """
    size = statistics_size(data, attributes)
    return scale[-1] if attributes.use_cntk_engine and scale and size % scale[-1] == 0 else size


def _remark(shapes: Sequence[Shape], attributes: BatchNormalizationAttributes) -> str | None:
    """Say so where fewer means are used than there are."""
    data, scale = shapes[:2]
    size, used = statistics_size(data, attributes), statistics_used(data, scale, attributes)
    if used == size:
        return None
    return (
        f"of the {size} numbers of a scale {show(scale)} only the first {used} {'is' if used == 1 else 'are'} used, as "
        f"CNTK does; give scale, bias, mean and variance the shape [{size}], or useCntkEngine=false"
    )


def _infer_normalization(shapes: Sequence[Shape], attributes: BatchNormalizationAttributes) -> Shape:
    data = shapes[0]
    if not data:
        raise ShapeError("a single number has no elements to normalize")
    if attributes.spatial and is_legacy(attributes.image_layout):
        raise ShapeError("spatial batch normalization takes images in the layout CHW only")
    if attributes.blend_time_constant < 0:
        raise ShapeError(f"blendTimeConstant must not be negative, as {attributes.blend_time_constant:g} is")
    size = statistics_size(data, attributes)
    problems = [
        f"the {name} {show(shape)} has {elements(shape)} elements, not {size}"
        for name, shape in zip(("scale", "bias", "mean", "variance"), shapes[1:5], strict=False)
        if elements(shape) != size
    ]
    if len(shapes) > 5 and elements(shapes[5]) != 1:
        problems.append(f"the sample count must be a single number, not {show(shapes[5])}")
    if problems:
        raise ShapeError("; ".join(problems))
    return data


def _complete_normalization(shapes: Sequence[Shape], attributes: BatchNormalizationAttributes) -> Sequence[Shape]:
    """Fill in the one dimension 0 of scale, bias and statistics: CNTK's [0 x 1] or [0]."""
    size = statistics_size(shapes[0], attributes)

    def filled(shape: Shape) -> Shape:
        if shape.count(0) == 1 and elements([dim or 1 for dim in shape]) == 1:
            return tuple(dim or size for dim in shape)
        if shape and all(dim == 0 for dim in shape):
            return (*(1,) * (len(shape) - 1), size)
        return shape

    return [shapes[0], *(filled(shape) for shape in shapes[1:5]), *shapes[5:]]


def groups(value: Array, framed: bool, count: int) -> Array:
    """Return data as ``(frames, count, elements of each)``."""
    rows = samples(value, framed)
    return rows.reshape(len(rows), count, rows.shape[1] // count)


def _used(inputs: Sequence[Array], attributes: BatchNormalizationAttributes, context: OpContext) -> int:
    return statistics_used(sample_shape(inputs[0], context.framed[0]), inputs[1].shape, attributes)


def _first(parameter: Array, count: int) -> Array:
    """The numbers of a parameter that are used."""
    return parameter.reshape(-1)[:count]


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
class Statistics:
    """What a minibatch was normalized with: minibatch mean and variance, blended mean and inverse deviation, and
    the inverse deviation of the minibatch alone.
    """

    mean: Array
    variance: Array
    used_mean: Array
    inverse: Array
    own_inverse: Array
    blend: float

    def slopes(self, scale: Array, to_scale: Array, to_bias: Array, size: int) -> tuple[Array, Array, Array]:
        """Return ``(factor, slope, shift)``: the gradient by x is ``g * factor - (x - mean) * slope - shift``.

        Args:
            scale: the numbers that normalized data are multiplied with.
            to_scale, to_bias: the gradients by scale and bias.
            size: how many numbers each mean was taken of.
        """
        factor = self.inverse * scale
        # Through the mean and through the variance of the minibatch.
        share = (1.0 - self.blend) / size
        return factor, share * scale * to_scale * self.own_inverse**3 / self.inverse, share * factor * to_bias


def _count(inputs: Sequence[Array]) -> float | None:
    return float(inputs[5].reshape(-1)[0]) if len(inputs) > 5 else None


def settle_statistics(
    moments: Callable[[], tuple[Array, Array]],
    inputs: Sequence[Array],
    attributes: BatchNormalizationAttributes,
    context: OpContext,
    size: int,
    xp: Any = np,
) -> Statistics:
    """Return what a minibatch is to be normalized with; in training, update the running statistics.

    Args:
        moments: finds mean and variance of the minibatch; called in training only.
        inputs: x, scale, bias, running mean and variance [, sample count].
        attributes: of the node.
        context: tells whether it trains, and the samples.
        size: how many numbers each mean is taken of; none have no statistics.
        xp: the array module.
    """
    used = statistics_used(sample_shape(inputs[0], context.framed[0]), inputs[1].shape, attributes)
    epsilon, count = attributes.epsilon, _count(inputs)
    run_mean, run_variance = _first(inputs[3], used), _first(inputs[4], used)
    if not context.training or not size:
        if not context.training:
            check_statistics(count, run_variance)
        inverse = 1.0 / xp.sqrt(run_variance + epsilon)
        return Statistics(run_mean, run_variance, run_mean, inverse, inverse, 1.0)
    mean, variance = moments()
    share = update_share(attributes, context.frames, count)
    blend = blend_share(attributes, context.frames, count)
    own_inverse = 1.0 / xp.sqrt(variance + epsilon)
    used_mean, inverse = mean, own_inverse
    if blend > 0.0:
        used_mean = blend * run_mean + (1.0 - blend) * mean
        inverse = blend / xp.sqrt(run_variance + epsilon) + (1.0 - blend) * own_inverse
    unbiased = variance * (size / (size - 1)) if size > 1 else xp.zeros_like(variance)
    _renew(inputs[3], share, mean)
    _renew(inputs[4], share, unbiased)
    if len(inputs) > 5 and (share != 0.0 or blend != 1.0):
        inputs[5][...] += context.frames
    return Statistics(mean, variance, used_mean, inverse, own_inverse, blend)


def check_statistics(count: float | None, variance: Array) -> None:
    """Warn if there are no running statistics to normalize with; as in the original, it is done all the same.

    Args:
        count: how many samples they have seen; None if nobody counts.
        variance: the running one.
    """
    if count == 0 and not variance.any():
        told = "batch normalization has no statistics yet, its sample count is 0: train the network first"
        warnings.warn(told, stacklevel=2)


def _renew(running: Array, share: float, value: Array) -> None:
    """Let the statistics of a minibatch enter the first numbers of the running ones."""
    place: Any = ... if running.shape == value.shape else np.unravel_index(np.arange(value.size), running.shape)
    running[place] = share * value + (1.0 - share) * running[place]


def _normalization_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: BatchNormalizationAttributes,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    found: Statistics = context.saved["statistics"]
    used = _used(inputs, attributes, context)
    data = groups(inputs[0], context.framed[0], used)
    incoming = gradient.reshape(data.shape)
    work = data - found.used_mean[:, None]
    work *= incoming
    to_scale = xp.sum(work, axis=(0, 2)) * found.inverse
    to_bias = xp.sum(incoming, axis=(0, 2))
    to_data = None
    if needs[0]:
        size = data.shape[0] * data.shape[2]
        factor, slope, shift = found.slopes(_first(inputs[1], used), to_scale, to_bias, max(1, size))
        to_data = incoming * factor[:, None]
        if found.blend < 1.0:
            xp.subtract(data, found.mean[:, None], out=work)
            work *= slope[:, None]
            work += shift[:, None]
            to_data -= work
        to_data = to_data.reshape(inputs[0].shape)
    rest: list[Array | None] = [None] * (len(inputs) - 3)
    return [to_data, _placed(xp, to_scale, inputs[1]), _placed(xp, to_bias, inputs[2]), *rest]


def _placed(xp: Any, values: Array, parameter: Array) -> Array:
    """The gradient of a parameter of which the first numbers are used."""
    if values.size == parameter.size:
        return values.reshape(parameter.shape)
    return xp.concatenate([values, xp.zeros(parameter.size - values.size, values.dtype)]).reshape(parameter.shape)


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
    placement=stays,
    remark=_remark,
    traits=Traits(ends_by_element=True),
)
def BATCH_NORMALIZATION(
    xp: Any, inputs: Sequence[Array], attributes: BatchNormalizationAttributes, context: OpContext
) -> Array:
    """(x - mean) / deviation * scale + bias; inputs: x, scale, bias, running mean and variance [, sample count]."""
    used = _used(inputs, attributes, context)
    data = groups(inputs[0], context.framed[0], used)

    def moments() -> tuple[Array, Array]:
        mean = xp.mean(data, axis=(0, 2))
        centred = data - mean[:, None]
        centred *= centred
        return mean, xp.mean(centred, axis=(0, 2))

    found = settle_statistics(moments, inputs, attributes, context, data.shape[0] * data.shape[2], xp)
    context.saved["statistics"] = found
    normalized = data - found.used_mean[:, None]
    normalized *= (found.inverse * _first(inputs[1], used))[:, None]
    normalized += _first(inputs[2], used)[:, None]
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
    place = xp.arange(channels)
    return sums[:, xp.minimum(place + radius + 1, channels)] - sums[:, xp.maximum(place - radius, 0)]


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
    data = groups(inputs[0], framed, sample_shape(inputs[0], framed)[0])
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
    traits=attrs.evolve(BY_ROWS, keeps_order=True),
)
def LOCAL_RESPONSE_NORMALIZATION(
    xp: Any, inputs: Sequence[Array], attributes: LocalResponseNormalizationAttributes, context: OpContext
) -> Array:
    """Each element divided by a power of the sum of squares over neighbouring channels (CNTK's last axis)."""
    framed = context.framed[0]
    data = groups(inputs[0], framed, sample_shape(inputs[0], framed)[0])
    return (data * _divisor(xp, data, attributes) ** -attributes.beta).reshape(inputs[0].shape)


OPS = (BATCH_NORMALIZATION, LOCAL_RESPONSE_NORMALIZATION)
