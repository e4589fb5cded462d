"""The functions that make learners whose steps follow the sizes of the gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from cntk.learners._learner import Learner
from cntk.learners._make import _gain, _learner
from cntk.learners._rules import Adam, FSAdaGrad, VarianceOptions
from cntk.learners._schedules import learning_parameter_schedule_per_sample, momentum_schedule_per_sample
from cntk_core.api import Learner as Rule

_VARIANCE_OF_SAMPLE = 0.9999986111120757
"""What is kept of a variance over a sample: exp(-1 / 720000), of two hours of speech."""


def _plugin(name: str, **options: Any) -> Rule:
    """Make the rule of a learner plugin.

    Raises:
        ValueError: it refuses an option.
    """
    from cntk._plugins import registry

    kind = registry().learners.get(name)
    try:
        made: Rule = kind(kind.options(**options))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    return made


def adagrad(
    parameters: Sequence[Any],
    lr: Any,
    need_ave_multiplier: bool = True,
    l1_regularization_weight: float = 0.0,
    l2_regularization_weight: float = 0.0,
    gaussian_noise_injection_std_dev: Any = 0.0,
    gradient_clipping_threshold_per_sample: float = math.inf,
    gradient_clipping_with_truncation: bool = True,
    use_mean_gradient: bool | None = None,
    minibatch_size: int | None = None,
    epoch_size: int | None = None,
) -> Learner:
    """Make a learner whose rates fall with the squares of the gradients.

    Args:
        parameters: what it learns.
        lr: rate: a number, a list of numbers or a schedule.
        need_ave_multiplier: divide the steps of a parameter by the average of its multipliers.
        l1_regularization_weight: and what follows: see :func:`sgd`.

    Raises:
        ValueError: there are no parameters; a number makes no sense.
    """
    return _learner(
        _plugin("adagrad", norm_with_ave_multiplier=need_ave_multiplier),
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


def adadelta(
    parameters: Sequence[Any],
    lr: Any = None,
    rho: float = 0.95,
    epsilon: float = 1e-8,
    l1_regularization_weight: float = 0.0,
    l2_regularization_weight: float = 0.0,
    gaussian_noise_injection_std_dev: Any = 0.0,
    gradient_clipping_threshold_per_sample: float = math.inf,
    gradient_clipping_with_truncation: bool = True,
    use_mean_gradient: bool | None = None,
    minibatch_size: int | None = None,
    epoch_size: int | None = None,
) -> Learner:
    """Make a learner whose steps are as large as the steps before, whatever the gradients are.

    Args:
        parameters: what it learns.
        lr: rate: a number, a list of numbers or a schedule; 1 per sample by default.
        rho: share of the old squares.
        epsilon: added to squares before their root is taken.
        l1_regularization_weight: and what follows: see :func:`sgd`.

    Raises:
        ValueError: there are no parameters; a number makes no sense.
    """
    lr = learning_parameter_schedule_per_sample(1) if lr is None else lr
    return _learner(
        _plugin("adadelta", rho=rho, epsilon=epsilon),
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


def fsadagrad(
    parameters: Sequence[Any],
    lr: Any,
    momentum: Any,
    unit_gain: bool | None = None,
    variance_momentum: Any = None,
    l1_regularization_weight: float = 0.0,
    l2_regularization_weight: float = 0.0,
    gaussian_noise_injection_std_dev: Any = 0.0,
    gradient_clipping_threshold_per_sample: float = math.inf,
    gradient_clipping_with_truncation: bool = True,
    use_mean_gradient: bool | None = None,
    minibatch_size: int | None = None,
    epoch_size: int | None = None,
) -> Learner:
    """Make a learner that divides gradients by the root of their smoothed squares.

    Args:
        parameters: what it learns.
        lr, momentum: numbers, lists of numbers or schedules.
        unit_gain: a new gradient counts with what the momentum leaves; by default :func:`default_unit_gain_value`.
        variance_momentum: of the squares of the gradient.
        l1_regularization_weight: and what follows: see :func:`sgd`.

    Raises:
        ValueError: there are no parameters; what was given for a rate or a momentum is none.
    """
    variance_momentum = _of_variance(variance_momentum)
    return _learner(
        partial(_fsadagrad, _gain(unit_gain)),
        parameters,
        lr,
        momentum=momentum,
        variance_momentum=variance_momentum,
        l1=l1_regularization_weight,
        l2=l2_regularization_weight,
        noise=gaussian_noise_injection_std_dev,
        clip=gradient_clipping_threshold_per_sample,
        truncate=gradient_clipping_with_truncation,
        mean=use_mean_gradient,
        size=minibatch_size,
        epoch_size=epoch_size,
    )


def adam(
    parameters: Sequence[Any],
    lr: Any,
    momentum: Any,
    unit_gain: bool | None = None,
    variance_momentum: Any = None,
    l1_regularization_weight: float = 0.0,
    l2_regularization_weight: float = 0.0,
    gaussian_noise_injection_std_dev: Any = 0.0,
    gradient_clipping_threshold_per_sample: float = math.inf,
    gradient_clipping_with_truncation: bool = True,
    use_mean_gradient: bool | None = None,
    epsilon: float = 1e-8,
    adamax: bool = False,
    minibatch_size: int | None = None,
    epoch_size: int | None = None,
) -> Learner:
    """Make a learner with Adam, or AdaMax.

    Args:
        parameters: what it learns.
        lr, momentum: numbers, lists of numbers or schedules.
        unit_gain: a new gradient counts with what the momentum leaves; by default :func:`default_unit_gain_value`.
        variance_momentum: of the squares of the gradient.
        l1_regularization_weight: and what follows: see :func:`sgd`.
        epsilon: added to the root of the squares.
        adamax: divide by the largest gradient.

    Raises:
        ValueError: there are no parameters; what was given for a rate or a momentum is none.
    """
    variance_momentum = _of_variance(variance_momentum)
    return _learner(
        partial(_adam, _gain(unit_gain), epsilon, adamax),
        parameters,
        lr,
        momentum=momentum,
        variance_momentum=variance_momentum,
        l1=l1_regularization_weight,
        l2=l2_regularization_weight,
        noise=gaussian_noise_injection_std_dev,
        clip=gradient_clipping_threshold_per_sample,
        truncate=gradient_clipping_with_truncation,
        mean=use_mean_gradient,
        size=minibatch_size,
        epoch_size=epoch_size,
    )


def rmsprop(
    parameters: Sequence[Any],
    lr: Any,
    gamma: float,
    inc: float,
    dec: float,
    max: float,
    min: float,
    need_ave_multiplier: bool = True,
    l1_regularization_weight: float = 0.0,
    l2_regularization_weight: float = 0.0,
    gaussian_noise_injection_std_dev: Any = 0.0,
    gradient_clipping_threshold_per_sample: float = math.inf,
    gradient_clipping_with_truncation: bool = True,
    use_mean_gradient: bool | None = None,
    minibatch_size: int | None = None,
    epoch_size: int | None = None,
) -> Learner:
    """Make a learner with step sizes that grow while the gradient keeps its sign.

    Args:
        parameters: what it learns.
        lr: rate: a number, a list of numbers or a schedule.
        gamma: share of the old mean square.
        inc, dec: factors of a step after an equal sign, and after another one.
        max, min: largest and smallest step.
        need_ave_multiplier: divide the steps of a parameter by the average of its multipliers.
        l1_regularization_weight: and what follows: see :func:`sgd`.

    Raises:
        ValueError: there are no parameters; a number makes no sense.
    """
    options = {"rms_gamma": gamma, "rms_wgt_inc": inc, "rms_wgt_dec": dec, "rms_wgt_max": max, "rms_wgt_min": min}
    return _learner(
        _plugin("rmsprop", **options, norm_with_ave_multiplier=need_ave_multiplier),
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


def _of_variance(given: Any) -> Any:
    return momentum_schedule_per_sample(_VARIANCE_OF_SAMPLE) if given is None else given


def _fsadagrad(unit_gain: bool, kept: Callable[[int], float]) -> Rule:
    return FSAdaGrad(VarianceOptions(unit_gain, kept))


def _adam(unit_gain: bool, epsilon: float, adamax: bool, kept: Callable[[int], float]) -> Rule:
    if epsilon < 0.0:
        raise ValueError(f"epsilon of adam must not be negative, but is {epsilon:g}")
    return Adam(VarianceOptions(unit_gain, kept, epsilon, adamax))
