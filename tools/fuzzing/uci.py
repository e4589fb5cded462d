"""Tables of UCIFastReader against one line, one cell at a time. The first byte of an input says how it is read."""

from __future__ import annotations

import random
import re
from typing import Any

import attrs
import numpy as np
from cntk_reader_uci.source import Stream, TableSource
from cntk_reader_uci.table import Columns, Marks

from cntk_core.api import CntkError
from fuzzing.engine import Finding, mutated, same
from fuzzing.files import plain, rows_of, write

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_CLASSES = {b"a": 0, b"b": 1, b"-1": 2}
_SIZES = (1, 24, 1 << 20, 1 << 20)
_CELLS = ("0", "1", "-25", "+3", "5", "7", "1e3", "1e-320", "9007199254740993", "1234567890123456789012")
_ODD = ("3.4028236e38", "1e39", "2,5", "2.5", "nan", "-.5", "7.", "1e999", "1_0", "0x10", "\u0661")


@attrs.frozen
class _How:
    """How an input is read."""

    delimiter: bytes
    point: bytes
    chunk: int
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, byte: int) -> _How:
        kind = np.dtype(np.float32 if byte & 8 else np.float64)
        return cls(b"," if byte & 1 else b"", b"," if byte & 6 == 2 else b"", _SIZES[byte >> 4 & 3], kind)


def make(pick: random.Random) -> bytes:
    how = pick.randbytes(1)
    mark = pick.choice((" ", "\t", "  ", "," if how[0] & 1 else " "))
    odd = 0.02 if pick.random() < 0.7 else 0.2
    lines = []
    for _ in range(pick.choice((1, 2, 3, 6))):
        cells = [pick.choice(_ODD if pick.random() < odd else _CELLS) for _ in range(3)]
        cells.insert(0, "x" if pick.random() < odd else pick.choice(("a", "b", "-1")))
        lines.append(mark.join(cells[: 3 if pick.random() < odd else 4]) + pick.choice(("", "", " 9", "\r")))
    data = "\n".join(lines).encode() + pick.choice((b"", b"\n", b"\n \n"))
    return how + (mutated(data, pick) if pick.random() < 0.4 else data)


def check(data: bytes) -> None:
    how, text = _How.of(data[0] if data else 0), data[1:]
    try:
        expected = _judge(text, how)
    except ValueError:
        expected = None
    try:
        found = _read(text, how)
    except CntkError as error:
        if expected is not None:
            raise Finding(f"refused what is right: {error}") from None
        raise
    if expected is None:
        raise Finding(f"accepted what is wrong: {found!r}")
    same("rows", found, expected)


def _read(text: bytes, how: _How) -> list[tuple[list[str], list[str]]]:
    streams = [Stream(Columns("x", 1, 3), (3,)), Stream(Columns("l", 0, 1, _CLASSES), (3,), 3)]
    source = TableSource(write("t.txt", text), None, streams, Marks(how.delimiter, how.point), how.chunk, how.dtype)
    problems = [str(error) for error in source.check()]
    found: list[tuple[list[str], list[str]]] = []
    for number, info in enumerate(source.index()):
        columns = source.load(number).columns
        values, labels = (rows_of(columns[name].data) for name in "xl")
        same("the samples that the index says", info.samples, len(values))
        found += zip(values, labels, strict=True)
    if problems and found:
        raise Finding(f"check-data finds what reading does not: {problems[0]}")
    return found


def _judge(text: bytes, how: _How) -> list[tuple[list[str], list[str]]]:
    found = []
    for line in text.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        cells = re.split(rb"[ \t\r\x0b\x0c]+" if not how.delimiter else rb"[ \t\r\x0b\x0c,]+", line)
        cells = [cell for cell in cells if cell]
        if not cells:
            continue
        if len(cells) < 4 or cells[0] not in _CLASSES:
            raise ValueError("cells")
        values = [_number(cell.decode("latin-1"), how) for cell in cells[1:4]]
        label = [1.0 if number == _CLASSES[cells[0]] else 0.0 for number in range(3)]
        found.append((plain(np.array(values, how.dtype)), plain(np.array(label, how.dtype))))
    return found


def _number(cell: str, how: _How) -> float:
    if how.point:
        if "." in cell:
            raise ValueError(cell)
        cell = cell.replace(how.point.decode(), ".")
    if not _NUMBER.fullmatch(cell) or abs(float(cell)) > float(np.finfo(how.dtype).max):
        raise ValueError(cell)
    return float(cell)
