"""The whole update of one step, as one expression around a learner's rule.

Order: limit the gradient, add L2, the learner's rule, add noise, shrink by L1. With N samples, a rate ``lr`` per sample
and the gradient ``g`` as a sum over the samples::

    g = clip(g, t * N)              or  g * (t * N / norm(g)) where that is less than 1
    g = g + l2 * N * w
    w, slots = rule(w, g, slots)
    w = w + noise
    w = sign(w) * max(abs(w) - lr * l1 * N, 0)

Where the rule is to see the mean of the gradient, ``g / N`` comes first and ``N`` is 1 in all that follows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from cntk_core.contract.learner import Learner, Slot, UpdateContext, UpdateRule
from cntk_core.contract.store import ParameterStore
from cntk_core.contract.user_learner import ParameterUpdate, UserLearner
from cntk_core.errors import WrongResult, shown
from cntk_core.network.node import Parameter
from cntk_core.ops.language.expression import ArrayMath, TraceMath, symbol
from cntk_core.plan.plan import Plan
from cntk_core.training.settings import SGDSettings

NOISE_SLOT = "injected_noise"
"""Slot that the session fills with standard normal numbers before each update. It is not kept in checkpoints."""

_MEAN = "mean_share"
_LIMIT = "clip_limit"
_FACTOR = "clip_factor"
_L2 = "l2_weight"
_NOISE = "noise_std"
_L1 = "l1_threshold"


def compose_update(learner: Learner, settings: SGDSettings, *, mean: bool = False) -> UpdateRule:
    """Put clipping, regularisation and noise around a learner's rule; what is off is not in the expression.

    With ``mean`` the rule sees the mean of the gradient over the samples. The rule can be pickled if the learner can.
    """
    noise, l1 = settings.injects_noise, settings.has_l1
    own = _scalars_of(learner)
    means = _means_of(learner, own)
    extra = ((_MEAN,) if mean else ()) + _names(settings)
    made = _Update(learner, own, means, extra)
    kind = type(learner)
    return UpdateRule(
        slots=learner.slots + ((Slot(NOISE_SLOT),) if noise else ()),
        scalars=(*own, *extra),
        expression=made.expression,
        identity_gradient=not (settings.clips or settings.has_l2 or mean),
        everywhere=settings.has_l2 or l1 or learner.everywhere,
        key=f"{kind.__module__}.{kind.__qualname__}({learner.settings!r})+{','.join(extra)}",
        means=means,
        mean_expression=made.mean_expression if means else None,
        on_host=made.on_host if isinstance(learner, UserLearner) else None,
    )


@attrs.frozen(eq=False)
class _Update:
    """What a rule is made of: the learner, the names of its numbers, and of those that stand around it."""

    learner: Learner
    own: tuple[str, ...]
    means: tuple[str, ...]
    extra: tuple[str, ...]

    def expression(
        self, m: Any, value: Any, gradient: Any, slots: Mapping[str, Any], scalars: Mapping[str, Any]
    ) -> tuple[Any, Mapping[str, Any]]:
        prepared = _prepare(m, value, gradient, scalars, self.extra)
        numbers = {name: scalars[name] for name in (*self.own, *self.means)}
        result, changed = _ruled(self.learner, self.learner.rule(m, value, prepared, slots, numbers))
        if _NOISE in self.extra:
            result = result + scalars[_NOISE] * slots[NOISE_SLOT]
            changed = {**changed, NOISE_SLOT: slots[NOISE_SLOT]}
        if _L1 in self.extra:
            result = m.sign(result) * m.maximum(m.abs(result) - scalars[_L1], 0.0)
        return result, changed

    def mean_expression(
        self, m: Any, value: Any, gradient: Any, slots: Mapping[str, Any], scalars: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        prepared = _prepare(m, value, gradient, scalars, self.extra)
        return self.learner.means(m, value, prepared, slots, {name: scalars[name] for name in self.own})

    def on_host(self, parameters: Sequence[ParameterUpdate], scalars: Sequence[Mapping[str, float]]) -> None:
        """Do the whole update around a learner in Python, in the same order."""
        assert isinstance(self.learner, UserLearner)
        m = ArrayMath(np)
        for each, numbers in zip(parameters, scalars, strict=True):
            each.gradient[...] = _prepare(m, each.value, each.gradient, numbers, self.extra)
        self.learner.update(parameters)
        for each, numbers in zip(parameters, scalars, strict=True):
            if _NOISE in self.extra:
                each.value += numbers[_NOISE] * each.slots[NOISE_SLOT]
            if _L1 in self.extra:
                each.value = np.sign(each.value) * np.maximum(np.abs(each.value) - numbers[_L1], 0.0)


def _ruled(learner: Learner, answer: Any) -> tuple[Any, Mapping[str, Any]]:
    """Return what a rule gave, if it is the new value and the slots that have changed."""
    if not (isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], Mapping)):
        raise WrongResult(learner.rule, f"returned {shown(answer)}, not the new value and a dict of the new slots")
    unknown = [name for name in answer[1] if name not in {slot.name for slot in learner.slots}]
    if unknown:
        raise WrongResult(learner.rule, f"returned a slot '{unknown[0]}', which is none of the learner's slots")
    return answer


def _prepare(m: Any, value: Any, gradient: Any, scalars: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    """The gradient that a learner's rule sees: limited, with L2."""
    if _MEAN in names:
        gradient = gradient * scalars[_MEAN]
    if _LIMIT in names:
        gradient = m.minimum(m.maximum(gradient, -scalars[_LIMIT]), scalars[_LIMIT])
    if _FACTOR in names:
        gradient = gradient * scalars[_FACTOR]
    if _L2 in names:
        gradient = gradient + scalars[_L2] * value
    return gradient


def first_state(learner: Learner) -> dict[str, float]:
    """The learner's state before the first step."""
    return {slot.name: slot.initial for slot in learner.state}


def _scalars_of(learner: Learner) -> tuple[str, ...]:
    """Names of a learner's scalars."""
    context = UpdateContext(samples=1, learning_rate=1.0, momentum=0.0, state=first_state(learner))
    numbers = learner.scalars(attrs.evolve(context, state=learner.advance(context)))
    good = (int, float, np.number, np.ndarray)
    if not (isinstance(numbers, Mapping) and all(isinstance(each, good) for each in numbers.values())):
        raise WrongResult(learner.scalars, f"returned {shown(numbers)}, not a dict of numbers")
    return tuple(numbers)


def _means_of(learner: Learner, scalars: tuple[str, ...]) -> tuple[str, ...]:
    """Names of the means that a learner's rule needs."""
    slots = {slot.name: symbol(slot.name) for slot in learner.slots}
    numbers = {name: symbol(name) for name in scalars}
    return tuple(learner.means(TraceMath(), symbol("value"), symbol("gradient"), slots, numbers))


def _names(settings: SGDSettings) -> tuple[str, ...]:
    names = []
    if settings.clips:
        names.append(_FACTOR if settings.clips_norm else _LIMIT)
    if settings.has_l2:
        names.append(_L2)
    if settings.injects_noise:
        names.append(_NOISE)
    if settings.has_l1:
        names.append(_L1)
    return tuple(names)


def scalars_for(
    learner: Learner,
    settings: SGDSettings,
    parameter: Parameter,
    context: UpdateContext,
    *,
    uses: int = 1,
    clip_factor: float = 1.0,
    mean_of: int = 0,
) -> dict[str, float]:
    """The numbers of one step for one parameter, by the names of :func:`compose_update`.

    Args:
        learner, settings: what the rule was composed of.
        parameter: whose multipliers count.
        context: the step; its learning rate is that of the epoch, without the parameter's multiplier.
        uses: of :func:`count_uses`.
        clip_factor: of :func:`clip_factor`, where the norm is limited.
        mean_of: samples over which the rule sees the mean of the gradient; 0 if it sees the sum.
    """
    rate = context.learning_rate * parameter.learning_rate_multiplier * uses
    numbers = dict(learner.scalars(attrs.evolve(context, learning_rate=rate)))
    samples, regularized = context.samples, parameter.regularization_multiplier
    if mean_of:
        numbers[_MEAN], samples = 1.0 / mean_of, 1
    if settings.clips_norm:
        numbers[_FACTOR] = clip_factor
    elif settings.clips:
        numbers[_LIMIT] = settings.clipping_threshold_per_sample * samples
    if settings.has_l2:
        numbers[_L2] = settings.l2_reg_weight[context.epoch] * regularized * samples
    if settings.injects_noise:
        numbers[_NOISE] = settings.gaussian_noise_inject_std[context.epoch]
    if settings.has_l1:
        numbers[_L1] = rate * settings.l1_reg_weight[context.epoch] * regularized * samples
    return numbers


def count_uses(plan: Plan) -> dict[Parameter, int]:
    """How often each trained parameter is an input of the nodes that the criterion needs.

    The original updates a parameter once for each use, every time by the whole gradient. That multiplies its learning
    rate; recipes that share weights were tuned with it.
    """
    uses = dict.fromkeys(plan.trained, 0)
    if plan.criterion is not None:
        for node in plan.network.order([plan.criterion], stop_at_constants=True):
            for child in node.inputs:
                if isinstance(child, Parameter) and child in uses:
                    uses[child] += 1
    return uses


def clip_factor(store: ParameterStore, parameter: Parameter, limit: float) -> float:
    """By what a parameter's gradient is multiplied so that its norm is at most ``limit``."""
    gradient = store.gradient(parameter)
    norm = float(np.sqrt(np.sum(np.square(gradient, dtype=np.float64))))
    return limit / norm if norm > limit else 1.0
