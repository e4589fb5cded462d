"""The learner lion: Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms", Algorithm 2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cntk_core.api import Learner, Slot, UpdateContext, at_least, option, options


@options
class LionOptions:
    """What an SGD block may say of it."""

    beta1: float = option(default=0.9, doc="share of the average in a step")
    beta2: float = option(default=0.99, doc="share of the average that is kept")
    weight_decay: float = option(default=0.0, doc="share of a weight, times the rate", validator=at_least(0))


class Lion(Learner):
    """``w = w - rate * (sign(beta1 * s + (1 - beta1) * g) + decay * w);  s = beta2 * s + (1 - beta2) * g``."""

    options = LionOptions
    requires_api = "1.0"
    slots = (Slot("average"),)

    def scalars(self, context: UpdateContext) -> Mapping[str, float]:
        """The rate of a whole minibatch, and the settings."""
        return {
            "rate": context.learning_rate * context.samples,
            "one": self.settings.beta1,
            "two": self.settings.beta2,
            "decay": self.settings.weight_decay,
        }

    def rule(
        self, m: Any, value: Any, gradient: Any, slots: Mapping[str, Any], scalars: Mapping[str, Any]
    ) -> tuple[Any, Mapping[str, Any]]:
        """The new value and the new average."""
        average, one, two = slots["average"], scalars["one"], scalars["two"]
        step = m.sign(one * average + (1 - one) * gradient) + scalars["decay"] * value
        return value - scalars["rate"] * step, {"average": two * average + (1 - two) * gradient}
