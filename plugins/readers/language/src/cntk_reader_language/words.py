"""Loops over the bytes of a text, in the part of Python that is compiled: where its words are, and their numbers.

A table of words is an array of places, as many as a power of two. A word is looked for from the place on that its bytes
say; a place has the number of a word plus one, 0 if it is free.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
IntArray = NDArray[np.int64]

SPLIT = "int64(uint8[::1], int64[::1], int64[::1], int64[::1])"
FILL = "void(uint8[::1], int64[::1], int64[::1], int64[::1])"
LOOK_UP = "void(uint8[::1], int64[::1], int64[::1], uint8[::1], int64[::1], int64[::1], int64[::1], int64[::1])"
"""The types of the functions below."""

_NEWLINE = 10
_SPACE = 32
_PRIME = 16777619  # of the hash by Fowler, Noll and Vo (FNV-1a) of 32 bits
_BASIS = 2166136261
_MASK = 4294967295


def split_lines(text: Bytes, starts: IntArray, ends: IntArray, counts: IntArray) -> int:
    """Find the words of lines; what is no word are blanks, tabs and what Python's ``split`` takes for such in ASCII.

    Args:
        text: the lines; the last byte is a newline.
        starts, ends: of each word.
        counts: the words of each line.

    Returns:
        The number of words.
    """
    words = 0
    lines = 0
    before = 0
    at = 0
    size = len(text)
    while at < size:
        byte = text[at]
        if byte == _NEWLINE:
            counts[lines] = words - before
            before = words
            lines += 1
            at += 1
        elif is_blank(byte):
            at += 1
        else:
            starts[words] = at
            while not is_blank(text[at]):
                at += 1
            ends[words] = at
            words += 1
    return words


def is_blank(byte: int) -> bool:
    """Tell whether a byte separates words: white space, and the separators 28 to 31."""
    return byte == _SPACE or 9 <= byte <= 13 or 28 <= byte <= 31


def hashed(text: Bytes, start: int, end: int) -> int:
    """Return a number of 32 bits that the bytes of a word make."""
    found = _BASIS
    for at in range(start, end):
        found = ((found ^ text[at]) * _PRIME) & _MASK
    return found


def fill_table(text: Bytes, starts: IntArray, ends: IntArray, table: IntArray) -> None:
    """Put words into an empty table that has more places than there are words."""
    last = len(table) - 1
    for word in range(len(starts)):
        place = hashed(text, starts[word], ends[word]) & last
        while table[place] != 0:
            place = (place + 1) & last
        table[place] = word + 1


def look_up(
    text: Bytes,
    starts: IntArray,
    ends: IntArray,
    known: Bytes,
    known_starts: IntArray,
    known_ends: IntArray,
    table: IntArray,
    numbers: IntArray,
) -> None:
    """Write the place of each word of a text among the known words, -1 for another word."""
    last = len(table) - 1
    for word in range(len(starts)):
        place = hashed(text, starts[word], ends[word]) & last
        number = -1
        while number < 0 and table[place] != 0:
            number = table[place] - 1
            if not same_word(text, starts[word], ends[word], known, known_starts[number], known_ends[number]):
                number = -1
            place = (place + 1) & last
        numbers[word] = number


def same_word(text: Bytes, start: int, end: int, other: Bytes, other_start: int, other_end: int) -> bool:
    """Tell whether two words are the same."""
    if end - start != other_end - other_start:
        return False
    k = 0
    while start + k < end and text[start + k] == other[other_start + k]:
        k += 1
    return start + k == end
