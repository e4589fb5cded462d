"""Quantizing and unquantizing columns, in the part of Python that is compiled (``byte_loop``).

Each kernel goes over the columns once, and over the values of a column several times while they are in the first-level
cache. Sums are added up in lanes, in an order that does not depend on the processor: see :data:`LANES`. Words hold
strided values, so for one bit position all words of a column are filled by values that lie side by side; they count as
numbers with a sign here, which changes no bit.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False
# ruff: noqa: ANN001, ANN201, ANN202

from __future__ import annotations

import numpy as np

from cntk_parallel_onebit.format import LANES, NEGLIGIBLE, SCALES, STANDARD_DEVIATIONS

QUANTIZE = (
    "void({numbers}[::1], {numbers}[::1], {words}[::1], {numbers}[::1], int64[:, ::1], int64, boolean, int64, "
    "{numbers}[::1], {words}[::1])"
)
UNQUANTIZE = "void({words}[::1], {numbers}[::1], {numbers}[::1], int64[:, ::1], int64, boolean, int64)"


def _width(count):
    """Return how many lanes a column of so many values has: a power of two."""
    width = LANES
    while width >= count + count:  # there is a value at least
        width >>= 1
    return width


def _clear(lanes, width):
    """Begin the sums of a column."""
    for bank in range(3):
        for lane in range(width):
            lanes[bank * LANES + lane] = 0


def _sum(lanes, first, width):
    """Add up a bank of lanes by halves."""
    while width > 1:
        width >>= 1
        for lane in range(width):
            lanes[first + lane] += lanes[first + width + lane]
    return lanes[first]


def _split_lane(lanes, lane, value, threshold):
    """Count a value with those below the threshold or with the others."""
    zero, one = type(value)(0), type(value)(1)
    below = value < threshold
    lanes[lane] += value if below else zero
    lanes[LANES + lane] += zero if below else value
    lanes[2 * LANES + lane] += one if below else zero


def _split(residual, kept, rows, threshold, lanes):
    """Return the sums of the values of a column below a threshold and of the others, and how many are below."""
    width = _width(rows)
    _clear(lanes, width)
    tiles = rows // LANES
    for tile in range(tiles):
        first = kept + tile * LANES
        for lane in range(LANES):
            _split_lane(lanes, lane, residual[first + lane], threshold)
    whole = tiles * LANES
    for lane in range(rows - whole):
        _split_lane(lanes, lane, residual[kept + whole + lane], threshold)
    return _sum(lanes, 0, width), _sum(lanes, LANES, width), _sum(lanes, 2 * LANES, width)


def _load_and_split(gradients, at, residual, kept, rows, lanes):
    """Add the gradients of a column to its residual; return what :func:`_split` by the sign does."""
    zero = type(residual[kept])(0)
    width = _width(rows)
    _clear(lanes, width)
    tiles = rows // LANES
    for tile in range(tiles):
        first = tile * LANES
        for lane in range(LANES):
            value = residual[kept + first + lane] + gradients[at + first + lane]
            residual[kept + first + lane] = value
            _split_lane(lanes, lane, value, zero)
    whole = tiles * LANES
    for lane in range(rows - whole):
        value = residual[kept + whole + lane] + gradients[at + whole + lane]
        residual[kept + whole + lane] = value
        _split_lane(lanes, lane, value, zero)
    return _sum(lanes, 0, width), _sum(lanes, LANES, width), _sum(lanes, 2 * LANES, width)


def _load_and_add(gradients, at, residual, kept, rows, lanes, squares):
    """Add the gradients of a column to its residual; return the sum of the values, or of their squares."""
    width = _width(rows)
    _clear(lanes, width)
    tiles = rows // LANES
    for tile in range(tiles):
        first = tile * LANES
        for lane in range(LANES):
            value = residual[kept + first + lane] + gradients[at + first + lane]
            residual[kept + first + lane] = value
            lanes[lane] += value * value if squares else value
    whole = tiles * LANES
    for lane in range(rows - whole):
        value = residual[kept + whole + lane] + gradients[at + whole + lane]
        residual[kept + whole + lane] = value
        lanes[lane] += value * value if squares else value
    return _sum(lanes, 0, width)


def _load(gradients, at, residual, kept, rows, bits, by_sign, lanes):
    """Add the gradients of a column to its residual; return the lower and the upper end of the range of the values."""
    count = type(residual[kept])(rows)
    if bits > 1:
        variance = _load_and_add(gradients, at, residual, kept, rows, lanes, True) / count
        reach = type(residual[kept])(STANDARD_DEVIATIONS) * np.sqrt(variance)
        return -reach, reach
    if by_sign:
        below, above, fewer = _load_and_split(gradients, at, residual, kept, rows, lanes)
        mean0 = below / max(fewer, type(residual[kept])(1))
        mean1 = above / max(count - fewer, type(residual[kept])(1))
        middle = type(residual[kept])(0.5) * (mean0 + mean1)
        radius = type(residual[kept])(2) * (mean1 - middle)
        return middle - radius, middle + radius
    middle = _load_and_add(gradients, at, residual, kept, rows, lanes, False) / count
    below, above, fewer = _split(residual, kept, rows, middle, lanes)
    off = (fewer * middle - below) + (above - (count - fewer) * middle)
    radius = type(residual[kept])(2) * (off / count)
    return middle - radius, middle + radius


def _code(value, lower, upper, factor, top):
    """Return the bin of a value."""
    inside = value > lower and value < upper
    place = (value - lower) * factor if inside else type(value)(0)
    return top if value >= upper else np.int32(place)


def _bin_size(lower, upper, bits):
    """Return bins per unit and units per bin."""
    used = type(lower)((1 << bits) - (1 if bits > 1 else 0))
    span = upper - lower
    if span < type(lower)(NEGLIGIBLE):
        return type(lower)(0), type(lower)(0)
    return used / span, span / used


def _pack_bit(residual, kept, rows, stride, threshold, below, above, filled):
    """Fill words with the bits of a column, and leave in the residual what they do not say."""
    for index in range(stride):
        filled[index] = 0
    first, left, shift = kept, rows, type(filled[0])(0)
    while left > 0:
        here = min(left, stride)
        for index in range(here):
            value = residual[first + index]
            high = value >= threshold
            filled[index] = filled[index] | (type(filled[0])(high) << shift)
            residual[first + index] = value - (above if high else below)
        first += here
        left -= here
        shift += type(filled[0])(1)


def _pack_bins(residual, kept, rows, stride, bits, lower, upper, filled):
    """As :func:`_pack_bit`, with bins."""
    factor, size = _bin_size(lower, upper, bits)
    half, top = type(lower)(0.5), np.int32((1 << bits) - 1)
    for index in range(stride):
        filled[index] = 0
    first, left, shift = kept, rows, type(filled[0])(0)
    while left > 0:
        here = min(left, stride)
        for index in range(here):
            value = residual[first + index]
            code = _code(value, lower, upper, factor, top)
            filled[index] = filled[index] | (type(filled[0])(code) << shift)
            residual[first + index] = value - ((type(lower)(code) + half) * size + lower)
        first += here
        left -= here
        shift += type(filled[0])(bits)


def quantize(gradients, residual, words, scales, blocks, bits, by_sign, word_bits, lanes, filled):
    """Write the records of all columns and leave in the residual what they do not say: see ``portable.quantize``."""
    per_word = word_bits // bits
    for index in range(blocks.shape[0]):
        at, kept, record = blocks[index, 0], blocks[index, 1], blocks[index, 2]
        rows = blocks[index, 3]
        stride = (rows + per_word - 1) // per_word
        for _ in range(blocks[index, 4]):
            lower, upper = _load(gradients, at, residual, kept, rows, bits, by_sign, lanes)
            span = upper - lower
            if span - span != 0:  # it is not finite
                lower = upper = type(lower)(np.nan)
            scales[record] = lower
            scales[record + 1] = upper
            threshold = type(lower)(0) if by_sign else type(lower)(0.5) * (upper + lower)
            if bits == 1:
                _, size = _bin_size(lower, upper, bits)
                below, above = type(lower)(0.5) * size + lower, type(lower)(1.5) * size + lower
                _pack_bit(residual, kept, rows, stride, threshold, below, above, filled)
            else:
                _pack_bins(residual, kept, rows, stride, bits, lower, upper, filled)
            for word in range(stride):
                words[record + SCALES + word] = filled[word]
            at += rows
            kept += rows
            record += SCALES + stride


def _unpack_bit(words, at, gradients, to, rows, stride, below, above, add):
    """Write or add the values of a column that the bits of words stand for."""
    first, left, mask = to, rows, type(words[at])(1)
    while left > 0:
        here = min(left, stride)
        if add:
            for index in range(here):
                gradients[first + index] += above if (words[at + index] & mask) != 0 else below
        else:
            for index in range(here):
                gradients[first + index] = above if (words[at + index] & mask) != 0 else below
        first += here
        left -= here
        mask <<= 1


def _unpack_bins(words, at, gradients, to, rows, stride, bits, lower, size, add):
    """As :func:`_unpack_bit`, with bins."""
    half, mask = type(lower)(0.5), type(words[at])((1 << bits) - 1)
    first, left, shift = to, rows, type(words[at])(0)
    while left > 0:
        here = min(left, stride)
        if add:
            for index in range(here):
                code = type(lower)(np.int32((words[at + index] >> shift) & mask))
                gradients[first + index] += (code + half) * size + lower
        else:
            for index in range(here):
                code = type(lower)(np.int32((words[at + index] >> shift) & mask))
                gradients[first + index] = (code + half) * size + lower
        first += here
        left -= here
        shift += type(words[at])(bits)


def unquantize(words, scales, gradients, blocks, bits, add, word_bits):
    """Write or add what the records of all columns stand for: see ``portable.unquantize``."""
    per_word = word_bits // bits
    for index in range(blocks.shape[0]):
        to, record, rows = blocks[index, 0], blocks[index, 2], blocks[index, 3]
        stride = (rows + per_word - 1) // per_word
        for _ in range(blocks[index, 4]):
            at, lower = record + SCALES, scales[record]
            _, size = _bin_size(lower, scales[record + 1], bits)
            if bits == 1:
                below, above = type(lower)(0.5) * size + lower, type(lower)(1.5) * size + lower
                _unpack_bit(words, at, gradients, to, rows, stride, below, above, add)
            else:
                _unpack_bins(words, at, gradients, to, rows, stride, bits, lower, size, add)
            to += rows
            record += SCALES + stride
