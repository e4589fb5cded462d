"""The exact parser: reads row by row, byte by byte, and says where and why a row cannot be read.

:mod:`.fast` reads regular text much faster and leaves everything else to this module.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from cntk_reader_cntk_text.records import Parsed, RowProblem, Samples, StreamSpec

NUMBER = rb"[+-]?[0-9]+(?:\.(?:[0-9]+(?:[eE][+-]?[0-9]+)?)?|[eE][+-]?[0-9]+)?"
"""A number: digits before the point are required, digits after it are not; an exponent needs digits right before it."""

_NUMBER = re.compile(NUMBER)
_DIGITS = re.compile(rb"[0-9]*")
_BLANK = re.compile(rb"[ \t]*")
_COLUMNS = re.compile(rb"[\x00-\x09\x0b-\x20]*")
_TOKEN = re.compile(rb"[^\x00-\x20|]+")
_TO_NEXT = re.compile(rb"[^|]*")
_PAIR = re.compile(rb"([0-9]+):(.*)", re.DOTALL)
_LONGEST_SHOWN = 40


class _BadRowError(Exception):
    """A row that cannot be read; ``position`` counts from 0 in the row."""

    def __init__(self, position: int, message: str) -> None:
        super().__init__(message)
        self.position = position
        self.message = message


@attrs.define
class _Sample:
    stream: int
    values: list[float]
    indices: list[int]
    short: bool = False


def parse_exact(text: bytes, streams: Sequence[StreamSpec], dtype: np.dtype[Any]) -> Parsed:
    """Read lines of text. ``text`` ends with a newline or is empty; a bad row is left out and reported."""
    rows = text.split(b"\n")[:-1]
    numbers = {stream.alias: i for i, stream in enumerate(streams)}
    largest = float(np.finfo(dtype).max)
    found: list[list[tuple[int, _Sample]]] = [[] for _ in streams]
    problems: list[RowProblem] = []
    short: list[int] = []
    for line, row in enumerate(rows):
        try:
            samples = _parse_row(row, streams, numbers, largest)
        except _BadRowError as error:
            problems.append(RowProblem(line, error.position + 1, error.message))
            continue
        for sample in samples:
            found[sample.stream].append((line, sample))
        if any(sample.short for sample in samples):
            short.append(line)
    return Parsed(len(rows), [_columns(own, s, dtype) for own, s in zip(found, streams, strict=True)], problems, short)


def _columns(found: list[tuple[int, _Sample]], stream: StreamSpec, dtype: np.dtype[Any]) -> Samples:
    lines = np.array([line for line, _ in found], dtype=np.int64)
    if not stream.sparse:
        values = np.zeros((len(found), stream.dim), dtype=dtype)
        for i, (_, sample) in enumerate(found):
            values[i, : len(sample.values)] = sample.values
        return Samples(lines, values)
    return Samples(
        lines,
        np.array([value for _, sample in found for value in sample.values], dtype=dtype),
        np.array([index for _, sample in found for index in sample.indices], dtype=np.int32),
        np.array([len(sample.values) for _, sample in found], dtype=np.int64),
    )


def _parse_row(row: bytes, streams: Sequence[StreamSpec], numbers: dict[bytes, int], largest: float) -> list[_Sample]:
    samples: list[_Sample] = []
    at = _end(_DIGITS, row, 0)
    while (at := _end(_COLUMNS, row, at)) < len(row):
        if row[at : at + 1] != b"|":
            raise _BadRowError(at, f"'{_show(_token(row, at))}' stands where '|' and the name of a stream should be")
        at += 1
        if row[at : at + 1] == b"#":
            at = _end(_TO_NEXT, row, at)
            continue
        alias = _token(row, at)
        if not alias:
            raise _BadRowError(at - 1, "'|' is not followed by the name of a stream")
        number = numbers.get(alias)
        if number is None:
            at = _end(_TO_NEXT, row, at)
            continue
        sample = _Sample(number, [], [])
        read = _read_sparse if streams[number].sparse else _read_dense
        at = read(row, at + len(alias), streams[number], sample, largest)
        samples.append(sample)
    if not samples:
        raise _BadRowError(0, "the row has no samples" if row.strip() else "the row is empty")
    return samples


def _read_dense(row: bytes, at: int, stream: StreamSpec, sample: _Sample, largest: float) -> int:
    while token := _token(row, at := _end(_BLANK, row, at)):
        if len(sample.values) == stream.dim:
            raise _BadRowError(at, f"stream '{stream.name}' has more than {stream.dim} values")
        sample.values.append(_number(token, at, stream, largest))
        at += len(token)
    sample.short = len(sample.values) < stream.dim
    return at


def _read_sparse(row: bytes, at: int, stream: StreamSpec, sample: _Sample, largest: float) -> int:
    while token := _token(row, at := _end(_BLANK, row, at)):
        pair = _PAIR.fullmatch(token)
        if pair is None:
            raise _BadRowError(at, f"stream '{stream.name}': '{_show(token)}' is no pair index:value")
        # Very long numbers of digits are compared by their length: Python refuses to convert them.
        digits = pair[1].lstrip(b"0")
        index = int(digits or b"0") if len(digits) < 20 else stream.dim
        if index >= stream.dim:
            raise _BadRowError(
                at, f"stream '{stream.name}': index {_show(pair[1])} is not below dim={stream.dim} (the first is 0)"
            )
        sample.indices.append(index)
        sample.values.append(_number(pair[2], at + pair.start(2), stream, largest))
        at += len(token)
    return at


def _number(token: bytes, at: int, stream: StreamSpec, largest: float) -> float:
    if _NUMBER.fullmatch(token) is None:
        raise _BadRowError(at, f"stream '{stream.name}': '{_show(token)}' is no number{_advice(token, stream)}")
    value = float(token)
    if abs(value) > largest:
        raise _BadRowError(at, f"stream '{stream.name}': '{_show(token)}' is too large")
    return value


def _advice(token: bytes, stream: StreamSpec) -> str:
    text = token.lower().lstrip(b"+-")
    if text in (b"nan", b"inf", b"infinity"):
        return " (the format has no infinite or missing values)"
    if text.startswith(b".") and _NUMBER.fullmatch(b"0" + text):
        return " (a digit must stand before the point)"
    if b"," in text and _NUMBER.fullmatch(token.replace(b",", b".", 1)):
        return " (the decimal point is '.')"
    if not stream.sparse and _PAIR.fullmatch(token):
        return " (index:value is for streams with format=sparse)"
    return ""


def _token(row: bytes, at: int) -> bytes:
    match = _TOKEN.match(row, at)
    return match[0] if match else b""


def _end(pattern: re.Pattern[bytes], row: bytes, at: int) -> int:
    match = pattern.match(row, at)
    return match.end() if match else at


def _show(token: bytes) -> str:
    text = token.decode("utf-8", "replace")
    text = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "..."
