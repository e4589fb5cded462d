"""Units of rates and momentum."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cntk_core.training.rates import schedules


def test_a_time_constant_is_the_samples_after_which_1_over_e_is_left():
    momentum = schedules.momentum_of_time_constant(30.0)
    assert schedules.effective_momentum(momentum, 30) == pytest.approx(1 / math.e, rel=1e-5)


@given(st.floats(1.0, 1e3))
def test_time_constants_come_back(constant):
    assert schedules.time_constant(schedules.momentum_of_time_constant(constant)) == pytest.approx(constant, rel=1e-4)


def test_momentum_of_a_time_constant_is_rounded_to_single_precision_but_never_to_1():
    assert schedules.momentum_of_time_constant(30.0) == np.float32(math.exp(-1 / 30))
    assert schedules.momentum_of_time_constant(1e9) == math.exp(-1e-9) < 1.0


@pytest.mark.parametrize("momentum", [0.0, 1.0])
def test_without_momentum_the_time_constant_is_zero(momentum):
    assert schedules.time_constant(momentum) == 0.0


@given(st.floats(0.0, 0.999), st.integers(1, 10_000))
def test_momentum_per_minibatch_acts_on_a_full_one_as_given(momentum, size):
    per_sample = schedules.momentum_per_sample(momentum, size)
    assert schedules.effective_momentum(per_sample, size) == pytest.approx(momentum, abs=1e-9)
    assert schedules.effective_momentum(per_sample, 1) >= momentum - 1e-12


def test_rate_per_sample():
    assert schedules.per_sample_rate(0.8, 32) == 0.025
