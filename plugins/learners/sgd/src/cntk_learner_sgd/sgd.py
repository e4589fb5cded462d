"""The plain rule of CNTK: unit-gain momentum, plain or Nesterov's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cntk_core.api import Learner, Slot, UpdateContext, option, options

SMOOTHED = "smoothed_gradient"


@options
class SGDOptions:
    """Options of the rule, in the SGD block."""

    use_nag: bool = option(default=False, key="useNAG", doc="Nesterov's accelerated gradient")


class SGD(Learner):
    """Stochastic gradient descent.

    With the gradient ``g`` (a sum over the samples), the rate ``lr`` per sample and the momentum ``mom`` of the
    minibatch::

        s = mom * s + (1 - mom) * lr * g
        w = w - s                                   plain
        w = w - (mom * s + (1 - mom) * lr * g)      useNAG
    """

    options = SGDOptions
    requires_api = "1.0"
    slots = (Slot(SMOOTHED),)
    steady = True

    def scalars(self, context: UpdateContext) -> Mapping[str, float]:
        """``momentum``, and ``step``: the rate times the share of the new gradient."""
        return {"momentum": context.momentum, "step": (1.0 - context.momentum) * context.learning_rate}

    def rule(
        self, m: Any, value: Any, gradient: Any, slots: Mapping[str, Any], scalars: Mapping[str, Any]
    ) -> tuple[Any, Mapping[str, Any]]:
        """Return the new value and the new smoothed gradient."""
        momentum = scalars["momentum"]
        new = scalars["step"] * gradient
        smoothed = momentum * slots[SMOOTHED] + new
        change = momentum * smoothed + new if self.settings.use_nag else smoothed
        return value - change, {SMOOTHED: smoothed}
