"""The functions that make learners: what a caller says becomes a rule, its schedules and what stands around it."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cntk.learners._learner import Learner, Limits, UserLearner
from cntk.learners._rules import Momentum, MomentumOptions, Nesterov, Plain
from cntk.learners._schedules import (
    IGNORE,
    TrainingParameterSchedule,
    learning_parameter_schedule,
    learning_parameter_schedule_per_sample,
    training_parameter_schedule,
)
from cntk_core.api import Learner as Rule

_DEFAULTS = {"unit_gain": True, "use_mean_gradient": False}


def default_unit_gain_value() -> bool:
    """Return whether momentum has unit gain where a learner is not told."""
    return _DEFAULTS["unit_gain"]


def set_default_unit_gain_value(value: bool) -> None:
    """Say whether momentum has unit gain where a learner is not told."""
    _DEFAULTS["unit_gain"] = bool(value)


def default_use_mean_gradient_value() -> bool:
    """Return whether learners see mean gradients where they are not told (CNTK 2.0)."""
    return _DEFAULTS["use_mean_gradient"]


def set_default_use_mean_gradient_value(value: bool) -> None:
    """Say whether learners see mean gradients where they are not told (CNTK 2.0)."""
    _DEFAULTS["use_mean_gradient"] = bool(value)


def _schedule(
    given: Any, size: int | None, epoch_size: int | None, *, mean: bool | None = None
) -> TrainingParameterSchedule:
    """Return what a learner was given as a schedule; a size that it does not have itself is the learner's."""
    if isinstance(given, TrainingParameterSchedule):
        if not given.is_minibatch_size_explicitly_specified and size is not None:
            given.minibatch_size = size
        if mean and given.minibatch_size == 1:
            given.minibatch_size = IGNORE
        return given
    is_number = isinstance(given, int | float)
    if is_number or (isinstance(given, list) and all(isinstance(each, int | float | tuple) for each in given)):
        made = learning_parameter_schedule(given, size or IGNORE, epoch_size)
        made.is_minibatch_size_explicitly_specified = size is not None
        return made
    raise ValueError(f"rates and momenta are numbers, lists of numbers or schedules, not {type(given)}")


def _learner(
    rule: Rule | Callable[[Callable[[int], float]], Rule],
    parameters: Any,
    lr: Any,
    *,
    momentum: Any = None,
    variance_momentum: Any = None,
    l1: float,
    l2: float,
    noise: Any,
    clip: float,
    truncate: bool,
    mean: bool | None,
    size: int | None,
    epoch_size: int | None,
) -> Learner:
    """Make a learner; a rule that keeps variances is made of what says how much of them is kept."""
    mean = mean if mean is not None else (True if _DEFAULTS["use_mean_gradient"] else None)
    size = IGNORE if size is None and mean else size
    rates = _schedule(lr, size, epoch_size, mean=mean)
    momenta = None if momentum is None else _schedule(momentum, size, epoch_size)
    limits = Limits(l1, l2, training_parameter_schedule(noise), clip, truncate)
    made: list[Learner] = []
    if variance_momentum is not None:
        variances = _schedule(variance_momentum, size, epoch_size)
        assert not isinstance(rule, Rule)
        rule = rule(lambda samples: made[0].kept(variances, samples))
    assert isinstance(rule, Rule)
    made.append(Learner(parameters, rates, rule, momentum=momenta, limits=limits, minibatch_size=size))
    return made[0]


def sgd(
    parameters: Sequence[Any],
    lr: Any,
    l1_regularization_weight: float = 0.0,
    l2_regularization_weight: float = 0.0,
    gaussian_noise_injection_std_dev: Any = 0.0,
    gradient_clipping_threshold_per_sample: float = math.inf,
    gradient_clipping_with_truncation: bool = True,
    use_mean_gradient: bool | None = None,
    minibatch_size: int | None = None,
    epoch_size: int | None = None,
) -> Learner:
    """Make a learner that goes down the gradient: ``w = w - lr * g``.

    Args:
        parameters: what it learns.
        lr: rate: a number, a list of numbers or a schedule.
        l1_regularization_weight, l2_regularization_weight: per sample.
        gaussian_noise_injection_std_dev: standard deviation of noise that each update adds to the parameters.
        gradient_clipping_threshold_per_sample: limit of the gradient.
        gradient_clipping_with_truncation: the limit is one of each element; otherwise of a parameter's norm.
        use_mean_gradient: the rule sees the mean of the gradient (CNTK 2.0); newer is ``minibatch_size=IGNORE``.
        minibatch_size: samples that rates and momenta are for, where they do not say it themselves.
        epoch_size: samples of a stretch of the lists; by default a sweep.

    Raises:
        ValueError: there are no parameters; what was given for a rate is none.
    """
    return _learner(
        Plain(),
        parameters,
        lr,
        l1=l1_regularization_weight,
        l2=l2_regularization_weight,
        noise=gaussian_noise_injection_std_dev,
        clip=gradient_clipping_threshold_per_sample,
        truncate=gradient_clipping_with_truncation,
        mean=use_mean_gradient,
        size=minibatch_size,
        epoch_size=epoch_size,
    )


def momentum_sgd(
    parameters: Sequence[Any],
    lr: Any,
    momentum: Any,
    unit_gain: bool | None = None,
    l1_regularization_weight: float = 0.0,
    l2_regularization_weight: float = 0.0,
    gaussian_noise_injection_std_dev: Any = 0.0,
    gradient_clipping_threshold_per_sample: float = math.inf,
    gradient_clipping_with_truncation: bool = True,
    use_mean_gradient: bool | None = None,
    minibatch_size: int | None = None,
    epoch_size: int | None = None,
) -> Learner:
    """Make a learner with momentum.

    Args:
        parameters: what it learns.
        lr, momentum: numbers, lists of numbers or schedules.
        unit_gain: a new gradient counts with what the momentum leaves; by default :func:`default_unit_gain_value`.
        l1_regularization_weight: and what follows: see :func:`sgd`.

    Raises:
        ValueError: there are no parameters; what was given for a rate or a momentum is none.
    """
    return _learner(
        Momentum(MomentumOptions(_gain(unit_gain))),
        parameters,
        lr,
        momentum=momentum,
        l1=l1_regularization_weight,
        l2=l2_regularization_weight,
        noise=gaussian_noise_injection_std_dev,
        clip=gradient_clipping_threshold_per_sample,
        truncate=gradient_clipping_with_truncation,
        mean=use_mean_gradient,
        size=minibatch_size,
        epoch_size=epoch_size,
    )


def nesterov(
    parameters: Sequence[Any],
    lr: Any,
    momentum: Any,
    unit_gain: bool | None = None,
    l1_regularization_weight: float = 0.0,
    l2_regularization_weight: float = 0.0,
    gaussian_noise_injection_std_dev: Any = 0.0,
    gradient_clipping_threshold_per_sample: float = math.inf,
    gradient_clipping_with_truncation: bool = True,
    use_mean_gradient: bool | None = None,
    minibatch_size: int | None = None,
    epoch_size: int | None = None,
) -> Learner:
    """Make a learner with Nesterov's momentum.

    Args:
        parameters: what it learns.
        lr, momentum: numbers, lists of numbers or schedules.
        unit_gain: a new gradient counts with what the momentum leaves; by default :func:`default_unit_gain_value`.
        l1_regularization_weight: and what follows: see :func:`sgd`.

    Raises:
        ValueError: there are no parameters; what was given for a rate or a momentum is none.
    """
    return _learner(
        Nesterov(MomentumOptions(_gain(unit_gain))),
        parameters,
        lr,
        momentum=momentum,
        l1=l1_regularization_weight,
        l2=l2_regularization_weight,
        noise=gaussian_noise_injection_std_dev,
        clip=gradient_clipping_threshold_per_sample,
        truncate=gradient_clipping_with_truncation,
        mean=use_mean_gradient,
        size=minibatch_size,
        epoch_size=epoch_size,
    )


def _gain(unit_gain: bool | None) -> bool:
    return default_unit_gain_value() if unit_gain is None else bool(unit_gain)


class _Universal(UserLearner):
    """A learner whose update is a function of parameters and gradients that assigns new values."""

    def __init__(self, parameters: Sequence[Any], gradients: Sequence[Any], update: Any) -> None:
        super().__init__(parameters, learning_parameter_schedule_per_sample(1.0))
        self._gradients = dict(zip(self.parameters, gradients, strict=True))
        self._function = update

    def update(self, gradient_values: Mapping[Any, Any], training_sample_count: int, sweep_end: bool = False) -> bool:
        """Compute the function with these gradients; it assigns the new values."""
        for parameter, gradient in gradient_values.items():
            self._gradients[parameter].value = gradient
        self._function.eval()
        return True


def universal(update_func: Callable[[Any, Any], Any], parameters: Sequence[Any]) -> Learner:
    """Make a learner of a function that says how parameters are updated.

    Args:
        update_func: ``update_func(parameters, gradients)`` returns a Function that assigns new values.
        parameters: what it learns.

    Raises:
        ValueError: the function takes other arguments; a parameter has no shape yet.
    """
    from cntk.ops import constant

    if len(inspect.signature(update_func).parameters) != 2:
        raise ValueError("the function of a universal learner takes two arguments: parameters and gradients")
    for parameter in parameters:
        if any(size < 0 for size in parameter.shape):
            raise ValueError(f"the parameter {parameter} has no shape yet; make the learner after it has one")
    gradients = [constant(0, shape=each.shape, dtype=each.dtype, name="gradient") for each in parameters]
    return _Universal(parameters, gradients, update_func(parameters, gradients))
