"""The file of LibSVMBinaryReader: batches of sparse features and dense labels, each stored as matrices.

A file begins with the number of its rows (8 bytes), of its batches (8), of its streams of features (4) and of labels
(4). For each stream follow the length of its name (4), the name, and the values of a sample (4); then where each batch
begins (8 each), from after the last of these numbers on. A batch is the number of its rows (4); for each stream of
features the number of values (4), the values, their indices (4 each), and where each row begins among them (4 each, one
more than rows); for each stream of labels all values.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from cntk_core.api import DataError, Location, StreamInfo
from cntk_core.api.readers import Block, Chunk, ChunkInfo, ChunkSource, Column, RandomOrder, in_precision
from cntk_reader_sparse.files import DataFile
from cntk_reader_sparse.rows import INDEX, OTHER_PRECISION, sparse_matrix

_HEADER = struct.Struct("<qqii")
_OFFSET = 8
_LONGEST_NAME = 65535
_OTHER_FORMAT = "Is it a file for LibSVMBinaryReader?"


@attrs.frozen
class StoredStream:
    """A stream as the header describes it: its name, the values of a sample, whether they are sparse."""

    name: str
    dim: int
    sparse: bool


class StoredBatches:
    """An open file; its header is read.

    Args:
        path: the file.
        reader: whose file it is, for messages.
        where: the place in the recipe.
        stored: type of its values.

    Attributes:
        streams: what it holds: features first, then labels.
        batches: how many it has.
        stored: as given.

    Raises:
        DataError: it cannot be opened, or its header is wrong.
    """

    def __init__(self, path: Path, reader: str, where: Location | None, stored: np.dtype[Any]) -> None:
        self.stored = stored
        self._file = DataFile(path, reader, where)
        try:
            self.streams, self.batches, self._table = self._read_header()
        except BaseException:
            self.close()
            raise
        self._first = self._table + self.batches * _OFFSET

    def __str__(self) -> str:
        return self._file.name

    def _read_header(self) -> tuple[tuple[StoredStream, ...], int, int]:
        file = self._file
        if not file.has(0, size=_HEADER.size):
            raise file.wrong(file.size, "the file ends before its header")
        _, batches, features, labels = _HEADER.unpack(file.read(0, _HEADER.size))
        if min(batches, features, labels) < 0 or not features + labels:
            text = f"the header promises {batches} batches of {features} streams of features and {labels} of labels"
            raise file.wrong(8, text, _OTHER_FORMAT)
        streams: list[StoredStream] = []
        at = _HEADER.size
        for number in range(features + labels):
            stream, end = self._read_stream(at, number < features)
            if stream.name.lower() in [known.name.lower() for known in streams]:
                raise file.wrong(at, f"two streams of the file have the name '{stream.name}'")
            streams.append(stream)
            at = end
        if not file.has(at, size=batches * _OFFSET):
            raise file.wrong(8, f"the header promises {batches} batches, and the file has no room for them")
        return tuple(streams), batches, at

    def _read_stream(self, at: int, sparse: bool) -> tuple[StoredStream, int]:
        """Read a stream's description; return it and where the next one begins."""
        file = self._file
        if not file.has(at, size=4):
            raise file.wrong(min(at, file.size), "the file ends inside the description of a stream", _OTHER_FORMAT)
        size = file.integer(at)
        if not 0 < size <= _LONGEST_NAME or not file.has(at, size=size + 8):
            raise file.wrong(at, f"the name of a stream cannot have {size} bytes", _OTHER_FORMAT)
        try:
            name = bytes(file.read(at + 4, size)).decode("utf-8")
        except UnicodeDecodeError:
            raise file.wrong(at + 4, "the name of a stream is not UTF-8", _OTHER_FORMAT) from None
        dim = file.integer(at + 4 + size)
        if dim <= 0:
            raise file.wrong(at + 4 + size, f"stream '{name}' cannot have {dim} values in a sample")
        return StoredStream(name, dim, sparse), at + 8 + size

    def bounds(self, number: int) -> tuple[int, int]:
        """Return the first byte of a batch, and that after its last one. Raises DataError if it lies nowhere."""
        last = number + 1 == self.batches
        table = self._file.read(self._table + number * _OFFSET, _OFFSET if last else 2 * _OFFSET)
        begin, *next_one = (self._first + offset for offset in np.frombuffer(table, dtype="<i8").tolist())
        end = next_one[0] if next_one else self._file.size
        if not self._first <= begin <= end - 4 or end > self._file.size:
            text = f"batch {number} cannot lie at the bytes {begin} to {end}"
            raise self._file.wrong(self._table + number * _OFFSET, text)
        return begin, end

    def rows(self, number: int) -> int:
        """Return how many rows a batch has. Raises DataError."""
        begin, end = self.bounds(number)
        found = self._file.integer(begin)
        # A row needs a place among its values, or a value of each label.
        if not 0 <= found <= (end - begin) // 4:
            text = f"batch {number} cannot have {found} rows in {end - begin} bytes"
            raise self._file.wrong(begin, text, OTHER_PRECISION)
        return found

    def load(self, number: int) -> Batch:
        """Return the bytes of a batch. Raises DataError."""
        begin, end = self.bounds(number)
        return Batch(self._file, number, begin, bytes(self._file.read(begin, end - begin)), self.stored)

    def close(self) -> None:
        """Close the file. May be called more than once."""
        self._file.close()


class Batch:
    """The bytes of a batch, read from the first to the last.

    Args:
        file: where it is, for messages.
        number: of the batch in the file.
        begin: its first byte.
        data: its bytes.
        stored: type of its values.

    Attributes:
        rows: how many it has.
    """

    def __init__(self, file: DataFile, number: int, begin: int, data: bytes, stored: np.dtype[Any]) -> None:
        self._file = file
        self._number = number
        self._begin = begin
        self._data = data
        self._stored = stored
        self._at = 0
        self.rows = int(self._take(INDEX, 1, "its rows")[0])

    def wrong(self, at: int, message: str) -> DataError:
        """Return the error that something is wrong at a byte of the batch."""
        return self._file.wrong(self._begin + at, f"batch {self._number}: {message}", OTHER_PRECISION)

    def _take(self, dtype: np.dtype[Any], count: int, what: str) -> Any:
        size = count * dtype.itemsize
        if size < 0 or size > len(self._data) - self._at:
            raise self.wrong(self._at, f"there is no room for {what}")
        found = np.frombuffer(self._data, dtype=dtype, count=count, offset=self._at)
        self._at += size
        return found

    def features(self, stream: StoredStream, dtype: np.dtype[Any]) -> Any:
        """Return the rows of the next stream, which is sparse. Raises DataError if they are damaged."""
        told = f"the values of stream '{stream.name}'"
        count = int(self._take(INDEX, 1, told)[0])
        values = self._take(self._stored, count, told)
        at = self._at
        indices = self._take(INDEX, count, told)
        places = self._at
        pointers = self._take(INDEX, self.rows + 1, told).astype(np.int64)
        bad = np.flatnonzero((indices < 0) | (indices >= stream.dim))
        if len(bad):
            text = f"index {int(indices[bad[0]])} of stream '{stream.name}' is not below its dimension {stream.dim}"
            raise self.wrong(at + 4 * int(bad[0]), text)
        if pointers[0] != 0 or pointers[-1] != count or (np.diff(pointers) < 0).any():
            raise self.wrong(places, f"the rows of stream '{stream.name}' do not have {count} values together")
        return self._checked(stream, at, lambda: sparse_matrix(values, indices, pointers, stream.dim, dtype))

    def labels(self, stream: StoredStream, dtype: np.dtype[Any]) -> Any:
        """Return the rows of the next stream, which is dense. Raises DataError if they are damaged."""
        at = self._at
        values = self._take(self._stored, self.rows * stream.dim, f"the values of stream '{stream.name}'")
        found = self._checked(stream, at, lambda: in_precision(values, dtype).astype(dtype, copy=False))
        return found.reshape(-1, stream.dim)

    def _checked(self, stream: StoredStream, at: int, make: Any) -> Any:
        try:
            return make()
        except OverflowError as error:
            raise self.wrong(at, f"stream '{stream.name}': {error}") from None

    def end(self) -> None:
        """Make sure that all was read. Raises DataError otherwise."""
        if self._at != len(self._data):
            raise self.wrong(self._at, f"{len(self._data) - self._at} bytes belong to no stream")


class BatchSource(ChunkSource):
    """The batches of a file as chunks.

    Args:
        file: opened.
        wanted: number of a stream in the file to what it is read as; the others are skipped.
        ones: a stream that gets 1, 0, 0, ... in each row, if there is one.
        dtype: precision of the values.
    """

    def __init__(
        self, file: StoredBatches, wanted: Mapping[int, StreamInfo], ones: StreamInfo | None, dtype: np.dtype[Any]
    ) -> None:
        self._file = file
        self._wanted = wanted
        self._ones = ones
        self._dtype = dtype
        self._index: list[ChunkInfo] = []

    def __str__(self) -> str:
        return str(self._file)

    def index(self) -> Sequence[ChunkInfo]:
        """Return how many rows the batches have. Raises DataError if the file is damaged."""
        if not self._index:
            rows = [self._file.rows(number) for number in range(self._file.batches)]
            self._index = [ChunkInfo(count, count) for count in rows]
        return self._index

    def load(self, chunk: int) -> Chunk:
        """Read a batch. Raises DataError if it is damaged."""
        batch = self._file.load(chunk)
        columns: dict[str, Column] = {}
        for number, stream in enumerate(self._file.streams):
            values = batch.features(stream, self._dtype) if stream.sparse else batch.labels(stream, self._dtype)
            info = self._wanted.get(number)
            if info is not None:
                columns[info.name] = Column(values if stream.sparse else values.reshape(-1, *info.shape))
        batch.end()
        if self._ones is not None:
            first = np.zeros((batch.rows, math.prod(self._ones.shape)), dtype=self._dtype)
            first[:, 0] = 1
            columns[self._ones.name] = Column(first.reshape(-1, *self._ones.shape))
        return Chunk(columns)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class BatchOrder(RandomOrder):
    """The batches of the file in random order, each whole: the rows of one may be meant to stand side by side."""

    def blocks(self, sweep: int) -> Iterator[Block]:
        """Yield one block for each batch."""
        for number in np.argsort(self.chunk_places(sweep)).tolist():
            self.open_chunks = frozenset((number,))
            info = self.index[number]
            rows = np.arange(info.sequences)
            yield Block(np.full(len(rows), number), rows, info.sample_counts())
