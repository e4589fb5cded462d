"""Resize images of bytes as CNTK's image library does: point sampling with few taps, in fixed point.

The library is OpenCV. A target pixel's centre is mapped onto the source; its value is a weighted sum of the source's
pixels around that place, also where the image becomes smaller (there is no smoothing first). Beyond the border the
last pixel counts. Weights are whole numbers of 1/2048. The compiled loops of :mod:`cntk_reader_image.kernels` and the
NumPy code here give the same bytes.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

UNIT = 2048
"""Weights are multiples of 1 / UNIT."""
METHODS = ("nearest", "linear", "cubic", "lanczos")
_CUBIC = -0.75
"""The free coefficient of the cubic convolution kernel (R. Keys, 1981), as the image library has it."""

Bytes = NDArray[np.uint8]


@attrs.frozen(eq=False)
class Taps:
    """Where the values of a row or a column come from.

    Attributes:
        places: int32 ``(target, taps)``, the source pixels.
        weights: int32 ``(target, taps)``, in units of 1 / UNIT.
        fractions: the same weights in float64, not rounded.
    """

    places: NDArray[np.int32]
    weights: NDArray[np.int32]
    fractions: NDArray[np.float64]


@lru_cache(maxsize=4096)
def taps(source: int, target: int, method: str) -> Taps:
    """Return the taps that make ``target`` pixels of ``source`` ones."""
    scale = source / target
    if method == "nearest":
        first = np.floor(np.arange(target) * scale).astype(np.int64)
        weights = np.ones((target, 1))
    else:
        # The library holds the place of a pixel in single precision.
        at = ((np.arange(target) + 0.5) * scale - 0.5).astype(np.float32)
        first = np.floor(at).astype(np.int64)
        weights = _weights((at - first.astype(np.float32)).astype(np.float64), method)
        first -= weights.shape[1] // 2 - 1
    places = np.clip(first[:, None] + np.arange(weights.shape[1]), 0, source - 1).astype(np.int32)
    if method == "linear":
        rounded = np.rint(weights[:, 1] * UNIT)
        fixed = np.stack([UNIT - rounded, rounded], axis=1)
    else:
        fixed = np.rint(weights * UNIT)
    return Taps(places, fixed.astype(np.int32), weights)


def _weights(offset: NDArray[np.float64], method: str) -> NDArray[np.float64]:
    """Return the weights of the taps around a place that lies ``offset`` behind the middle-left one."""
    if method == "linear":
        return np.stack((1 - offset, offset), axis=1)
    if method == "cubic":
        distance = np.abs(offset[:, None] - np.arange(-1, 3))
        near = ((_CUBIC + 2) * distance - (_CUBIC + 3)) * distance**2 + 1
        far = ((_CUBIC * distance - 5 * _CUBIC) * distance + 8 * _CUBIC) * distance - 4 * _CUBIC
        return np.where(distance <= 1, near, far)
    distance = offset[:, None] - np.arange(-3, 5)
    window = np.sinc(distance) * np.sinc(distance / 4)
    return np.asarray(window / window.sum(axis=1, keepdims=True))


def resize_bytes(pixels: Bytes, width: int, height: int, method: str) -> Bytes:
    """Return an image ``(rows, columns, channels)`` of bytes in another size."""
    across, down = taps(pixels.shape[1], width, method), taps(pixels.shape[0], height, method)
    used, rows = np.unique(down.places, return_inverse=True)
    rows = rows.reshape(down.places.shape)
    source = pixels[used].astype(np.int32)
    lines = _weighted(source, across.places, across.weights[:, :, None], axis=1)
    if method == "linear":
        # The library drops bits of the sums of the rows, so that their products fit into 16 bits of a vector.
        upper, lower = (lines[rows[:, k]] >> 4 for k in (0, 1))
        a, b = (down.weights[:, k, None, None] for k in (0, 1))
        return np.asarray((((upper * a) >> 16) + ((lower * b) >> 16) + 2) >> 2, dtype=np.uint8)
    total = _weighted(lines.astype(np.int64), rows, down.weights[:, :, None, None], axis=0)
    return np.asarray(np.clip((total + (1 << 21)) >> 22, 0, 255), dtype=np.uint8)


def resize_floats(values: NDArray[np.floating], width: int, height: int, method: str) -> NDArray[np.floating]:
    """Return an image ``(rows, columns, channels)`` of floating-point numbers in another size."""
    across, down = taps(values.shape[1], width, method), taps(values.shape[0], height, method)
    lines = _weighted(values, across.places, across.fractions[:, :, None].astype(values.dtype), axis=1)
    return _weighted(lines, down.places, down.fractions[:, :, None, None].astype(values.dtype), axis=0)


def _weighted(values: NDArray[Any], places: NDArray[Any], weights: NDArray[Any], axis: int) -> NDArray[Any]:
    total: NDArray[Any] = values.take(places[:, 0], axis=axis) * weights[:, 0]
    for k in range(1, places.shape[1]):
        total += values.take(places[:, k], axis=axis) * weights[:, k]
    return total


def rounded(value: float) -> int:
    """Round to the nearest whole number, halves away from zero."""
    return math.floor(value + 0.5) if value >= 0 else -math.floor(0.5 - value)
