"""The rule against its formulas, element by element."""

from __future__ import annotations

import math

import attrs
import numpy as np
import pytest
from cntk_learner_fsadagrad import FSAdaGrad, FSAdaGradOptions
from hypothesis import given
from hypothesis import strategies as st

from cntk_core.api import ConfigError, UpdateContext
from cntk_core.api.builders import parse_text
from cntk_testing.learner_contract import run_rule, scalars_of

NUMBERS = st.one_of(st.just(0.0), st.floats(0.001, 50), st.floats(-50, -0.001))
STEPS = st.lists(
    st.tuples(st.lists(NUMBERS, min_size=2, max_size=2), st.integers(1, 40), st.sampled_from([0.0, 0.5, 0.9])),
    min_size=1,
    max_size=6,
)


@given(steps=STEPS, rate=st.floats(0, 1), target=st.sampled_from([1.0, 0.0025]))
def test_formula(steps, rate, target):
    """Momentum may begin and end between steps, and minibatches differ in size."""
    learner = FSAdaGrad(FSAdaGradOptions(variance_time_constant=50.0, fs_adagrad_target_av_denom=target))
    value, slots = np.array([0.5, -1.0]), {slot.name: np.zeros(2) for slot in learner.slots}
    state = {"smoothed_count": 0.0}
    weights, variances, smoothed, count = value.tolist(), [0.0, 0.0], [0.0, 0.0], 0.0
    for row, samples, momentum in steps:
        context = UpdateContext(samples, rate, momentum, state=state)
        state = learner.advance(context)
        scalars = learner.scalars(attrs.evolve(context, state=state))
        value, slots = run_rule(learner, value, np.array(row), slots, scalars)

        kept = math.exp(-samples / 50.0)
        count = kept * count + (1 - kept) * samples
        for i, g in enumerate(row):
            variances[i] = kept * variances[i] + (1 - kept) * g * g
            if variances[i]:
                g *= min(10.0, target * math.sqrt(count) / math.sqrt(variances[i]))
            if momentum > 0:
                g = smoothed[i] = momentum * smoothed[i] + (1 - momentum) * g
            weights[i] -= rate * g
    np.testing.assert_allclose(value, weights, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(slots["smoothed_variance"], variances, rtol=1e-9)
    np.testing.assert_allclose(slots["smoothed_gradient"], smoothed, rtol=1e-9, atol=1e-12)


def test_the_count_comes_to_the_size_of_minibatches_that_are_all_alike():
    learner = FSAdaGrad(FSAdaGradOptions(variance_time_constant=100.0))
    state = {"smoothed_count": 0.0}
    for _ in range(200):
        state = learner.advance(UpdateContext(samples=25, learning_rate=0.1, momentum=0.0, state=state))
    assert state["smoothed_count"] == pytest.approx(25.0)


def test_shares_of_the_variance_have_the_precision_of_the_parameters():
    """As in the original: 1 - exp(-8/720000) is 1.1111e-5, which single precision takes from 0.9999889."""
    learner = FSAdaGrad()
    double = scalars_of(learner, UpdateContext(samples=8, learning_rate=0.1, momentum=0.0))
    single = scalars_of(learner, UpdateContext(samples=8, learning_rate=0.1, momentum=0.0, dtype="float32"))
    assert double["fresh"] == pytest.approx(1.1111e-5, rel=1e-4)
    assert single["fresh"] == float(np.float32(1) - np.float32(math.exp(-8 / 720000)))
    assert single["scale"] == double["scale"]


def read(text):
    return FSAdaGrad.settings_from(parse_text(f"SGD=[ {text} ]", file="r.cntk").section("SGD"), "the SGD block")


def test_options_are_read_as_a_recipe_writes_them():
    assert read("varianceTimeConstant=200 ; fsAdagradTargetAvDenom=0.0025") == FSAdaGradOptions(
        variance_time_constant=200.0, fs_adagrad_target_av_denom=0.0025
    )
    assert read("") == FSAdaGradOptions(variance_time_constant=720000.0, fs_adagrad_target_av_denom=1.0)


@pytest.mark.parametrize("key", ["varianceTimeConstant", "fsAdagradTargetAvDenom"])
@pytest.mark.parametrize("value", ["0", "-1"])
def test_values_out_of_range(key, value):
    with pytest.raises(ConfigError) as caught:
        read(f"{key}={value}")
    assert caught.value.message == f"'{key}' must be more than 0, not {value}"
    assert str(caught.value.where).startswith("r.cntk:1:")
