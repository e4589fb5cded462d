"""The rule against its formulas, element by element."""

from __future__ import annotations

import math

import numpy as np
import pytest
from cntk_learner_rmsprop import RmsProp, RmsPropOptions
from hypothesis import given
from hypothesis import strategies as st

from cntk_core.api import ConfigError, UpdateContext
from cntk_core.api.builders import parse_text
from cntk_testing.learner_contract import run_rule, scalars_of

NUMBERS = st.floats(-50, 50)
ROWS = st.lists(st.lists(NUMBERS, min_size=3, max_size=3), min_size=1, max_size=6)


def fresh(learner, size=3):
    return {slot.name: np.full(size, slot.initial) for slot in learner.slots}


def sign(number):
    return (number > 0) - (number < 0)


@pytest.mark.parametrize("normalized", [True, False])
@given(gradients=ROWS, rate=st.floats(0, 1))
def test_formula(normalized, gradients, rate):
    chosen = RmsPropOptions(
        rms_gamma=0.75,
        rms_wgt_inc=1.5,
        rms_wgt_dec=0.5,
        rms_wgt_max=0.4,
        rms_wgt_min=0.05,
        norm_with_ave_multiplier=normalized,
    )
    learner = RmsProp(chosen)
    value, slots = np.array([0.5, -1.0, 2.0]), fresh(learner)
    weights, squares, signs, steps = value.tolist(), [g * g for g in gradients[0]], [0] * 3, [0.02] * 3
    for row in gradients:
        scalars = scalars_of(learner, UpdateContext(samples=4, learning_rate=rate, momentum=0.9))
        value, slots = run_rule(learner, value, np.array(row), slots, scalars)
        for i, g in enumerate(row):
            squares[i] = 0.75 * squares[i] + 0.25 * g * g
            steps[i] = min(steps[i] * 1.5, 0.4) if signs[i] * sign(g) > 0 else max(steps[i] * 0.5, 0.05)
            signs[i] = sign(g)
        multipliers = [s / math.sqrt(a + 1e-6) for s, a in zip(steps, squares, strict=True)]
        mean = sum(multipliers) / 3 if normalized else 1.0
        weights = [w - rate / mean * k * g for w, k, g in zip(weights, multipliers, row, strict=True)]
    np.testing.assert_allclose(value, weights, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(slots["mean_square"], squares, rtol=1e-9)
    np.testing.assert_allclose(slots["step_size"], steps, rtol=1e-9)
    np.testing.assert_array_equal(slots["last_sign"], signs)


def test_steps_grow_to_the_largest_and_shrink_to_the_smallest():
    learner = RmsProp()
    scalars = scalars_of(learner, UpdateContext(samples=4, learning_rate=0.1, momentum=0.0))
    slots, value = fresh(learner, 2), np.zeros(2)
    for number in range(40):
        value, slots = run_rule(learner, value, np.array([1.0, (-1.0) ** number]), slots, scalars)
    np.testing.assert_allclose(slots["step_size"], [10.0, 0.1])


def read(text):
    return RmsProp.settings_from(parse_text(f"SGD=[ {text} ]", file="r.cntk").section("SGD"), "the SGD block")


def test_options_are_read_as_a_recipe_writes_them():
    chosen = read("rms_gamma=0.5 ; rms_wgt_inc=1.5 ; rms_wgt_dec=0.5 ; rms_wgt_max=4 ; rms_wgt_min=0.25")
    assert chosen == RmsPropOptions(rms_gamma=0.5, rms_wgt_inc=1.5, rms_wgt_dec=0.5, rms_wgt_max=4.0, rms_wgt_min=0.25)
    assert read("") == RmsPropOptions(
        rms_gamma=0.99,
        rms_wgt_inc=1.2,
        rms_wgt_dec=0.75,
        rms_wgt_max=10.0,
        rms_wgt_min=0.1,
        norm_with_ave_multiplier=True,
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rms_gamma=1", "'rms_gamma' must be in [0, 1), not 1"),
        ("rms_gamma=-0.5", "'rms_gamma' must be in [0, 1), not -0.5"),
        ("rms_wgt_inc=0.9", "'rms_wgt_inc' must be at least 1, not 0.9"),
        ("rms_wgt_dec=0", "'rms_wgt_dec' must be in (0, 1], not 0"),
        ("rms_wgt_dec=1.5", "'rms_wgt_dec' must be in (0, 1], not 1.5"),
        ("rms_wgt_min=0", "'rms_wgt_min' must be more than 0, not 0"),
    ],
)
def test_values_out_of_range(text, message):
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert caught.value.message == message
    assert str(caught.value.where).startswith("r.cntk:1:")


def test_the_smallest_step_is_not_more_than_the_largest():
    with pytest.raises(ConfigError) as caught:
        read("rms_wgt_min=2 ; rms_wgt_max=1")
    assert caught.value.message == "the SGD block: rms_wgt_min=2 is more than rms_wgt_max=1"
    assert read("rms_wgt_min=2 ; rms_wgt_max=2").rms_wgt_min == 2
    assert caught.value.where is not None
