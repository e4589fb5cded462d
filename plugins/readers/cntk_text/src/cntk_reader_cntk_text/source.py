"""A text file as chunks of sequences: an index pass that counts, and parsing of one chunk at a time."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ClassVar, cast

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import CntkError, DataError, Location
from cntk_core.api.readers import Chunk, ChunkInfo, ChunkSource, Column, reader_threads
from cntk_reader_cntk_text.exact import parse_exact
from cntk_reader_cntk_text.fast import parse_fast
from cntk_reader_cntk_text.records import IdArray, IntArray, Parsed, RowProblem, Samples, StreamSpec, join
from cntk_reader_cntk_text.sequences import Sequences, find_sequences, id_changes
from cntk_reader_cntk_text.textfile import LARGEST_ID, IdTooLargeError, TextFile, line_ids, line_starts

_BLOCK = 1 << 19
"""Bytes that are parsed together: few enough for the cache, and little is parsed again where a row is unusual."""
_INDEX_PIECE = 1 << 22
_SHOWN = 5
"""Bad rows that an error lists."""
_WARNINGS = 5
_THREADS = 4
"""Threads that parse a chunk at most."""


@attrs.frozen
class Piece:
    """A chunk in the file.

    Attributes:
        offset, size: its bytes.
        line: number of its first line, from 1.
    """

    offset: int
    size: int
    line: int


@attrs.frozen
class TextRules:
    """How a file is to be read.

    Attributes:
        streams: what is wanted of it.
        main: number of the stream that defines the minibatch size; None is the longest of each sequence.
        by_line: every line is a sequence; else the lines of one id are, where the file has ids.
        max_errors: malformed rows that are left out.
        chunk_bytes: size of a chunk.
        dtype: precision of the values.
    """

    streams: tuple[StreamSpec, ...]
    main: int | None
    by_line: bool
    max_errors: int
    chunk_bytes: int
    dtype: np.dtype[Any]


class TextSource(ChunkSource):
    """The chunks of a text file."""

    numeric_keys: ClassVar[bool] = True

    def __init__(self, file: TextFile, rules: TextRules, warn: Callable[[str], None]) -> None:
        self._file = file
        self._rules = rules
        self._chunk_bytes = rules.chunk_bytes
        self._warn = warn
        self._by_line = rules.by_line or file.read(file.begin, 1) == b"|"
        self._pieces: list[Piece] = []
        self._index: list[ChunkInfo] = []
        self._warned: set[int] = set()
        if not file.ends_with_newline:
            warn(f"WARNING: {file.name}: the last line does not end with a newline")

    def __str__(self) -> str:
        return self._file.name

    @property
    def by_line(self) -> bool:
        """Whether every line is a sequence of its own."""
        return self._by_line

    def read_in_order(self, chunk_bytes: int) -> None:
        """Cut the file into smaller chunks."""
        self._chunk_bytes = min(self._chunk_bytes, chunk_bytes)

    def index(self) -> Sequence[ChunkInfo]:
        """Return what the chunks hold.

        Counting lines and ids is enough, unless bad rows may be left out or one stream alone is counted: then the
        file is parsed. Raises DataError if there are more bad rows than ``maxErrors``.
        """
        if not self._index:
            infos = list(self._cut())
            exact = self._rules.max_errors > 0 or (self._rules.main is not None and not self._by_line)
            self._index = self._parse_all(infos) if exact else infos
        return self._index

    def load(self, chunk: int) -> Chunk:
        """Parse a chunk. Raises DataError if it has bad rows and none are allowed."""
        self.index()
        sequences = self._parse(self._pieces[chunk], strict=self._rules.max_errors == 0)
        self._warn_short(chunk, sequences)
        columns = {
            stream.name: _column(stream, samples, offsets, self._rules.dtype)
            for stream, samples, offsets in zip(self._rules.streams, sequences.samples, sequences.offsets, strict=True)
        }
        return Chunk(columns, _as_keys(sequences.keys))

    def keys(self, chunk: int) -> Sequence[int | str] | IntArray:
        """Return the ids of a chunk's sequences; where the file has none, their numbers."""
        info = self.index()[chunk]
        if self._by_line:
            first = sum(before.sequences for before in self._index[:chunk])
            return np.arange(first, first + info.sequences)
        if self._rules.max_errors:
            return self.load(chunk).keys
        piece = self._pieces[chunk]
        data = self._file.lines(piece.offset, piece.size)
        ids = self._filled_ids(data, line_starts(np.frombuffer(data, dtype=np.uint8)), piece.line)
        return _as_keys(ids[id_changes(ids)])

    def check(self) -> Iterator[CntkError]:
        """Yield everything that is wrong with the file."""
        # Small chunks, so that the errors of a wholly bad file fit into memory.
        rules = attrs.evolve(self._rules, chunk_bytes=min(self._rules.chunk_bytes, _BLOCK))
        source = TextSource(self._file, rules, lambda line: None)
        try:
            for _ in source._cut():
                yield from source._errors(source._parse(source._pieces[-1], strict=False).problems)
        except DataError as error:
            yield error

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    # -- index --------------------------------------------------------------------------------------------

    def _cut(self) -> Iterator[ChunkInfo]:
        """Find the chunks by counting lines, or the lines of each id."""
        self._pieces = []
        if not self._by_line:
            yield from self._cut_by_id()
            return
        line = 1
        for offset, size, lines in self._file.piece_sizes(self._chunk_bytes):
            self._pieces.append(Piece(offset, size, line))
            yield ChunkInfo(lines, lines)
            line += lines

    def _cut_by_id(self) -> Iterator[ChunkInfo]:
        starts, counts = self._find_ids()
        ends = np.append(starts[1:], self._file.end)
        line, first = 1, 0
        while first < len(starts):
            limit = int(starts[first]) + self._chunk_bytes
            last = max(int(np.searchsorted(ends, limit, side="right")), first + 1)
            lengths = counts[first:last]
            total = int(lengths.sum())
            self._pieces.append(Piece(int(starts[first]), int(ends[last - 1] - starts[first]), line))
            yield ChunkInfo(last - first, total, None if total == last - first else lengths)
            line += total
            first = last

    def _find_ids(self) -> tuple[IntArray, IntArray]:
        """Return where each sequence begins and how many lines it has."""
        starts: list[IntArray] = []
        counts: list[IntArray] = []
        line, current = 1, np.uint64(0)
        for offset, data in self._file.pieces(_INDEX_PIECE):
            text = np.frombuffer(data, dtype=np.uint8)
            begins = line_starts(text)
            ids, having = self._ids(data, begins, line)
            if line == 1 and not having[0]:
                raise DataError(
                    "a sequence id was expected at the start of the file",
                    where=Location(self._file.name, 1, 1),
                    hint="Begin each line with '|', or each with a number; skipSequenceIds=true ignores ids.",
                )
            ids = _fill_forward(ids, having, current)
            changes = id_changes(ids)
            changes[0] = line == 1 or ids[0] != current
            new = np.flatnonzero(changes)
            lines = np.diff(np.concatenate([new, [len(ids)]]))
            if not len(new) or new[0]:
                counts[-1][-1] += new[0] if len(new) else len(ids)
            if len(new):
                starts.append(offset + begins[new])
                counts.append(lines)
            current = ids[-1]
            line += len(ids)
        return np.concatenate(starts), np.concatenate(counts)

    def _ids(self, data: bytes, begins: IntArray, line: int) -> tuple[IdArray, NDArray[np.bool_]]:
        """Return the id of each line (0 if it has none), and which lines have one."""
        try:
            return line_ids(np.frombuffer(data, dtype=np.uint8), begins)
        except IdTooLargeError as error:
            raise DataError(
                f"the sequence id is above {LARGEST_ID} (2^64 - 1), or has too many digits",
                where=Location(self._file.name, line + error.line, 1),
                hint="Number the sequences anew; skipSequenceIds=true takes each line for a sequence.",
            ) from None

    def _filled_ids(self, data: bytes, begins: IntArray, line: int) -> IdArray:
        """Return the id of each line of a chunk; the first line of a chunk has one."""
        ids, having = self._ids(data, begins, line)
        return _fill_forward(ids, having, np.uint64(0))

    def _parse_all(self, infos: list[ChunkInfo]) -> list[ChunkInfo]:
        """Parse the whole file, to know what is left without bad rows."""
        errors: list[CntkError] = []
        found = []
        for piece in self._pieces:
            sequences = self._parse(piece, strict=False)
            errors += self._errors(sequences.problems)
            if len(errors) > self._rules.max_errors:
                raise self._too_many(errors, known_all=piece is self._pieces[-1])
            lengths = sequences.sizes
            total = int(lengths.sum())
            found.append(ChunkInfo(len(lengths), total, None if total == len(lengths) else lengths))
        for error in errors[:_WARNINGS]:
            self._warn(f"WARNING: left out: {error}")
        if len(errors) > _WARNINGS:
            self._warn(f"WARNING: {self._file.name}: {len(errors)} malformed rows left out in all")
        return found

    # -- parsing ------------------------------------------------------------------------------------------

    def _parse(self, piece: Piece, *, strict: bool) -> Sequences:
        """Parse a chunk; ``strict`` ends at the first block with bad rows. Raises DataError then."""
        data = self._file.lines(piece.offset, piece.size)
        parts: list[Parsed] = []
        with contextlib.closing(self._parse_blocks(data)) as found:
            for part in found:
                parts.append(part)
                if strict and part.problems:
                    first = piece.line + sum(part.lines for part in parts[:-1])
                    problems = [attrs.evolve(problem, line=problem.line + first) for problem in part.problems]
                    raise self._too_many(list(self._errors(problems)), known_all=False)
        parsed = join(parts, self._rules.streams, self._rules.dtype)
        ids = None
        if not self._by_line:
            begins = line_starts(np.frombuffer(data, dtype=np.uint8))
            ids = self._filled_ids(data, begins, piece.line)
        # Where each line is a sequence, it has one sample of each stream, whichever is counted.
        main = None if self._by_line else self._rules.main
        sequences = find_sequences(parsed, self._rules.streams, ids, main, first_line=piece.line)
        if strict and sequences.problems:
            raise self._too_many(list(self._errors(sequences.problems)), known_all=False)
        return sequences

    def _parse_blocks(self, data: bytes) -> Generator[Parsed]:
        """Parse blocks, several at a time: the compiled loop needs no GIL. Few are there at once."""
        rules = self._rules
        threads = min(len(data) // _BLOCK + 1, _THREADS, reader_threads())

        def parse(block: bytes) -> Parsed:
            fast = parse_fast(block, rules.streams, rules.dtype)
            return parse_exact(block, rules.streams, rules.dtype) if fast is None else fast

        if threads < 2:
            yield from map(parse, _blocks(data))
            return
        with ThreadPoolExecutor(threads, "cntk-text") as pool:
            waiting: deque[Future[Parsed]] = deque()
            for block in _blocks(data):
                waiting.append(pool.submit(parse, block))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def _errors(self, problems: Iterable[RowProblem]) -> Iterator[DataError]:
        for problem in problems:
            yield DataError(problem.message, where=Location(self._file.name, problem.line, problem.column))

    def _too_many(self, errors: Sequence[CntkError], *, known_all: bool) -> DataError:
        """Return the error that lists the first bad rows."""
        allowed = self._rules.max_errors
        count = str(len(errors)) if known_all else f"at least {len(errors)}"
        rows = "row" if len(errors) == 1 else "rows"
        shown = [str(error) for error in errors[:_SHOWN]]
        if len(errors) > _SHOWN:
            shown.append("...")
        shown.append("`cntk check-data` lists them all; maxErrors=n leaves out up to n rows.")
        return DataError(
            f"CNTKTextFormatReader: {count} malformed {rows}, maxErrors={allowed}",
            where=Location(self._file.name),
            hint="\n".join(shown),
        )

    def _warn_short(self, chunk: int, sequences: Sequences) -> None:
        """Say once for each chunk that samples had too few values."""
        if not sequences.short or chunk in self._warned:
            return
        self._warned.add(chunk)
        if len(self._warned) > _WARNINGS:
            return
        count = len(sequences.short)
        where = Location(self._file.name, sequences.short[0])
        more = f" (and {count - 1} more rows)" if count > 1 else ""
        self._warn(f"WARNING: {where}: a dense sample has too few values and is filled up with zeros{more}")


def _blocks(data: bytes) -> Iterator[bytes]:
    """Cut a text into blocks of whole lines."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start + _BLOCK) + 1 or len(data)
        yield data[start:end]  # all of it is not copied
        start = end


def _as_keys(ids: IdArray) -> Sequence[int | str]:
    """Return ids as what keys are: numbers one can take out of a sequence, here of an array."""
    return cast("Sequence[int | str]", ids)


def _fill_forward(ids: IdArray, having: NDArray[np.bool_], before: np.uint64) -> IdArray:
    """Give each line without an id the id of the line before it."""
    last = np.maximum.accumulate(np.where(having, np.arange(len(ids)), -1))
    return np.where(last >= 0, ids[last], before)


def _column(stream: StreamSpec, samples: Samples, offsets: IntArray | None, dtype: np.dtype[Any]) -> Column:
    if samples.indices is None or samples.counts is None:
        return Column(samples.values.reshape(len(samples.lines), *stream.shape), offsets)
    from scipy.sparse import csr_array

    pointers = np.concatenate([[0], np.cumsum(samples.counts)])
    if int(pointers[-1]) < 2**31:
        pointers = pointers.astype(np.int32)
    shape = (len(samples.lines), stream.dim)
    return Column(csr_array((samples.values, samples.indices, pointers), shape=shape, dtype=dtype), offsets)
