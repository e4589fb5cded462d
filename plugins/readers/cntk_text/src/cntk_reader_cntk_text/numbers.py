"""Many numbers at once: from places in a text to values, without a Python loop over numbers."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_reader_cntk_text.exact import NUMBER
from cntk_reader_cntk_text.records import IntArray

Bytes = NDArray[np.uint8]

_LONGEST = 16
"""Numbers of up to so many characters are digits divided by a power of ten, which is then correctly rounded."""
_SHORT = 9
"""Numbers of up to so many digits fit into 32 bits."""
_POWERS = 10.0 ** np.arange(_LONGEST + 1)
_NUMBERS = re.compile(rb"(?:" + NUMBER + rb" )*+")
_ZERO, _POINT, _MINUS, _PLUS = b"0.-+"


def ranges(first: IntArray, counts: IntArray) -> IntArray:
    """Return ``first[0], first[0] + 1, ...`` (``counts[0]`` of them), then those of ``first[1]``, and so on."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    places: IntArray = np.arange(total) + np.repeat(first - (ends - counts), counts)
    return places


def parse_numbers(text: Bytes, starts: IntArray, stops: IntArray) -> tuple[NDArray[np.float64], bool] | None:
    """Return the numbers at ``text[starts[i]:stops[i]]``, and whether some may be too large for a float.

    Returns None if one of them is no number.
    """
    lengths = stops - starts
    values = np.empty(len(starts))
    if not len(starts):
        return values, False
    if int(lengths.min()) < 1:
        return None
    odd: list[IntArray] = []
    for length in np.flatnonzero(np.bincount(np.minimum(lengths, _LONGEST + 1))).tolist():
        group = np.flatnonzero(lengths == length) if length <= _LONGEST else np.flatnonzero(lengths > _LONGEST)
        if length > _LONGEST:
            odd.append(group)
            continue
        found, usual = _parse_group(text, starts[group], length)
        values[group] = found
        if usual is not None:
            odd.append(group[~usual])
    if not odd:
        return values, False
    rest = np.concatenate(odd)
    others = _parse_odd(text, starts[rest], stops[rest])
    if others is None:
        return None
    values[rest] = others
    return values, True


def _parse_group(text: Bytes, starts: IntArray, length: int) -> tuple[NDArray[np.float64], NDArray[np.bool_] | None]:
    """Read numbers of one length: sign, digits, point, digits.

    Returns the values and which of them have this form (None: all).
    """
    digits = text[starts + np.arange(length)[:, None]] - np.uint8(_ZERO)
    is_digit = digits <= 9
    whole = is_digit.all(axis=1)
    mantissa: NDArray[Any] = np.zeros(len(starts), dtype=np.int32 if length <= _SHORT else np.int64)
    usual = np.ones(len(starts), dtype=bool)
    decimals = np.zeros(len(starts), dtype=np.int64)
    minus = digits[0] == np.uint8((_MINUS - _ZERO) % 256)
    sign = minus | (digits[0] == np.uint8((_PLUS - _ZERO) % 256))
    points = np.zeros(len(starts), dtype=np.int8)
    for k in range(length):
        if whole[k]:
            mantissa *= 10
            mantissa += digits[k]
            continue
        if k == 0:
            # A digit comes first, after a sign.
            usual &= is_digit[0] | (sign & is_digit[1] if length > 1 else False)
            mantissa[is_digit[0]] = digits[0, is_digit[0]]
            continue
        point = digits[k] == np.uint8((_POINT - _ZERO) % 256)
        usual &= is_digit[k] | point
        points += point
        decimals[point] = length - 1 - k
        if is_digit[k].any():
            mantissa = np.where(is_digit[k], mantissa * 10 + digits[k], mantissa)
    if whole.all():
        return mantissa.astype(np.float64), None
    usual &= points <= 1
    values = mantissa / _POWERS[decimals]
    np.negative(values, out=values, where=minus)
    return values, None if usual.all() else usual


def _parse_odd(text: Bytes, starts: IntArray, stops: IntArray) -> NDArray[np.float64] | None:
    """Read numbers of any form, exponents and many digits."""
    lengths = stops - starts + 1
    chars = text[np.minimum(ranges(starts, lengths), len(text) - 1)]
    chars[np.cumsum(lengths) - 1] = ord(" ")
    joined = chars.tobytes()
    if _NUMBERS.fullmatch(joined) is None:
        return None
    return np.array(list(map(float, joined.split())))


def parse_indices(text: Bytes, starts: IntArray, stops: IntArray, limit: int) -> IntArray | None:
    """Return the whole numbers at ``text[starts[i]:stops[i]]``; None unless all are digits and below ``limit``."""
    lengths = stops - starts
    values = np.zeros(len(starts), dtype=np.int64)
    if not len(starts):
        return values
    longest = int(lengths.max())
    if int(lengths.min()) < 1 or longest > _LONGEST:
        return None
    for k in range(longest):
        inside = lengths > k
        digits = text[starts[inside] + k] - np.uint8(_ZERO)
        if int(digits.max()) > 9:
            return None
        values[inside] = values[inside] * 10 + digits
    return values if int(values.max()) < limit else None
