"""Adam and its relatives: a smoothed gradient over the root of a smoothed square, both without their bias to zero."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from cntk_core.api import Learner, Slot, UpdateContext, option, options
from cntk_learner_adam.checks import is_not_negative, is_positive, is_share

SMOOTHED = "smoothed_gradient"
SQUARES = "smoothed_square"
LARGEST = "largest_gradient"
BIAS1 = "bias1"
BIAS2 = "bias2"


@options
class AdamOptions:
    """Options of the rule, in the SGD block."""

    beta1: float | None = option(
        default=None, validator=is_share, doc="share of the old smoothed gradient; by default the block's momentum"
    )
    beta2: float = option(default=0.999, validator=is_share, doc="share of the old smoothed square")
    epsilon: float = option(default=1e-8, validator=is_positive, doc="added to the root of the smoothed square")
    unit_gain: bool = option(default=True, doc="false: a new gradient enters with factor 1 in place of 1 - beta1")


@options
class AdamWOptions(AdamOptions):
    """Options of the rule, in the SGD block."""

    weight_decay: float = option(
        default=0.01, validator=is_not_negative, doc="share of a weight, times the rate, that an update takes away"
    )


class Adam(Learner):
    """Kingma and Ba's rule.

    With the gradient ``g`` (a sum over the samples) and the rate ``lr``, which is that of one update::

        s = beta1 * s + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g * g
        w = w - lr * sqrt(1 - beta2 ** t) / (1 - beta1 ** t) * s / (sqrt(v) + epsilon)

    ``t`` counts the updates. Where ``beta1`` is the block's momentum, which depends on the size of a minibatch, the
    product of all that were used stands for ``beta1 ** t``.
    """

    options: ClassVar[type] = AdamOptions
    requires_api = "1.0"
    slots = (Slot(SMOOTHED), Slot(SQUARES))
    state = (Slot(BIAS1, initial=1.0), Slot(BIAS2, initial=1.0))

    @property
    def uses_momentum(self) -> bool:
        """Whether ``beta1`` is not given."""
        return self.settings.beta1 is None

    def _beta1(self, context: UpdateContext) -> float:
        given = self.settings.beta1
        return context.momentum if given is None else float(given)

    def advance(self, context: UpdateContext) -> Mapping[str, float]:
        """Multiply the products of all shares so far, which say how much of the first zeros is left."""
        state = context.state
        return {BIAS1: state[BIAS1] * self._beta1(context), BIAS2: state[BIAS2] * self.settings.beta2}

    def scalars(self, context: UpdateContext) -> Mapping[str, float]:
        """``old1``, ``new1``, ``old2``, ``new2``: the shares. ``step``: the rate with both corrections."""
        beta1, beta2 = self._beta1(context), self.settings.beta2
        return {
            "old1": beta1,
            "new1": 1.0 - beta1 if self.settings.unit_gain else 1.0,
            "old2": beta2,
            "new2": 1.0 - beta2,
            "step": context.learning_rate * self._correction(context.state),
        }

    def _correction(self, state: Mapping[str, float]) -> float:
        return math.sqrt(1.0 - state[BIAS2]) / (1.0 - state[BIAS1])

    def rule(
        self, m: Any, value: Any, gradient: Any, slots: Mapping[str, Any], scalars: Mapping[str, Any]
    ) -> tuple[Any, Mapping[str, Any]]:
        """Return the new value, smoothed gradient and smoothed square."""
        smoothed = scalars["old1"] * slots[SMOOTHED] + scalars["new1"] * gradient
        squares = scalars["old2"] * slots[SQUARES] + scalars["new2"] * (gradient * gradient)
        new = value - scalars["step"] * (smoothed / (m.sqrt(squares) + self.settings.epsilon))
        return new, {SMOOTHED: smoothed, SQUARES: squares}


class AdaMax(Adam):
    """Adam with the largest gradient in place of the root of the smoothed square.

    With the names of :class:`Adam`::

        u = max(beta2 * u, abs(g))
        w = w - lr / (1 - beta1 ** t) * s / (u + epsilon)
    """

    slots = (Slot(SMOOTHED), Slot(LARGEST))

    def _correction(self, state: Mapping[str, float]) -> float:
        return 1.0 / (1.0 - state[BIAS1])

    def rule(
        self, m: Any, value: Any, gradient: Any, slots: Mapping[str, Any], scalars: Mapping[str, Any]
    ) -> tuple[Any, Mapping[str, Any]]:
        """Return the new value, smoothed gradient and largest gradient."""
        smoothed = scalars["old1"] * slots[SMOOTHED] + scalars["new1"] * gradient
        largest = m.maximum(scalars["old2"] * slots[LARGEST], m.abs(gradient))
        new = value - scalars["step"] * (smoothed / (largest + self.settings.epsilon))
        return new, {SMOOTHED: smoothed, LARGEST: largest}


class AdamW(Adam):
    """Adam with Loshchilov and Hutter's weight decay: an update first multiplies a weight by ``1 - lr * weightDecay``.

    Unlike ``L2RegWeight`` it is not scaled with the gradients. It changes all weights, also those without a gradient.
    """

    options = AdamWOptions

    @property
    def everywhere(self) -> bool:
        """Whether there is any decay."""
        return bool(self.settings.weight_decay > 0.0)

    def scalars(self, context: UpdateContext) -> Mapping[str, float]:
        """Those of Adam, and ``left``: what is left of a weight."""
        return {**super().scalars(context), "left": 1.0 - context.learning_rate * self.settings.weight_decay}

    def rule(
        self, m: Any, value: Any, gradient: Any, slots: Mapping[str, Any], scalars: Mapping[str, Any]
    ) -> tuple[Any, Mapping[str, Any]]:
        """Return the new value, smoothed gradient and smoothed square."""
        return super().rule(m, scalars["left"] * value, gradient, slots, scalars)
