"""Small functions that compiled kernels call, for any precision. Imported by generated code only: needs numba."""

from __future__ import annotations

import numpy as np
from numba import njit

FAST = {"reassoc", "nsz", "contract", "arcp"}
"""Liberties that keep NaN and infinities as they are."""


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
