"""Exponential and its relatives in double precision, for compiled kernels."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

F = np.float64


@njit(inline="always", error_model="numpy")
def exp(x):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Exponential function."""
    return math.exp(x)


@njit(inline="always", error_model="numpy")
def tanh(x):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Hyperbolic tangent."""
    return math.tanh(x)


@njit(inline="always", error_model="numpy")
def sigmoid(x):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """1 / (1 + e^-x)."""
    return 0.5 + 0.5 * math.tanh(0.5 * x)


@njit(inline="always", error_model="numpy")
def erf(x):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Error function."""
    return math.erf(x)
