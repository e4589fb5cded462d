"""The streams of a chunk, out of its bytes.

For each stream, for each sequence: dense: the number ``n`` of its samples (4 bytes), and ``n * dim`` values; sparse:
``n`` (4), the number of values (4), the values, their indices (4 each), and the number of values of each sample (4).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import DataError
from cntk_core.api.readers import Column, in_precision
from cntk_reader_binary.binaryfile import IntArray, StoredStream

Wrong = Callable[[int, str], DataError]
"""Makes the error for a place in the chunk."""


@attrs.frozen(eq=False)
class Block:
    """A stream of a chunk.

    Attributes:
        counts: samples of each sequence.
        end: where the bytes of the stream end.
        column: its frames; None if they are not wanted.
    """

    counts: IntArray
    end: int
    column: Column | None


def parse_stream(
    data: bytes,
    at: int,
    sequences: int,
    stream: StoredStream,
    wrong: Wrong,
    *,
    shape: tuple[int, ...] | None,
    dtype: np.dtype[Any],
) -> Block:
    """Read a stream.

    Args:
        data: the chunk.
        at: where the stream begins.
        sequences: how many sequences the chunk has.
        stream: its description.
        wrong: makes errors.
        shape: of a sample; None: the stream is only skipped.
        dtype: precision of the values.

    Raises:
        DataError: the bytes are no such stream.
    """
    if stream.sparse:
        return _parse_sparse(data, at, sequences, stream, wrong, None if shape is None else dtype)
    sizes = _uniform(data, at, sequences, stream)
    if sizes is None:
        return _parse_dense(data, at, sequences, stream, wrong, shape, dtype)
    record = 4 + sizes * stream.dim * stream.stored.itemsize
    end = at + sequences * record
    counts = np.full(sequences, sizes, dtype=np.int64)
    if shape is None:
        return Block(counts, end, None)
    rows = np.frombuffer(data, dtype=np.uint8, count=end - at, offset=at).reshape(sequences, record)
    values = np.ascontiguousarray(rows[:, 4:]).view(stream.stored)
    frames = _in_precision(values.reshape(sequences * sizes, *shape), at, stream, wrong, dtype)
    return Block(counts, end, Column(frames, _offsets(counts)))


def _uniform(data: bytes, at: int, sequences: int, stream: StoredStream) -> int | None:
    """Return how many samples every sequence has, None if they differ or do not fit into the chunk."""
    if at + 4 > len(data):
        return None
    (first,) = struct.unpack_from("<I", data, at)
    record = 4 + first * stream.dim * stream.stored.itemsize
    if at + sequences * record > len(data):
        return None
    raw = np.frombuffer(data, dtype=np.uint8, count=sequences * record, offset=at).reshape(sequences, record)
    counts = np.ascontiguousarray(raw[:, :4]).view("<u4")
    return int(first) if (counts == first).all() else None


def _parse_dense(
    data: bytes,
    at: int,
    sequences: int,
    stream: StoredStream,
    wrong: Wrong,
    shape: tuple[int, ...] | None,
    dtype: np.dtype[Any],
) -> Block:
    view = memoryview(data)
    sample = stream.dim * stream.stored.itemsize
    begin = at
    counts: list[int] = []
    pieces: list[memoryview] = []
    for number in range(sequences):
        if at + 4 > len(data):
            raise _ends(at, len(data), number, sequences, stream, wrong)
        (count,) = struct.unpack_from("<I", data, at)
        end = at + 4 + count * sample
        if end > len(data):
            text = f"sequence {number} of stream '{stream.name}' has {count} samples, more than the chunk has room for"
            raise wrong(at, text)
        counts.append(count)
        pieces.append(view[at + 4 : end])
        at = end
    lengths = np.array(counts, dtype=np.int64)
    if shape is None:
        return Block(lengths, at, None)
    values = np.frombuffer(bytearray().join(pieces), dtype=stream.stored)
    frames = _in_precision(values.reshape(-1, *shape), begin, stream, wrong, dtype)
    return Block(lengths, at, Column(frames, _offsets(lengths)))


@attrs.frozen(eq=False)
class _Record:
    """A sequence of a sparse stream: where it begins, how many samples and values it has."""

    at: int
    samples: int
    values: int


def _parse_sparse(
    data: bytes, at: int, sequences: int, stream: StoredStream, wrong: Wrong, dtype: np.dtype[Any] | None
) -> Block:
    width = stream.stored.itemsize
    begin = at
    records: list[_Record] = []
    for number in range(sequences):
        if at + 8 > len(data):
            raise _ends(at, len(data), number, sequences, stream, wrong)
        samples, values = struct.unpack_from("<Ii", data, at)
        end = at + 8 + values * (width + 4) + samples * 4
        if values < 0 or end > len(data):
            text = f"sequence {number} of stream '{stream.name}' has {samples} samples with {values} values"
            raise wrong(at, f"{text}, and the chunk has no room for that")
        records.append(_Record(at, samples, values))
        at = end
    lengths = np.array([record.samples for record in records], dtype=np.int64)
    if dtype is None:
        return Block(lengths, at, None)
    view = memoryview(data)
    starts = [record.at + 8 for record in records]
    middles = [start + record.values * width for start, record in zip(starts, records, strict=True)]
    lasts = [middle + record.values * 4 for middle, record in zip(middles, records, strict=True)]
    ends = [last + record.samples * 4 for last, record in zip(lasts, records, strict=True)]
    values = _join(view, starts, middles, stream.stored)
    indices = _join(view, middles, lasts, np.dtype("<i4"))
    sizes = _join(view, lasts, ends, np.dtype("<i4")).astype(np.int64)
    _check_sparse(indices, sizes, records, stream, wrong)
    from scipy.sparse import csr_array

    pointers = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32 if len(values) < 2**31 else np.int64)
    values = _in_precision(values, begin, stream, wrong, dtype)
    matrix = csr_array((values, indices, pointers), shape=(len(sizes), stream.dim))
    return Block(lengths, at, Column(matrix, _offsets(lengths)))


def _check_sparse(
    indices: NDArray[Any], sizes: IntArray, records: list[_Record], stream: StoredStream, wrong: Wrong
) -> None:
    """Raise if an index is outside of the samples, or the samples' numbers of values are not those of the sequences."""
    width = stream.stored.itemsize
    stored = np.array([record.values for record in records], dtype=np.int64)
    bad = np.flatnonzero((indices < 0) | (indices >= stream.dim))
    if len(bad):
        number = int(np.searchsorted(np.cumsum(stored), bad[0], side="right"))
        record = records[number]
        place = int(bad[0]) - int(stored[:number].sum())
        text = f"index {int(indices[bad[0]])} of stream '{stream.name}' is not below its dimension {stream.dim}"
        raise wrong(record.at + 8 + record.values * width + 4 * place, text)
    samples = np.array([record.samples for record in records], dtype=np.int64)
    negative = np.flatnonzero(sizes < 0)
    totals = np.concatenate([[0], np.cumsum(sizes)])
    ends = np.cumsum(samples)
    found = totals[ends] - totals[ends - samples]
    differ = np.flatnonzero(found != stored)
    if len(negative) or len(differ):
        number = int(np.searchsorted(ends, negative[0], side="right")) if len(negative) else int(differ[0])
        record = records[number]
        text = f"the samples of sequence {number} of stream '{stream.name}' do not have {record.values} values together"
        raise wrong(record.at + 8 + record.values * (width + 4), text)


def _in_precision(
    values: NDArray[Any], at: int, stream: StoredStream, wrong: Wrong, dtype: np.dtype[Any]
) -> NDArray[Any]:
    try:
        return in_precision(values, dtype)
    except OverflowError as error:
        raise wrong(at, f"stream '{stream.name}': {error}") from None


def _join(view: memoryview, starts: list[int], ends: list[int], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return pieces of the chunk as one array."""
    joined = bytearray().join([view[start:end] for start, end in zip(starts, ends, strict=True)])
    return np.frombuffer(joined, dtype=dtype)


def _ends(at: int, size: int, number: int, sequences: int, stream: StoredStream, wrong: Wrong) -> DataError:
    return wrong(min(at, size), f"the chunk ends before sequence {number} of {sequences} of stream '{stream.name}'")


def _offsets(counts: IntArray) -> IntArray | None:
    return None if (counts == 1).all() else np.concatenate([[0], np.cumsum(counts)])
