"""A slow, obvious quantizer of one column, from docs/original-rules.md#quantized-gradients. Nothing of it is shared."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np


def ends(values: list[float], bits: int, by_sign: bool) -> tuple[float, float]:
    """The range of a column, with sums that are rounded once."""
    if bits > 1:
        deviation = math.sqrt(math.fsum(v * v for v in values) / len(values))
        return -4 * deviation, 4 * deviation
    threshold = 0.0 if by_sign else math.fsum(values) / len(values)
    low = [v for v in values if v < threshold]
    high = [v for v in values if not v < threshold]
    if by_sign:
        mean0 = math.fsum(low) / max(len(low), 1)
        mean1 = math.fsum(high) / max(len(high), 1)
        middle = (mean0 + mean1) / 2
        radius = 2 * (mean1 - middle)
    else:
        middle = threshold
        radius = 2 * math.fsum(abs(v - middle) for v in values) / len(values)
    return middle - radius, middle + radius


def code(value: Any, lower: Any, upper: Any, bits: int, by_sign: bool) -> int:
    """The bits of a value, given the range; all are numbers of one NumPy type."""
    number = type(value)
    if bits == 1:
        return int(value >= (number(0) if by_sign else number(0.5) * (upper + lower)))
    if value <= lower or upper - lower < 1e-36:
        return 0 if value < upper else 2**bits - 1
    if value >= upper:
        return 2**bits - 1
    return int((value - lower) * (number(2**bits - 1) / (upper - lower)))


def value_of(bin_: int, lower: Any, upper: Any, bits: int) -> Any:
    """What the bits stand for."""
    number = type(lower)
    bins = 2 if bits == 1 else 2**bits - 1
    size = number(0) if upper - lower < 1e-36 else (upper - lower) / number(bins)
    return (number(bin_) + number(0.5)) * size + lower


def record(codes: list[int], lower: Any, upper: Any, bits: int) -> bytes:
    """The bytes that are sent of a column."""
    width = 8 * lower.itemsize
    per_word = width // bits
    stride = math.ceil(len(codes) / per_word)
    words = [sum(codes[i] << bits * k for k, i in enumerate(range(w, len(codes), stride))) for w in range(stride)]
    kind = {32: "f", 64: "d"}[width] * 2 + {32: "I", 64: "Q"}[width] * stride
    return struct.pack("=" + kind, lower, upper, *words)


def typed(values: Any, dtype: str) -> list[Any]:
    """NumPy numbers of a type."""
    return list(np.asarray(values, dtype))
