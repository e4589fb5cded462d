"""Learners: how parameters are updated with gradients, and the schedules of their rates and momenta."""

from __future__ import annotations

from cntk._inherited import inherit
from cntk.learners._adaptive import adadelta, adagrad, adam, fsadagrad, rmsprop
from cntk.learners._learner import Learner, UserLearner
from cntk.learners._make import (
    default_unit_gain_value,
    default_use_mean_gradient_value,
    momentum_sgd,
    nesterov,
    set_default_unit_gain_value,
    set_default_use_mean_gradient_value,
    sgd,
    universal,
)
from cntk.learners._schedules import (
    IGNORE,
    TrainingParameterSchedule,
    UnitType,
    learning_parameter_schedule,
    learning_parameter_schedule_per_sample,
    learning_rate_schedule,
    momentum_as_time_constant_schedule,
    momentum_schedule,
    momentum_schedule_per_sample,
    training_parameter_schedule,
)

__all__ = [
    "IGNORE",
    "Learner",
    "TrainingParameterSchedule",
    "UnitType",
    "UserLearner",
    "adadelta",
    "adagrad",
    "adam",
    "default_unit_gain_value",
    "default_use_mean_gradient_value",
    "fsadagrad",
    "learning_parameter_schedule",
    "learning_parameter_schedule_per_sample",
    "learning_rate_schedule",
    "momentum_as_time_constant_schedule",
    "momentum_schedule",
    "momentum_schedule_per_sample",
    "momentum_sgd",
    "nesterov",
    "rmsprop",
    "set_default_unit_gain_value",
    "set_default_use_mean_gradient_value",
    "sgd",
    "training_parameter_schedule",
    "universal",
]

inherit(__name__)
