"""Expression trees on NumPy arrays: the portable way to run a fused group or an update rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cntk_core.api import ArrayMath
from cntk_core.api.engines import Expr

_MATH = ArrayMath(np)
_OPERATORS = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative}


class Evaluator:
    """Evaluates trees over one set of symbols; common sub-expressions are computed once.

    Args:
        symbols: name to array or number. Numbers take the type of the arrays they meet.
    """

    def __init__(self, symbols: Mapping[str, Any]) -> None:
        self._symbols = symbols
        self._known: dict[Expr, Any] = {}

    def __call__(self, expression: Expr | float) -> Any:
        """Return the value of a tree."""
        if not isinstance(expression, Expr):
            return expression
        if expression.operation == "symbol":
            return self._symbols[str(expression.args[0])]
        if expression not in self._known:
            args = [self(arg) for arg in expression.args if not isinstance(arg, str)]
            function = _OPERATORS.get(expression.operation) or getattr(_MATH, expression.operation)
            self._known[expression] = function(*args)
        return self._known[expression]
