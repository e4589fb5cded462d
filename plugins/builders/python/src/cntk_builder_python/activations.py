"""Activations and other functions element by element that came after CNTK 1."""

from __future__ import annotations

from cntk_builder_python.functions import _unary, element_select
from cntk_builder_python.graph import Operand, Term

cos = _unary("Cosine")
tan = _unary("Tan")
acos = _unary("Acos")
asin = _unary("Asin")
atan = _unary("Atan")
cosh = _unary("Cosh")
sinh = _unary("Sinh")
acosh = _unary("Acosh")
asinh = _unary("Asinh")
atanh = _unary("Atanh")
erf = _unary("Erf")
softsign = _unary("SoftSign")
straight_through = _unary("StraightThrough")


def gelu(x: Term, approximate: str = "none") -> Term:
    """Return ``x`` times the normal distribution's share below ``x``; ``approximate="tanh"`` comes near it."""
    return x.graph.apply("Gelu", x, approximate=approximate)


def softplus(x: Term, steepness: float = 1.0) -> Term:
    """Return ``log(1 + exp(steepness * x)) / steepness``, without overflow."""
    return x.graph.apply("SoftPlus", x, steepness=steepness)


def hard_sigmoid(x: Term, alpha: float = 0.2, beta: float = 0.5) -> Term:
    """Return ``alpha * x + beta``, limited to the range from 0 to 1."""
    return x.graph.apply("HardSigmoid", x, alpha=alpha, beta=beta)


def elu(x: Term, alpha: float = 1.0) -> Term:
    """Return ``x``, and ``alpha * (exp(x) - 1)`` where it is negative."""
    return x.graph.apply("ExponentialLinearUnit", x, alpha=alpha)


def selu(x: Term) -> Term:
    """Return the scaled exponential linear unit that keeps mean 0 and variance 1."""
    return x.graph.apply("SELU", x)


def leaky_relu(x: Term, alpha: float = 0.01) -> Term:
    """Return ``x``, times ``alpha`` where it is negative."""
    return x.graph.apply("LeakyReLU", x, alpha=alpha)


def param_relu(slope: Operand, x: Term) -> Term:
    """Return ``x``, times ``slope`` where it is negative. :class:`PReLU` is the layer that learns it."""
    return x.graph.apply("PReLU", slope, x)


def clip(x: Term, low: Operand, high: Operand) -> Term:
    """Return ``x`` limited to a range."""
    return x.graph.apply("Clip", low, high, x)


def cast(x: Term, dtype: str) -> Term:
    """Return ``x`` rounded as ``float16``, ``float`` or ``double`` holds it, in the network's own precision."""
    return x.graph.apply("Cast", x, new_data_type=dtype)


def constant_like(x: Term, value: float) -> Term:
    """Return one number in the shape of ``x``."""
    return x.graph.apply("ConstantOp", x, fill_value=value)


def element_max(first: Term, *others: Operand) -> Term:
    """Return the largest of several terms, element by element."""
    for other in others:
        first = element_select(first.graph.apply("Greater", first, other), first, other)
    return first


def element_min(first: Term, *others: Operand) -> Term:
    """Return the smallest of several terms, element by element."""
    for other in others:
        first = element_select(first.graph.apply("Less", first, other), first, other)
    return first


def mean(first: Term, *others: Operand) -> Term:
    """Return the mean of several terms, element by element."""
    total = first
    for other in others:
        total = total + other
    return total * (1.0 / (1 + len(others)))
