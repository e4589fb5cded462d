"""Kernels of layer normalization. Compiled by :func:`cntk_engine_cpu.compiler.compile_file`, for other precisions too.

Data are ``(rows, columns)``; each row has a mean and an inverse deviation of its own, which are kept as ``(rows, 2)``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cntk_engine_cpu.functions_float32 import F


def layer_norm(x: Any, scale: Any, bias: Any, epsilon: Any, moments: Any, out: Any) -> None:
    """Write ``(x - mean) / sqrt(variance + epsilon) * scale + bias``, and each row's mean and inverse deviation."""
    rows, columns = x.shape
    for i in range(rows):
        total: Any = F(0)
        for j in range(columns):
            total += x[i, j]
        mean = total / F(columns)
        squares: Any = F(0)
        for j in range(columns):
            centred = x[i, j] - mean
            squares += centred * centred
        inverse = F(1) / np.sqrt(squares / F(columns) + F(epsilon))
        moments[i, 0] = mean
        moments[i, 1] = inverse
        for j in range(columns):
            out[i, j] = (x[i, j] - mean) * inverse * scale[j] + bias[j]


def layer_norm_gradient(x: Any, scale: Any, moments: Any, incoming: Any, out: Any, accumulate: bool) -> None:
    """Write or add the gradient by ``x``."""
    rows, columns = x.shape
    for i in range(rows):
        mean, inverse = moments[i, 0], moments[i, 1]
        total: Any = F(0)
        slope: Any = F(0)
        for j in range(columns):
            g = incoming[i, j] * scale[j]
            total += g
            slope += g * (x[i, j] - mean)
        total /= F(columns)
        slope *= inverse * inverse / F(columns)
        if accumulate:
            for j in range(columns):
                out[i, j] += inverse * (incoming[i, j] * scale[j] - total - (x[i, j] - mean) * slope)
        else:
            for j in range(columns):
                out[i, j] = inverse * (incoming[i, j] * scale[j] - total - (x[i, j] - mean) * slope)


def layer_norm_sums(x: Any, moments: Any, incoming: Any, to_scale: Any, to_bias: Any) -> None:
    """Write the gradients by scale and bias."""
    rows, columns = x.shape
    for j in range(columns):
        to_scale[j] = F(0)
        to_bias[j] = F(0)
    for i in range(rows):
        mean, inverse = moments[i, 0], moments[i, 1]
        for j in range(columns):
            to_scale[j] += incoming[i, j] * ((x[i, j] - mean) * inverse)
            to_bias[j] += incoming[i, j]
