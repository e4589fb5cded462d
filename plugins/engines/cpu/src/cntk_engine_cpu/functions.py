"""Small functions that compiled kernels call, for any precision."""

from __future__ import annotations

from typing import Any

import numpy as np


def minimum(a: Any, b: Any) -> Any:
    """Smaller of two; NaN if either is."""
    return a if (a < b or a != a) else b


def maximum(a: Any, b: Any) -> Any:
    """Larger of two; NaN if either is."""
    return a if (a > b or a != a) else b


def sign(a: Any) -> Any:
    """-1, 0 or 1; NaN stays."""
    one = type(a)(1)
    return one if a > 0 else (-one if a < 0 else a)


def logaddexp(a: Any, b: Any) -> Any:
    """log(exp(a) + exp(b)) without overflow."""
    if a == b:  # infinities, too
        return a + type(a)(0.6931471805599453)
    difference = a - b
    if difference > 0:
        return a + np.log1p(np.exp(-difference))
    return b + np.log1p(np.exp(difference))


def larger(a: Any, b: Any) -> Any:
    """Whether a > b; False if either is NaN."""
    return a > b


def largest(matrix: Any, row: Any) -> Any:
    """Largest number of a row, those that are NaN left out unless all are.

    Eight maxima side by side: one alone would wait for itself at every step.
    """
    columns = matrix.shape[1]
    t0 = matrix[row, 0]
    t1 = t2 = t3 = t4 = t5 = t6 = t7 = t0
    whole = columns // 8 * 8
    for j in range(0, whole, 8):
        t0 = _second(t0, matrix[row, j])
        t1 = _second(t1, matrix[row, j + 1])
        t2 = _second(t2, matrix[row, j + 2])
        t3 = _second(t3, matrix[row, j + 3])
        t4 = _second(t4, matrix[row, j + 4])
        t5 = _second(t5, matrix[row, j + 5])
        t6 = _second(t6, matrix[row, j + 6])
        t7 = _second(t7, matrix[row, j + 7])
    for j in range(whole, columns):
        t0 = _second(t0, matrix[row, j])
    return _second(_second(_second(t0, t1), _second(t2, t3)), _second(_second(t4, t5), _second(t6, t7)))


def _second(a: Any, b: Any) -> Any:
    return b if b > a or a != a else a
