"""The plain rule against its formulas."""

from __future__ import annotations

import numpy as np
import pytest
from cntk_learner_sgd import SGD, SGDOptions
from hypothesis import given
from hypothesis import strategies as st

from cntk_core.api import ArrayMath, UpdateContext
from cntk_core.api.builders import parse_text
from cntk_core.api.engines import TraceMath, symbol

NUMBERS = st.floats(-100, 100)


def step(learner, value, gradient, smoothed, context):
    slots = {"smoothed_gradient": np.array(smoothed)}
    new, changed = learner.rule(ArrayMath(np), np.array(value), np.array(gradient), slots, learner.scalars(context))
    return new, changed["smoothed_gradient"]


@given(value=NUMBERS, gradient=NUMBERS, smoothed=NUMBERS, momentum=st.floats(0, 0.99), rate=st.floats(0, 1))
def test_unit_gain_momentum(value, gradient, smoothed, momentum, rate):
    context = UpdateContext(samples=4, learning_rate=rate, momentum=momentum)
    new, kept = step(SGD(), value, gradient, smoothed, context)
    expected = momentum * smoothed + (1 - momentum) * rate * gradient
    assert kept == pytest.approx(expected, abs=1e-9)
    assert new == pytest.approx(value - expected, abs=1e-9)


@given(value=NUMBERS, gradient=NUMBERS, smoothed=NUMBERS, momentum=st.floats(0, 0.99), rate=st.floats(0, 1))
def test_nesterov(value, gradient, smoothed, momentum, rate):
    context = UpdateContext(samples=4, learning_rate=rate, momentum=momentum)
    new, kept = step(SGD(SGDOptions(use_nag=True)), value, gradient, smoothed, context)
    share = (1 - momentum) * rate * gradient
    assert kept == pytest.approx(momentum * smoothed + share, abs=1e-9)
    assert new == pytest.approx(value - (momentum * kept + share), abs=1e-9)


def test_a_constant_gradient_is_followed_at_the_full_rate_in_the_end():
    context = UpdateContext(samples=1, learning_rate=0.5, momentum=0.9)
    value, smoothed = np.zeros(1), np.zeros(1)
    for _ in range(200):
        before = value
        value, smoothed = step(SGD(), value, np.ones(1), smoothed, context)
    np.testing.assert_allclose(before - value, 0.5, rtol=1e-6)


def test_without_momentum_it_is_plain_descent():
    context = UpdateContext(samples=3, learning_rate=0.25, momentum=0.0)
    for nag in (False, True):
        new, _ = step(SGD(SGDOptions(use_nag=nag)), 1.0, 2.0, 5.0, context)
        assert new == 0.5


def test_its_numbers_depend_on_the_rate_and_the_momentum_alone():
    first = UpdateContext(samples=3, learning_rate=0.25, momentum=0.5, step=0)
    later = UpdateContext(samples=9, learning_rate=0.25, momentum=0.5, step=7)
    assert SGD.steady
    assert SGD().scalars(first) == SGD().scalars(later) == {"momentum": 0.5, "step": 0.125}


def test_single_precision_stays_single():
    context = UpdateContext(samples=3, learning_rate=0.25, momentum=0.5)
    values = [np.ones(3, np.float32) for _ in range(3)]
    new, kept = step(SGD(), *values, context)
    assert new.dtype == kept.dtype == np.float32


def test_the_rule_can_be_traced_and_its_names_never_change():
    learner = SGD(SGDOptions(use_nag=True))
    names = {name: symbol(name) for name in learner.scalars(UpdateContext(1, 0.1, 0.0))}
    assert set(names) == set(learner.scalars(UpdateContext(9, 0.5, 0.9, step=7, epoch=3)))
    slots = {slot.name: symbol(slot.name) for slot in SGD.slots}
    new, _ = learner.rule(TraceMath(), symbol("w"), symbol("g"), slots, names)
    assert new.symbols() == {"w", "g", "smoothed_gradient", "momentum", "step"}


def test_the_option_is_read_as_a_recipe_writes_it():
    block = parse_text("SGD=[ useNAG=true ]").section("SGD")
    assert SGD.settings_from(block, "the SGD block").use_nag is True
    assert SGD().settings.use_nag is False
