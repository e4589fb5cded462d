"""Two activations: Mish(x) = x tanh(log(1 + exp(x))), and HardSwish(x) = x clip(x + shift, 0, 6) / 6."""

from __future__ import annotations

from typing import Any

import attrs

from cntk_core.api import elementwise_op

requires_api = "1.0"


def _soft(m: Any, x: Any) -> Any:
    return m.tanh(m.where(m.greater(x, 20), x, m.log(1 + m.exp(m.minimum(x, 20)))))


def _mish_gradient(m: Any, attributes: Any, g: Any, y: Any, x: Any) -> Any:
    soft = _soft(m, x)
    return g * (soft + x * (1 - soft * soft) * m.sigmoid(x))


@elementwise_op("Mish", gradient=_mish_gradient)
def mish(m: Any, attributes: Any, x: Any) -> Any:
    """x tanh(softplus(x))."""
    return x * _soft(m, x)


@attrs.frozen
class HardSwishAttributes:
    """Where the ramp begins: at -shift."""

    shift: float = 3.0


def _ramp(m: Any, attributes: Any, x: Any) -> Any:
    return m.minimum(m.maximum(x + attributes.shift, 0), 6) / 6


def _hard_gradient(m: Any, attributes: Any, g: Any, y: Any, x: Any) -> Any:
    inside = m.where(m.greater(x + attributes.shift, 0), m.where(m.less(x + attributes.shift, 6), 1, 0), 0)
    return g * (_ramp(m, attributes, x) + x * inside / 6)


@elementwise_op("HardSwish", gradient=_hard_gradient, attributes=HardSwishAttributes)
def hard_swish(m: Any, attributes: Any, x: Any) -> Any:
    """x times a ramp from 0 to 1."""
    return x * _ramp(m, attributes, x)
