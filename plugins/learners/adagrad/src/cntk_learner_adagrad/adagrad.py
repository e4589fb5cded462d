"""AdaGrad: each weight's rate falls with the squares of its gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cntk_core.api import Learner, Slot, UpdateContext, option, options

SQUARES = "squared_gradients"
MULTIPLIER = "average_multiplier"
FLOOR = 1e-16
"""Added to the squares before the root is taken."""


@options
class AdaGradOptions:
    """Options of the rule, in the SGD block."""

    norm_with_ave_multiplier: bool = option(
        default=True, doc="divide the steps of a parameter by the average of its multipliers"
    )


class AdaGrad(Learner):
    """Duchi, Hazan and Singer's rule with CNTK's normalisation.

    With the gradient ``g`` (a sum over the samples) and the rate ``lr`` per sample::

        a = a + g * g
        multiplier = 1 / sqrt(a + 1e-16)
        w = w - lr / mean(multiplier) * multiplier * g

    The mean goes over the parameter; it is 1 with ``normWithAveMultiplier=false``. There is no momentum.
    """

    options = AdaGradOptions
    requires_api = "1.0"
    slots = (Slot(SQUARES),)

    @property
    def uses_momentum(self) -> bool:
        """Never."""
        return False

    def scalars(self, context: UpdateContext) -> Mapping[str, float]:
        """``rate``: per sample."""
        return {"rate": context.learning_rate}

    def means(
        self, m: Any, value: Any, gradient: Any, slots: Mapping[str, Any], scalars: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """The multiplier, if steps are normalised."""
        if not self.settings.norm_with_ave_multiplier:
            return {}
        return {MULTIPLIER: 1.0 / m.sqrt(slots[SQUARES] + gradient * gradient + FLOOR)}

    def rule(
        self, m: Any, value: Any, gradient: Any, slots: Mapping[str, Any], scalars: Mapping[str, Any]
    ) -> tuple[Any, Mapping[str, Any]]:
        """Return the new value and the new sum of squares."""
        squares = slots[SQUARES] + gradient * gradient
        rate = scalars["rate"]
        if self.settings.norm_with_ave_multiplier:
            rate = rate / scalars[MULTIPLIER]
        return value - rate * (gradient / m.sqrt(squares + FLOOR)), {SQUARES: squares}
