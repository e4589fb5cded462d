"""Exponential and its relatives in double precision, for compiled kernels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

F = np.float64


def exp(x: Any) -> Any:
    """Exponential function."""
    return math.exp(x)


def tanh(x: Any) -> Any:
    """Hyperbolic tangent."""
    return math.tanh(x)


def sigmoid(x: Any) -> Any:
    """1 / (1 + e^-x)."""
    return 0.5 + 0.5 * math.tanh(0.5 * x)


def erf(x: Any) -> Any:
    """Error function."""
    return math.erf(x)
