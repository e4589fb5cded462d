"""Activations that came after CNTK 1: element-wise, so that engines fuse them with their neighbours.

Names and settings are those of CNTK 2 where it has them; ``Gelu`` is that of ONNX.
"""

from __future__ import annotations

import math
from typing import Any

import attrs

from cntk_core.errors import ShapeError, did_you_mean
from cntk_core.ops.language.define import elementwise_op

FORMS = ("none", "tanh")
"""How Gelu is computed: by the error function, or by a hyperbolic tangent near it."""


@attrs.frozen
class GeluAttributes:
    """Attributes of Gelu.

    Attributes:
        approximate: ``none`` (by the error function) or ``tanh``.

    Raises:
        ShapeError: there is no such form.
    """

    approximate: str = "none"

    def __attrs_post_init__(self) -> None:
        if self.approximate not in FORMS:
            guess = did_you_mean(self.approximate, FORMS)
            raise ShapeError(f"Gelu has no form '{self.approximate}'{guess}", hint=f"Forms: {', '.join(FORMS)}")


_TO_TANH, _CUBE = math.sqrt(2.0 / math.pi), 0.044715


def _share(m: Any, attributes: GeluAttributes, x: Any) -> Any:
    """What x is multiplied by: the chance of a normal number below x, or nearly so."""
    if attributes.approximate == "tanh":
        return 0.5 * (1.0 + m.tanh(_TO_TANH * (x + _CUBE * (x * x * x))))
    return 0.5 * (1.0 + m.erf(x * math.sqrt(0.5)))


def _gelu_gradient(m: Any, attributes: GeluAttributes, g: Any, y: Any, x: Any) -> Any:
    share = _share(m, attributes, x)
    if attributes.approximate == "tanh":
        slope = 2.0 * share * (1.0 - share) * (_TO_TANH * (1.0 + 3.0 * _CUBE * (x * x)))
    else:
        slope = m.exp(-0.5 * (x * x)) * math.sqrt(0.5 / math.pi)
    return g * (share + x * slope)


@elementwise_op("Gelu", gradient=_gelu_gradient, attributes=GeluAttributes)
def GELU(m: Any, attributes: GeluAttributes, x: Any) -> Any:
    """The chance that a standard normal number is below x, times x (Hendrycks and Gimpel, arXiv:1606.08415)."""
    return x * _share(m, attributes, x)


@attrs.frozen
class SoftPlusAttributes:
    """Attributes of SoftPlus: the larger ``steepness``, the nearer it comes to ReLU."""

    steepness: float = 1.0


@elementwise_op(
    "SoftPlus",
    gradient=lambda m, attributes, g, y, x: g * m.sigmoid(attributes.steepness * x),
    attributes=SoftPlusAttributes,
)
def SOFT_PLUS(m: Any, attributes: SoftPlusAttributes, x: Any) -> Any:
    """Smooth ReLU: log(1 + exp(steepness * x)) / steepness, without overflow."""
    z = attributes.steepness * x
    return (m.maximum(z, 0.0) + m.log1p(m.exp(-m.abs(z)))) / attributes.steepness


def _soft_sign_gradient(m: Any, attributes: Any, g: Any, y: Any, x: Any) -> Any:
    size = 1.0 + m.abs(x)
    return g / (size * size)


@elementwise_op("SoftSign", gradient=_soft_sign_gradient)
def SOFT_SIGN(m: Any, attributes: Any, x: Any) -> Any:
    """Fraction x / (1 + |x|), between -1 and 1."""
    return x / (1.0 + m.abs(x))


@attrs.frozen
class HardSigmoidAttributes:
    """Attributes of HardSigmoid: slope ``alpha`` and value at 0 ``beta``."""

    alpha: float = 0.2
    beta: float = 0.5


def _hard_sigmoid_gradient(m: Any, attributes: HardSigmoidAttributes, g: Any, y: Any, x: Any) -> Any:
    inside = m.greater(y, 0.0) * m.less(y, 1.0)
    return m.where(inside, attributes.alpha * g, 0.0)


@elementwise_op("HardSigmoid", gradient=_hard_sigmoid_gradient, attributes=HardSigmoidAttributes)
def HARD_SIGMOID(m: Any, attributes: HardSigmoidAttributes, x: Any) -> Any:
    """The line alpha * x + beta, limited to the range from 0 to 1."""
    return m.maximum(0.0, m.minimum(1.0, attributes.alpha * x + attributes.beta))


@attrs.frozen
class LeakyReLUAttributes:
    """Attributes of LeakyReLU: the slope for negative numbers."""

    alpha: float = 0.01


@elementwise_op(
    "LeakyReLU",
    gradient=lambda m, attributes, g, y, x: m.where(m.less(x, 0.0), attributes.alpha * g, g),
    attributes=LeakyReLUAttributes,
)
def LEAKY_RELU(m: Any, attributes: LeakyReLUAttributes, x: Any) -> Any:
    """The input, times alpha where it is negative."""
    return m.where(m.less(x, 0.0), attributes.alpha * x, x)


@elementwise_op(
    "PReLU",
    gradient=lambda m, attributes, g, y, slope, x: (
        m.where(m.less(x, 0.0), g * x, 0.0),
        m.where(m.less(x, 0.0), g * slope, g),
    ),
)
def PRELU(m: Any, attributes: Any, slope: Any, x: Any) -> Any:
    """The second input, times the first where it is negative (He et al., arXiv:1502.01852); inputs: slope, x."""
    return m.where(m.less(x, 0.0), slope * x, x)


@attrs.frozen
class SELUAttributes:
    """Attributes of SELU: ``gamma`` times an exponential linear unit of ``alpha``; by default it normalizes itself."""

    alpha: float = 1.6732632423543772848170429916717
    gamma: float = 1.0507009873554804934193349852946


@elementwise_op(
    "SELU",
    gradient=lambda m, attributes, g, y, x: (
        g * m.where(m.less(x, 0.0), y + attributes.gamma * attributes.alpha, attributes.gamma)
    ),
    attributes=SELUAttributes,
)
def SELU(m: Any, attributes: SELUAttributes, x: Any) -> Any:
    """Product gamma * x, where x is negative gamma * alpha * (exp(x) - 1) (Klambauer et al., arXiv:1706.02515)."""
    return attributes.gamma * m.where(m.less(x, 0.0), attributes.alpha * m.expm1(x), x)


@elementwise_op(
    "StraightThrough",
    gradient=lambda m, attributes, g, y, x: m.where(m.less_equal(m.abs(x), 1.0), g, 0.0),
)
def STRAIGHT_THROUGH(m: Any, attributes: Any, x: Any) -> Any:
    """Sign, -1 for 0; the gradient passes where |x| <= 1 (Bengio et al., arXiv:1308.3432)."""
    return m.where(m.equal(x, x), m.where(m.greater(x, 0.0), 1.0, -1.0), x)


OPS = (
    GELU,
    SOFT_PLUS,
    SOFT_SIGN,
    HARD_SIGMOID,
    LEAKY_RELU,
    PRELU,
    SELU,
    STRAIGHT_THROUGH,
)
