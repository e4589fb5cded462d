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
def _across_one_plane(source: Pixels, places: Places, weights: Tap, line: Line) -> None:
    """Weigh the pixels of a row that has one plane."""
    for x in range(places.shape[0]):
        total = np.int32(0)
        for k in range(places.shape[1]):
            total = np.int32(total + source[places[x, k]] * weights[x, k])
        line[x, 0] = total


@njit(nogil=True, cache=True, error_model="numpy", inline="always")
def _across_three(
    source: Pixels, places: Places, weights: Tap, line: Line, first: np.uint64, second: np.uint64, third: np.uint64
) -> None:
    """Weigh three planes of the pixels of a row: two taps, or any number."""
    if places.shape[1] == 2:
        for x in range(places.shape[0]):
            left, right, a, b = places[x, 0], places[x, 1], weights[x, 0], weights[x, 1]
            line[x, 0] = source[left + first] * a + source[right + first] * b
            line[x, 1] = source[left + second] * a + source[right + second] * b
            line[x, 2] = source[left + third] * a + source[right + third] * b
        return
    for x in range(places.shape[0]):
        one, two, three = np.int32(0), np.int32(0), np.int32(0)
        for k in range(places.shape[1]):
            at, weight = places[x, k], weights[x, k]
            one = np.int32(one + source[at + first] * weight)
            two = np.int32(two + source[at + second] * weight)
            three = np.int32(three + source[at + third] * weight)
        line[x, 0] = one
        line[x, 1] = two
        line[x, 2] = three


@njit(nogil=True, cache=True, error_model="numpy", inline="always")
def _between_two(upper: Line, lower: Line, a: np.int32, b: np.int32, out: Pixels) -> None:
    """Weigh two lines, rounded as the image library does it."""
    for i in range(out.shape[0]):
        high = np.int32(np.int32(upper[i] >> 4) * a) >> 16
        low = np.int32(np.int32(lower[i] >> 4) * b) >> 16
        out[i] = np.int32(high + low + 2) >> 2


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
    at = np.empty(places.shape, np.uint64)
    for x in range(width):
        for k in range(places.shape[1]):
            place = places[x, k]
            at[x, k] = planes * (left + (columns - 1 - place if flipped else place))
    first, second, third = np.uint64(2 if swapped else 0), np.uint64(1), np.uint64(0 if swapped else 2)
    if planes == 1:
        first = second = third = np.uint64(0)
    taps = down.shape[1]
    lines = np.empty((taps, width, channels), np.int32)
    flat = lines.reshape(taps, width * channels)
    totals = np.empty(width * channels, np.int64)
    held = np.full(taps, -1, np.int64)
    for y in range(height):
        for j in range(taps):
            row = down[y, j]
            slot = row % taps
            if held[slot] == row:
                continue
            held[slot] = row
            source = pixels[top + row].reshape(pixels.shape[1] * planes)
            if channels == 1:
                _across_one_plane(source, at, weights, lines[slot])
            else:
                _across_three(source, at, weights, lines[slot], first, second, third)
        target = out[y].reshape(width * channels)
        if linear:
            a, b = heights[y, 0], heights[y, 1]
            _between_two(flat[down[y, 0] % taps], flat[down[y, 1] % taps], a, b, target)
            continue
        totals[:] = 1 << 21
        for j in range(taps):
            line, weight = flat[down[y, j] % taps], heights[y, j]
            for i in range(width * channels):
                totals[i] += line[i] * weight
        for i in range(width * channels):
            target[i] = min(max(totals[i] >> 22, 0), 255)


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
