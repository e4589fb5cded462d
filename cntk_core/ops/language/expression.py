"""Scalar expressions: one text that NumPy runs as it is and an engine may trace, fuse and compile.

An element-wise op is a function ``f(m, attributes, x, y, ...)`` that uses operators and the functions of a math
namespace ``m``. :class:`ArrayMath` wraps NumPy (or CuPy); :class:`TraceMath` builds a tree of :class:`Expr`.
"""

from __future__ import annotations

from typing import Any

import attrs

FUNCTIONS: dict[str, int] = {
    "exp": 1, "log": 1, "log1p": 1, "expm1": 1, "sqrt": 1, "tanh": 1, "sigmoid": 1, "sin": 1, "cos": 1, "abs": 1,
    "floor": 1, "ceil": 1, "sign": 1, "minimum": 2, "maximum": 2, "power": 2, "where": 3,
    "less": 2, "less_equal": 2, "greater": 2, "greater_equal": 2, "equal": 2, "not_equal": 2, "logaddexp": 2,
}  # fmt: skip
"""Functions of a math namespace and how many arguments they take. Comparisons give 1 or 0 in the values' type."""

OPERATORS: dict[str, str] = {"add": "+", "sub": "-", "mul": "*", "div": "/", "neg": "-"}


@attrs.frozen
class Expr:
    """A node of an expression tree: a function or operator applied to trees, symbols and numbers.

    ``operation`` is a key of :data:`FUNCTIONS` or :data:`OPERATORS`, or ``"symbol"`` (``args`` is the name).
    Equal trees compare equal and hash alike, so common sub-expressions are found with a dictionary.
    """

    operation: str
    args: tuple[Expr | float | str, ...]

    def __add__(self, other: Operand) -> Expr:
        return _binary("add", self, other)

    def __radd__(self, other: float) -> Expr:
        return _binary("add", other, self)

    def __sub__(self, other: Operand) -> Expr:
        return _binary("sub", self, other)

    def __rsub__(self, other: float) -> Expr:
        return _binary("sub", other, self)

    def __mul__(self, other: Operand) -> Expr:
        return _binary("mul", self, other)

    def __rmul__(self, other: float) -> Expr:
        return _binary("mul", other, self)

    def __truediv__(self, other: Operand) -> Expr:
        return _binary("div", self, other)

    def __rtruediv__(self, other: float) -> Expr:
        return _binary("div", other, self)

    def __neg__(self) -> Expr:
        return Expr("neg", (self,))

    def symbols(self) -> frozenset[str]:
        """Names of the symbols in this tree."""
        if self.operation == "symbol":
            return frozenset((str(self.args[0]),))
        return frozenset().union(*(arg.symbols() for arg in self.args if isinstance(arg, Expr)))


Operand = Expr | float


def symbol(name: str) -> Expr:
    """Return the leaf that stands for a named value."""
    return Expr("symbol", (name,))


def _binary(operation: str, left: Operand, right: Operand) -> Expr:
    return Expr(operation, (_operand(left), _operand(right)))


def _operand(value: Operand) -> Operand:
    return value if isinstance(value, Expr) else float(value)


class TraceMath:
    """Math namespace whose functions build expression trees."""

    def __getattr__(self, name: str) -> Any:
        if name not in FUNCTIONS:
            raise AttributeError(f"the math namespace has no function '{name}'")

        def build(*args: Operand) -> Expr:
            if len(args) != FUNCTIONS[name]:
                raise TypeError(f"{name} takes {FUNCTIONS[name]} arguments, not {len(args)}")
            return Expr(name, tuple(_operand(arg) for arg in args))

        return build


class ArrayMath:
    """Math namespace over an array module (NumPy or one like it). Types of the values are kept."""

    def __init__(self, xp: Any) -> None:
        self.xp = xp
        for name in ("exp", "log", "log1p", "expm1", "sqrt", "tanh", "sin", "cos", "abs", "floor", "ceil", "sign"):
            setattr(self, name, getattr(xp, name))
        for name in ("minimum", "maximum", "power", "logaddexp"):
            setattr(self, name, getattr(xp, name))
        for name in ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"):
            setattr(self, name, self._comparison(getattr(xp, name)))

    def _comparison(self, compare: Any) -> Any:
        def compared(left: Any, right: Any) -> Any:
            dtype = getattr(left, "dtype", None) or getattr(right, "dtype", None) or "float64"
            return compare(left, right).astype(dtype)

        return compared

    def sigmoid(self, x: Any) -> Any:
        """Logistic function, stable for large arguments of both signs: (1 + tanh(x / 2)) / 2."""
        return 0.5 + 0.5 * self.xp.tanh(0.5 * x)

    def where(self, condition: Any, chosen: Any, other: Any) -> Any:
        """Choose where the condition is not zero."""
        dtype = getattr(condition, "dtype", None)
        result = self.xp.where(condition != 0, chosen, other)
        return result.astype(dtype, copy=False) if dtype is not None else result
