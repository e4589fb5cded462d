"""Small functions that compiled kernels call, for any precision. Imported by generated code only: needs numba."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(inline="always", error_model="numpy")
def minimum(a, b):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Smaller of two; NaN if either is."""
    return a if (a < b or a != a) else b


@njit(inline="always", error_model="numpy")
def maximum(a, b):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Larger of two; NaN if either is."""
    return a if (a > b or a != a) else b


@njit(inline="always", error_model="numpy")
def sign(a):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """-1, 0 or 1; NaN stays."""
    one = type(a)(1)
    return one if a > 0 else (-one if a < 0 else a)


@njit(error_model="numpy")
def logaddexp(a, b):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """log(exp(a) + exp(b)) without overflow."""
    return np.logaddexp(a, b)


@njit(inline="always", error_model="numpy")
def larger(a, b):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Whether a > b; False if either is NaN."""
    return a > b


@njit(error_model="numpy")
def largest(matrix, row):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
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


@njit(inline="always", error_model="numpy")
def _second(a, b):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    return b if b > a or a != a else a
