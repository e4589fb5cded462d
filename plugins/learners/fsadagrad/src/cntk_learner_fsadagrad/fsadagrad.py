"""FSAdaGrad: gradients divided by their root mean square over a long time, then smoothed by the momentum."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from cntk_core.api import Learner, Slot, UpdateContext, option, options

VARIANCE = "smoothed_variance"
SMOOTHED = "smoothed_gradient"
COUNT = "smoothed_count"

LARGEST = 10.0
"""Largest factor of a gradient."""


def _is_positive(instance: Any, field: attrs.Attribute[Any], number: float) -> None:
    if not 0.0 < number < math.inf:
        raise ValueError(f"'{field.name}' must be more than 0, not {number:g}")


@options
class FSAdaGradOptions:
    """Options of the rule, in the SGD block."""

    variance_time_constant: float = option(
        default=2.0 * 3600 * 100,
        validator=_is_positive,
        doc="samples over which variances are remembered; two hours of speech",
    )
    fs_adagrad_target_av_denom: float = option(
        default=1.0, validator=_is_positive, doc="factor of the scaled gradients"
    )


class FSAdaGrad(Learner):
    """CNTK's rule.

    With the gradient ``g`` (a sum over the ``N`` samples), the rate ``lr`` per sample, the momentum ``mom`` of the
    minibatch and ``v = exp(-N / varianceTimeConstant)``::

        n = v * n + (1 - v) * N                                  one number for all parameters
        a = v * a + (1 - v) * g * g
        g = g * min(10, fsAdagradTargetAvDenom * sqrt(n) / sqrt(a))
        s = mom * s + (1 - mom) * g                              s stays and is not used while mom is 0
        w = w - lr * s
    """

    options = FSAdaGradOptions
    requires_api = "1.0"
    slots = (Slot(VARIANCE), Slot(SMOOTHED))
    state = (Slot(COUNT),)

    def _kept(self, context: UpdateContext) -> float:
        return math.exp(-context.samples / self.settings.variance_time_constant)

    def advance(self, context: UpdateContext) -> Mapping[str, float]:
        """Count the samples that the variances are made of."""
        kept = self._kept(context)
        return {COUNT: kept * context.state[COUNT] + (1.0 - kept) * context.samples}

    def scalars(self, context: UpdateContext) -> Mapping[str, float]:
        """``kept`` and ``fresh``, shares of the variance; ``scale``; the shares of the smoothed gradient and the step.

        Without momentum the smoothed gradient is left as it is, and the step is that of the scaled gradient itself.
        """
        # As the original does, in the precision of the parameters: of 1 - v single precision leaves two or three
        # digits, and recipes were tuned with the steps that this gives.
        kept, momentum = float(np.dtype(context.dtype).type(self._kept(context))), context.momentum
        smooths = momentum > 0.0
        return {
            "kept": kept,
            "fresh": 1.0 - kept,
            "scale": self.settings.fs_adagrad_target_av_denom * math.sqrt(context.state[COUNT]),
            "old": momentum if smooths else 1.0,
            "new": 1.0 - momentum if smooths else 0.0,
            "smoothed_rate": context.learning_rate if smooths else 0.0,
            "direct_rate": 0.0 if smooths else context.learning_rate,
        }

    def rule(
        self, m: Any, value: Any, gradient: Any, slots: Mapping[str, Any], scalars: Mapping[str, Any]
    ) -> tuple[Any, Mapping[str, Any]]:
        """Return the new value, variance and smoothed gradient."""
        variance = scalars["kept"] * slots[VARIANCE] + scalars["fresh"] * (gradient * gradient)
        # This is min(10, scale / sqrt(variance)), and no division by zero.
        factor = scalars["scale"] / m.maximum(m.sqrt(variance), scalars["scale"] / LARGEST)
        scaled = gradient * factor
        smoothed = scalars["old"] * slots[SMOOTHED] + scalars["new"] * scaled
        change = scalars["smoothed_rate"] * smoothed + scalars["direct_rate"] * scaled
        return value - change, {VARIANCE: variance, SMOOTHED: smoothed}
