"""The rules against their formulas, element by element."""

from __future__ import annotations

import math

import attrs
import numpy as np
import pytest
from cntk_learner_adam import AdaDelta, AdaDeltaOptions, Adam, AdaMax, AdamOptions, AdamW, AdamWOptions
from hypothesis import given
from hypothesis import strategies as st

from cntk_core.api import ConfigError, OptionError, Problems, UpdateContext
from cntk_core.api.builders import parse_text
from cntk_testing.learner_contract import run_rule, scalars_of

NUMBERS = st.one_of(st.just(0.0), st.floats(0.001, 50), st.floats(-50, -0.001))
ROWS = st.lists(st.lists(NUMBERS, min_size=2, max_size=2), min_size=1, max_size=6)
RATE = st.floats(0, 1)


def train(learner, gradients, rate, momentum=0.5):
    """Value and slots after some steps from (0.5, -1)."""
    value, slots = np.array([0.5, -1.0]), {slot.name: np.full(2, slot.initial) for slot in learner.slots}
    for number, row in enumerate(gradients, 1):
        scalars = scalars_of(learner, UpdateContext(samples=4, learning_rate=rate, momentum=momentum), number)
        value, slots = run_rule(learner, value, np.array(row), slots, scalars)
    return value, slots


def test_which_have_momentum():
    assert [kind().uses_momentum for kind in (Adam, AdamW, AdaMax, AdaDelta)] == [True, True, True, False]


@pytest.mark.parametrize("unit_gain", [True, False])
@pytest.mark.parametrize("decay", [None, 0.25])
@given(gradients=ROWS, rate=RATE)
def test_adam_and_adamw(decay, unit_gain, gradients, rate):
    shared = {"beta1": 0.8, "beta2": 0.9, "epsilon": 1e-3, "unit_gain": unit_gain}
    learner = Adam(AdamOptions(**shared)) if decay is None else AdamW(AdamWOptions(**shared, weight_decay=decay))
    value, slots = train(learner, gradients, rate)
    expected = []
    for i, w in enumerate([0.5, -1.0]):
        s = v = 0.0
        for t, row in enumerate(gradients, 1):
            g = row[i]
            s = 0.8 * s + (0.2 if unit_gain else 1.0) * g
            v = 0.9 * v + 0.1 * g * g
            w = w * (1 - rate * (decay or 0.0))
            w -= rate * math.sqrt(1 - 0.9**t) / (1 - 0.8**t) * s / (math.sqrt(v) + 1e-3)
        expected.append(w)
    np.testing.assert_allclose(value, expected, rtol=1e-8, atol=1e-10)
    assert set(slots) == {"smoothed_gradient", "smoothed_square"}


@given(gradients=ROWS, rate=RATE)
def test_adamax(gradients, rate):
    value, _ = train(AdaMax(AdamOptions(beta1=0.8, beta2=0.9, epsilon=1e-3)), gradients, rate)
    expected = []
    for i, w in enumerate([0.5, -1.0]):
        s = u = 0.0
        for t, row in enumerate(gradients, 1):
            s = 0.8 * s + 0.2 * row[i]
            u = max(0.9 * u, abs(row[i]))
            w -= rate / (1 - 0.8**t) * s / (u + 1e-3)
        expected.append(w)
    np.testing.assert_allclose(value, expected, rtol=1e-8, atol=1e-10)


@given(gradients=ROWS, rate=RATE)
def test_adadelta(gradients, rate):
    value, _ = train(AdaDelta(AdaDeltaOptions(rho=0.75, epsilon=1e-4)), gradients, rate)
    expected = []
    for i, w in enumerate([0.5, -1.0]):
        a = x = 0.0
        for row in gradients:
            a = 0.75 * a + 0.25 * row[i] ** 2
            d = math.sqrt(x + 1e-4) / math.sqrt(a + 1e-4) * row[i]
            x = 0.75 * x + 0.25 * d * d
            w -= rate * d
        expected.append(w)
    np.testing.assert_allclose(value, expected, rtol=1e-8, atol=1e-10)


def test_the_blocks_momentum_stands_for_beta1():
    gradients = [[1.0, -2.0], [0.5, 0.25], [-1.0, 3.0]]
    own, _ = train(Adam(AdamOptions(beta1=0.7)), gradients, 0.1)
    taken, _ = train(Adam(), gradients, 0.1, momentum=0.7)
    np.testing.assert_array_equal(own, taken)
    assert Adam().uses_momentum
    assert not Adam(AdamOptions(beta1=0.7)).uses_momentum


def test_a_last_minibatch_of_one_sample_makes_no_large_step():
    """Its momentum is nearly 1. The correction for the first zeros comes from the shares that were really used."""
    learner, state = Adam(), {"bias1": 1.0, "bias2": 1.0}
    steps = []
    for samples, momentum in ((256, 0.9),) * 10 + ((1, 0.9 ** (1 / 256)),):
        context = UpdateContext(samples, 0.1, momentum, state=state)
        state = learner.advance(context)
        steps.append(learner.scalars(attrs.evolve(context, state=state))["step"])
    assert steps[-1] == pytest.approx(steps[-2], rel=0.1)


def test_a_step_does_not_grow_with_the_minibatch():
    """The rate is that of one update: a gradient that is summed over 100 times as many samples steps as far."""
    small, _ = train(Adam(), [[1e-3, -2e-3]], 0.125)
    large, _ = train(Adam(), [[0.1, -0.2]], 0.125)
    np.testing.assert_allclose(small, large, rtol=1e-3)
    np.testing.assert_allclose(large, [0.375, -0.875], rtol=1e-3)


def read(learner, text):
    return learner.settings_from(parse_text(f"SGD=[ {text} ]", file="r.cntk").section("SGD"), "the SGD block")


def test_options_are_read_as_a_recipe_writes_them():
    text = "beta1=0.8 ; beta2=0.99 ; epsilon=1e-6 ; unitGain=false"
    chosen = AdamOptions(beta1=0.8, beta2=0.99, epsilon=1e-6, unit_gain=False)
    assert read(Adam, text) == read(AdaMax, text) == chosen
    assert read(AdamW, f"{text} ; weightDecay=0.1").weight_decay == 0.1
    assert read(Adam, "") == AdamOptions(beta1=None, beta2=0.999, epsilon=1e-8, unit_gain=True)
    assert read(AdamW, "").weight_decay == 0.01
    assert read(AdaDelta, "rho=0.9 ; epsilon=1e-6") == AdaDeltaOptions(rho=0.9, epsilon=1e-6)
    assert read(AdaDelta, "") == AdaDeltaOptions(rho=0.95, epsilon=1e-8)


@pytest.mark.parametrize(
    ("learner", "text", "message"),
    [
        (Adam, "beta1=1", "'beta1' must be in [0, 1), not 1"),
        (Adam, "beta2=-0.1", "'beta2' must be in [0, 1), not -0.1"),
        (AdaMax, "epsilon=0", "'epsilon' must be more than 0, not 0"),
        (AdamW, "weightDecay=-1", "'weightDecay' must not be negative, not -1"),
        (AdaDelta, "rho=1.5", "'rho' must be in [0, 1), not 1.5"),
        (AdaDelta, "epsilon=-1", "'epsilon' must be more than 0, not -1"),
    ],
)
def test_values_out_of_range(learner, text, message):
    with pytest.raises(ConfigError) as caught:
        read(learner, text)
    assert caught.value.message == message
    assert str(caught.value.where).startswith("r.cntk:1:")


def test_all_that_is_wrong_is_said_together():
    with pytest.raises(Problems) as caught:
        read(AdamW, "beta1=2 ; weightDekay=0.1")
    text = str(caught.value)
    assert "'beta1' must be in [0, 1), not 2" in text
    assert "the SGD block has no option 'weightDekay'; did you mean 'weightDecay'?" in text


def test_adam_has_no_weight_decay():
    with pytest.raises(OptionError, match="has no option 'weightDecay'"):
        read(Adam, "weightDecay=0.1")


def test_a_value_without_a_gradient_decays_with_adamw_alone():
    assert AdamW().everywhere
    assert not AdamW(AdamWOptions(weight_decay=0.0)).everywhere
    assert not Adam().everywhere
