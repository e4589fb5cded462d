"""The rule against its formulas, element by element."""

from __future__ import annotations

import math

import numpy as np
import pytest
from cntk_learner_adagrad import AdaGrad, AdaGradOptions
from hypothesis import given
from hypothesis import strategies as st

from cntk_core.api import ConfigError, UpdateContext
from cntk_core.api.builders import parse_text
from cntk_testing.learner_contract import run_rule, scalars_of

ROWS = st.lists(st.lists(st.floats(-50, 50), min_size=3, max_size=3), min_size=1, max_size=4)


@pytest.mark.parametrize("normalized", [True, False])
@given(gradients=ROWS, rate=st.floats(0, 1))
def test_formula(normalized, gradients, rate):
    learner = AdaGrad(AdaGradOptions(norm_with_ave_multiplier=normalized))
    value, slots = np.array([0.5, -1.0, 2.0]), {"squared_gradients": np.zeros(3)}
    weights, sums = value.tolist(), [0.0] * 3
    for row in gradients:
        scalars = scalars_of(learner, UpdateContext(samples=4, learning_rate=rate, momentum=0.9))
        value, slots = run_rule(learner, value, np.array(row), slots, scalars)
        sums = [total + g * g for total, g in zip(sums, row, strict=True)]
        multipliers = [1 / math.sqrt(total + 1e-16) for total in sums]
        mean = sum(multipliers) / 3 if normalized else 1.0
        weights = [w - rate / mean * k * g for w, k, g in zip(weights, multipliers, row, strict=True)]
    np.testing.assert_allclose(value, weights, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(slots["squared_gradients"], sums, rtol=1e-12)


def test_a_single_weight_moves_by_the_plain_gradient_when_steps_are_normalized():
    learner = AdaGrad()
    scalars = scalars_of(learner, UpdateContext(samples=4, learning_rate=0.25, momentum=0.9))
    new, _ = run_rule(learner, np.array([1.0]), np.array([2.0]), {"squared_gradients": np.array([5.0])}, scalars)
    assert new == pytest.approx([0.5])


def test_there_is_no_momentum():
    assert AdaGrad().uses_momentum is False


def test_the_option_is_read_as_a_recipe_writes_it():
    block = parse_text("SGD=[ normWithAveMultiplier=false ]").section("SGD")
    assert AdaGrad.settings_from(block, "the SGD block").norm_with_ave_multiplier is False
    assert AdaGrad().settings.norm_with_ave_multiplier is True


def test_a_wrong_value():
    block = parse_text("SGD=[ normWithAveMultiplier=maybe ]", file="r.cntk").section("SGD")
    with pytest.raises(ConfigError, match="normWithAveMultiplier"):
        AdaGrad.settings_from(block, "the SGD block")
