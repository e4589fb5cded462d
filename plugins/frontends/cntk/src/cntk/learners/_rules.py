"""Update rules of CNTK 2 that no learner plugin has, as the engines compile them.

Sources: Sutskever and others, *On the importance of initialization and momentum in deep learning* (ICML 2013);
Kingma and Ba, *Adam: a method for stochastic optimization* (ICLR 2015).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import attrs
import numpy as np

from cntk_core.api import Learner, Slot, UpdateContext

SMOOTHED = "smoothed_gradient"
SQUARES = "smoothed_square"
VARIANCES = "smoothed_variance"
COUNT = "smoothed_count"
KEPT = "variance_kept"

_LARGEST_SCALE = 10.0
"""FSAdaGrad never makes a gradient more than so many times as large."""


@attrs.frozen
class MomentumOptions:
    """Of rules with momentum.

    Attributes:
        unit_gain: a new gradient counts with what the momentum leaves; otherwise whole.
    """

    unit_gain: bool = True


class Momentum(Learner):
    """Descent with momentum: ``s = m * s + lr * u * g ; w = w - s``, with ``u = 1 - m`` for unit gain, else 1."""

    options: ClassVar[type] = MomentumOptions
    requires_api = "1.0"
    slots = (Slot(SMOOTHED),)
    steady = True
    tells_momentum = True  # to writers of progress; of all rules this one alone, as there

    def scalars(self, context: UpdateContext) -> Mapping[str, float]:
        """``kept``: the momentum; ``step``: the rate of a new gradient."""
        gain = 1.0 - context.momentum if self.settings.unit_gain else 1.0
        return {"kept": context.momentum, "step": gain * context.learning_rate}

    def rule(
        self, m: Any, value: Any, gradient: Any, slots: Mapping[str, Any], scalars: Mapping[str, Any]
    ) -> tuple[Any, Mapping[str, Any]]:
        """Return the new value and the new smoothed gradient."""
        smoothed = scalars["kept"] * slots[SMOOTHED] + scalars["step"] * gradient
        return value - smoothed, {SMOOTHED: smoothed}


class Nesterov(Momentum):
    """Nesterov's momentum: as :class:`Momentum`, and ``w = w - m * s - lr * u * g``."""

    tells_momentum = False

    def rule(
        self, m: Any, value: Any, gradient: Any, slots: Mapping[str, Any], scalars: Mapping[str, Any]
    ) -> tuple[Any, Mapping[str, Any]]:
        """Return the new value and the new smoothed gradient."""
        fresh = scalars["step"] * gradient
        smoothed = scalars["kept"] * slots[SMOOTHED] + fresh
        return value - scalars["kept"] * smoothed - fresh, {SMOOTHED: smoothed}


class Plain(Learner):
    """Descent: ``w = w - lr * g``."""

    options: ClassVar[type] = MomentumOptions
    requires_api = "1.0"
    steady = True

    def scalars(self, context: UpdateContext) -> Mapping[str, float]:
        """``step``: the rate."""
        return {"step": context.learning_rate}

    def rule(
        self, m: Any, value: Any, gradient: Any, slots: Mapping[str, Any], scalars: Mapping[str, Any]
    ) -> tuple[Any, Mapping[str, Any]]:
        """Return the new value."""
        return value - scalars["step"] * gradient, {}


def _rest(kept: float, dtype: str) -> float:
    """Return what is left of 1, in the precision of the parameters as the original computes it."""
    number = np.dtype(dtype).type
    return float(number(1.0) - number(kept))


@attrs.frozen
class VarianceOptions(MomentumOptions):
    """Of rules that keep the variance of the gradient.

    Attributes:
        kept: says how much of the old variance a minibatch of so many samples leaves.
        epsilon: added to the root of the variance.
        largest: divide by the largest gradient, not by the root of the variance.
    """

    kept: Any = attrs.field(default=None, repr=False)
    epsilon: float = 1e-8
    largest: bool = False


class Adam(Learner):
    """Adam; with ``largest``, AdaMax.

    With ``v`` the share of the variance and ``t`` the number of updates::

        a = v * a + (1 - v) * g * g                  AdaMax: a = max(v * a, abs(g)), and root(a) is a
        s = m * s + u * g
        w = w - lr * sqrt(1 - v ** t) / (1 - m ** t) * s / (sqrt(a) + epsilon)      AdaMax: without the root of v
    """

    options: ClassVar[type] = VarianceOptions
    requires_api = "1.0"
    slots = (Slot(SQUARES), Slot(SMOOTHED))
    state = (Slot(COUNT),)

    def advance(self, context: UpdateContext) -> Mapping[str, float]:
        """Count the updates."""
        return {COUNT: context.state[COUNT] + 1.0}

    def scalars(self, context: UpdateContext) -> Mapping[str, float]:
        """``kept``, ``fresh``: shares of the mean; ``old``, ``new``: of the variance; ``step``: the corrected rate."""
        kept, momentum = self.settings.kept(context.samples), context.momentum
        count = context.state[COUNT]
        correction = 1.0 / (1.0 - momentum**count)
        if not self.settings.largest:
            correction *= math.sqrt(1.0 - kept**count)
        return {
            "kept": momentum,
            "fresh": 1.0 - momentum if self.settings.unit_gain else 1.0,
            "old": kept,
            "new": _rest(kept, context.dtype),
            "step": context.learning_rate * correction,
        }

    def rule(
        self, m: Any, value: Any, gradient: Any, slots: Mapping[str, Any], scalars: Mapping[str, Any]
    ) -> tuple[Any, Mapping[str, Any]]:
        """Return the new value, smoothed square (or largest gradient) and smoothed gradient."""
        old = scalars["old"] * slots[SQUARES]
        if self.settings.largest:
            spread = root = m.maximum(old, m.abs(gradient))
        else:
            spread = old + scalars["new"] * (gradient * gradient)
            root = m.sqrt(spread)
        smoothed = scalars["kept"] * slots[SMOOTHED] + scalars["fresh"] * gradient
        step = scalars["step"] * (smoothed / (root + self.settings.epsilon))
        return value - step, {SQUARES: spread, SMOOTHED: smoothed}


class FSAdaGrad(Learner):
    """A gradient over the root of its smoothed square, with momentum.

    With ``n`` the smoothed count of samples::

        a = v * a + (1 - v) * g * g
        h = g * min(sqrt(n) / sqrt(a), 10)           h = g where a is 0
        s = m * s + u * h ; w = w - lr * s           w = w - lr * h without momentum
    """

    options: ClassVar[type] = VarianceOptions
    requires_api = "1.0"
    slots = (Slot(VARIANCES), Slot(SMOOTHED))
    state = (Slot(COUNT),)

    def advance(self, context: UpdateContext) -> Mapping[str, float]:
        """Smooth the count of samples as the variance is smoothed."""
        kept = self.settings.kept(context.samples)
        return {COUNT: kept * context.state[COUNT] + (1.0 - kept) * context.samples}

    def scalars(self, context: UpdateContext) -> Mapping[str, float]:
        """Shares of mean and variance as those of :class:`Adam`; ``scale``: root of the count; ``rate``."""
        kept, momentum = self.settings.kept(context.samples), context.momentum
        return {
            "kept": momentum,
            "fresh": 1.0 - momentum if self.settings.unit_gain or not momentum else 1.0,
            "old": kept,
            "new": _rest(kept, context.dtype),
            "scale": math.sqrt(context.state[COUNT]),
            "rate": context.learning_rate,
        }

    def rule(
        self, m: Any, value: Any, gradient: Any, slots: Mapping[str, Any], scalars: Mapping[str, Any]
    ) -> tuple[Any, Mapping[str, Any]]:
        """Return the new value, smoothed variance and smoothed gradient."""
        spread = scalars["old"] * slots[VARIANCES] + scalars["new"] * (gradient * gradient)
        some = m.greater(spread, 0.0)
        scale = m.where(some, m.minimum(scalars["scale"] / m.sqrt(m.where(some, spread, 1.0)), _LARGEST_SCALE), 1.0)
        smoothed = scalars["kept"] * slots[SMOOTHED] + scalars["fresh"] * (gradient * scale)
        return value - scalars["rate"] * smoothed, {VARIANCES: spread, SMOOTHED: smoothed}
