"""Decimal numbers in loops over bytes: the part of Python that is compiled, for readers of text.

A function that calls these is compiled with the text of this file (:func:`decimals_file`). Values are those of
``float``, to the last bit: a whole number that double precision has exactly, divided or multiplied by a power of ten
that it has exactly, is rounded once. What is not sure to be right is left to others (``ODD``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

USUAL = 0
ODD = 1
NO_NUMBER = 2
"""What a number may be: read; to be read by other means; none."""

MOST_DIGITS = 15
"""So many digits are a whole number that double precision has exactly."""
LONG_DIGITS = 18
"""So many digits are a whole number of 64 bits."""
LARGEST_POWER = 22
"""The largest power of ten that double precision has exactly."""
NO_EXPONENT = 10000
"""What is no exponent, since there are no digits."""

_LARGE_EXPONENT = 1000
_SPLIT = 134217729.0  # 2^27 + 1: halves the digits of a number in double precision
_DOUBT = 9.094947017729282e-13  # 2^-40, far more than what the divisions lose
_PLUS = 43
_MINUS = 45
_ZERO = 48

POWERS_OF_TEN = np.array([float(10**k) for k in range(LARGEST_POWER + 1)])
"""The last argument of those functions that have ``powers``."""


def decimals_file() -> str:
    """Return where the functions lie, for what compiles them."""
    return __file__


def read_digits(text: NDArray[np.uint8], at: int, mantissa: int, digits: int) -> tuple[int, int, int]:
    """Read digits after others. Returns where they end, the number, and how many digits count, zeros in front not."""
    digit = text[at] - _ZERO
    while 0 <= digit <= 9:
        mantissa = mantissa * 10 + digit
        if mantissa != 0:
            digits += 1
        at += 1
        digit = text[at] - _ZERO
    return at, mantissa, digits


def read_exponent(text: NDArray[np.uint8], at: int) -> tuple[int, int]:
    """Read what stands after ``e``: where it ends, and its value, ``NO_EXPONENT`` if it is none."""
    minus = text[at] == _MINUS
    if minus or text[at] == _PLUS:
        at += 1
    first = at
    exponent = 0
    while _ZERO <= text[at] <= _ZERO + 9:
        if exponent < _LARGE_EXPONENT:
            exponent = exponent * 10 + (text[at] - _ZERO)
        at += 1
    if at == first:
        return at, NO_EXPONENT
    if minus:
        exponent = -exponent
    return at, exponent


def decimal_value(mantissa: int, digits: int, power: int, powers: NDArray[np.float64]) -> tuple[int, float]:
    """Return ``mantissa * 10**power``, where the mantissa has so many digits, and ``USUAL``, or ``ODD``."""
    kind = USUAL
    value = float(mantissa)
    if digits > LONG_DIGITS or power < -LARGEST_POWER or power > LARGEST_POWER:
        kind = ODD
    elif digits > MOST_DIGITS:
        kind, value = long_quotient(mantissa, power, powers)
    elif power < 0:
        value = value / powers[-power]
    elif power > 0:
        value = value * powers[power]
    return kind, value


def long_quotient(mantissa: int, power: int, powers: NDArray[np.float64]) -> tuple[int, float]:
    """Return a mantissa of up to 18 digits divided by a power of ten, and ``USUAL``; or ``ODD``.

    The remainder of the division in double precision is found without error, and divided once more.
    Source: T. J. Dekker, A floating-point technique for extending the available precision (1971).
    """
    if power > 0:
        return ODD, 0.0
    divisor = powers[-power]
    high = float(mantissa)
    low = float(mantissa - int(high))
    quotient = high / divisor
    product = quotient * divisor
    scaled = quotient * _SPLIT
    a = scaled - (scaled - quotient)
    b = quotient - a
    scaled = divisor * _SPLIT
    c = scaled - (scaled - divisor)
    d = divisor - c
    error = ((a * c - product) + a * d + b * c) + b * d
    rest = ((high - product) - error + low) / divisor
    doubt = rest * _DOUBT
    value = quotient + rest
    if quotient + (rest - doubt) != value or quotient + (rest + doubt) != value:
        return ODD, 0.0
    return USUAL, value


def note_odd(at: int, end: int, place: int, odd: NDArray[np.int64], count: int) -> bool:
    """Note begin, end and place of an odd number after ``count`` others. Returns False if there is no room."""
    if 3 * count == len(odd):
        return False
    odd[3 * count] = at
    odd[3 * count + 1] = end
    odd[3 * count + 2] = place
    return True


def fill_odd(text: bytes, odd: NDArray[np.int64], values: NDArray[Any]) -> bool:
    """Put the odd numbers of a text (begin, end and place of each) into values. Not compiled.

    Returns False if one is too large for the precision of the values.
    """
    if not len(odd):
        return True
    noted = odd.reshape(-1, 3)
    numbers = np.array([float(text[begin:end]) for begin, end in noted[:, :2].tolist()])
    if (np.abs(numbers) > np.finfo(values.dtype).max).any():
        return False
    values.reshape(-1)[noted[:, 2]] = numbers
    return True
