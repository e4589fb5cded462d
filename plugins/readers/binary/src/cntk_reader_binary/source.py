"""A binary file as chunks of sequences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from cntk_core.api import CntkError, DataError, StreamInfo
from cntk_core.api.readers import Chunk, ChunkInfo, ChunkSource, Column
from cntk_reader_binary.binaryfile import BinaryFile, IntArray
from cntk_reader_binary.parse import parse_stream

_DAMAGED = "The file is damaged; write it again."


class BinarySource(ChunkSource):
    """The chunks of a binary file. Keys are the numbers of the sequences in the file.

    Args:
        file: the file.
        wanted: number of a stream in the file to what it is read as; the others are skipped.
        dtype: precision of the values.
    """

    numeric_keys: ClassVar[bool] = True

    def __init__(self, file: BinaryFile, wanted: Mapping[int, StreamInfo], dtype: np.dtype[Any]) -> None:
        self._file = file
        self._wanted = dict(wanted)
        self._dtype = dtype
        self._index: list[ChunkInfo] = []

    def __str__(self) -> str:
        return self._file.name

    def index(self) -> Sequence[ChunkInfo]:
        """Return what the chunks hold: the lengths of the sequences stand at the beginning of each."""
        if not self._index:
            lengths = (self._file.lengths(number) for number in range(len(self._file.chunks)))
            self._index = [ChunkInfo(len(own), int(own.sum()), None if (own == 1).all() else own) for own in lengths]
        return self._index

    def keys(self, chunk: int) -> IntArray:
        """Return the numbers of a chunk's sequences."""
        stored = self._file.chunks[chunk]
        return np.arange(stored.first, stored.first + stored.sequences)

    def load(self, chunk: int) -> Chunk:
        """Read a chunk. Raises DataError if it is damaged."""
        stored = self._file.chunks[chunk]
        lengths = self._file.lengths(chunk)
        begin = stored.begin + 4 * stored.sequences
        data = self._file.read(begin, stored.end - begin)

        def wrong(at: int, message: str) -> DataError:
            return self._file.wrong(begin + at, f"chunk {chunk}: {message}", _DAMAGED)

        columns: dict[str, Column] = {}
        longest = np.zeros(stored.sequences, dtype=np.int64)
        at = 0
        for number, stream in enumerate(self._file.streams):
            info = self._wanted.get(number)
            shape = None if info is None else info.shape
            block = parse_stream(data, at, stored.sequences, stream, wrong, shape=shape, dtype=self._dtype)
            at = block.end
            longest = np.maximum(longest, block.counts)
            if info is not None and block.column is not None:
                columns[info.name] = block.column
        if at != len(data):
            raise wrong(at, f"{len(data) - at} bytes after the last sequence belong to no stream")
        differ = np.flatnonzero(longest != lengths)
        if len(differ):
            number = int(differ[0])
            text = f"sequence {number} has {int(longest[number])} samples, and its chunk says {int(lengths[number])}"
            raise self._file.wrong(stored.begin + 4 * number, f"chunk {chunk}: {text}", _DAMAGED)
        plain = all(column.is_plain for column in columns.values())
        return Chunk(columns, () if plain else self.keys(chunk))

    def check(self) -> Iterator[CntkError]:
        """Yield everything that is wrong with the file: at most one error for each chunk."""
        for number in range(len(self._file.chunks)):
            try:
                self.load(number)
            except DataError as error:
                yield error

    def close(self) -> None:
        """Close the file."""
        self._file.close()
