"""The parser: lines of text to matrices of numbers and numbers of classes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import did_you_mean
from cntk_reader_uci.regular import read_regular

NUMBER = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
"""A number of the table."""
_NUMERIC = b"0123456789+-.eE"
_SHOWN = 40
_SUGGESTED = 10
_LONGEST = 64
"""Bytes of a number that is read together with others: they all take as much memory as the longest."""


@attrs.frozen
class Columns:
    """The columns of one stream.

    Attributes:
        name: the stream.
        start, count: columns ``start`` to ``start + count``, from 0.
        classes: names to numbers if the column holds names; else the columns hold numbers.
    """

    name: str
    start: int
    count: int
    classes: Mapping[bytes, int] | None = None


@attrs.frozen
class Marks:
    """How a line is cut.

    Attributes:
        delimiter: a byte between columns beside white space, or nothing.
        point: the byte before decimals if it is not ``.``, or nothing.
    """

    delimiter: bytes = b""
    point: bytes = b""

    def split(self, line: bytes, most: int = -1) -> list[bytes]:
        """Return the columns of a line; where there are more than ``most``, the others in one."""
        return (line.replace(self.delimiter, b" ") if self.delimiter else line).split(None, most)


@attrs.frozen
class LineProblem:
    """What is wrong in a line (from 0)."""

    line: int
    message: str


@attrs.frozen(eq=False)
class Table:
    """Parsed lines.

    Attributes:
        values: for each stream ``(samples, count)``, or ``(samples,)`` numbers of classes.
        problems: what could not be read; those lines are missing in ``values``.
    """

    values: Sequence[NDArray[Any]]
    problems: Sequence[LineProblem] = ()


def parse_table(text: bytes, streams: Sequence[Columns], marks: Marks, dtype: np.dtype[Any]) -> Table:
    """Read lines; empty lines are no samples."""
    found = read_regular(text, streams, marks, dtype)
    return parse_lines(text, streams, marks, dtype) if found is None else Table(found, [])


def parse_lines(text: bytes, streams: Sequence[Columns], marks: Marks, dtype: np.dtype[Any]) -> Table:
    """Read any lines, and say what is wrong with them."""
    widest = max(stream.start + stream.count for stream in streams)
    lines = enumerate(text.split(b"\n"))
    rows = [(number, cells) for number, line in lines if (cells := marks.split(line, widest))]
    problems: list[LineProblem] = []
    wide: list[tuple[int, list[bytes]]] = []
    for number, cells in rows:
        if len(cells) < widest:
            problems.append(LineProblem(number, _too_few(len(cells), streams)))
        else:
            wide.append((number, cells))
    good = np.ones(len(wide), dtype=bool)
    values = [_read(wide, stream, marks, dtype, problems, good) for stream in streams]
    problems.sort(key=lambda problem: problem.line)
    return Table([array[good] for array in values], problems)


def _too_few(count: int, streams: Sequence[Columns]) -> str:
    stream = max(streams, key=lambda stream: stream.start + stream.count)
    columns = "column" if count == 1 else "columns"
    return (
        f"the line has {count} {columns}; stream '{stream.name}' (start={stream.start}, dim={stream.count}) "
        f"needs {stream.start + stream.count}"
    )


def _read(
    rows: list[tuple[int, list[bytes]]],
    stream: Columns,
    marks: Marks,
    dtype: np.dtype[Any],
    problems: list[LineProblem],
    good: NDArray[np.bool_],
) -> NDArray[Any]:
    """Read a stream of all rows; what is wrong is added to ``problems`` and its row is no longer ``good``."""
    if stream.classes is not None:
        return _read_classes(rows, stream, stream.classes, problems, good)
    end = stream.start + stream.count
    whole = _numbers([cell for _, cells in rows for cell in cells[stream.start : end]], marks, dtype)
    if whole is not None:
        return whole.reshape(-1, stream.count)
    found = np.zeros((len(rows), stream.count), dtype=dtype)
    for i, (line, cells) in enumerate(rows):
        for k, cell in enumerate(cells[stream.start : end]):
            number = _number(cell, marks, dtype)
            if isinstance(number, str):
                good[i] = False
                problems.append(LineProblem(line, f"column {stream.start + k} (stream '{stream.name}'): {number}"))
            else:
                found[i, k] = number
    return found


def _read_classes(
    rows: list[tuple[int, list[bytes]]],
    stream: Columns,
    classes: Mapping[bytes, int],
    problems: list[LineProblem],
    good: NDArray[np.bool_],
) -> NDArray[Any]:
    found = np.array([classes.get(cells[stream.start], -1) for _, cells in rows], dtype=np.int64)
    for count, i in enumerate(np.flatnonzero(found < 0).tolist()):
        line, cells = rows[i]
        label = _show(cells[stream.start])
        # Each is compared with all classes: of many wrong labels the first show what is wrong.
        near = did_you_mean(label, [_show(name) for name in classes]) if count < _SUGGESTED else ""
        message = f"column {stream.start} (stream '{stream.name}'): label '{label}' is not in the mapping file{near}"
        problems.append(LineProblem(line, message))
        good[i] = False
    return found


def _numbers(cells: list[bytes], marks: Marks, dtype: np.dtype[Any]) -> NDArray[Any] | None:
    """Read regular numbers all at once, or return None."""
    if marks.point or not cells or max(map(len, cells)) > _LONGEST or b"".join(cells).translate(None, _NUMERIC):
        return None
    try:
        found = np.array(cells).astype(np.float64)
    except ValueError:
        return None
    return found.astype(dtype) if float(np.abs(found).max()) <= float(np.finfo(dtype).max) else None


def _number(cell: bytes, marks: Marks, dtype: np.dtype[Any]) -> float | str:
    """Return a number, or what is wrong with it."""
    text = cell.translate(bytes.maketrans(marks.point + b".", b"." + b"?")) if marks.point else cell
    if NUMBER.fullmatch(text) is None:
        other = cell.replace(b",", b".")
        comma = b"," in cell and NUMBER.fullmatch(other) is not None
        advice = ' (customDecimalPoint="," or customDelimiter="," says what a comma is)' if comma else ""
        return f"'{_show(cell)}' is no number{advice}"
    value = float(text)
    if abs(value) > float(np.finfo(dtype).max):
        return f"'{_show(cell)}' is too large"
    return value


def _show(cell: bytes) -> str:
    text = cell.decode("utf-8", "replace")
    text = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
