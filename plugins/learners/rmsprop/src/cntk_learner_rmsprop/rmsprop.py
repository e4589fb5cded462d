"""RmsProp with the step sizes of Rprop: larger while the gradient keeps its sign, smaller when it changes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from cntk_core.api import Learner, Slot, UpdateContext, option, options

SQUARES = "mean_square"
SIGN = "last_sign"
STEP = "step_size"
MULTIPLIER = "average_multiplier"

FLOOR = 1e-6
"""Added to the mean square before the root is taken."""

FIRST_STEP = 0.02
"""Size of a weight's step before its first gradient."""


def _check(good: Callable[[float], bool], rule: str) -> Callable[[Any, attrs.Attribute[Any], float], None]:
    """Return a validator that says which rule a number breaks."""

    def check(instance: Any, field: attrs.Attribute[Any], number: float) -> None:
        if not good(number):
            raise ValueError(f"'{field.name}' {rule}, not {number:g}")

    return check


@options
class RmsPropOptions:
    """Options of the rule, in the SGD block."""

    rms_gamma: float = option(
        default=0.99,
        key="rms_gamma",
        validator=_check(lambda x: 0.0 <= x < 1.0, "must be in [0, 1)"),
        doc="share of the old mean square",
    )
    rms_wgt_inc: float = option(
        default=1.2,
        key="rms_wgt_inc",
        validator=_check(lambda x: 1.0 <= x < math.inf, "must be at least 1"),
        doc="factor of a step after an equal sign",
    )
    rms_wgt_dec: float = option(
        default=0.75,
        key="rms_wgt_dec",
        validator=_check(lambda x: 0.0 < x <= 1.0, "must be in (0, 1]"),
        doc="factor of a step after another sign",
    )
    rms_wgt_max: float = option(default=10.0, key="rms_wgt_max", doc="largest step")
    rms_wgt_min: float = option(
        default=0.1,
        key="rms_wgt_min",
        validator=_check(lambda x: x > 0.0, "must be more than 0"),
        doc="smallest step",
    )
    norm_with_ave_multiplier: bool = option(
        default=True, doc="divide the steps of a parameter by the average of its multipliers"
    )

    def __attrs_post_init__(self) -> None:
        if not self.rms_wgt_min <= self.rms_wgt_max:
            raise ValueError(f"rms_wgt_min={self.rms_wgt_min:g} is more than rms_wgt_max={self.rms_wgt_max:g}")


class RmsProp(Learner):
    """CNTK's rule.

    With the gradient ``g`` (a sum over the samples) and the rate ``lr`` per sample, for each weight::

        a = gamma * a + (1 - gamma) * g * g                              at first a = g * g
        s = min(s * inc, max)   if g has the sign of the gradient before, and is not 0
            max(s * dec, min)   otherwise                                at first s = 0.02
        multiplier = s / sqrt(a + 1e-6)
        w = w - lr / mean(multiplier) * multiplier * g

    The mean goes over the parameter; it is 1 with ``normWithAveMultiplier=false``. There is no momentum.

    A step size is kept negative until the weight's first gradient, and positive from then on.
    """

    options = RmsPropOptions
    requires_api = "1.0"
    slots = (Slot(SQUARES), Slot(SIGN), Slot(STEP, initial=-FIRST_STEP))

    @property
    def uses_momentum(self) -> bool:
        """Never."""
        return False

    def scalars(self, context: UpdateContext) -> Mapping[str, float]:
        """``rate``: per sample."""
        return {"rate": context.learning_rate}

    def _squares(self, m: Any, gradient: Any, slots: Mapping[str, Any]) -> Any:
        gamma, square = self.settings.rms_gamma, gradient * gradient
        return m.where(m.less(slots[STEP], 0.0), square, gamma * slots[SQUARES] + (1.0 - gamma) * square)

    def _steps(self, m: Any, gradient: Any, slots: Mapping[str, Any]) -> Any:
        chosen, before = self.settings, m.abs(slots[STEP])
        larger = m.minimum(before * chosen.rms_wgt_inc, chosen.rms_wgt_max)
        smaller = m.maximum(before * chosen.rms_wgt_dec, chosen.rms_wgt_min)
        return m.where(m.greater(slots[SIGN] * gradient, 0.0), larger, smaller)

    def means(
        self, m: Any, value: Any, gradient: Any, slots: Mapping[str, Any], scalars: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """The multiplier, if steps are normalised."""
        if not self.settings.norm_with_ave_multiplier:
            return {}
        return {MULTIPLIER: self._steps(m, gradient, slots) / m.sqrt(self._squares(m, gradient, slots) + FLOOR)}

    def rule(
        self, m: Any, value: Any, gradient: Any, slots: Mapping[str, Any], scalars: Mapping[str, Any]
    ) -> tuple[Any, Mapping[str, Any]]:
        """Return the new value, mean square, sign and step size."""
        squares, steps = self._squares(m, gradient, slots), self._steps(m, gradient, slots)
        rate = scalars["rate"]
        if self.settings.norm_with_ave_multiplier:
            rate = rate / scalars[MULTIPLIER]
        new = value - rate * (gradient * (steps / m.sqrt(squares + FLOOR)))
        return new, {SQUARES: squares, SIGN: m.sign(gradient), STEP: steps}
