"""A table as chunks of samples: an index pass that counts lines, and parsing of one chunk at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import DataError, Location, raise_problems
from cntk_core.api.readers import LINE_BYTES, Chunk, ChunkInfo, ChunkSource, Column, line_too_long
from cntk_reader_uci.table import Columns, Marks, Table, parse_table

_BOM = b"\xef\xbb\xbf"
_BLOCK = 1 << 20
"""Bytes that are looked at together."""
_SHOWN = 10
"""Bad lines that an error lists."""


@attrs.frozen
class Stream:
    """One stream: its columns, the shape of a sample, how many classes its one-hot labels have (0: numbers)."""

    columns: Columns
    shape: tuple[int, ...]
    classes: int = 0

    @property
    def name(self) -> str:
        """The network input that the stream feeds."""
        return self.columns.name


@attrs.frozen
class Piece:
    """A chunk in the file: its bytes, the number of its first line from 1, its samples."""

    offset: int
    size: int
    line: int
    samples: int


class TableSource(ChunkSource):
    """The chunks of a table of lines of at most ``max_line_bytes`` bytes."""

    def __init__(
        self,
        path: Path,
        where: Location | None,
        streams: Sequence[Stream],
        marks: Marks,
        size: int,
        dtype: Any,
        max_line_bytes: int = LINE_BYTES,
    ) -> None:
        self._max_line_bytes = max_line_bytes
        self._path = path
        self._name = str(path)
        self._where = where
        self._streams = streams
        self._marks = marks
        self._size = size
        self._dtype: np.dtype[Any] = dtype
        self._pieces: list[Piece] = []
        self._lock = threading.Lock()
        open_table(path, where).close()

    def __str__(self) -> str:
        return self._name

    def read_in_order(self, chunk_bytes: int) -> None:
        """Cut the table into smaller chunks."""
        self._size = min(self._size, chunk_bytes)

    def index(self) -> Sequence[ChunkInfo]:
        """Return how many samples each chunk has; the lines are counted at the first call."""
        with self._lock:
            if not self._pieces:
                self._pieces = list(self._cut())
        return [ChunkInfo(piece.samples, piece.samples) for piece in self._pieces]

    def _cut(self) -> Iterator[Piece]:
        first, samples, before = 1, 0, 0
        with open_table(self._path, self._where) as file:
            offset = end = len(_BOM) if file.read(3) == _BOM else 0
            file.seek(offset)
            for ends, filled in self._lines(file):
                ends += end
                done = 0
                while (last := int(np.searchsorted(ends, offset + self._size))) < len(ends):
                    samples += int(np.count_nonzero(filled[done : last + 1]))
                    end = int(ends[last])
                    yield Piece(offset, end - offset, first, samples)
                    offset, first, samples, done = end, before + last + 2, 0, last + 1
                samples += int(np.count_nonzero(filled[done:]))
                before, end = before + len(ends), int(ends[-1])
        if end > offset:
            yield Piece(offset, end - offset, first, samples)

    def _lines(self, file: BinaryIO) -> Iterator[tuple[NDArray[np.int64], NDArray[np.bool_]]]:
        """Yield of blocks of whole lines where each line ends, from the block's beginning, and which are samples.

        Raises:
            DataError: a line is too long.
        """
        blank = np.zeros(256, np.bool_)
        blank[list(b" \t\r\n\v\f" + self._marks.delimiter)] = True
        number, limit = 0, self._max_line_bytes
        while block := file.read(_BLOCK) + file.readline(limit + len(b"\r\n")):
            text = np.frombuffer(block, np.uint8)
            ends = np.flatnonzero(text == ord("\n")) + 1
            if not len(ends) or ends[-1] < len(text):
                ends = np.append(ends, len(text))
            starts = np.concatenate([[0], ends[:-1]])
            for place in np.flatnonzero(ends - starts > limit).tolist():
                line = block[starts[place] : ends[place]]
                if len(line.removesuffix(b"\n").removesuffix(b"\r")) > limit:
                    raise line_too_long(self._name, number + place + 1, limit)
            filled = ~blank[text[starts]]
            if not filled.all():  # some are empty, or do not begin with their first column
                filled = np.logical_or.reduceat(~blank[text], starts)
            number += len(ends)
            yield ends, filled

    def load(self, chunk: int) -> Chunk:
        """Parse a chunk. Raises DataError or Problems with its bad lines."""
        self.index()
        table = self._parse(self._pieces[chunk])
        if table.problems:
            errors = list(self._errors(self._pieces[chunk], table))
            more = len(errors) - _SHOWN
            if more > 0:
                text = f"{more} more bad lines in this part of the table; `cntk check-data` lists them all"
                errors[_SHOWN:] = [DataError(text, where=Location(self._name))]
            raise_problems(errors)
        pairs = zip(self._streams, table.values, strict=True)
        return Chunk({stream.name: Column(self._column(stream, values)) for stream, values in pairs})

    def _parse(self, piece: Piece) -> Table:
        with open_table(self._path, self._where) as file:
            file.seek(piece.offset)
            text = file.read(piece.size)
        if len(text) < piece.size:
            raise DataError("the file has become shorter while it was read", where=Location(self._name))
        return parse_table(text, [stream.columns for stream in self._streams], self._marks, self._dtype)

    def _errors(self, piece: Piece, table: Table) -> Iterator[DataError]:
        for problem in table.problems:
            yield DataError(problem.message, where=Location(self._name, piece.line + problem.line))

    def _column(self, stream: Stream, values: NDArray[Any]) -> NDArray[Any]:
        if stream.columns.classes is None:
            return values.reshape(-1, *stream.shape)
        found = np.zeros((len(values), stream.classes), dtype=self._dtype)
        found[np.arange(len(values)), values] = 1
        return found.reshape(-1, *stream.shape)

    def check(self) -> Iterator[DataError]:
        """Yield everything that is wrong with the table."""
        if not sum(info.samples for info in self.index()):
            yield DataError("the file is empty", where=Location(self._name))
        for piece in self._pieces:
            yield from self._errors(piece, self._parse(piece))

    def close(self) -> None:
        """Do nothing: the file is open only while it is read."""


def open_table(path: Path, where: Location | None) -> BinaryIO:
    """Open a file for reading. Raises DataError."""
    try:
        return path.open("rb")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        hint = "A relative name starts at the directory in which the command runs." if not path.exists() else None
        raise DataError(f"UCIFastReader: cannot open file '{path}': {reason}", where=where, hint=hint) from None
