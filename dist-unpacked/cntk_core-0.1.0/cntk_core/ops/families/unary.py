"""Element-wise ops of one input, and Clip. Activations that came later: :mod:`~cntk_core.ops.families.activations`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import attrs

from cntk_core.ops.language.define import elementwise_op
from cntk_core.ops.language.op import LATER, Op
from cntk_core.ops.language.traits import BY_ELEMENTS, Traits

SMALLEST_LOG_ARGUMENT = 1e-37
"""Arguments of Log below this give :data:`LOG_FLOOR`."""

LOG_FLOOR = -85.1


def clipped_log(m: Any, x: Any) -> Any:
    """Logarithm as CNTK computes it: -85.1 for everything below 1e-37, negative numbers included."""
    return m.where(m.less(x, SMALLEST_LOG_ARGUMENT), LOG_FLOOR, m.log(x))


def _unary(
    name: str,
    doc: str,
    forward: Callable[[Any, Any], Any],
    gradient: Callable[..., Any] | None,
    traits: Traits = BY_ELEMENTS,
    **names: str,
) -> Op:
    """Make an op without attributes from ``forward(m, x)`` and ``gradient(m, g, y, x)``."""
    aliases = {language: (alias,) for language, alias in names.items()}
    back = None if gradient is None else (lambda m, attributes, g, y, x: gradient(m, g, y, x))
    return elementwise_op(name, gradient=back, aliases=aliases, traits=traits, doc=doc)(
        lambda m, attributes, x: forward(m, x)
    )


ABS = _unary("Abs", "Absolute value.", lambda m, x: m.abs(x), lambda m, g, y, x: g * m.sign(x))
COSINE = _unary("Cosine", "Cosine.", lambda m, x: m.cos(x), lambda m, g, y, x: -(g * m.sin(x)), ndl="Cos")
SINE = _unary("Sin", "Sine.", lambda m, x: m.sin(x), lambda m, g, y, x: g * m.cos(x))
TAN = _unary("Tan", "Tangent.", lambda m, x: m.tan(x), lambda m, g, y, x: g * (1.0 + y * y))
ASIN = _unary(
    "Asin",
    "Angle with this sine; NaN beyond -1 and 1.",
    lambda m, x: m.arcsin(x),
    lambda m, g, y, x: g / m.sqrt(1.0 - x * x),
)
ACOS = _unary(
    "Acos",
    "Angle with this cosine; NaN beyond -1 and 1.",
    lambda m, x: m.arccos(x),
    lambda m, g, y, x: -(g / m.sqrt(1.0 - x * x)),
)
ATAN = _unary("Atan", "Angle with this tangent.", lambda m, x: m.arctan(x), lambda m, g, y, x: g / (1.0 + x * x))
SINH = _unary("Sinh", "Hyperbolic sine.", lambda m, x: m.sinh(x), lambda m, g, y, x: g * m.cosh(x))
COSH = _unary("Cosh", "Hyperbolic cosine.", lambda m, x: m.cosh(x), lambda m, g, y, x: g * m.sinh(x))
ASINH = _unary(
    "Asinh",
    "Inverse of the hyperbolic sine.",
    lambda m, x: m.arcsinh(x),
    lambda m, g, y, x: g / m.sqrt(1.0 + x * x),
)
ACOSH = _unary(
    "Acosh",
    "Inverse of the hyperbolic cosine; NaN below 1.",
    lambda m, x: m.arccosh(x),
    lambda m, g, y, x: g / m.sqrt(x * x - 1.0),
)
ATANH = _unary(
    "Atanh",
    "Inverse of the hyperbolic tangent; NaN beyond -1 and 1.",
    lambda m, x: m.arctanh(x),
    lambda m, g, y, x: g / (1.0 - x * x),
)
ERF = _unary(
    "Erf",
    "Error function.",
    lambda m, x: m.erf(x),
    lambda m, g, y, x: g * (2.0 / math.sqrt(math.pi) * m.exp(-(x * x))),
)
EXP = _unary("Exp", "Exponential.", lambda m, x: m.exp(x), lambda m, g, y, x: g * y)
LOG = _unary(
    "Log",
    "Natural logarithm; -85.1 below 1e-37.",
    clipped_log,
    lambda m, g, y, x: g / m.maximum(x, SMALLEST_LOG_ARGUMENT),
)
SQRT = _unary(
    "Sqrt",
    "Square root; 0 for negative numbers.",
    lambda m, x: m.sqrt(m.maximum(x, 0.0)),
    lambda m, g, y, x: g / (2.0 * y),
)
RECIPROCAL = _unary(
    "Reciprocal",
    "1/x, and 0 for 0.",
    lambda m, x: m.where(m.equal(x, 0.0), 0.0, 1.0 / x),
    lambda m, g, y, x: -(g * (y * y)),
)
NEGATE = _unary("Negate", "-x.", lambda m, x: -x, lambda m, g, y, x: -g)
FLOOR = _unary("Floor", "The largest whole number that is not greater.", lambda m, x: m.floor(x), None)
_PASSES = attrs.evolve(BY_ELEMENTS, passes_through=True)
PASS = _unary("Pass", "x itself.", lambda m, x: x, lambda m, g, y, x: g, _PASSES)
STOP_GRADIENT = _unary(
    "StopGradient", "x itself; no gradient flows through.", lambda m, x: x, None, _PASSES, ndl="ConstantRef"
)
RECTIFIED_LINEAR = _unary(
    "RectifiedLinear",
    "max(x, 0).",
    lambda m, x: m.maximum(x, 0.0),
    lambda m, g, y, x: m.where(m.greater(y, 0.0), g, 0.0),
    ndl="ReLU",
    brainscript="ReLU",
)


@attrs.frozen
class ELUAttributes:
    """Attributes of ExponentialLinearUnit: the limit for small numbers is ``-alpha``; alpha is positive."""

    alpha: float = attrs.field(default=1.0, metadata=LATER)


@elementwise_op(
    "ExponentialLinearUnit",
    gradient=lambda m, attributes, g, y, x: m.where(m.greater_equal(y, 0.0), g, g * (attributes.alpha + y)),
    attributes=ELUAttributes,
    aliases={"brainscript": ("ELU",)},
)
def EXPONENTIAL_LINEAR_UNIT(m: Any, attributes: ELUAttributes, x: Any) -> Any:
    """The input where it is not negative, else alpha * (exp(x) - 1)."""
    return m.where(m.greater_equal(x, 0.0), x, attributes.alpha * m.expm1(x))


SIGMOID = _unary("Sigmoid", "1 / (1 + exp(-x)).", lambda m, x: m.sigmoid(x), lambda m, g, y, x: g * (y * (1.0 - y)))
STABLE_SIGMOID = _unary(
    "StableSigmoid",
    "As Sigmoid, which is stable too.",
    lambda m, x: m.sigmoid(x),
    lambda m, g, y, x: g * (y * (1.0 - y)),
)
TANH = _unary("Tanh", "Hyperbolic tangent.", lambda m, x: m.tanh(x), lambda m, g, y, x: g * (1.0 - y * y))


@elementwise_op(
    "Clip",
    gradient=lambda m, attributes, g, y, low, high, x: (None, None, m.where(m.equal(x, y), g, 0.0)),
    differentiable=(False, False, True),
)
def CLIP(m: Any, attributes: Any, low: Any, high: Any, x: Any) -> Any:
    """The third input limited to the range from the first to the second."""
    return m.where(m.less(x, low), low, m.where(m.greater(x, high), high, x))


OPS = (
    ABS,
    COSINE,
    SINE,
    TAN,
    ACOS,
    ASIN,
    ATAN,
    SINH,
    COSH,
    ASINH,
    ACOSH,
    ATANH,
    ERF,
    EXP,
    LOG,
    SQRT,
    RECIPROCAL,
    NEGATE,
    FLOOR,
    PASS,
    STOP_GRADIENT,
    RECTIFIED_LINEAR,
    EXPONENTIAL_LINEAR_UNIT,
    SIGMOID,
    STABLE_SIGMOID,
    TANH,
    CLIP,
)
