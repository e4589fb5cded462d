"""Random values and random classes, drawn anew for each minibatch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.errors import DataError, ShapeError
from cntk_core.ops.families.geometry import Dims
from cntk_core.ops.families.reshaping import ints
from cntk_core.ops.language.define import define_op
from cntk_core.ops.language.op import LATER, Array, OpContext
from cntk_core.ops.language.shapes import Shape, elements, from_cntk, show


def _numbers(values: Iterable[float]) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


EXPERIMENTS = 10
"""Test draws for the expected number of draws."""

SMALLEST_CHANCE = 1e-30
"""Chances below this count as this where a logarithm is taken."""

DISTRIBUTIONS = {"uniform": 2, "normal": 2, "gumbel": 2, "bernoulli": 1}
"""Distributions, and how many arguments each takes."""


@attrs.frozen
class RandomDistributionAttributes:
    """Attributes of RandomDistribution.

    Attributes:
        type: ``uniform`` (low, high), ``normal`` (mean, scale), ``gumbel`` (location, scale) or ``bernoulli`` (chance).
        args: the arguments of the distribution.
        dims: dimensions of the value in CNTK's order, if there is no input to be like.
        seed: keys the numbers, alike in all nodes with it; below 0 each node draws others, by the run's seed.
    """

    type: str = "uniform"
    args: tuple[float, ...] = attrs.field(default=(0.0, 1.0), converter=_numbers)
    dims: Dims = attrs.field(default=(), converter=ints)
    seed: int = attrs.field(default=-1, metadata=LATER)


def _infer_distribution(shapes: Sequence[Shape], attributes: RandomDistributionAttributes) -> Shape:
    count = DISTRIBUTIONS.get(attributes.type.lower())
    if count is None:
        raise ShapeError(
            f"there is no distribution '{attributes.type}'", hint=f"Distributions: {', '.join(DISTRIBUTIONS)}"
        )
    if len(attributes.args) != count:
        raise ShapeError(f"the distribution {attributes.type} takes {count} arguments, not {len(attributes.args)}")
    return shapes[0] if shapes else from_cntk(attributes.dims)


def _guess_distribution(shapes: Sequence[Shape | None], attributes: RandomDistributionAttributes) -> Shape | None:
    return shapes[0] if shapes else from_cntk(attributes.dims)


@define_op(
    "RandomDistribution",
    inputs=(0, 1),
    infer=_infer_distribution,
    guess=_guess_distribution,
    attributes=RandomDistributionAttributes,
    random=True,
)
def RANDOM_DISTRIBUTION(
    xp: Any, inputs: Sequence[Array], attributes: RandomDistributionAttributes, context: OpContext
) -> Array:
    """Random numbers of a distribution, as many as the input has or as the attributes say."""
    shape = inputs[0].shape if inputs else from_cntk(attributes.dims)
    dtype = inputs[0].dtype if inputs else np.float64
    generator, kind, args = context.random(), attributes.type.lower(), attributes.args
    # Drawn in single precision, so that every engine and precision draws the same numbers.
    if kind == "normal":
        drawn = args[0] + args[1] * generator.standard_normal(shape, dtype=np.float32).astype(dtype)
    else:
        chances = generator.random(shape, dtype=np.float32).astype(dtype)
        if kind == "uniform":
            drawn = args[0] + (args[1] - args[0]) * chances
        elif kind == "gumbel":
            drawn = args[0] - args[1] * np.log(-np.log(np.maximum(chances, SMALLEST_CHANCE)))
        else:
            drawn = (chances < args[0]).astype(dtype)
    return xp.asarray(drawn, dtype=dtype)


@attrs.frozen
class RandomSampleAttributes:
    """Attributes of RandomSample: how many classes are drawn, whether one may be drawn again, and the node's seed."""

    num_samples: int
    allow_duplicates: bool = False
    seed: int = attrs.field(default=-1, metadata=LATER)


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


def _sums(weights: Array) -> NDArray[np.float64]:
    """Sums of the weights up to each class.

    Raises:
        DataError: a weight is negative, or too few are positive.
    """
    values = np.asarray(weights, np.float64).reshape(-1)
    if (values < 0).any():
        raise DataError(f"the weight of a class to be sampled is negative: {values.min():g}")
    return np.cumsum(values)


def _drawn(
    sums: NDArray[np.float64], attributes: RandomSampleAttributes, generator: np.random.Generator
) -> tuple[list[int], int]:
    """Classes drawn by chance, and how many draws it took.

    Raises:
        DataError: there are fewer classes with a weight than are to be drawn.
    """
    count = attributes.num_samples
    possible = int(np.count_nonzero(np.diff(sums, prepend=0.0)))
    if possible < (1 if attributes.allow_duplicates else count):
        raise DataError(f"{count} classes are to be sampled, but only {possible} have a weight")
    if attributes.allow_duplicates:
        return np.searchsorted(sums, generator.uniform(0, sums[-1], count), side="right").tolist(), count
    found: dict[int, None] = {}
    tries = 0
    while len(found) < count:
        # In blocks, because rare classes need many draws.
        for index in np.searchsorted(sums, generator.uniform(0, sums[-1], 2 * count), side="right").tolist():
            tries += 1
            found[index] = None
            if len(found) == count:
                break
    return list(found), tries


@define_op("RandomSample", infer=_infer_sample, attributes=RandomSampleAttributes, random=True, reduces_frames=True)
def RANDOM_SAMPLE(xp: Any, inputs: Sequence[Array], attributes: RandomSampleAttributes, context: OpContext) -> Array:
    """Classes drawn by their weights, as one-hot columns."""
    sums = _sums(inputs[0])
    classes, _ = _drawn(sums, attributes, context.random())
    result = xp.zeros((attributes.num_samples, len(sums)), dtype=inputs[0].dtype)
    result[np.arange(attributes.num_samples), classes] = 1.0
    return result


@define_op(
    "RandomSampleInclusionFrequency",
    infer=_infer_frequency,
    attributes=RandomSampleAttributes,
    random=True,
    reduces_frames=True,
)
def RANDOM_SAMPLE_INCLUSION_FREQUENCY(
    xp: Any, inputs: Sequence[Array], attributes: RandomSampleAttributes, context: OpContext
) -> Array:
    """How often RandomSample is expected to draw each class."""
    sums = _sums(inputs[0])
    chances = np.diff(sums, prepend=0.0) / sums[-1]
    if attributes.allow_duplicates:
        expected = chances * attributes.num_samples
    else:
        generator = context.random()
        tries = np.mean([_drawn(sums, attributes, generator)[1] for _ in range(EXPERIMENTS)])
        with np.errstate(divide="ignore"):
            expected = -np.expm1(tries * np.log1p(-chances))
    return xp.asarray(expected.reshape(1, -1), dtype=inputs[0].dtype)


OPS = (RANDOM_DISTRIBUTION, RANDOM_SAMPLE, RANDOM_SAMPLE_INCLUSION_FREQUENCY)
