"""The fast parser: whole blocks of regular text at once, with array operations.

It accepts exactly what the exact parser accepts without complaint and gives the same result, or it returns None.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_reader_cntk_text.numbers import Bytes, parse_indices, parse_numbers, ranges
from cntk_reader_cntk_text.records import IntArray, Parsed, Samples, StreamSpec

_BLANK, _TEXT, _PIPE, _NEWLINE, _COLON = 0, 1, 2, 4, 5
"""Classes of bytes; those that make up words are odd."""
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r"))
_COMMENT, _UNKNOWN = -1, -2


def _class_table() -> bytes:
    table = bytearray([_TEXT]) * 256
    for byte in b" \t\r":
        table[byte] = _BLANK
    table[ord("|")] = _PIPE
    table[ord("\n")] = _NEWLINE
    table[ord(":")] = _COLON
    return bytes(table)


_CLASSES = _class_table()


@attrs.frozen(eq=False)
class _Words:
    """The words of a text: where they begin and end."""

    text: Bytes
    starts: IntArray
    stops: IntArray
    colons: IntArray


@attrs.frozen(eq=False)
class _Items:
    """What stands between ``|`` and the next ``|`` or the end of the line.

    Attributes:
        lines: line of each item.
        first, last: its words are ``first`` (the name) to ``last`` (not included).
        kinds: number of its stream, or comment, or unknown.
    """

    lines: IntArray
    first: IntArray
    last: IntArray
    kinds: NDArray[np.int64]


def parse_fast(data: bytes, streams: Sequence[StreamSpec], dtype: np.dtype[Any]) -> Parsed | None:
    """Read lines of text, or return None if something in them is unusual. ``data`` ends with a newline."""
    if len(data.translate(None, _CONTROLS)) != len(data) or data.count(b"\r") != data.count(b"\r\n"):
        return None
    classes = np.frombuffer(data.translate(_CLASSES), dtype=np.uint8)
    newlines = np.flatnonzero(classes == _NEWLINE)
    words = _find_words(data, classes)
    items = _find_items(classes, newlines, words, streams)
    if items is None:
        return None
    samples = []
    short: NDArray[np.bool_] = np.zeros(len(newlines), dtype=bool)
    for number, stream in enumerate(streams):
        mine = np.flatnonzero(items.kinds == number)
        read = _read_sparse if stream.sparse else _read_dense
        found = read(words, items.lines[mine], items.first[mine] + 1, items.last[mine], stream, dtype)
        if found is None:
            return None
        if not stream.sparse:
            short[found.lines[(items.last[mine] - items.first[mine]) <= stream.dim]] = True
        samples.append(found)
    if not _every_line_has_samples(samples, len(newlines)):
        return None
    return Parsed(len(newlines), samples, short=np.flatnonzero(short).tolist())


def _find_words(data: bytes, classes: NDArray[np.uint8]) -> _Words:
    in_word = classes & 1
    edges = np.flatnonzero(in_word[1:] != in_word[:-1]) + 1
    if in_word[0]:
        edges = np.concatenate([[0], edges])
    colons = np.flatnonzero(classes == _COLON)
    return _Words(np.frombuffer(data, dtype=np.uint8), edges[0::2], edges[1::2], colons)


def _find_items(
    classes: NDArray[np.uint8], newlines: IntArray, words: _Words, streams: Sequence[StreamSpec]
) -> _Items | None:
    pipes = np.flatnonzero(classes == _PIPE)
    if not len(pipes):
        return None
    lines = np.searchsorted(newlines, pipes)
    ends = np.minimum(np.append(pipes[1:], len(classes)), newlines[lines])
    first = np.searchsorted(words.starts, pipes)
    last = np.searchsorted(words.starts, ends)
    if not _ids_are_regular(words, newlines, lines, first, last):
        return None
    if (first == last).any() or (words.starts[first] != pipes + 1).any():
        return None
    return _Items(lines, first, last, _kinds(words, first, streams))


def _ids_are_regular(words: _Words, newlines: IntArray, lines: IntArray, first: IntArray, last: IntArray) -> bool:
    """Check the words that belong to no item: at most one in a line, at its start, of digits."""
    before = first - np.concatenate([[0], last[:-1]])
    if int(last[-1]) != len(words.starts) or int(before.max()) > 1:
        return False
    having = np.flatnonzero(before)
    ids = first[having] - 1
    line_starts = np.concatenate([[0], newlines[:-1] + 1])
    if (words.starts[ids] != line_starts[lines[having]]).any():
        return False
    chars = words.text[ranges(words.starts[ids], words.stops[ids] - words.starts[ids])]
    return not len(chars) or int((chars - np.uint8(ord("0"))).max()) <= 9


def _kinds(words: _Words, first: IntArray, streams: Sequence[StreamSpec]) -> NDArray[np.int64]:
    starts = words.starts[first]
    lengths = words.stops[first] - starts
    kinds = np.full(len(first), _UNKNOWN)
    for number, stream in enumerate(streams):
        same = np.flatnonzero(lengths == len(stream.alias))
        for k, byte in enumerate(stream.alias):
            same = same[words.text[starts[same] + k] == byte]
        kinds[same] = number
    kinds[words.text[starts] == ord("#")] = _COMMENT
    return kinds


def _read_dense(
    words: _Words, lines: IntArray, first: IntArray, last: IntArray, stream: StreamSpec, dtype: np.dtype[Any]
) -> Samples | None:
    counts = last - first
    full = bool((counts == stream.dim).all())
    if not full and int(counts.max()) > stream.dim:
        return None
    chosen = (first[:, None] + np.arange(stream.dim)).ravel() if full else ranges(first, counts)
    numbers = _values(words, words.starts[chosen], words.stops[chosen], dtype)
    if numbers is None:
        return None
    if full:
        return Samples(lines, numbers.reshape(-1, stream.dim))
    values = np.zeros((len(lines), stream.dim), dtype=dtype)
    values[np.repeat(np.arange(len(lines)), counts), ranges(np.zeros_like(counts), counts)] = numbers
    return Samples(lines, values)


def _read_sparse(
    words: _Words, lines: IntArray, first: IntArray, last: IntArray, stream: StreamSpec, dtype: np.dtype[Any]
) -> Samples | None:
    counts = last - first
    chosen = ranges(first, counts)
    starts, stops = words.starts[chosen], words.stops[chosen]
    place = np.searchsorted(words.colons, starts)
    colons = np.append(words.colons, len(words.text))[place]
    if (colons >= stops).any():
        return None
    indices = parse_indices(words.text, starts, colons, stream.dim)
    # A second colon in a word makes its value no number.
    values = _values(words, colons + 1, stops, dtype)
    if indices is None or values is None:
        return None
    return Samples(lines, values, indices.astype(np.int32), counts)


def _values(words: _Words, starts: IntArray, stops: IntArray, dtype: np.dtype[Any]) -> NDArray[Any] | None:
    numbers = parse_numbers(words.text, starts, stops)
    if numbers is None:
        return None
    values, may_be_large = numbers
    if may_be_large and (np.abs(values) > np.finfo(dtype).max).any():
        return None
    return values.astype(dtype, copy=False)


def _every_line_has_samples(samples: Sequence[Samples], lines: int) -> bool:
    if any(len(found.lines) == lines and (np.diff(found.lines) == 1).all() for found in samples):
        return True
    have = np.zeros(lines, dtype=bool)
    for found in samples:
        have[found.lines] = True
    return bool(have.all())
