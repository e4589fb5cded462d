"""CNTK's binary format against a parser that goes from number to number. The last bit of the first byte: precision."""

from __future__ import annotations

import random
import struct
from typing import Any

import numpy as np
from cntk_reader_binary.binaryfile import BinaryFile
from cntk_reader_binary.source import BinarySource

from cntk_core.api import CntkError, StreamInfo
from fuzzing.engine import Finding, mutated, same
from fuzzing.files import plain, rows_of, write

_MAGIC = struct.pack("<QI", 0x636E746B5F62696E, 1)
_LARGEST_DIM = 50
"""Streams with more values in a sample are skipped: their rows would be written out here."""


def make(pick: random.Random) -> bytes:
    streams = [(pick.random() < 0.4, pick.random() < 0.4, pick.choice((1, 2, 5))) for _ in range(pick.choice((1, 2)))]
    body, table, at = b"", [], len(_MAGIC)
    for _ in range(pick.choice((1, 1, 2, 3))):
        counts = [pick.choice((1, 1, 2, 3)) for _ in range(pick.choice((1, 2, 4)))]
        chunk = struct.pack(f"<{len(counts)}I", *counts)
        for sparse, double, dim in streams:
            chunk += b"".join(_sequence(pick, count, sparse, double, dim) for count in counts)
        table.append(struct.pack("<qII", at, len(counts), sum(counts)))
        body += chunk
        at += len(chunk)
    head = _MAGIC[:8] + struct.pack("<II", len(table), len(streams))
    for number, (sparse, double, dim) in enumerate(streams):
        head += struct.pack("<BI", sparse, 1) + b"xy"[number : number + 1] + struct.pack("<BI", double, dim)
    data = _MAGIC + body + head + b"".join(table) + struct.pack("<q", at)
    return pick.randbytes(1) + (mutated(data, pick) if pick.random() < 0.6 else data)


def _sequence(pick: random.Random, count: int, sparse: bool, double: bool, dim: int) -> bytes:
    kind = "d" if double else "f"
    numbers = [0.0, 1.5, -2.0, 1e38, float("nan"), float("inf")] + ([1e300] if double and pick.random() < 0.1 else [])
    if not sparse:
        return struct.pack(f"<I{count * dim}{kind}", count, *(pick.choice(numbers) for _ in range(count * dim)))
    sizes = [pick.randrange(dim + 1) for _ in range(count)]
    total = sum(sizes)
    values = [pick.choice(numbers) for _ in range(total)]
    indices = [index for size in sizes for index in pick.sample(range(dim), size)]
    return struct.pack(f"<Ii{total}{kind}{total}i{count}i", count, total, *values, *indices, *sizes)


def check(data: bytes) -> None:
    dtype = np.dtype(np.float64 if data[:1] and data[0] & 1 else np.float32)
    try:
        expected = _judge(data[1:], dtype)
    except (ValueError, struct.error):
        expected = None
    try:
        found = _read(data[1:], dtype)
    except CntkError as error:
        if expected is not None:
            raise Finding(f"refused what is right: {error}") from None
        raise
    if expected is None:
        raise Finding(f"accepted what is wrong: {found!r}")
    same("values", found, expected)


Values = dict[str, list[list[list[str]]]]
"""The rows of each sequence of each stream."""


def _read(data: bytes, dtype: np.dtype[Any]) -> Values:
    file = BinaryFile(write("t.cbf", data))
    try:
        wanted = {
            number: StreamInfo(stream.name, (stream.dim,), stream.sparse)
            for number, stream in enumerate(file.streams)
            if stream.dim <= _LARGEST_DIM
        }
        source = BinarySource(file, wanted, dtype)
        problems = list(source.check())
        found: Values = {info.name: [] for info in wanted.values()}
        for number, info in enumerate(source.index()):
            chunk = source.load(number)
            every = np.arange(info.sequences)
            for name, column in chunk.columns.items():
                rows = rows_of(column.data)
                pairs = zip(column.first_rows(every).tolist(), column.lengths(every).tolist(), strict=True)
                found[name] += [rows[first : first + count] for first, count in pairs]
    finally:
        file.close()
    if problems:
        raise Finding(f"check-data finds what reading does not: {problems[0]}")
    return found


def _judge(data: bytes, dtype: np.dtype[Any]) -> Values:
    if data[:12] != _MAGIC:
        raise ValueError("magic")
    (begin,) = struct.unpack("<q", data[-8:])
    end = len(data) - 8
    if not 12 <= begin <= end - 16 or data[begin : begin + 8] != _MAGIC[:8]:
        raise ValueError("header")
    chunks, count = struct.unpack_from("<II", data, begin + 8)
    at = begin + 16
    streams: list[tuple[str, bool, bool, int]] = []
    for _ in range(count):
        sparse, size = struct.unpack_from("<BI", data[:end], at)
        name = data[at + 5 : min(at + 5 + size, end)].decode()
        double, dim = struct.unpack_from("<BI", data[:end], at + 5 + size)
        if sparse > 1 or double > 1 or not 0 < dim < 2**31 or not 0 < size < 2**16:
            raise ValueError("stream")
        streams.append((name, bool(sparse), bool(double), dim))
        at += 10 + size
    if not streams or at + 16 * chunks != end or len({name.lower() for name, *_ in streams}) != count:
        raise ValueError("table")
    table = [struct.unpack_from("<qII", data, at + 16 * number) for number in range(chunks)]
    ends = [entry[0] for entry in table[1:]] + [begin]
    found: Values = {name: [] for name, _, _, dim in streams if dim <= _LARGEST_DIM}
    for (first, sequences, samples), last in zip(table, ends, strict=True):
        if first < 12 or last > begin or last - first < 4 * sequences:
            raise ValueError("chunk")
        if sequences:
            _judge_chunk(data[first:last], sequences, samples, streams, found, dtype)
    return found


def _judge_chunk(
    data: bytes,
    sequences: int,
    samples: int,
    streams: list[tuple[str, bool, bool, int]],
    found: Values,
    dtype: np.dtype[Any],
) -> None:
    lengths = list(struct.unpack_from(f"<{sequences}I", data))
    at = 4 * sequences
    longest = [0] * sequences
    for name, sparse, double, dim in streams:
        for number in range(sequences):
            read = _sparse(data, at, double, dim, read=name in found) if sparse else _dense(data, at, double, dim)
            rows, at = read
            longest[number] = max(longest[number], len(rows))
            if name in found:
                found[name].append([_row(row, dim, dtype) for row in rows])
    if at != len(data) or longest != lengths or sum(lengths) != samples:
        raise ValueError("lengths")


def _row(values: dict[int, list[float]], dim: int, dtype: np.dtype[Any]) -> list[str]:
    row = np.zeros(dim, dtype)
    with np.errstate(all="ignore"):
        for index, several in values.items():
            if dtype == np.float32 and any(np.isfinite(value) and np.isinf(np.float32(value)) for value in several):
                raise ValueError("too large")
            for value in several:
                row[index] += dtype.type(value)
    return plain(row)


def _dense(data: bytes, at: int, double: bool, dim: int) -> tuple[list[dict[int, list[float]]], int]:
    (count,) = struct.unpack_from("<I", data, at)
    width = 8 if double else 4
    if at + 4 + count * dim * width > len(data):
        raise ValueError("dense")
    values = struct.unpack_from(f"<{count * dim}{'d' if double else 'f'}", data, at + 4)
    rows = [{k: [values[i * dim + k]] for k in range(dim)} for i in range(count)]
    return rows, at + 4 + count * dim * width


def _sparse(data: bytes, at: int, double: bool, dim: int, *, read: bool) -> tuple[list[dict[int, list[float]]], int]:
    """The rows of a sequence, and where it ends; a stream that is not read is skipped."""
    count, total = struct.unpack_from("<Ii", data, at)
    width = 8 if double else 4
    if total < 0 or at + 8 + total * (width + 4) + 4 * count > len(data):
        raise ValueError("sparse")
    end = at + 8 + total * (width + 4) + 4 * count
    if not read:
        return [{}] * count, end
    values = struct.unpack_from(f"<{total}{'d' if double else 'f'}", data, at + 8)
    indices = struct.unpack_from(f"<{total}i", data, at + 8 + total * width)
    sizes = struct.unpack_from(f"<{count}i", data, at + 8 + total * (width + 4))
    if any(size < 0 for size in sizes) or sum(sizes) != total or any(not 0 <= index < dim for index in indices):
        raise ValueError("indices")
    rows, first = [], 0
    for size in sizes:
        row: dict[int, list[float]] = {}
        for place in range(first, first + size):
            row.setdefault(indices[place], []).append(values[place])
        rows.append(row)
        first += size
    return rows, end
