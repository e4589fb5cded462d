"""The loops over pixels, compiled; they run without the GIL. What :mod:`cntk_reader_image.resample` has in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]
Tap = NDArray[np.int32]
Places = NDArray[np.uint64]
Line = NDArray[np.int32]


# Places are unsigned: a signed index is looked at first whether it counts from the end.


@njit(nogil=True, cache=True, error_model="numpy", inline="always")
def _unsigned_places(places: Tap, left: int, columns: int, planes: int, flipped: bool) -> Places:
    """Return where the pixels of the taps begin in a row, in bytes."""
    at = np.empty(places.shape, np.uint64)
    for x in range(places.shape[0]):
        for k in range(places.shape[1]):
            place = places[x, k]
            at[x, k] = planes * (left + (columns - 1 - place if flipped else place))
    return at


@njit(nogil=True, cache=True, error_model="numpy", inline="always")
def _across(source: Pixels, places: Places, weights: Tap, line: Line, planes: int, swapped: bool) -> None:
    """Weigh the pixels of a row; ``line`` has each channel by itself, blue first."""
    channels = line.shape[0]
    if channels == 3 and planes > 1 and places.shape[1] == 2:
        # The usual case: all three in one go.
        red, green, blue = (line[2], line[1], line[0]) if swapped else (line[0], line[1], line[2])
        one, two = np.uint64(1), np.uint64(2)
        for x in range(places.shape[0]):
            left, right, a, b = places[x, 0], places[x, 1], weights[x, 0], weights[x, 1]
            red[x] = source[left] * a + source[right] * b
            green[x] = source[left + one] * a + source[right + one] * b
            blue[x] = source[left + two] * a + source[right + two] * b
        return
    for c in range(channels):
        plane = np.uint64(0 if planes == 1 else (channels - 1 - c if swapped else c))
        row = line[c]
        if places.shape[1] == 2:
            for x in range(places.shape[0]):
                row[x] = source[places[x, 0] + plane] * weights[x, 0] + source[places[x, 1] + plane] * weights[x, 1]
            continue
        for x in range(places.shape[0]):
            total = np.int32(0)
            for k in range(places.shape[1]):
                total = np.int32(total + source[places[x, k] + plane] * weights[x, k])
            row[x] = total


@njit(nogil=True, cache=True, error_model="numpy", inline="always")
def _between(upper: np.int32, lower: np.int32, a: np.int32, b: np.int32) -> np.int32:
    """Weigh two sums, rounded as the image library does it."""
    high = np.int32(np.int32(upper >> 4) * a) >> 16
    low = np.int32(np.int32(lower >> 4) * b) >> 16
    return np.int32(np.int32(high + low + 2) >> 2)


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
    """Resize a part of an image.

    Args:
        pixels: ``(rows, columns, planes)``, without gaps.
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
    at = _unsigned_places(places, left, columns, planes, flipped)
    taps = down.shape[1]
    lines = np.empty((taps, channels, width), np.int32)
    totals = np.empty(width, np.int64)
    held = np.full(taps, -1, np.int64)
    for y in range(height):
        for j in range(taps):
            row = down[y, j]
            if held[row % taps] != row:
                held[row % taps] = row
                source = pixels[top + row].reshape(pixels.shape[1] * planes)
                _across(source, at, weights, lines[row % taps], planes, swapped)
        for c in range(channels):
            if linear:
                upper, lower = lines[down[y, 0] % taps, c], lines[down[y, 1] % taps, c]
                a, b = heights[y, 0], heights[y, 1]
                for x in range(width):
                    out[y, x, c] = _between(upper[x], lower[x], a, b)
                continue
            totals[:] = 1 << 21
            for j in range(taps):
                line, weight = lines[down[y, j] % taps, c], heights[y, j]
                for x in range(width):
                    totals[x] += line[x] * weight
            for x in range(width):
                out[y, x, c] = min(max(totals[x] >> 22, 0), 255)


@njit(nogil=True, cache=True, error_model="numpy")
def resize_to_planes(
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
    mean: NDArray[Any],
    out: NDArray[Any],
) -> None:
    """As ``resize_part`` with two taps, into ``(channels, rows, columns)``; less ``mean`` unless that is empty."""
    channels, height, width = out.shape
    planes = pixels.shape[2]
    at = _unsigned_places(places, left, columns, planes, flipped)
    lines = np.empty((2, channels, width), np.int32)
    held = np.full(2, -1, np.int64)
    for y in range(height):
        for j in range(2):
            row = down[y, j]
            if held[row % 2] != row:
                held[row % 2] = row
                source = pixels[top + row].reshape(pixels.shape[1] * planes)
                _across(source, at, weights, lines[row % 2], planes, swapped)
        a, b = heights[y, 0], heights[y, 1]
        for c in range(channels):
            upper, lower, target = lines[down[y, 0] % 2, c], lines[down[y, 1] % 2, c], out[c, y]
            if mean.size:
                less = mean[c, y]
                for x in range(width):
                    target[x] = np.float32(_between(upper[x], lower[x], a, b)) - less[x]
            else:
                for x in range(width):
                    target[x] = np.float32(_between(upper[x], lower[x], a, b))


@njit(nogil=True, cache=True, error_model="numpy")
def to_planes(pixels: Pixels, out: NDArray[Any]) -> None:
    """Put ``(rows, columns, channels)`` into ``(channels, rows, columns)``."""
    rows, columns, channels = pixels.shape
    for y in range(rows):
        for c in range(channels):
            for x in range(columns):
                out[c, y, x] = pixels[y, x, c]


@njit(nogil=True, cache=True, error_model="numpy")
def to_planes_without(pixels: Pixels, mean: NDArray[Any], out: NDArray[Any]) -> None:
    """Subtract a mean ``(channels, rows, columns)``, and put the difference into planes of the same shape."""
    rows, columns, channels = pixels.shape
    for y in range(rows):
        for c in range(channels):
            for x in range(columns):
                out[c, y, x] = pixels[y, x, c] - mean[c, y, x]
