"""Random values, and classes drawn by their weights."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cntk_core.errors import DataError, ShapeError
from cntk_core.ops.families.sampling import (
    EXPERIMENTS,
    RANDOM_DISTRIBUTION,
    RANDOM_SAMPLE,
    RANDOM_SAMPLE_INCLUSION_FREQUENCY,
    RandomDistributionAttributes,
    RandomSampleAttributes,
)
from cntk_core.ops.language.framing import run_forward
from cntk_core.ops.language.op import OpContext

WEIGHTS = np.array([[1.0, 0.0, 3.0, 4.0, 2.0]])
COUNT = 20000


def forward(op, inputs, attributes, seed=3):
    context = OpContext((False,) * len(inputs), 1, random=lambda: np.random.default_rng(seed))
    return run_forward(op, np, inputs, attributes, context)


@pytest.mark.parametrize(
    ("kind", "args", "mean", "deviation", "low", "high"),
    [
        ("uniform", (2.0, 5.0), 3.5, 3 / math.sqrt(12), 2.0, 5.0),
        ("Normal", (2.0, 3.0), 2.0, 3.0, -math.inf, math.inf),
        ("gumbel", (1.0, 2.0), 1 + 2 * np.euler_gamma, 2 * math.pi / math.sqrt(6), -8.0, math.inf),
        ("bernoulli", (0.3,), 0.3, math.sqrt(0.21), 0.0, 1.0),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_distributions(kind, args, mean, deviation, low, high, dtype):
    found = forward(RANDOM_DISTRIBUTION, [np.zeros((2, COUNT), dtype)], RandomDistributionAttributes(kind, args))
    assert found.shape == (2, COUNT)
    assert found.dtype == dtype
    assert low <= found.min() < found.max() <= high
    assert found.mean() == pytest.approx(mean, abs=0.03 * deviation)
    assert found.std() == pytest.approx(deviation, rel=0.02)
    if kind == "bernoulli":
        assert set(np.unique(found)) == {0.0, 1.0}


def test_what_has_no_chance_never_comes():
    class Lowest:
        """A generator of the smallest number that there is."""

        def random(self, shape, dtype):
            return np.zeros(shape, dtype)

    context = OpContext((False,), 1, random=Lowest)
    for chance, expected in ((0.0, 0.0), (1e-9, 1.0)):
        attributes = RandomDistributionAttributes("bernoulli", (chance,))
        assert run_forward(RANDOM_DISTRIBUTION, np, [np.zeros(3)], attributes, context).tolist() == [expected] * 3


def test_values_without_an_input_have_the_dimensions_that_are_given():
    found = forward(RANDOM_DISTRIBUTION, [], RandomDistributionAttributes(dims=(2, 3)))
    assert found.shape == (3, 2)
    assert found.dtype == np.float64
    assert RANDOM_DISTRIBUTION.infer([], RandomDistributionAttributes(dims=(2, 3))) == (3, 2)


def test_the_default_is_uniform_between_0_and_1():
    found = forward(RANDOM_DISTRIBUTION, [np.zeros((1, COUNT))], RandomDistributionAttributes())
    assert 0.0 <= found.min() < 0.01
    assert 0.99 < found.max() < 1.0


@pytest.mark.parametrize("again", [False, True])
def test_classes_are_drawn_by_their_weights(again):
    attributes = RandomSampleAttributes(3, again)
    drawn = np.array([forward(RANDOM_SAMPLE, [WEIGHTS], attributes, seed) for seed in range(600)])
    assert drawn.shape == (600, 3, 5)
    np.testing.assert_array_equal(drawn.sum(axis=2), 1.0)
    counts = drawn.sum(axis=1)
    assert (counts.max() > 1) == again
    frequency = forward(RANDOM_SAMPLE_INCLUSION_FREQUENCY, [WEIGHTS], attributes)
    assert frequency.shape == (1, 5)
    np.testing.assert_allclose(counts.mean(axis=0), frequency[0], atol=0.2)
    if again:
        np.testing.assert_allclose(frequency, 3 * WEIGHTS / 10, rtol=1e-12)


def test_the_first_of_different_classes_is_drawn_by_its_weight():
    first = [forward(RANDOM_SAMPLE, [WEIGHTS], RandomSampleAttributes(2), seed)[0] for seed in range(1000)]
    np.testing.assert_allclose(np.mean(first, axis=0), WEIGHTS[0] / 10, atol=0.04)


def test_the_frequency_is_reckoned_from_several_experiments():
    """Until three different classes have come, the draws are counted; from the mean follows how often each is there."""
    generator, tries = np.random.default_rng(3), []
    for _ in range(EXPERIMENTS):
        found, count = set(), 0
        while len(found) < 3:
            for place in generator.uniform(0, 10, 6):
                found.add(int(np.searchsorted(np.cumsum(WEIGHTS), place, side="right")))
                count += 1
                if len(found) == 3:
                    break
        tries.append(count)
    expected = 1 - (1 - WEIGHTS / 10) ** np.mean(tries)
    frequency = forward(RANDOM_SAMPLE_INCLUSION_FREQUENCY, [WEIGHTS], RandomSampleAttributes(3))
    np.testing.assert_allclose(frequency, expected, rtol=1e-12)


def test_all_classes_of_some_weight():
    attributes = RandomSampleAttributes(4)
    np.testing.assert_array_equal(forward(RANDOM_SAMPLE, [WEIGHTS], attributes).sum(axis=0), [1, 0, 1, 1, 1])
    with pytest.raises(DataError) as error:
        forward(RANDOM_SAMPLE, [WEIGHTS], RandomSampleAttributes(5))
    assert error.value.message == "5 classes are to be sampled, but only 4 have a weight"
    with pytest.raises(DataError) as error:
        forward(RANDOM_SAMPLE, [0 * WEIGHTS], RandomSampleAttributes(5, True))
    assert error.value.message == "5 classes are to be sampled, but only 0 have a weight"
    with pytest.raises(DataError) as error:
        forward(RANDOM_SAMPLE, [2 - WEIGHTS], RandomSampleAttributes(1))
    assert error.value.message == "the weight of a class to be sampled is negative: -2"


@pytest.mark.parametrize(
    ("attributes", "shape", "message"),
    [
        (RandomSampleAttributes(5), (5, 5), None),
        (RandomSampleAttributes(1), (1, 5), None),
        (RandomSampleAttributes(6, True), (6, 5), None),
        (RandomSampleAttributes(6), None, "6 different classes cannot be drawn from the 5 of [5 x 1]"),
        (RandomSampleAttributes(0, True), None, "at least 1 sample must be drawn, not 0"),
    ],
)
def test_shapes_of_samples(attributes, shape, message):
    if message is None:
        assert RANDOM_SAMPLE.infer([(1, 5)], attributes) == shape
        assert RANDOM_SAMPLE_INCLUSION_FREQUENCY.infer([(1, 5)], attributes) == (1, 5)
        return
    with pytest.raises(ShapeError) as error:
        RANDOM_SAMPLE.infer([(1, 5)], attributes)
    assert error.value.message == message
