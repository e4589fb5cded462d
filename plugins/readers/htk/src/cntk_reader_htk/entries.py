"""The loop over the bytes of a label file, in the part of Python that is compiled (``byte_loop``).

It reads entries as HTK's tools write them: times are whole numbers, columns are one blank apart, all is ASCII. At
anything else it gives up, and :mod:`cntk_reader_htk.mlf` reads line by line, which alone says what is wrong.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
IntArray = NDArray[np.int64]

SIGNATURE = (
    "int64(uint8[::1], int64, int64, int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], "
    "int64[::1])"
)
"""The types of :func:`read_entries`."""

UNUSUAL = -1
"""What it returns where it gives up."""

_NEWLINE = 10
_BLANK = 32
_QUOTE = 34
_DOT = 46
_ZERO = 48
_LAST = 126
_MOST_DIGITS = 15
_FRAME_TIME = 100000.0


def read_entries(
    text: Bytes,
    longest: int,
    most_frames: int,
    names: IntArray,
    name_ends: IntArray,
    lines: IntArray,
    offsets: IntArray,
    states: IntArray,
    state_ends: IntArray,
    counts: IntArray,
) -> int:
    """Read whole entries.

    Args:
        text: ends with a line that has only a dot.
        longest: bytes that a line may have.
        most_frames: frames that an entry may have.
        names, name_ends: where the name of each entry begins and ends, without its quotation marks.
        lines: the line of each name, from 0.
        offsets: ranges of all entries up to each, its own included.
        states, state_ends: where the name of the state of each range begins and ends.
        counts: frames of each range.

    Returns:
        The number of entries, or ``UNUSUAL``.
    """
    entries = 0
    ranges = 0
    line = 0
    at = 0
    while at < len(text):
        end = _end_of_line(text, at)
        if end - at < 3 or end - at > longest or text[at] != _QUOTE or text[end - 1] != _QUOTE:
            return UNUSUAL
        names[entries], name_ends[entries], lines[entries] = at + 1, end - 1, line
        at = end + 1
        line += 1
        known = 0
        while text[at] != _DOT or text[at + 1] != _NEWLINE:
            begin = at
            start, at = _read_time(text, at)
            if start < 0:
                return UNUSUAL
            stop, at = _read_time(text, at)
            if stop < 0:
                return UNUSUAL
            states[ranges] = at
            while text[at] > _BLANK and text[at] <= _LAST:
                at += 1
            state_ends[ranges] = at
            end = _end_of_line(text, at)
            if at == states[ranges] or end < 0 or end - begin > longest:
                return UNUSUAL
            first, last = start, stop
            if stop - start >= _FRAME_TIME - 1:
                first, last = int(start / _FRAME_TIME + 0.5), int(stop / _FRAME_TIME + 0.5)
            if first != known or last < first or last > most_frames:
                return UNUSUAL
            counts[ranges] = last - first
            known = last
            ranges += 1
            line += 1
            at = end + 1
        if known == 0:
            return UNUSUAL
        offsets[entries] = ranges
        entries += 1
        line += 1
        at += 2
    return entries


def _end_of_line(text: Bytes, at: int) -> int:
    """Return where the line ends, -1 if it has anything but printed characters and blanks."""
    while text[at] >= _BLANK and text[at] <= _LAST:
        at += 1
    return at if text[at] == _NEWLINE else -1


def _read_time(text: Bytes, at: int) -> tuple[int, int]:
    """Read a whole number and the blank behind it. Returns it and where the next column begins; -1 if it is none."""
    begin = at
    value = 0
    while text[at] >= _ZERO and text[at] < _ZERO + 10 and at - begin < _MOST_DIGITS:
        value = 10 * value + (text[at] - _ZERO)
        at += 1
    if at == begin or text[at] != _BLANK:
        value = -1
    return value, at + 1
