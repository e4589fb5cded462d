"""Scalar expressions: one text that NumPy runs as it is and an engine may trace, fuse and compile.

An element-wise op is a function ``f(m, attributes, x, y, ...)`` that uses operators and the functions of a math
namespace ``m``. :class:`ArrayMath` wraps NumPy (or CuPy); :class:`TraceMath` builds a tree of :class:`Expr`.
"""

from __future__ import annotations

from typing import Any

import attrs

FUNCTIONS: dict[str, int] = {
    "exp": 1, "log": 1, "log1p": 1, "expm1": 1, "sqrt": 1, "tanh": 1, "sigmoid": 1, "sin": 1, "cos": 1, "abs": 1,
    "tan": 1, "sinh": 1, "cosh": 1, "arcsin": 1, "arccos": 1, "arctan": 1, "arcsinh": 1, "arccosh": 1, "arctanh": 1,
    "erf": 1, "floor": 1, "ceil": 1, "sign": 1, "minimum": 2, "maximum": 2, "power": 2, "where": 3,
    "less": 2, "less_equal": 2, "greater": 2, "greater_equal": 2, "equal": 2, "not_equal": 2, "logaddexp": 2,
}  # fmt: skip
"""Functions of a math namespace and how many arguments they take. Comparisons give 1 or 0 in the values' type."""

OPERATORS: dict[str, str] = {"add": "+", "sub": "-", "mul": "*", "div": "/", "neg": "-"}


@attrs.frozen(cache_hash=True)
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


_ERF_BORDER, _ERF_END = 0.46875, 6.0
"""Where the second approximation of the error function begins; and from where on the function is 1."""

_ERF_NEAR = (
    (1.85777706184603153e-1, 3.16112374387056560, 1.13864154151050156e2, 3.77485237685302021e2, 3.20937758913846947e3),
    (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3),
)
_ERF_FAR = (
    (
        2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594, 6.61191906371416295e1,
        2.98635138197400131e2, 8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3,
        1.23033935479799725e3,
    ),
    (
        1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2, 1.62138957456669019e3,
        3.29079923573345963e3, 4.36261909014324716e3, 3.43936767414372164e3, 1.23033935480374942e3,
    ),
)  # fmt: skip
"""Coefficients of numerator and denominator, the highest power first."""


def _polynomial(coefficients: tuple[float, ...], x: Any) -> Any:
    result = coefficients[0] * x + coefficients[1]
    for coefficient in coefficients[2:]:
        result = result * x + coefficient
    return result


class ArrayMath:
    """Math namespace over an array module (NumPy or one like it). Types of the values are kept."""

    def __init__(self, xp: Any) -> None:
        self.xp = xp
        own = ("sigmoid", "where", "erf", "less", "less_equal", "greater", "greater_equal", "equal", "not_equal")
        for name in FUNCTIONS.keys() - set(own):
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

    def erf(self, x: Any) -> Any:
        """Error function: W. J. Cody's rational approximations (Mathematics of Computation 23, 1969)."""
        xp = self.xp
        size = xp.abs(x)
        near = xp.minimum(size, _ERF_BORDER)
        square = near * near
        small = x * (_polynomial(_ERF_NEAR[0], square) / _polynomial(_ERF_NEAR[1], square))
        far = xp.minimum(size, _ERF_END)
        rest = xp.exp(-far * far) * (_polynomial(_ERF_FAR[0], far) / _polynomial(_ERF_FAR[1], far))
        return xp.where(size <= _ERF_BORDER, small, xp.sign(x) * (1.0 - rest))

    def where(self, condition: Any, chosen: Any, other: Any) -> Any:
        """Choose where the condition is not zero."""
        dtype = getattr(condition, "dtype", None)
        result = self.xp.where(condition != 0, chosen, other)
        return result.astype(dtype, copy=False) if dtype is not None else result
