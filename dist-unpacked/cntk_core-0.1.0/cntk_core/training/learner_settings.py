"""What a program says of a learner: its rule, its parameters, its rate and momentum from step to step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Literal, Protocol

import attrs

from cntk_core.config import Schedule
from cntk_core.contract.learner import Learner
from cntk_core.errors import NetworkError, OptionError, TrainingError, did_you_mean
from cntk_core.network.node import Parameter
from cntk_core.training.loop.learner_group import Rates
from cntk_core.training.rates.schedules import momentum_of_time_constant
from cntk_core.training.settings import DEFAULT_MOMENTUM_PER_MB, SGDSettings


@attrs.frozen
class TrainingPoint:
    """How far a training has come when a step begins.

    Attributes:
        steps: updates done.
        samples: samples seen, of all ranks that make the same steps.
        epoch: epochs ended.
        minibatch: samples of this rank's share of the minibatch that is learned; 0 where there is none.
    """

    steps: int
    samples: int
    epoch: int
    minibatch: int = 0


Value = float | Schedule[float] | Callable[[TrainingPoint], float]
"""A number, a number for each epoch, or a function of the point in training."""


def piecewise(values: Sequence[float], *, samples: int = 0, steps: int = 0) -> Callable[[TrainingPoint], float]:
    """Return the function that takes each value for so many samples, or steps, and keeps the last one.

    Raises:
        TrainingError: there are no values, or not one length.
    """
    length = samples or steps
    if not values or length < 1 or (samples and steps):
        raise TrainingError("a schedule has at least one value, and either samples or steps for which each is taken")
    return partial(_piece, tuple(values), length, samples > 0)


def _piece(values: Sequence[float], length: int, by_samples: bool, point: TrainingPoint) -> float:
    return values[min((point.samples if by_samples else point.steps) // length, len(values) - 1)]


@attrs.define(eq=False)
class LearnerSettings:
    """A learner of a :class:`~cntk_core.trainer.Trainer`.

    ``rate`` and ``momentum`` may be set to something else at any time; the rest counts when the trainer is made.

    Attributes:
        rule: name of a learner plugin, its class, or one that is made already.
        rate: learning rate per sample; with ``mean``, of the minibatch.
        momentum: as ``momentum_unit`` says.
        parameters: names, which may have ``*``, or nodes; None is all that no other learner has.
        options: of the rule, by the fields of its options class.
        momentum_unit: ``minibatch``: the momentum of a minibatch of any size. ``sample``: m of each sample, so that a
            minibatch of N has ``m ** N``. ``time``: the time constant T in samples, ``m = exp(-1 / T)``.
        mean: the rule sees the mean of the gradient over the samples that the criteria count, not the sum. Limits and
            weights below are then those of a minibatch, not of a sample.
        l1, l2: weights of regularisation, per sample.
        clip: limit of the gradient, per sample: of each element, or with ``clip_norm`` of each parameter's norm.
        clip_norm: see there.
        noise: standard deviation of what is added to the parameters in each step.
    """

    rule: str | type[Learner] | Learner
    rate: Value
    momentum: Value = DEFAULT_MOMENTUM_PER_MB
    parameters: Iterable[Any] | None = None
    options: Mapping[str, Any] = attrs.field(factory=dict)
    momentum_unit: Literal["minibatch", "sample", "time"] = "minibatch"
    mean: bool = False
    l1: float = 0.0
    l2: float = 0.0
    clip: float = math.inf
    clip_norm: bool = False
    noise: float = 0.0

    def rates(self, point: TrainingPoint) -> Rates:
        """Return what the learner goes by in the step that begins here.

        Raises:
            TrainingError: the rate or the momentum makes no sense.
        """
        rate, momentum = _at(self.rate, point, "learning rate"), _at(self.momentum, point, "momentum")
        if not 0.0 <= rate < math.inf:
            raise TrainingError(f"the learning rate of step {point.steps + 1} is {rate:g}; it must not be negative")
        if self.momentum_unit == "time":
            momentum = momentum_of_time_constant(momentum)
        if not 0.0 <= momentum < 1.0:
            raise TrainingError(f"the momentum of step {point.steps + 1} is {momentum:g}; it must be in [0, 1)")
        return Rates(rate, momentum, of_minibatch=self.momentum_unit == "minibatch")

    def around_rule(self) -> SGDSettings:
        """Return what stands around the rule, as the SGD block of a recipe would say it.

        Raises:
            OptionError: a number makes no sense.
        """
        for name, value in (("l1", self.l1), ("l2", self.l2), ("noise", self.noise)):
            if not 0.0 <= value < math.inf:
                raise OptionError(f"{name} of a learner is {value:g}; it must not be negative")
        if self.momentum_unit not in ("minibatch", "sample", "time"):
            raise OptionError(f"momentum_unit is minibatch, sample or time, not {self.momentum_unit!r}")
        if not self.clip > 0.0:
            raise OptionError(f"clip of a learner is {self.clip:g}; it must be more than 0")
        return SGDSettings(
            max_epochs=1,
            l1_reg_weight=Schedule.constant(self.l1),
            l2_reg_weight=Schedule.constant(self.l2),
            clipping_threshold_per_sample=self.clip,
            gradient_clipping_with_truncation=not self.clip_norm,
            gaussian_noise_inject_std=Schedule.constant(self.noise),
        )


def _at(value: Value, point: TrainingPoint, what: str) -> float:
    found = value[point.epoch] if isinstance(value, Schedule) else value(point) if callable(value) else value
    try:
        return float(found)
    except (TypeError, ValueError):
        raise TrainingError(f"the {what} of step {point.steps + 1} is {found!r}, which is no number") from None


def checked_learners(learners: Any) -> tuple[LearnerSettings, ...]:
    """Return the learners of a trainer, of which there is at least one.

    Raises:
        TrainingError: something else was given.
    """
    found = tuple(learners) if isinstance(learners, list | tuple) else (learners,)
    wrong = next((one for one in found if not isinstance(one, LearnerSettings)), None if found else ())
    if wrong is not None:
        hint = 'For example LearnerSettings("sgd", rate=0.1).'
        raise TrainingError(f"a trainer takes LearnerSettings, one or several, not {wrong!r}", hint=hint)
    return found


class FindLearner(Protocol):
    """Looks learners up by name (a table of the registry)."""

    def get(self, name: str) -> type[Learner]:
        """Return the class."""
        ...


def make_rule(settings: LearnerSettings, learners: FindLearner) -> Learner:
    """Make the learner that settings ask for.

    Raises:
        PluginError: there is none of this name.
        OptionError: it has no such option, or not with this value.
    """
    rule = settings.rule
    if isinstance(rule, Learner):
        return rule
    kind = learners.get(rule) if isinstance(rule, str) else rule
    known = [field.name for field in attrs.fields(kind.options)]
    for name in settings.options:
        if name not in known:
            hint = f"Its options are: {', '.join(known) or 'none'}."
            raise OptionError(
                f"the learner {kind.__name__} has no option '{name}'{did_you_mean(name, known)}", hint=hint
            )
    try:
        return kind(kind.options(**settings.options))
    except (TypeError, ValueError) as error:
        raise OptionError(f"the options of the learner {kind.__name__}: {error}") from None


def share_parameters(
    learners: Sequence[LearnerSettings], parameters: Sequence[Parameter]
) -> list[tuple[Parameter, ...]]:
    """Return the parameters of each learner, of those that can be learned.

    Raises:
        NetworkError: a name fits none of them, two learners want the same one, or one is left without any.
    """
    taken: dict[Parameter, int] = {}
    for number, settings in enumerate(learners):
        for wanted in settings.parameters if settings.parameters is not None else ():
            for parameter in _named(wanted, parameters):
                if taken.setdefault(parameter, number) != number:
                    raise NetworkError(f"two learners are given the parameter '{parameter.name}'")
    rest = tuple(parameter for parameter in parameters if parameter not in taken)
    shares = [
        rest if settings.parameters is None else tuple(one for one in parameters if taken.get(one) == number)
        for number, settings in enumerate(learners)
    ]
    if sum(settings.parameters is None for settings in learners) > 1 or not all(shares):
        raise NetworkError(
            "a learner is left without parameters",
            hint="Say which parameters each learner has; one may have all that no other has.",
        )
    return shares


def _named(wanted: Any, parameters: Sequence[Parameter]) -> list[Parameter]:
    if isinstance(wanted, str):
        found = [one for one in parameters if fnmatchcase(one.name.lower(), wanted.lower())]
    else:
        node = getattr(wanted, "node", wanted)  # of the builder's terms
        found = [one for one in parameters if one is node]
    if not found:
        name = wanted if isinstance(wanted, str) else getattr(getattr(wanted, "node", wanted), "name", wanted)
        names = sorted(one.name for one in parameters)
        guess = did_you_mean(str(name), names)
        raise NetworkError(
            f"a learner is given '{name}', which is no learned parameter of the criterion{guess}",
            hint=f"These are: {', '.join(names)}.",
        )
    return found
