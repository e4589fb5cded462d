"""The loop over the bytes of regular lines of a table, in the part of Python that is compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_core.api.readers import (
    NO_EXPONENT,
    NO_NUMBER,
    USUAL,
    decimal_value,
    note_odd,
    read_digits,
    read_exponent,
)

Bytes = NDArray[np.uint8]
IntArray = NDArray[np.int64]

SIGNATURE = (
    "int64(uint8[::1], uint8[::1], int64, int64, float64[::1], {numbers}[::1], int64[::1], int64[::1], int64[::1])"
)
"""The types of :func:`read_columns`, for values in single or double precision."""

SKIPPED = 0
NUMBER = 1
NAME = 2
"""What a column holds."""
GIVE_UP = -1
"""Something is unusual."""

_NEWLINE = 10
_SPACE = 32
_PLUS = 43
_MINUS = 45
_E = 101


def read_columns(
    text: Bytes,
    kinds: Bytes,
    delimiter: int,
    point: int,
    powers: NDArray[np.float64],
    values: NDArray[Any],
    names: IntArray,
    odd: IntArray,
    used: IntArray,
) -> int:
    """Read lines; empty ones do not count, and columns after those that are wanted are not looked at.

    Args:
        text: the lines; the last byte is a newline.
        kinds: what each column holds.
        delimiter: the byte between columns beside white space.
        point: the byte before decimals.
        powers: ``POWERS_OF_TEN``.
        values: get the numbers, line by line.
        names: get where each name begins and ends, line by line.
        odd: begin, end and place of each number that is to be read by other means.
        used: its one element, 0, becomes the count of odd numbers.

    Returns:
        The number of lines, or ``GIVE_UP``.
    """
    size = len(text)
    columns = len(kinds)
    at = 0
    rows = 0
    place = 0
    name = 0
    while at < size:
        at = skip_blanks(text, at, delimiter)
        column = 0
        if text[at] != _NEWLINE:
            rows += 1
            while column < columns and text[at] != _NEWLINE:
                begin = at
                if kinds[column] == NUMBER:
                    at, kind, value = read_number(text, at, point, powers)
                    if kind != USUAL:
                        if kind == NO_NUMBER or not note_odd(begin, at, place, odd, used[0]):
                            return GIVE_UP
                        used[0] += 1
                    values[place] = value
                    place += 1
                else:
                    at = skip_word(text, at, delimiter)
                    if kinds[column] == NAME:
                        names[name] = begin
                        names[name + 1] = at
                        name += 2
                if not is_blank(text[at], delimiter):
                    return GIVE_UP
                column += 1
                at = skip_blanks(text, at, delimiter)
            if column < columns:
                return GIVE_UP
            while text[at] != _NEWLINE:
                at += 1
        at += 1
    return rows


def is_blank(byte: int, delimiter: int) -> bool:
    """Tell whether a byte separates columns, or ends the line."""
    if byte == delimiter:
        return True
    return byte == _SPACE or 9 <= byte <= 13


def skip_blanks(text: Bytes, at: int, delimiter: int) -> int:
    """Return where the next column begins, or the line ends."""
    while text[at] != _NEWLINE and is_blank(text[at], delimiter):
        at += 1
    return at


def skip_word(text: Bytes, at: int, delimiter: int) -> int:
    """Return where a column ends."""
    while not is_blank(text[at], delimiter):
        at += 1
    return at


def read_number(text: Bytes, at: int, point: int, powers: NDArray[np.float64]) -> tuple[int, int, float]:
    """Read a number: where it ends, of which kind it is, and its value. Digits stand before the point or after it."""
    minus = text[at] == _MINUS
    if minus or text[at] == _PLUS:
        at += 1
    first = at
    at, mantissa, digits = read_digits(text, at, 0, 0)
    count = at - first
    power = 0
    if text[at] == point:
        first = at + 1
        at, mantissa, digits = read_digits(text, first, mantissa, digits)
        power = first - at
        count -= power
    if count == 0:
        return at, NO_NUMBER, 0.0
    if text[at] | 32 == _E:
        at, exponent = read_exponent(text, at + 1)
        if exponent == NO_EXPONENT:
            return at, NO_NUMBER, 0.0
        power += exponent
    kind, value = decimal_value(mantissa, digits, power, powers)
    if minus:
        value = -value
    return at, kind, value
