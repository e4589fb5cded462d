"""The loops over pixels, in the part of Python that is compiled (``byte_loop`` of :mod:`cntk_core.api.engines`).

:mod:`cntk_reader_image.kernels` calls them; what :mod:`cntk_reader_image.resample` has in NumPy gives the same bytes.
Bytes become ``int32`` before anything is added to them: nothing here may leave the range of its type.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_reader_image.geometry import part_mirrored, part_place, part_shape
from cntk_reader_image.resample import UNIT

Pixels = NDArray[np.uint8]
Tap = NDArray[np.int32]
Places = NDArray[np.int64]
Numbers = NDArray[Any]

RESIZE_PART = (
    "void(uint8[::1], int64, int64, int64, int64, int64, boolean, boolean, int32[:, ::1], int32[:, ::1], "
    "int32[:, ::1], int32[:, ::1], boolean, int64[:, ::1], int32[:, :, ::1], int64[::1], int64[::1], uint8[:, :, ::1])"
)
RESIZE_TO_PLANES = (
    "void(uint8[::1], int64, int64, int64, int64, int64, boolean, boolean, int32[:, ::1], int32[:, ::1], "
    "int32[:, ::1], int32[:, ::1], {numbers}[:, :, ::1], int64[:, ::1], int32[:, :, ::1], int64[::1], "
    "{numbers}[:, :, ::1])"
)
TO_PLANES = "void(uint8[:, :, ::1], {numbers}[:, :, ::1])"
TO_PLANES_WITHOUT = "void(uint8[:, :, ::1], {numbers}[:, :, ::1], {numbers}[:, :, ::1])"
LINEAR_TAPS = "void(int64, int32[:, ::1], int32[:, ::1])"
MAKE_SAMPLES = (
    "void(uint8[::1], int64[:, ::1], float64[::1], boolean, float64[:, ::1], int64[::1], {numbers}[:, :, ::1], "
    "int64[::1], int32[:, ::1], int32[:, ::1], int32[:, ::1], int32[:, ::1], int64[:, ::1], int32[:, :, ::1], "
    "int64[::1], {numbers}[:, :, :, ::1])"
)
UNFILTER = "int64(uint8[:, ::1], int64, uint8[::1], uint8[:, ::1])"


def _find_places(places: Tap, left: int, columns: int, planes: int, flipped: bool, at: Places) -> None:
    """Find where the pixels of the taps begin in a row, in bytes."""
    for x in range(places.shape[0]):
        for k in range(places.shape[1]):
            place = places[x, k]
            at[x, k] = planes * (left + (columns - 1 - place if flipped else place))


def _across(source: Pixels, places: Places, weights: Tap, line: Tap, planes: int, swapped: bool) -> None:
    """Weigh the pixels of a row; ``line`` has each channel by itself, blue first."""
    channels = line.shape[0]
    if channels == 3 and planes > 1 and places.shape[1] == 2:
        # The usual case: all three in one go.
        first = 2 if swapped else 0
        red, green, blue = line[first], line[1], line[2 - first]
        for x in range(places.shape[0]):
            left, right, a, b = places[x, 0], places[x, 1], weights[x, 0], weights[x, 1]
            red[x] = np.int32(source[left]) * a + np.int32(source[right]) * b
            green[x] = np.int32(source[left + 1]) * a + np.int32(source[right + 1]) * b
            blue[x] = np.int32(source[left + 2]) * a + np.int32(source[right + 2]) * b
        return
    for c in range(channels):
        plane = 0
        if planes > 1:
            plane = channels - 1 - c if swapped else c
        row = line[c]
        for x in range(places.shape[0]):
            total = np.int32(0)
            for k in range(places.shape[1]):
                total = np.int32(total + np.int32(source[places[x, k] + plane]) * weights[x, k])
            row[x] = total


def _between(upper: Any, lower: Any, a: Any, b: Any) -> Any:
    """Weigh two sums, rounded as the image library does it."""
    high = np.int32(np.int32(np.int32(upper >> 4) * a) >> 16)
    low = np.int32(np.int32(np.int32(lower >> 4) * b) >> 16)
    return np.int32(np.int32(high + low + 2) >> 2)


def resize_part(
    pixels: Pixels,
    begin: int,
    size: int,
    planes: int,
    left: int,
    columns: int,
    flipped: bool,
    swapped: bool,
    places: Tap,
    weights: Tap,
    down: Tap,
    heights: Tap,
    linear: bool,
    at: Places,
    lines: Tap,
    held: Places,
    totals: Places,
    out: Pixels,
) -> None:
    """Resize a part of an image.

    Args:
        pixels: bytes, of which those of the part's rows begin at ``begin`` and have ``size`` each.
        planes, left, columns, flipped, swapped, places, weights, down, heights, linear: as of
            :func:`cntk_reader_image.kernels.resize_part`.
        at, lines, held, totals: room to work in.
        out: ``(rows, columns, channels)``.
    """
    height, width, channels = out.shape
    taps = down.shape[1]
    _find_places(places, left, columns, planes, flipped, at)
    for j in range(taps):
        held[j] = -1
    for y in range(height):
        for j in range(taps):
            row = down[y, j]
            if held[row % taps] != row:
                held[row % taps] = row
                first = begin + row * size
                _across(pixels[first : first + size], at, weights, lines[row % taps], planes, swapped)
        for c in range(channels):
            if linear:
                upper, lower = lines[down[y, 0] % taps][c], lines[down[y, 1] % taps][c]
                a, b = heights[y, 0], heights[y, 1]
                for x in range(width):
                    out[y, x, c] = _between(upper[x], lower[x], a, b)
                continue
            for x in range(width):
                totals[x] = 1 << 21
            for j in range(taps):
                line, weight = lines[down[y, j] % taps][c], heights[y, j]
                for x in range(width):
                    totals[x] += np.int64(line[x]) * np.int64(weight)
            for x in range(width):
                out[y, x, c] = min(max(totals[x] >> 22, 0), 255)


def resize_to_planes(
    pixels: Pixels,
    begin: int,
    size: int,
    planes: int,
    left: int,
    columns: int,
    flipped: bool,
    swapped: bool,
    places: Tap,
    weights: Tap,
    down: Tap,
    heights: Tap,
    mean: Numbers,
    at: Places,
    lines: Tap,
    held: Places,
    out: Numbers,
) -> None:
    """As ``resize_part`` with two taps, into ``(channels, rows, columns)``; less ``mean`` unless that is empty."""
    channels, height = out.shape[0], out.shape[1]
    _find_places(places, left, columns, planes, flipped, at)
    held[0] = -1
    held[1] = -1
    for y in range(height):
        for j in range(2):
            row = down[y, j]
            if held[row % 2] != row:
                held[row % 2] = row
                first = begin + row * size
                _across(pixels[first : first + size], at, weights, lines[row % 2], planes, swapped)
        a, b = heights[y, 0], heights[y, 1]
        for c in range(channels):
            _put(lines[down[y, 0] % 2][c], lines[down[y, 1] % 2][c], a, b, mean, c, y, out[c][y])


def _put(upper: Tap, lower: Tap, a: int, b: int, mean: Numbers, c: int, y: int, target: Numbers) -> None:
    """Weigh two lines, less a mean if there is one."""
    if mean.shape[0] > 0:
        less = mean[c][y]
        for x in range(target.shape[0]):
            target[x] = np.float32(_between(upper[x], lower[x], a, b)) - less[x]
    else:
        for x in range(target.shape[0]):
            target[x] = np.float32(_between(upper[x], lower[x], a, b))


def to_planes(pixels: Pixels, out: Numbers) -> None:
    """Put ``(rows, columns, channels)`` into ``(channels, rows, columns)``."""
    rows, columns, channels = pixels.shape
    for y in range(rows):
        for c in range(channels):
            for x in range(columns):
                out[c, y, x] = pixels[y, x, c]


def to_planes_without(pixels: Pixels, mean: Numbers, out: Numbers) -> None:
    """Subtract a mean ``(channels, rows, columns)``, and put the difference into planes of the same shape."""
    rows, columns, channels = pixels.shape
    for y in range(rows):
        for c in range(channels):
            for x in range(columns):
                out[c, y, x] = pixels[y, x, c] - mean[c, y, x]


def linear_taps(source: int, places: Tap, weights: Tap) -> None:
    """Put the two taps of each target pixel into arrays ``(target, 2)``, as :func:`cntk_reader_image.resample.taps`."""
    target = places.shape[0]
    scale = source / target
    for x in range(target):
        at = np.float32((x + 0.5) * scale - 0.5)
        low = np.floor(at)
        share = np.float64(at - low) * UNIT
        weight = int(share)
        rest = share - weight
        # The nearest whole number, of two equally near ones the even one.
        if rest > 0.5 or (rest == 0.5 and (weight & 1) == 1):
            weight += 1
        first = int(low)
        places[x, 0] = min(max(first, 0), source - 1)
        places[x, 1] = min(max(first + 1, 0), source - 1)
        weights[x, 0] = UNIT - weight
        weights[x, 1] = weight


def make_samples(
    data: Pixels,
    shapes: Places,
    crop: NDArray[np.float64],
    hflip: bool,
    draws: NDArray[np.float64],
    views: Places,
    mean: Numbers,
    rows: Places,
    across: Tap,
    along: Tap,
    down: Tap,
    heights: Tap,
    at: Places,
    lines: Tap,
    held: Places,
    out: Numbers,
) -> None:
    """Crop, mirror and resize decoded images: see :func:`cntk_reader_image.kernels.make_samples`.

    ``across`` to ``held`` are room to work in.
    """
    begin = 0
    for image in range(rows.shape[0]):
        height, columns, planes = shapes[image, 0], shapes[image, 1], shapes[image, 2]
        own, view = draws[image], views[image]
        tall, wide = part_shape(height, columns, crop, own)
        top, left = part_place(height - tall, columns - wide, crop, own, view)
        flipped = part_mirrored(crop, hflip, own, view)
        linear_taps(wide, across, along)
        linear_taps(tall, down, heights)
        size = columns * planes
        first = begin + top * size
        sample = out[rows[image]]
        resize_to_planes(
            data, first, size, planes, left, wide, flipped, True, across, along, down, heights, mean, at, lines, held,
            sample,
        )  # fmt: skip
        begin += height * size


def unfilter(data: Pixels, step: int, nothing: Pixels, out: Pixels) -> int:
    """Undo the filters of the rows of a PNG image: see :func:`cntk_reader_image.kernels.unfilter`.

    ``nothing`` is what stands above the first row: zeros. Returns 0 for a filter that there is not.
    """
    for y in range(out.shape[0]):
        kind, source, target = data[y, 0], data[y][1:], out[y]
        known = 0
        if y == 0:
            known = _unfilter_row(kind, source, nothing, target, step)
        else:
            known = _unfilter_row(kind, source, out[y - 1], target, step)
        if known == 0:
            return 0
    return 1


def _unfilter_row(kind: int, source: Pixels, above: Pixels, target: Pixels, step: int) -> int:
    """Undo the filter of a row, below another one."""
    size = target.shape[0]
    if kind == 0:
        for x in range(size):
            target[x] = source[x]
    elif kind == 1:
        for x in range(step):
            target[x] = source[x]
        for x in range(step, size):
            target[x] = np.int32(source[x]) + np.int32(target[x - step])
    elif kind == 2:
        for x in range(size):
            target[x] = np.int32(source[x]) + np.int32(above[x])
    elif kind == 3:
        for x in range(step):
            target[x] = np.int32(source[x]) + (np.int32(above[x]) >> 1)
        for x in range(step, size):
            target[x] = np.int32(source[x]) + ((np.int32(target[x - step]) + np.int32(above[x])) >> 1)
    elif kind == 4:
        for x in range(step):
            target[x] = np.int32(source[x]) + np.int32(above[x])
        for x in range(step, size):
            a, b, c = np.int32(target[x - step]), np.int32(above[x]), np.int32(above[x - step])
            to_a, to_b, to_c = abs(b - c), abs(a - c), abs(a + b - c - c)
            best = a
            if to_a > to_b or to_a > to_c:
                best = b if to_b <= to_c else c
            target[x] = np.int32(source[x]) + best
    else:
        return 0
    return 1
