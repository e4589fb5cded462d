"""Quantizing and unquantizing columns, compiled. Needs numba; ``portable`` gives the same numbers without it.

Each kernel goes over the columns once, and over the values of a column several times while they are in the first-level
cache. Sums are added up in lanes, in an order that does not depend on the processor: see :data:`LANES`. Words hold
strided values, so for one bit position all words of a column are filled by values that lie side by side.
"""

# mypy: disallow-untyped-defs=False

from __future__ import annotations

import numpy as np
from numba import njit

from cntk_core.api.engines import kept_kernel
from cntk_parallel_onebit import format as layout
from cntk_parallel_onebit.format import LANES, NEGLIGIBLE, SCALES, STANDARD_DEVIATIONS

_kept = kept_kernel(__file__, layout.__file__, error_model="numpy", nogil=True)

# Indices are unsigned: a signed one may be negative and then counts from the end, which keeps loops from being vectors.
U = np.uint64
U0, U1, U_LANES = U(0), U(1), U(LANES)
U_SCALES, U_BANKS = U(SCALES), U(3)  # Banks of lanes: sums below and above a threshold, and how many are below.


@njit(error_model="numpy", nogil=True)
def _width(count):  # noqa: ANN001, ANN202
    """Return how many lanes a column of so many values has: a power of two."""
    width = U_LANES
    while width > U1 and width >= count + count:
        width >>= U1
    return width


@njit(error_model="numpy", nogil=True)
def _clear(lanes, width):  # noqa: ANN001, ANN202
    """Begin the sums of a column."""
    for bank in range(U_BANKS):
        for lane in range(width):
            lanes[bank * U_LANES + lane] = 0


@njit(error_model="numpy", nogil=True)
def _sum(lanes, first, width):  # noqa: ANN001, ANN202
    """Add up a bank of lanes by halves."""
    while width > U1:
        width >>= U1
        for lane in range(width):
            lanes[first + lane] += lanes[first + width + lane]
    return lanes[first]


@njit(error_model="numpy", nogil=True)
def _split_lane(lanes, lane, value, threshold):  # noqa: ANN001, ANN202
    """Count a value with those below the threshold or with the others."""
    zero, one = type(value)(0), type(value)(1)
    below = value < threshold
    lanes[lane] += value if below else zero
    lanes[U_LANES + lane] += zero if below else value
    lanes[U_LANES + U_LANES + lane] += one if below else zero


@njit(error_model="numpy", nogil=True)
def _split(residual, kept, rows, threshold, lanes):  # noqa: ANN001, ANN202
    """Return the sums of the values of a column below a threshold and of the others, and how many are below."""
    width = _width(rows)
    _clear(lanes, width)
    tiles = rows // U_LANES
    for tile in range(tiles):
        first = kept + tile * U_LANES
        for lane in range(U_LANES):
            _split_lane(lanes, lane, residual[first + lane], threshold)
    whole = tiles * U_LANES
    for lane in range(rows - whole):
        _split_lane(lanes, lane, residual[kept + whole + lane], threshold)
    return _sum(lanes, U0, width), _sum(lanes, U_LANES, width), _sum(lanes, U_LANES + U_LANES, width)


@njit(error_model="numpy", nogil=True)
def _load_and_split(gradients, at, residual, kept, rows, lanes):  # noqa: ANN001, ANN202
    """Add the gradients of a column to its residual; return what :func:`_split` by the sign does."""
    zero = type(residual[kept])(0)
    width = _width(rows)
    _clear(lanes, width)
    tiles = rows // U_LANES
    for tile in range(tiles):
        first = tile * U_LANES
        for lane in range(U_LANES):
            value = residual[kept + first + lane] + gradients[at + first + lane]
            residual[kept + first + lane] = value
            _split_lane(lanes, lane, value, zero)
    whole = tiles * U_LANES
    for lane in range(rows - whole):
        value = residual[kept + whole + lane] + gradients[at + whole + lane]
        residual[kept + whole + lane] = value
        _split_lane(lanes, lane, value, zero)
    return _sum(lanes, U0, width), _sum(lanes, U_LANES, width), _sum(lanes, U_LANES + U_LANES, width)


@njit(error_model="numpy", nogil=True)
def _load_and_add(gradients, at, residual, kept, rows, lanes, squares):  # noqa: ANN001, ANN202
    """Add the gradients of a column to its residual; return the sum of the values, or of their squares."""
    width = _width(rows)
    _clear(lanes, width)
    tiles = rows // U_LANES
    for tile in range(tiles):
        first = tile * U_LANES
        for lane in range(U_LANES):
            value = residual[kept + first + lane] + gradients[at + first + lane]
            residual[kept + first + lane] = value
            lanes[lane] += value * value if squares else value
    whole = tiles * U_LANES
    for lane in range(rows - whole):
        value = residual[kept + whole + lane] + gradients[at + whole + lane]
        residual[kept + whole + lane] = value
        lanes[lane] += value * value if squares else value
    return _sum(lanes, U0, width)


@njit(error_model="numpy", nogil=True)
def _load(gradients, at, residual, kept, rows, bits, by_sign, lanes):  # noqa: ANN001, ANN202
    """Add the gradients of a column to its residual; return the lower and the upper end of the range of the values."""
    number = type(residual[kept])
    count = number(rows)
    if bits > 1:
        variance = _load_and_add(gradients, at, residual, kept, rows, lanes, True) / count
        reach = number(STANDARD_DEVIATIONS) * np.sqrt(variance)
        return -reach, reach
    if by_sign:
        below, above, fewer = _load_and_split(gradients, at, residual, kept, rows, lanes)
        mean0 = below / max(fewer, number(1))
        mean1 = above / max(count - fewer, number(1))
        middle = number(0.5) * (mean0 + mean1)
        radius = number(2) * (mean1 - middle)
        return middle - radius, middle + radius
    middle = _load_and_add(gradients, at, residual, kept, rows, lanes, False) / count
    below, above, fewer = _split(residual, kept, rows, middle, lanes)
    off = (fewer * middle - below) + (above - (count - fewer) * middle)
    radius = number(2) * (off / count)
    return middle - radius, middle + radius


@njit(error_model="numpy", nogil=True)
def _code(value, lower, upper, factor, top):  # noqa: ANN001, ANN202
    """Return the bin of a value."""
    inside = value > lower and value < upper
    place = (value - lower) * factor if inside else type(value)(0)
    return top if value >= upper else np.int32(place)


@njit(error_model="numpy", nogil=True)
def _bin_size(lower, upper, bits):  # noqa: ANN001, ANN202
    """Return bins per unit and units per bin."""
    number = type(lower)
    used = number((1 << bits) - (1 if bits > 1 else 0))
    span = upper - lower
    if span < number(NEGLIGIBLE):
        return number(0), number(0)
    return used / span, span / used


@njit(error_model="numpy", nogil=True)
def _pack_bit(residual, kept, rows, stride, threshold, below, above, filled):  # noqa: ANN001, ANN202
    """Fill words with the bits of a column, and leave in the residual what they do not say."""
    word = type(filled[U0])
    for index in range(stride):
        filled[index] = 0
    first, left, shift = kept, rows, word(0)
    while left > U0:
        here = min(left, stride)
        for index in range(here):
            value = residual[first + index]
            high = value >= threshold
            filled[index] |= word(high) << shift
            residual[first + index] = value - (above if high else below)
        first += here
        left -= here
        shift += word(1)


@njit(error_model="numpy", nogil=True)
def _pack_bins(residual, kept, rows, stride, bits, lower, upper, filled):  # noqa: ANN001, ANN202
    """As :func:`_pack_bit`, with bins."""
    number, word = type(lower), type(filled[U0])
    factor, size = _bin_size(lower, upper, bits)
    half, top = number(0.5), np.int32((1 << bits) - 1)
    for index in range(stride):
        filled[index] = 0
    first, left, shift = kept, rows, word(0)
    while left > U0:
        here = min(left, stride)
        for index in range(here):
            value = residual[first + index]
            code = _code(value, lower, upper, factor, top)
            filled[index] |= word(code) << shift
            residual[first + index] = value - ((number(code) + half) * size + lower)
        first += here
        left -= here
        shift += word(bits)


@njit(error_model="numpy", nogil=True)
def _longest(blocks):  # noqa: ANN001, ANN202
    """Return the most values of a column."""
    longest = 0
    for index in range(blocks.shape[0]):
        longest = max(longest, blocks[index, 3])
    return longest


@_kept
def quantize(gradients, residual, words, scales, blocks, bits, by_sign):  # noqa: ANN001, ANN201
    """Write the records of all columns and leave in the residual what they do not say: see ``portable.quantize``."""
    lanes = np.zeros(3 * LANES, residual.dtype)
    filled = np.zeros(_longest(blocks), words.dtype)
    per_word = U(8 * words.itemsize // bits)
    for index in range(blocks.shape[0]):
        at, kept, record = U(blocks[index, 0]), U(blocks[index, 1]), U(blocks[index, 2])
        rows = U(blocks[index, 3])
        stride = (rows + per_word - U1) // per_word
        for _ in range(blocks[index, 4]):
            lower, upper = _load(gradients, at, residual, kept, rows, bits, by_sign, lanes)
            if not np.isfinite(upper - lower):
                lower = upper = type(lower)(np.nan)
            scales[record] = lower
            scales[record + U1] = upper
            threshold = type(lower)(0) if by_sign else type(lower)(0.5) * (upper + lower)
            if bits == 1:
                _, size = _bin_size(lower, upper, bits)
                below, above = type(lower)(0.5) * size + lower, type(lower)(1.5) * size + lower
                _pack_bit(residual, kept, rows, stride, threshold, below, above, filled)
            else:
                _pack_bins(residual, kept, rows, stride, bits, lower, upper, filled)
            for word in range(stride):
                words[record + U_SCALES + word] = filled[word]
            at += rows
            kept += rows
            record += U_SCALES + stride


@njit(error_model="numpy", nogil=True)
def _unpack_bit(words, at, gradients, to, rows, stride, below, above, add):  # noqa: ANN001, ANN202
    """Write or add the values of a column that the bits of words stand for."""
    first, left, mask = to, rows, type(words[at])(1)
    while left > U0:
        here = min(left, stride)
        if add:
            for index in range(here):
                gradients[first + index] += above if words[at + index] & mask else below
        else:
            for index in range(here):
                gradients[first + index] = above if words[at + index] & mask else below
        first += here
        left -= here
        mask <<= U1


@njit(error_model="numpy", nogil=True)
def _unpack_bins(words, at, gradients, to, rows, stride, bits, lower, size, add):  # noqa: ANN001, ANN202
    """As :func:`_unpack_bit`, with bins."""
    number, word = type(lower), type(words[at])
    half, mask = number(0.5), word((1 << bits) - 1)
    first, left, shift = to, rows, word(0)
    while left > U0:
        here = min(left, stride)
        if add:
            for index in range(here):
                code = number(np.int32((words[at + index] >> shift) & mask))
                gradients[first + index] += (code + half) * size + lower
        else:
            for index in range(here):
                code = number(np.int32((words[at + index] >> shift) & mask))
                gradients[first + index] = (code + half) * size + lower
        first += here
        left -= here
        shift += word(bits)


@_kept
def unquantize(words, scales, gradients, blocks, bits, add):  # noqa: ANN001, ANN201
    """Write or add what the records of all columns stand for: see ``portable.unquantize``."""
    per_word = U(8 * words.itemsize // bits)
    for index in range(blocks.shape[0]):
        to, record, rows = U(blocks[index, 0]), U(blocks[index, 2]), U(blocks[index, 3])
        stride = (rows + per_word - U1) // per_word
        for _ in range(blocks[index, 4]):
            at, lower = record + U_SCALES, scales[record]
            _, size = _bin_size(lower, scales[record + U1], bits)
            if bits == 1:
                below, above = type(lower)(0.5) * size + lower, type(lower)(1.5) * size + lower
                _unpack_bit(words, at, gradients, to, rows, stride, below, above, add)
            else:
                _unpack_bins(words, at, gradients, to, rows, stride, bits, lower, size, add)
            to += rows
            record += U_SCALES + stride
