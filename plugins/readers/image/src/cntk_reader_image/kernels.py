"""The loops over pixels, compiled; they run without the GIL. What :mod:`cntk_reader_image.resample` has in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]
Tap = NDArray[np.int32]


@njit(nogil=True, cache=True, error_model="numpy")
def resize_part(
    pixels: Pixels,
    top: int,
    left: int,
    columns: int,
    flipped: bool,
    swapped: bool,
    places: Tap,
    weights: Tap,
    down: Tap,
    heights: Tap,
    linear: bool,
    out: Pixels,
) -> None:
    """Resize a part of an image; ``out`` has the blue plane first.

    Args:
        pixels: ``(rows, columns, planes)``.
        top, left: where the part begins.
        columns: how wide it is.
        flipped: right and left change places, before the resizing.
        swapped: the first plane of ``pixels`` is red, the first of ``out`` blue.
        places, weights: taps across.
        down, heights: taps downward.
        linear: two taps that are rounded as the image library does it.
        out: ``(rows, columns, channels)``.
    """
    height, width, channels = out.shape
    planes = pixels.shape[2]
    across, taps = places.shape[1], down.shape[1]
    plane = np.zeros(channels, np.int64)
    for c in range(channels):
        plane[c] = 0 if planes == 1 else (channels - 1 - c if swapped else c)
    at = np.empty((width, across), np.int64)
    for x in range(width):
        for k in range(across):
            place = places[x, k]
            at[x, k] = left + (columns - 1 - place if flipped else place)
    lines = np.empty((taps, width * channels), np.int32)
    held = np.full(taps, -1, np.int64)
    for y in range(height):
        for j in range(taps):
            row = down[y, j]
            slot = row % taps
            if held[slot] == row:
                continue
            held[slot] = row
            source, line = pixels[top + row], lines[slot]
            if across == 2:
                for x in range(width):
                    first, second, a, b = at[x, 0], at[x, 1], weights[x, 0], weights[x, 1]
                    for c in range(channels):
                        p = plane[c]
                        line[x * channels + c] = source[first, p] * a + source[second, p] * b
            else:
                for x in range(width):
                    for c in range(channels):
                        total = np.int32(0)
                        for k in range(across):
                            total += source[at[x, k], plane[c]] * weights[x, k]
                        line[x * channels + c] = total
        target = out[y].reshape(width * channels)
        if linear:
            upper, lower = lines[down[y, 0] % taps], lines[down[y, 1] % taps]
            a, b = heights[y, 0], heights[y, 1]
            for i in range(width * channels):
                target[i] = ((((upper[i] >> 4) * a) >> 16) + (((lower[i] >> 4) * b) >> 16) + 2) >> 2
        else:
            for i in range(width * channels):
                sum_ = np.int64(0)
                for j in range(taps):
                    sum_ += np.int64(lines[down[y, j] % taps, i]) * heights[y, j]
                target[i] = min(max((sum_ + (1 << 21)) >> 22, 0), 255)


@njit(nogil=True, cache=True, error_model="numpy")
def to_planes(pixels: Pixels, out: NDArray[Any]) -> None:
    """Put ``(rows, columns, channels)`` into ``(channels, rows, columns)``."""
    rows, columns, channels = pixels.shape
    for c in range(channels):
        for y in range(rows):
            for x in range(columns):
                out[c, y, x] = pixels[y, x, c]


@njit(nogil=True, cache=True, error_model="numpy")
def to_planes_without(pixels: Pixels, mean: NDArray[Any], out: NDArray[Any]) -> None:
    """Subtract a mean ``(channels, rows, columns)``, and put the difference into planes of the same shape."""
    rows, columns, channels = pixels.shape
    for c in range(channels):
        for y in range(rows):
            for x in range(columns):
                out[c, y, x] = pixels[y, x, c] - mean[c, y, x]
