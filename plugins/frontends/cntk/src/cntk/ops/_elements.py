"""Element-wise operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from cntk.internal import sanitize_input
from cntk.ops._making import associative_multi_arg, block, made, one, operands, zero
from cntk.ops.functions import Function
from cntk.variables import Variable


def abs(x: Any, name: str = "") -> Function:
    """The absolute value."""
    return made("Abs", one(x), name=name)


def acos(x: Any, name: str = "") -> Function:
    """The arc cosine."""
    return made("Acos", one(x), name=name)


def asin(x: Any, name: str = "") -> Function:
    """The arc sine."""
    return made("Asin", one(x), name=name)


def asinh(x: Any, name: str = "") -> Function:
    """The inverse hyperbolic sine."""
    return made("Asinh", one(x), name=name)


def atan(x: Any, name: str = "") -> Function:
    """The arc tangent."""
    return made("Atan", one(x), name=name)


def atanh(x: Any, name: str = "") -> Function:
    """The inverse hyperbolic tangent."""
    return made("Atanh", one(x), name=name)


def cos(x: Any, name: str = "") -> Function:
    """The cosine."""
    return made("Cos", one(x), name=name)


def cosh(x: Any, name: str = "") -> Function:
    """The hyperbolic cosine."""
    return made("Cosh", one(x), name=name)


def exp(x: Any, name: str = "") -> Function:
    """The exponential."""
    return made("Exp", one(x), name=name)


def hardmax(x: Any, name: str = "") -> Function:
    """1 where the largest element is (the first of them), and 0 elsewhere."""
    return made("Hardmax", one(x), name=name)


def log(x: Any, name: str = "") -> Function:
    """The natural logarithm."""
    return made("Log", one(x), name=name)


def negate(x: Any, name: str = "") -> Function:
    """The negative."""
    return made("Negate", one(x), name=name)


def reciprocal(x: Any, name: str = "") -> Function:
    """1 divided by it."""
    return made("Reciprocal", one(x), name=name)


def relu(x: Any, name: str = "") -> Function:
    """``max(x, 0)``."""
    return made("ReLU", one(x), name=name)


def sigmoid(x: Any, name: str = "") -> Function:
    """``1 / (1 + exp(-x))``."""
    return made("StableSigmoid", one(x), name=name)


def sin(x: Any, name: str = "") -> Function:
    """The sine."""
    return made("Sin", one(x), name=name)


def sinh(x: Any, name: str = "") -> Function:
    """The hyperbolic sine."""
    return made("Sinh", one(x), name=name)


def sqrt(x: Any, name: str = "") -> Function:
    """The square root; 0 of negative numbers."""
    return made("Sqrt", one(x), name=name)


def tan(x: Any, name: str = "") -> Function:
    """The tangent."""
    return made("Tan", one(x), name=name)


def tanh(x: Any, name: str = "") -> Function:
    """The hyperbolic tangent."""
    return made("Tanh", one(x), name=name)


def floor(arg: Any, name: str = "") -> Function:
    """The largest whole number that is not greater."""
    return made("Floor", one(arg), name=name)


def ceil(arg: Any, name: str = "") -> Function:
    """The smallest whole number that is not less."""
    return negate(floor(negate(arg)), name)


def round(arg: Any, name: str = "") -> Function:
    """The nearest whole number; a half goes up."""
    return floor(plus(arg, 0.5), name)


def square(x: Any, name: str = "") -> Function:
    """The square."""
    return element_times(x, x, name=name)


@associative_multi_arg
def plus(left: Any, right: Any, name: str = "") -> Function:
    """The sum of two operands or more, which are repeated along axes of length 1."""
    return made("Plus", *operands(left, right), name=name)


def minus(left: Any, right: Any, name: str = "") -> Function:
    """The difference."""
    return made("Minus", *operands(left, right), name=name)


@associative_multi_arg
def element_times(left: Any, right: Any, name: str = "") -> Function:
    """The product of two operands or more, element by element."""
    return made("ElementTimes", *operands(left, right), name=name)


def element_divide(left: Any, right: Any, name: str = "") -> Function:
    """The quotient, element by element."""
    return block("ElementDivide", name, operands(left, right), lambda x, y: element_times(x, reciprocal(y)))


@associative_multi_arg
def log_add_exp(left: Any, right: Any, name: str = "") -> Function:
    """``log(exp(x) + exp(y))`` of two operands or more."""
    return made("LogPlus", *operands(left, right), name=name)


@associative_multi_arg
def element_max(left: Any, right: Any, name: str = "") -> Function:
    """The larger of two operands or more."""
    return block("ElementMax", name, operands(left, right), lambda x, y: element_select(greater(x, y), x, y))


@associative_multi_arg
def element_min(left: Any, right: Any, name: str = "") -> Function:
    """The smaller of two operands or more."""
    return block("ElementMin", name, operands(left, right), lambda x, y: element_select(less(x, y), x, y))


def pow(base: Any, exponent: Any, name: str = "") -> Function:
    """The power."""
    return made("Pow", *operands(base, exponent), name=name)


def less(left: Any, right: Any, name: str = "") -> Function:
    """1 where the left operand is less, else 0."""
    return made("Less", *operands(left, right), name=name)


def less_equal(left: Any, right: Any, name: str = "") -> Function:
    """1 where the left operand is less or equal, else 0."""
    return made("LessEqual", *operands(left, right), name=name)


def greater(left: Any, right: Any, name: str = "") -> Function:
    """1 where the left operand is greater, else 0."""
    return made("Greater", *operands(left, right), name=name)


def greater_equal(left: Any, right: Any, name: str = "") -> Function:
    """1 where the left operand is greater or equal, else 0."""
    return made("GreaterEqual", *operands(left, right), name=name)


def equal(left: Any, right: Any, name: str = "") -> Function:
    """1 where the left operand is equal, else 0."""
    return made("Equal", *operands(left, right), name=name)


def not_equal(left: Any, right: Any, name: str = "") -> Function:
    """1 where the left operand is not equal, else 0."""
    return made("NotEqual", *operands(left, right), name=name)


def element_select(flag: Any, value_if_true: Any, value_if_false: Any, name: str = "") -> Function:
    """One of two operands, as a flag is not 0 or is."""
    return made("Select", *operands(flag, value_if_true, value_if_false), name=name)


def element_and(x: Any, y: Any, name: str = "") -> Function:
    """1 where both are greater than 0, else 0."""
    return block("And", name, operands(x, y), lambda a, b: element_times(greater(a, 0), greater(b, 0)))


def element_not(x: Any, name: str = "") -> Function:
    """1 where it is not greater than 0, else 0."""
    return block("Not", name, [one(x)], lambda a: less_equal(a, 0))


def element_or(x: Any, y: Any, name: str = "") -> Function:
    """1 where one of them is greater than 0, else 0."""
    return block("Or", name, operands(x, y), lambda a, b: greater(plus(greater(a, 0), greater(b, 0)), 0))


def element_xor(x: Any, y: Any, name: str = "") -> Function:
    """1 where exactly one of them is greater than 0, else 0."""
    return block("Xor", name, operands(x, y), lambda a, b: not_equal(greater(a, 0), greater(b, 0)))


def clip(x: Any, min_value: Any, max_value: Any, name: str = "") -> Function:
    """The operand between two limits; a limit may be an operand, too. Numbers are taken in single precision."""
    value = one(x)
    dtype = np.float32 if value._dtype is None else value._dtype
    limits = [np.float32(each) if isinstance(each, float) else each for each in (min_value, max_value)]
    return made("Clip", value, *(sanitize_input(each, dtype) for each in limits), name=name)


def elu(x: Any, alpha: float = 1.0, name: str = "") -> Function:
    """X where it is positive, else ``alpha * (exp(x) - 1)`` (Clevert et al., ICLR 2016)."""

    def inside(a: Variable) -> Function:
        return element_select(less(a, 0), element_times(_number(alpha, a), made("ELU", a)), a)

    return block("ELU", name, [one(x)], inside, alpha=float(alpha))


def selu(
    x: Any, scale: float = 1.0507009873554804934193349852946, alpha: float = 1.6732632423543772848170429916717,
    name: str = "",
) -> Function:  # fmt: skip
    """``scale * elu(x, alpha)`` (Klambauer et al., NIPS 2017)."""

    def inside(a: Variable) -> Function:
        negative = element_times(_number(alpha, a), made("ELU", a))
        return element_times(_number(scale, a), element_select(less(a, 0), negative, a))

    return block("SELU", name, [one(x)], inside, gamma=float(scale), alpha=float(alpha))


def leaky_relu(x: Any, alpha: float = 0.01, name: str = "") -> Function:
    """X where it is positive, else ``alpha * x``."""

    def inside(a: Variable) -> Function:
        return element_select(less(a, 0), element_times(_number(alpha, a), a), a)

    return block("LeakyReLU", name, [one(x)], inside, alpha=float(alpha))


def param_relu(alpha: Any, x: Any, name: str = "") -> Function:
    """X where it is positive, else ``alpha * x``; alpha may be learned."""
    slope, value = operands(alpha, x)
    return block("PReLU", name, [value, slope], lambda a, b: element_select(less(a, 0), element_times(b, a), a))


def softplus(x: Any, steepness: float = 1, name: str = "") -> Function:
    """``log(1 + exp(steepness * x)) / steepness``."""
    if steepness == 1:
        return block("Softplus", name, [one(x)], lambda a: log_add_exp(a, zero(a._dtype)))

    def inside(a: Variable) -> Function:
        return element_divide(softplus(element_times(steepness, a)), steepness)

    return block("softplus", name, [one(x)], inside)


def softsign(x: Any, steepness: float = 1, name: str = "") -> Function:
    """``x / (1 + abs(x))``."""
    return block("Softsign", name, [one(x)], lambda a: element_divide(a, plus(abs(a), 1)))


def hard_sigmoid(x: Any, alpha: float, beta: float, name: str = "") -> Function:
    """``alpha * x + beta`` between 0 and 1."""

    def inside(a: Variable) -> Function:
        line = plus(element_times(a, alpha), beta)
        above = element_select(less(line, 0), zero(a._dtype), line)
        return element_select(greater(above, 1), _number(1.0, a), above)

    return block("HardSigmoid", name, [one(x)], inside, alpha=float(alpha), beta=float(beta))


def mean(*operands: Any, name: str = "") -> Function:
    """The mean of several operands, element by element; they may stand in a list."""
    given = _listed(operands)

    def inside(*several: Variable) -> Function:
        return element_divide(plus(*several), len(several))

    return block("Mean", name, given, inside)


def sum(*operands: Any, name: str = "") -> Function:
    """The sum of several operands, element by element; they may stand in a list."""
    return block("Sum", name, _listed(operands), plus)


def _listed(given: tuple[Any, ...]) -> list[Variable]:
    several = given[0] if len(given) == 1 and isinstance(given[0], list | tuple) else given
    return operands(*several)


def straight_through_impl(x: Any, name: str = "") -> Function:
    """1 where x is positive, else -1; gradients flow as if that were x, between -1 and 1."""
    return made("StraightThrough", one(x), name=name)


def stop_gradient(input: Any, name: str = "") -> Function:
    """The operand; no gradient flows through."""
    return made("StopGradient", one(input), name=name)


def _number(value: float, like: Variable) -> Variable:
    return sanitize_input(float(value), np.float32 if like._dtype is None else like._dtype)


__all__ = [
    "abs",
    "acos",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "ceil",
    "clip",
    "cos",
    "cosh",
    "element_and",
    "element_divide",
    "element_max",
    "element_min",
    "element_not",
    "element_or",
    "element_select",
    "element_times",
    "element_xor",
    "elu",
    "equal",
    "exp",
    "floor",
    "greater",
    "greater_equal",
    "hard_sigmoid",
    "hardmax",
    "leaky_relu",
    "less",
    "less_equal",
    "log",
    "log_add_exp",
    "mean",
    "minus",
    "negate",
    "not_equal",
    "param_relu",
    "plus",
    "pow",
    "reciprocal",
    "relu",
    "round",
    "selu",
    "sigmoid",
    "sin",
    "sinh",
    "softplus",
    "softsign",
    "sqrt",
    "square",
    "stop_gradient",
    "straight_through_impl",
    "sum",
    "tan",
    "tanh",
]
