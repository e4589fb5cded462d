"""Quantizing and unquantizing columns with NumPy: the same numbers, bit for bit, as ``compiled`` gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_parallel_onebit.format import LANES, NEGLIGIBLE, SCALES, STANDARD_DEVIATIONS, Blocks, Words

Array = NDArray[Any]

TILE = 65536
"""About how many values are worked on at a time."""


def quantize(
    gradients: Array, residual: Array, words: Words, scales: Array, blocks: Blocks, bits: int, by_sign: bool
) -> None:
    """Write the records of all columns and leave in the residual what they do not say.

    The ranges are CNTK's. With 1 bit and ``by_sign``: the values are told apart by their sign, and each side becomes
    its mean. Else with 1 bit: told apart by the mean of the column, and both sides become equally far from it. With
    more bits: bins of equal width from -4 to 4 standard deviations (about 0), one of them around 0.

    Args:
        gradients: not changed.
        residual: is added to the gradients first.
        words, scales: the same memory as unsigned words and as values: what is written.
        blocks: of a :class:`~cntk_parallel_onebit.format.Cut`.
        bits: 1, 2, 4, 8 or 16.
        by_sign: with 1 bit.
    """
    with np.errstate(all="ignore"):
        for at, kept, record, rows, columns in _tiles(blocks, words.itemsize, bits):
            values = residual[kept : kept + columns * rows].reshape(columns, rows)
            values += gradients[at : at + columns * rows].reshape(columns, rows)
            lower, upper = _range(values, bits, by_sign)
            broken = ~np.isfinite(upper - lower)
            lower[broken] = upper[broken] = np.nan
            length = _length(rows, words.itemsize, bits)
            scales[record : record + columns * length].reshape(columns, length)[:, 0] = lower
            scales[record : record + columns * length].reshape(columns, length)[:, 1] = upper
            codes = _codes(values, lower[:, None], upper[:, None], bits, by_sign)
            packed = words[record : record + columns * length].reshape(columns, length)[:, SCALES:]
            _pack(codes, packed, bits)
            values -= _values(codes, lower[:, None], upper[:, None], bits)


def unquantize(words: Words, scales: Array, gradients: Array, blocks: Blocks, bits: int, add: bool) -> None:
    """Write or add what the records of all columns stand for.

    Args:
        words, scales: what :func:`quantize` wrote.
        gradients: gets the values.
        blocks: of a :class:`~cntk_parallel_onebit.format.Cut`.
        bits: as they were written.
        add: add to what is there.
    """
    with np.errstate(all="ignore"):
        for at, _, record, rows, columns in _tiles(blocks, words.itemsize, bits):
            length = _length(rows, words.itemsize, bits)
            packed = words[record : record + columns * length].reshape(columns, length)[:, SCALES:]
            ends = scales[record : record + columns * length].reshape(columns, length)
            found = _values(_unpack(packed, rows, bits), ends[:, :1], ends[:, 1:2], bits)
            values = gradients[at : at + columns * rows].reshape(columns, rows)
            if add:
                values += found
            else:
                values[...] = found


def _tiles(blocks: Blocks, word_bytes: int, bits: int) -> Iterator[tuple[int, int, int, int, int]]:
    for at, kept, record, rows, columns in blocks.tolist():
        some = max(1, TILE // rows)
        length = _length(rows, word_bytes, bits)
        for first in range(0, columns, some):
            here = min(some, columns - first)
            yield at + first * rows, kept + first * rows, record + first * length, rows, here


def _length(rows: int, word_bytes: int, bits: int) -> int:
    return int(SCALES + -(-rows // (8 * word_bytes // bits)))


def _sum(values: Array) -> Array:
    """Sums of rows in the order that :data:`LANES` says."""
    columns, rows = values.shape
    width = LANES
    while width >= 2 * rows:  # there is a row at least
        width //= 2
    lanes = np.zeros((columns, width), values.dtype)
    for first in range(0, rows, LANES):
        part = values[:, first : first + LANES]
        lanes[:, : part.shape[1]] += part
    while width > 1:
        width //= 2
        lanes[:, :width] += lanes[:, width : 2 * width]
    return lanes[:, 0].copy()


def _split(values: Array, threshold: Array) -> tuple[Array, Array, Array]:
    """Sums of the values below a threshold and of the others, and how many are below."""
    number = values.dtype.type
    below = values < threshold
    sums = _sum(np.where(below, values, number(0))), _sum(np.where(below, number(0), values))
    return *sums, np.count_nonzero(below, axis=1).astype(values.dtype)


def _range(values: Array, bits: int, by_sign: bool) -> tuple[Array, Array]:
    number = values.dtype.type
    count = number(values.shape[1])
    if bits > 1:
        reach = number(STANDARD_DEVIATIONS) * np.sqrt(_sum(values * values) / count)
        return -reach, reach
    if by_sign:
        below, above, fewer = _split(values, number(0))
        mean0 = below / np.maximum(fewer, number(1))
        mean1 = above / np.maximum(count - fewer, number(1))
        middle = number(0.5) * (mean0 + mean1)
        radius = number(2) * (mean1 - middle)
        return middle - radius, middle + radius
    middle = _sum(values) / count
    below, above, fewer = _split(values, middle[:, None])
    off = (fewer * middle - below) + (above - (count - fewer) * middle)
    radius = number(2) * (off / count)
    return middle - radius, middle + radius


def _used_bins(bits: int) -> int:
    """With more than 1 bit, an odd number, so that one bin lies around 0."""
    return int((1 << bits) - (1 if bits > 1 else 0))


def _codes(values: Array, lower: Array, upper: Array, bits: int, by_sign: bool) -> NDArray[np.int32]:
    number = values.dtype.type
    if bits == 1:
        threshold = number(0) if by_sign else number(0.5) * (upper + lower)
        above: NDArray[np.int32] = (values >= threshold).astype(np.int32)
        return above
    span = upper - lower
    factor = np.where(span < number(NEGLIGIBLE), number(0), number(_used_bins(bits)) / span)
    inside = (values > lower) & (values < upper)
    places = np.where(inside, (values - lower) * factor, number(0)).astype(np.int32)
    found: NDArray[np.int32] = np.where(values >= upper, np.int32((1 << bits) - 1), places)
    return found


def _values(codes: NDArray[np.int32], lower: Array, upper: Array, bits: int) -> Array:
    number = lower.dtype.type
    span = upper - lower
    size = np.where(span < number(NEGLIGIBLE), number(0), span / number(_used_bins(bits)))
    found: Array = (codes.astype(lower.dtype) + number(0.5)) * size + lower
    return found


def _pack(codes: NDArray[np.int32], packed: Words, bits: int) -> None:
    rows, stride = codes.shape[1], packed.shape[1]
    packed[...] = 0
    for place, first in enumerate(range(0, rows, stride)):
        part = codes[:, first : first + stride].astype(packed.dtype)
        packed[:, : part.shape[1]] |= part << packed.dtype.type(place * bits)


def _unpack(packed: Words, rows: int, bits: int) -> NDArray[np.int32]:
    stride = packed.shape[1]
    codes = np.empty((packed.shape[0], rows), np.int32)
    mask = packed.dtype.type((1 << bits) - 1)
    for place, first in enumerate(range(0, rows, stride)):
        part = codes[:, first : first + stride]
        part[...] = (packed[:, : part.shape[1]] >> packed.dtype.type(place * bits)) & mask
    return codes
