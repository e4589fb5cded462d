"""Gaussian mixtures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cntk_core.errors import ShapeError
from cntk_core.ops.define import declare_op
from cntk_core.ops.shapes import Shape, elements, show


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


GMM_LOG_LIKELIHOOD = declare_op(
    "GMMLogLikelihood",
    "Log likelihood under a mixture of Gaussians; inputs: unnormalized log priors, means, log deviations, data.",
    inputs=4,
    infer=_infer_mixture,
    aliases={"ndl": ("GMMLL",)},
)

OPS = (GMM_LOG_LIKELIHOOD,)
