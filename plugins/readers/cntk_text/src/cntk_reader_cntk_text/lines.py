"""The loop over the bytes of regular lines, in the part of Python that is compiled.

It reads what the exact parser reads without complaint, and gives up where it would not be sure to do the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_core.api.readers import (
    MOST_DIGITS,
    NO_EXPONENT,
    NO_NUMBER,
    USUAL,
    decimal_value,
    note_odd,
    read_digits,
    read_exponent,
)
from cntk_reader_cntk_text.records import Bytes, IntArray

Ints32 = NDArray[np.int32]
Reals = NDArray[np.float64]
Numbers = NDArray[Any]

SIGNATURE = (
    "int64(uint8[::1], uint8[::1], int64[::1], int64[::1], uint8[::1], float64[::1], int64[::1], int64[::1], "
    "{numbers}[::1], int32[::1], int64[::1], int64[::1], int64[::1], int64[::1])"
)
"""The types of :func:`read_lines`, for values in single or double precision."""

GIVE_UP = -1
"""Something is unusual."""
NO_ROOM = -2
"""There are more values than there is room for: dense samples are filled up with zeros."""

_TAB = 9
_NEWLINE = 10
_RETURN = 13
_SPACE = 32
_HASH = 35
_PLUS = 43
_MINUS = 45
_POINT = 46
_ZERO = 48
_COLON = 58
_E = 101
_PIPE = 124


def read_lines(
    text: Bytes,
    aliases: Bytes,
    alias_ends: IntArray,
    dims: IntArray,
    sparse: Bytes,
    powers: Reals,
    ends: IntArray,
    used: IntArray,
    values: Numbers,
    indices: Ints32,
    lines: IntArray,
    counts: IntArray,
    short: IntArray,
    odd: IntArray,
) -> int:
    """Read lines of text.

    Args:
        text: the lines; the last byte is a newline.
        aliases, alias_ends: the names of the streams in the text one after the other, and where each ends.
        dims, sparse: of each stream.
        powers: ``POWERS_OF_TEN``.
        ends: of each stream, where its part of ``values`` ends.
        used: of each stream the place of its next value and the place of its next sample, then 0 and 0; in the end
            how far each was used, how many lines have samples that were filled up, and how many numbers are odd.
        values, indices: of all streams, each in its part.
        lines, counts: the line of each sample, and how many values it has (only of sparse ones).
        short: lines with dense samples that were filled up with zeros.
        odd: begin, end and place of each number that is to be read by other means.

    Returns:
        The number of lines, ``GIVE_UP`` or ``NO_ROOM``.
    """
    size = len(text)
    at = 0
    line = 0
    while at < size:
        while _ZERO <= text[at] <= _ZERO + 9:
            at += 1
        at = skip_columns(text, at)
        if text[at] != _PIPE:
            return GIVE_UP
        empty = True
        while text[at] == _PIPE:
            at += 1
            if text[at] == _HASH:
                at = skip_item(text, at)
                continue
            first = at
            while text[at] > _SPACE and text[at] != _PIPE:
                at += 1
            if at == first:
                return GIVE_UP
            stream = find_stream(text, first, at, aliases, alias_ends)
            if stream < 0:
                at = skip_item(text, at)
                continue
            value = used[2 * stream]
            dim = dims[stream]
            dense = sparse[stream] == 0
            if dense and ends[stream] - value < dim:
                return NO_ROOM
            sample = used[2 * stream + 1]
            lines[sample] = line
            used[2 * stream + 1] = sample + 1
            at, end = read_sample(text, at, dense, dim, powers, value, values, indices, odd, used)
            if at < 0:
                return GIVE_UP
            counts[sample] = end - value
            if dense and end < value + dim:
                note_short(line, short, used)
                while end < value + dim:
                    values[end] = 0.0
                    end += 1
            used[2 * stream] = end
            empty = False
            at = skip_columns(text, at)
        if empty or text[at] != _NEWLINE:
            return GIVE_UP
        at += 1
        line += 1
    return line


def skip_blanks(text: Bytes, at: int) -> int:
    """Return the place after blanks and tabs."""
    while text[at] == _SPACE or text[at] == _TAB:
        at += 1
    return at


def skip_columns(text: Bytes, at: int) -> int:
    """Return the place after what may stand between items: blanks, tabs, and a carriage return before a newline."""
    at = skip_blanks(text, at)
    if text[at] == _RETURN and text[at + 1] == _NEWLINE:
        at += 1
    return at


def skip_item(text: Bytes, at: int) -> int:
    """Return where the next item begins, or the line ends."""
    while text[at] != _PIPE and text[at] != _NEWLINE:
        at += 1
    return at


def find_stream(text: Bytes, first: int, end: int, aliases: Bytes, alias_ends: IntArray) -> int:
    """Return the number of a stream by its name in the text, -1 if there is none; the last of several."""
    stream = len(alias_ends) - 1
    while stream >= 0:
        begin = 0
        if stream > 0:
            begin = alias_ends[stream - 1]
        length = alias_ends[stream] - begin
        if length == end - first:
            k = 0
            while k < length and aliases[begin + k] == text[first + k]:
                k += 1
            if k == length:
                return stream
        stream -= 1
    return -1


def note_short(line: int, short: IntArray, used: IntArray) -> None:
    """Keep the number of a line, once."""
    place = len(used) - 2
    count = used[place]
    if count == 0 or short[count - 1] != line:
        short[count] = line
        used[place] = count + 1


def read_sample(
    text: Bytes,
    at: int,
    dense: bool,
    dim: int,
    powers: Reals,
    place: int,
    values: Numbers,
    indices: Ints32,
    odd: IntArray,
    used: IntArray,
) -> tuple[int, int]:
    """Read the values of a sample, or its pairs ``index:value``, from a place in ``values`` on.

    Returns where it ends in the text (-1: something is unusual), and in ``values``.
    """
    last = place + dim
    blanks = at
    at = skip_blanks(text, at)
    while text[at] != _PIPE and text[at] != _NEWLINE and text[at] != _RETURN:
        if at == blanks:
            return -1, place
        if not dense:
            at, index = read_index(text, at, dim)
            if index < 0:
                return -1, place
            indices[place] = index
        elif place == last:
            return -1, place
        end, kind, value = read_number(text, at, powers)
        if kind != USUAL:
            if kind == NO_NUMBER or not note_odd(at, end, place, odd, used[len(used) - 1]):
                return -1, place
            used[len(used) - 1] += 1
        values[place] = value
        place += 1
        blanks = end
        at = skip_blanks(text, end)
    return at, place


def read_index(text: Bytes, at: int, dim: int) -> tuple[int, int]:
    """Read an index below ``dim`` and a colon. Returns where the value begins, and the index (-1: it is unusual)."""
    first = at
    index = 0
    while _ZERO <= text[at] <= _ZERO + 9:
        index = index * 10 + (text[at] - _ZERO)
        at += 1
    if at == first or at - first > MOST_DIGITS or index >= dim or text[at] != _COLON:
        return at, -1
    return at + 1, index


def read_number(text: Bytes, at: int, powers: Reals) -> tuple[int, int, float]:
    """Read a number: where it ends, of which kind it is, and its value.

    Digits before the point are required, digits after it are not; an exponent needs digits right before it. A number of
    few digits with a small exponent is read exactly: a whole number, divided or multiplied by a power of ten. The value
    of another one (``ODD``) does not count.
    """
    minus = text[at] == _MINUS
    if minus or text[at] == _PLUS:
        at += 1
    first = at
    at, mantissa, digits = read_digits(text, at, 0, 0)
    if at == first:
        return at, NO_NUMBER, 0.0
    power = 0
    whole = True
    if text[at] == _POINT:
        first = at + 1
        at, mantissa, digits = read_digits(text, first, mantissa, digits)
        power = first - at
        whole = power < 0
    if text[at] | 32 == _E:
        at, exponent = read_exponent(text, at + 1)
        if exponent == NO_EXPONENT or not whole:
            return at, NO_NUMBER, 0.0
        power += exponent
    kind, value = decimal_value(mantissa, digits, power, powers)
    if minus:
        value = -value
    return at, kind, value
