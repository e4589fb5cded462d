"""AdaDelta: steps in the unit of the weights, from the sizes of the steps before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cntk_core.api import Learner, Slot, UpdateContext, option, options
from cntk_learner_adam.checks import is_positive, is_share

SQUARES = "smoothed_square"
STEPS = "smoothed_square_of_steps"


@options
class AdaDeltaOptions:
    """Options of the rule, in the SGD block."""

    rho: float = option(default=0.95, validator=is_share, doc="share of the old smoothed squares")
    epsilon: float = option(default=1e-8, validator=is_positive, doc="added to the smoothed squares")


class AdaDelta(Learner):
    """Zeiler's rule.

    With the gradient ``g`` (a sum over the samples) and the rate ``lr``, which is that of one update::

        a = rho * a + (1 - rho) * g * g
        d = sqrt(x + epsilon) / sqrt(a + epsilon) * g
        x = rho * x + (1 - rho) * d * d
        w = w - lr * d

    There is no momentum.
    """

    options = AdaDeltaOptions
    requires_api = "1.0"
    slots = (Slot(SQUARES), Slot(STEPS))

    @property
    def uses_momentum(self) -> bool:
        """Never."""
        return False

    def scalars(self, context: UpdateContext) -> Mapping[str, float]:
        """``rate``."""
        return {"rate": context.learning_rate}

    def rule(
        self, m: Any, value: Any, gradient: Any, slots: Mapping[str, Any], scalars: Mapping[str, Any]
    ) -> tuple[Any, Mapping[str, Any]]:
        """Return the new value and both smoothed squares."""
        rho, epsilon = self.settings.rho, self.settings.epsilon
        squares = rho * slots[SQUARES] + (1.0 - rho) * (gradient * gradient)
        step = m.sqrt((slots[STEPS] + epsilon) / (squares + epsilon)) * gradient
        steps = rho * slots[STEPS] + (1.0 - rho) * (step * step)
        return value - scalars["rate"] * step, {SQUARES: squares, STEPS: steps}
