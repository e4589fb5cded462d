"""Gaussian mixtures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import attrs

from cntk_core.errors import ShapeError
from cntk_core.ops.families.softmax import log_softmax
from cntk_core.ops.language.define import define_op
from cntk_core.ops.language.framing import flat_rows, samples
from cntk_core.ops.language.op import Array, OpContext
from cntk_core.ops.language.shapes import Shape, elements, show
from cntk_core.ops.language.traits import BY_ROWS


def _infer_mixture(shapes: Sequence[Shape], attributes: Any) -> Shape:
    prior, mean, deviation, data = shapes
    count = elements(prior)
    if elements(deviation) != count:
        raise ShapeError(f"the log deviations {show(deviation)} must have a number for each of the {count} components")
    if elements(mean) != count * elements(data):
        raise ShapeError(
            f"the means {show(mean)} must have {elements(data)} numbers for each of the {count} components"
        )
    return (1,)


@attrs.frozen
class _Parts:
    """A mixture at each frame: ``(frames, components, size)`` distances, inverse variances, chances of components."""

    distances: Array
    precision: Array
    chances: Array
    logs: Array
    prior: Array


def _parts(xp: Any, inputs: Sequence[Array], context: OpContext) -> _Parts:
    prior, mean, deviation, data = (samples(value, has) for value, has in zip(inputs, context.framed, strict=True))
    count, size = prior.shape[1], data.shape[1]
    distances = data[:, None, :] - mean.reshape(-1, count, size)
    precision = xp.exp(-2.0 * deviation)
    squares = xp.sum(distances * distances, axis=2)
    logs = log_softmax(xp, prior) - 0.5 * squares * precision - size * (deviation + 0.5 * math.log(2.0 * math.pi))
    largest = xp.max(logs, axis=1, keepdims=True)
    total = xp.log(xp.sum(xp.exp(logs - largest), axis=1, keepdims=True)) + largest
    return _Parts(distances, precision, xp.exp(logs - total), total, xp.exp(log_softmax(xp, prior)))


def _mixture_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: Any,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    parts = _parts(xp, inputs, context)
    incoming = gradient.reshape(-1, 1)
    weight = incoming * parts.chances
    squares = xp.sum(parts.distances * parts.distances, axis=2)
    size = parts.distances.shape[2]
    to_mean = (weight * parts.precision)[:, :, None] * parts.distances
    results = (
        weight - incoming * parts.prior,
        flat_rows(to_mean),
        weight * (squares * parts.precision - size),
        -xp.sum(to_mean, axis=1),
    )
    return [
        (result if framed else xp.sum(result, axis=0)).reshape(value.shape)
        for result, framed, value in zip(results, context.framed, inputs, strict=True)
    ]


@define_op(
    "GMMLogLikelihood",
    inputs=4,
    infer=_infer_mixture,
    gradient=_mixture_gradient,
    reads_output=False,
    aliases={"ndl": ("GMMLL",)},
    traits=BY_ROWS,
)
def GMM_LOG_LIKELIHOOD(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
    """Log likelihood under a mixture of Gaussians; inputs: unnormalized log priors, means, log deviations, data."""
    logs = _parts(xp, inputs, context).logs
    return logs if any(context.framed) else logs.reshape(1)


OPS = (GMM_LOG_LIKELIHOOD,)
