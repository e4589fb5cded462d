"""The loops over pixels, compiled; they run without the GIL. What :mod:`cntk_reader_image.resample` has in NumPy.

Several small images are made in one call (:func:`make_samples`): the way from Python to a compiled loop and back takes
longer than the resizing of one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from cntk_core.api.engines import kept_kernel
from cntk_reader_image import geometry, resample
from cntk_reader_image.geometry import CropNumbers
from cntk_reader_image.resample import UNIT

Pixels = NDArray[np.uint8]
Tap = NDArray[np.int32]
Places = NDArray[np.uint64]
Line = NDArray[np.int32]

_kept = kept_kernel(__file__, geometry.__file__, resample.__file__, nogil=True, error_model="numpy")

_part_shape = njit(nogil=True, error_model="numpy")(geometry.part_shape)
_part_place = njit(nogil=True, error_model="numpy")(geometry.part_place)
_part_mirrored = njit(nogil=True, error_model="numpy")(geometry.part_mirrored)


# Places are unsigned: a signed index is looked at first whether it counts from the end.


@njit(nogil=True, error_model="numpy", inline="always")
def _unsigned_places(places: Tap, left: int, columns: int, planes: int, flipped: bool) -> Places:
    """Return where the pixels of the taps begin in a row, in bytes."""
    at = np.empty(places.shape, np.uint64)
    for x in range(places.shape[0]):
        for k in range(places.shape[1]):
            place = places[x, k]
            at[x, k] = planes * (left + (columns - 1 - place if flipped else place))
    return at


@njit(nogil=True, error_model="numpy", inline="always")
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


@njit(nogil=True, error_model="numpy", inline="always")
def _between(upper: np.int32, lower: np.int32, a: np.int32, b: np.int32) -> np.int32:
    """Weigh two sums, rounded as the image library does it."""
    high = np.int32(np.int32(upper >> 4) * a) >> 16
    low = np.int32(np.int32(lower >> 4) * b) >> 16
    return np.int32(np.int32(high + low + 2) >> 2)


@_kept
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


@_kept
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


@_kept
def to_planes(pixels: Pixels, out: NDArray[Any]) -> None:
    """Put ``(rows, columns, channels)`` into ``(channels, rows, columns)``."""
    rows, columns, channels = pixels.shape
    for y in range(rows):
        for c in range(channels):
            for x in range(columns):
                out[c, y, x] = pixels[y, x, c]


@_kept
def to_planes_without(pixels: Pixels, mean: NDArray[Any], out: NDArray[Any]) -> None:
    """Subtract a mean ``(channels, rows, columns)``, and put the difference into planes of the same shape."""
    rows, columns, channels = pixels.shape
    for y in range(rows):
        for c in range(channels):
            for x in range(columns):
                out[c, y, x] = pixels[y, x, c] - mean[c, y, x]


@_kept
def linear_taps(source: int, places: Tap, weights: Tap) -> None:
    """Put the two taps of each target pixel into arrays ``(target, 2)``, as :func:`cntk_reader_image.resample.taps`."""
    target = places.shape[0]
    scale = source / target
    for x in range(target):
        at = np.float32((x + 0.5) * scale - 0.5)
        first = int(np.floor(at))
        weight = np.int32(np.rint(np.float64(at - np.float32(first)) * UNIT))
        places[x, 0], places[x, 1] = min(max(first, 0), source - 1), min(max(first + 1, 0), source - 1)
        weights[x, 0], weights[x, 1] = UNIT - weight, weight


@_kept
def make_samples(
    data: Pixels,
    shapes: NDArray[np.int64],
    channels: int,
    crop: CropNumbers,
    hflip: bool,
    draws: NDArray[np.float64],
    views: NDArray[np.int64],
    mean: NDArray[Any],
    rows: NDArray[np.int64],
    out: NDArray[Any],
) -> None:
    """Crop, mirror and resize decoded images into planes.

    Args:
        data: the pixels of all, one image after the other.
        shapes: rows, columns and planes of each image; its first plane is red.
        channels: 1 or 3.
        crop, hflip: which part is taken, and whether it is mirrored by chance.
        draws: the random numbers of each image.
        views: which view of its image each sample is.
        mean: planes to subtract, or nothing.
        rows: the place of each sample.
        out: all samples, ``(samples, channels, rows, columns)``.
    """
    height, width = out.shape[2:]
    across, along = np.empty((width, 2), np.int32), np.empty((width, 2), np.int32)
    down, heights = np.empty((height, 2), np.int32), np.empty((height, 2), np.int32)
    begin = 0
    for image in range(len(rows)):
        lines, columns, planes = shapes[image]
        end = begin + lines * columns * planes
        pixels = data[begin:end].reshape(lines, columns, planes)
        begin = end
        own, view = draws[image], views[image]
        tall, wide = _part_shape(lines, columns, crop, own)
        top, left = _part_place(lines - tall, columns - wide, crop, own, view)
        flipped = _part_mirrored(crop, hflip, own, view)
        linear_taps(wide, across, along)
        linear_taps(tall, down, heights)
        sample = out[rows[image]]
        resize_to_planes(pixels, top, left, wide, flipped, True, across, along, down, heights, mean, sample)


@_kept
def unfilter(data: Pixels, step: int, out: Pixels) -> bool:
    """Undo the filters of the rows of a PNG image. Returns False for a filter that there is not.

    Source: Portable Network Graphics Specification (W3C, 2003), chapter 9.

    Args:
        data: ``(rows, 1 + bytes of a row)``; the first byte of each row is its filter.
        step: bytes of a pixel.
        out: ``(rows, bytes of a row)``.
    """
    rows, size = out.shape
    above = np.zeros(size, np.uint8)
    for y in range(rows):
        kind, source, target = data[y, 0], data[y, 1:], out[y]
        if kind == 0:
            target[:] = source
        elif kind == 1:
            target[:step] = source[:step]
            for x in range(step, size):
                target[x] = source[x] + target[x - step]
        elif kind == 2:
            for x in range(size):
                target[x] = source[x] + above[x]
        elif kind == 3:
            for x in range(step):
                target[x] = source[x] + (above[x] >> 1)
            for x in range(step, size):
                target[x] = source[x] + ((np.int32(target[x - step]) + np.int32(above[x])) >> 1)
        elif kind == 4:
            for x in range(step):
                target[x] = source[x] + above[x]
            for x in range(step, size):
                a, b, c = np.int32(target[x - step]), np.int32(above[x]), np.int32(above[x - step])
                to_a, to_b, to_c = abs(b - c), abs(a - c), abs(a + b - c - c)
                best = a if to_a <= to_b and to_a <= to_c else (b if to_b <= to_c else c)
                target[x] = source[x] + best
        else:
            return False
        above = target
    return True
