"""Learners and schedules: their updates beside those that the original 2.7 has made, recorded in data/learners.json."""

from __future__ import annotations

import json
import math
from pathlib import Path

import cntk.learners as C
import numpy as np
import pytest

SAMPLES = (5, 3, 4)
GRADIENTS = ((2.0, -1.0, 0.5), (1.0, 3.0, -0.25), (-0.5, 0.75, 2.0))
RECORDED = json.loads(Path(__file__).with_name("data").joinpath("learners.json").read_text())

RULES = {
    "sgd": C.sgd,
    "momentum_sgd": lambda p, lr, **k: C.momentum_sgd(p, lr, 0.8, **k),
    "momentum_sgd_gain": lambda p, lr, **k: C.momentum_sgd(p, lr, C.momentum_schedule(0.8), unit_gain=False, **k),
    "momentum_time": lambda p, lr, **k: C.momentum_sgd(p, lr, C.momentum_as_time_constant_schedule(20), **k),
    "nesterov": lambda p, lr, **k: C.nesterov(p, lr, C.momentum_schedule(0.8), **k),
    "nesterov_gain": lambda p, lr, **k: C.nesterov(p, lr, 0.8, unit_gain=False, **k),
    "adagrad": C.adagrad,
    "adagrad_plain": lambda p, lr, **k: C.adagrad(p, lr, need_ave_multiplier=False, **k),
    "adadelta": C.adadelta,
    "fsadagrad": lambda p, lr, **k: C.fsadagrad(p, lr, 0.9, variance_momentum=0.99, **k),
    "fsadagrad_default": lambda p, lr, **k: C.fsadagrad(p, lr, C.momentum_schedule(0.9), **k),
    "adam": lambda p, lr, **k: C.adam(p, lr, 0.9, **k),
    "adam_gain": lambda p, lr, **k: C.adam(
        p, lr, 0.9, unit_gain=False, variance_momentum=C.momentum_schedule(0.99), **k
    ),
    "adamax": lambda p, lr, **k: C.adam(p, lr, 0.9, adamax=True, **k),
    "rmsprop": lambda p, lr, **k: C.rmsprop(p, lr, 0.9, 1.2, 0.7, 10, 1e-8, **k),
    "rmsprop_plain": lambda p, lr, **k: C.rmsprop(p, lr, 0.9, 1.2, 0.7, 10, 1e-8, need_ave_multiplier=False, **k),
}
LIMITS = {
    "gradient_clipping_threshold_per_sample": 0.25,
    "l1_regularization_weight": 0.02,
    "l2_regularization_weight": 0.01,
}
OPTIONS = {
    "plain": {},
    "ignore": {"minibatch_size": C.IGNORE},
    "one": {"minibatch_size": 1},
    "eight": {"minibatch_size": 8},
    "mean": {"use_mean_gradient": True},
    "limits": LIMITS,
    "norm": {**LIMITS, "gradient_clipping_with_truncation": False, "use_mean_gradient": True},
}
RATES = {"per_sample": 1, "per_minibatch": 0, "of_four": 4}


class Parameter:
    """What a learner asks of a parameter."""

    dtype, shape, name = np.float32, (3,), "p"

    def __init__(self):
        self.value = np.array([1.0, -2.0, 0.5], np.float32)


def rate(name):
    return 0.1 if name == "number" else C.learning_parameter_schedule(0.1, minibatch_size=RATES[name])


@pytest.mark.parametrize("rule", RULES)
def test_updates_are_those_of_the_original(rule):
    rows = [row for row in RECORDED if row[0] == rule]
    assert len(rows) == len(OPTIONS) * (len(RATES) + 1)
    for _, rated, chosen, expected in rows:
        parameter = Parameter()
        learner = RULES[rule]([parameter], rate(rated), **OPTIONS[chosen])
        for samples, gradient, value in zip(SAMPLES, GRADIENTS, expected, strict=True):
            assert learner.update({parameter: np.array(gradient, np.float32)}, samples)
            np.testing.assert_allclose(parameter.value, value, rtol=2e-5, atol=2e-5, err_msg=f"{rated}, {chosen}")


def test_schedules_by_samples_and_by_sweeps():
    by_samples = C.learning_rate_schedule([(3, 0.2), (2, 0.4), (1, 0.8)], C.UnitType.sample, 5)
    assert [by_samples[n] for n in (0, 14, 15, 24, 25, 1000)] == [0.2, 0.2, 0.4, 0.4, 0.8, 0.8]
    assert by_samples.minibatch_size == 1
    assert not by_samples.is_sweep_based
    assert by_samples.after(15, 0) == 0.4
    by_sweeps = C.momentum_schedule([0.5, 0.9])
    assert by_sweeps.is_sweep_based
    assert (by_sweeps.after(1000, 0), by_sweeps.after(0, 1)) == (0.5, 0.9)


def test_time_constants():
    made = C.momentum_as_time_constant_schedule([980, 520])
    assert (made[0], made[1]) == (math.exp(-1 / 980), math.exp(-1 / 520))
    assert C.momentum_as_time_constant_schedule(0)[0] == 0.0


def test_a_new_rate_begins_where_training_is():
    parameter = Parameter()
    learner = C.sgd([parameter], C.learning_rate_schedule([0.1] * 50 + [0.2] * 50, C.UnitType.sample, 1))
    assert learner.learning_rate() == 0.1
    learner.update({parameter: np.ones(3, np.float32)}, 100)
    assert learner.learning_rate() == 0.2
    learner.reset_learning_rate(C.learning_rate_schedule([0.3] * 50 + [0.4] * 50, C.UnitType.sample, 1))
    assert learner.learning_rate() == 0.3
    learner.update({parameter: np.ones(3, np.float32)}, 50)
    assert learner.learning_rate() == 0.4


def test_sweeps_are_counted():
    parameter = Parameter()
    learner = C.sgd([parameter], C.learning_parameter_schedule([0.3, 0.2]))
    learner.update({parameter: np.ones(3, np.float32)}, 1)
    assert learner.learning_rate() == 0.3
    learner.update({parameter: np.ones(3, np.float32)}, 1, is_sweep_end=True)
    assert learner.learning_rate() == 0.2


def test_a_rate_of_zero_learns_nothing():
    parameter = Parameter()
    learner = C.momentum_sgd([parameter], 0.0, 0.9)
    assert not learner.update({parameter: np.ones(3, np.float32)}, 1)
    assert learner.total_number_of_samples_seen == 0
    np.testing.assert_array_equal(parameter.value, Parameter().value)


@pytest.mark.parametrize("rule", ["momentum_sgd", "adam", "fsadagrad", "rmsprop"])
def test_a_learner_goes_on_from_its_checkpoint(rule):
    one, other = Parameter(), Parameter()
    first, second = (RULES[rule]([each], 0.1, gaussian_noise_injection_std_dev=0.01) for each in (one, other))
    for number, gradient in enumerate(GRADIENTS * 3):
        if number == 4:
            second.restore_from_checkpoint(first.create_checkpoint())
            other.value = one.value.copy()
        first.update({one: np.array(gradient, np.float32)}, 2)
        if number >= 4:
            second.update({other: np.array(gradient, np.float32)}, 2)
            np.testing.assert_array_equal(one.value, other.value)


def test_what_is_refused():
    with pytest.raises(ValueError, match="a learner needs at least one parameter"):
        C.sgd([], 0.1)
    parameter = Parameter()
    with pytest.raises(ValueError, match="a learner is given a parameter twice"):
        C.sgd([parameter, parameter], 0.1)
    with pytest.raises(
        ValueError, match="rates and momenta are numbers, lists of numbers or schedules, not <class 'str'>"
    ):
        C.sgd([parameter], "fast")
    with pytest.raises(ValueError, match="a schedule has at least one value"):
        C.learning_parameter_schedule([])
    with pytest.raises(ValueError, match="each value of a schedule is for at least one stretch"):
        C.learning_parameter_schedule([(0, 0.1)])
    with pytest.raises(ValueError, match="'not_supported' is not a valid UnitType"):
        C.training_parameter_schedule(0.01, unit="not_supported")
    with pytest.raises(ValueError, match="an update needs the gradient of at least one sample"):
        C.sgd([parameter], 0.1).update({parameter: np.ones(3)}, 0)
    with pytest.raises(ValueError, match="epsilon of adam must not be negative, but is -1"):
        C.adam([parameter], 0.1, 0.9, epsilon=-1.0)


def test_a_length_for_one_number_is_idle():
    with pytest.warns(RuntimeWarning, match="epoch_size is ignored for a schedule that is one number"):
        C.momentum_as_time_constant_schedule(1100, epoch_size=1000)


def test_unit_gain_can_be_switched_off_for_all():
    assert C.default_unit_gain_value()
    C.set_default_unit_gain_value(False)
    try:
        assert not C.momentum_sgd([Parameter()], 0.1, 0.9).rule.settings.unit_gain
    finally:
        C.set_default_unit_gain_value(True)
