"""Random values and random classes, drawn anew for each minibatch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from cntk_core.errors import ShapeError
from cntk_core.ops.define import declare_op, guess_first
from cntk_core.ops.geometry import Dims
from cntk_core.ops.reshaping import ints
from cntk_core.ops.shapes import Shape, elements, from_cntk, show


def _numbers(values: Iterable[float]) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


DISTRIBUTIONS = {"uniform": 2, "normal": 2, "gumbel": 2, "bernoulli": 1}
"""Distributions, and how many arguments each takes."""


@attrs.frozen
class RandomDistributionAttributes:
    """Attributes of RandomDistribution.

    Attributes:
        type: ``uniform`` (low, high), ``normal`` (mean, scale), ``gumbel`` (location, scale) or ``bernoulli`` (chance).
        args: the arguments of the distribution.
        dims: dimensions of the value in CNTK's order, if there is no input to be like.
    """

    type: str = "uniform"
    args: tuple[float, ...] = attrs.field(default=(0.0, 1.0), converter=_numbers)
    dims: Dims = attrs.field(default=(), converter=ints)


def _infer_distribution(shapes: Sequence[Shape], attributes: RandomDistributionAttributes) -> Shape:
    count = DISTRIBUTIONS.get(attributes.type.lower())
    if count is None:
        raise ShapeError(
            f"there is no distribution '{attributes.type}'", hint=f"Distributions: {', '.join(DISTRIBUTIONS)}"
        )
    if len(attributes.args) != count:
        raise ShapeError(f"the distribution {attributes.type} takes {count} arguments, not {len(attributes.args)}")
    return shapes[0] if shapes else from_cntk(attributes.dims)


RANDOM_DISTRIBUTION = declare_op(
    "RandomDistribution",
    "Random numbers of a distribution, as many as the input has or as the attributes say.",
    inputs=(0, 1),
    infer=_infer_distribution,
    guess=lambda shapes, attributes: guess_first(shapes, attributes) if shapes else from_cntk(attributes.dims),
    attributes=RandomDistributionAttributes,
    random=True,
    differentiable=(False,),
)


@attrs.frozen
class RandomSampleAttributes:
    """Attributes of RandomSample: how many classes are drawn, and whether one may be drawn again."""

    num_samples: int
    allow_duplicates: bool = False


def _classes(weights: Shape, attributes: RandomSampleAttributes) -> int:
    count = elements(weights)
    if attributes.num_samples < 1:
        raise ShapeError(f"at least 1 sample must be drawn, not {attributes.num_samples}")
    if not attributes.allow_duplicates and attributes.num_samples > count:
        raise ShapeError(
            f"{attributes.num_samples} different classes cannot be drawn from the {count} of {show(weights)}"
        )
    return count


def _infer_sample(shapes: Sequence[Shape], attributes: Any) -> Shape:
    return (attributes.num_samples, _classes(shapes[0], attributes))


def _infer_frequency(shapes: Sequence[Shape], attributes: Any) -> Shape:
    return (1, _classes(shapes[0], attributes))


RANDOM_SAMPLE = declare_op(
    "RandomSample",
    "Classes drawn by their weights, as one-hot columns.",
    infer=_infer_sample,
    attributes=RandomSampleAttributes,
    random=True,
    reduces_frames=True,
    differentiable=(False,),
)
RANDOM_SAMPLE_INCLUSION_FREQUENCY = declare_op(
    "RandomSampleInclusionFrequency",
    "How often RandomSample is expected to draw each class.",
    infer=_infer_frequency,
    attributes=RandomSampleAttributes,
    random=True,
    reduces_frames=True,
    differentiable=(False,),
)

OPS = (RANDOM_DISTRIBUTION, RANDOM_SAMPLE, RANDOM_SAMPLE_INCLUSION_FREQUENCY)
