"""Streams out of tables: features with a window of frames, and the classes of frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from threading import Lock
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import CntkError, DataError, Location
from cntk_core.api.readers import Chunk, ChunkInfo, ChunkSource, Column, class_column, cut_chunks, read_windows
from cntk_reader_kaldi.archive import ArchiveFiles, Header, IntArray
from cntk_reader_kaldi.tables import Entry, Table

_SHOWN = 5


@attrs.frozen(eq=False)
class Rules:
    """How a stream is read.

    Attributes:
        name: of the stream.
        shape: of a sample, in memory order.
        dtype: precision of the values.
        dim: values of a frame, or number of classes.
        window: frames before and after each frame.
        max_errors: malformed utterances that are left out.
        longest: utterances with more frames are left out; None is no limit.
        counts: frames of each utterance that is wanted, by key; None: all are.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    dim: int
    window: tuple[int, int] = (0, 0)
    max_errors: int = 0
    longest: int | None = None
    counts: dict[str, int] | None = None


@attrs.frozen(eq=False)
class _Utterance:
    """A sound entry: its frames, and where they are."""

    entry: Entry
    frames: int
    header: Header | None = None


class TableSource(ChunkSource):
    """The utterances of a table, in its order. A subclass measures an entry and reads a column."""

    def __init__(self, table: Table, files: ArchiveFiles, rules: Rules, warn: Callable[[str], None]) -> None:
        self._table = table
        self.files = files
        self.rules = rules
        self._warn = warn
        self._lock = Lock()
        self.utterances: list[_Utterance] = []
        self._starts: list[int] = []
        self._index: list[ChunkInfo] = []

    def __str__(self) -> str:
        return str(self._table.path)

    def index(self) -> Sequence[ChunkInfo]:
        """Return what the chunks hold. Raises DataError if there are more malformed entries than ``maxErrors``."""
        if not self._index:
            errors: list[CntkError] = []
            with self._lock:
                self.utterances = [found for found in self._measure_all(errors) if found is not None]
            if len(errors) > self.rules.max_errors:
                raise _too_many(errors, self.rules.max_errors, self._table)
            for error in errors[:_SHOWN]:
                self._warn(f"WARNING: left out: {error}")
            if len(errors) > _SHOWN:
                self._warn(f"WARNING: {self}: {len(errors)} malformed entries left out in all")
            self._starts, self._index = cut_chunks(np.array([one.frames for one in self.utterances], dtype=np.int64))
        return self._index

    def _measure_all(self, errors: list[CntkError]) -> Iterator[_Utterance | None]:
        errors += self._table.errors
        skipped = 0
        for entry in self._table.entries:
            if self.rules.counts is not None and entry.key not in self.rules.counts:
                continue
            try:
                found = self.measure(entry)
                self._check_count(entry, found.frames)
            except DataError as error:
                errors.append(DataError(error.message, where=entry.where, hint=error.hint))
                continue
            if self.rules.longest is not None and found.frames > self.rules.longest:
                skipped += 1
                continue
            yield found
        if skipped:
            limit = self.rules.longest
            self._warn(f"WARNING: {self}: {skipped} utterances have more frames than maxUtteranceLength={limit}")

    def _check_count(self, entry: Entry, frames: int) -> None:
        wanted = frames if self.rules.counts is None else self.rules.counts[entry.key]
        if frames != wanted:
            text = f"'{entry.key}' has {frames} frames, and the list of lengths says {wanted}"
            raise DataError(text, hint="Make the list again: feat-to-len writes it.")

    def measure(self, entry: Entry) -> _Utterance:
        """Return an entry with its frames. Raises DataError."""
        raise NotImplementedError

    def column(self, numbers: IntArray) -> Column:
        """Read some utterances."""
        raise NotImplementedError

    def keys(self, chunk: int) -> list[str]:
        """Return the keys of a chunk's utterances."""
        self.index()
        return [one.entry.key for one in self.utterances[self._starts[chunk] : self._starts[chunk + 1]]]

    def load(self, chunk: int) -> Chunk:
        """Read a chunk. Raises DataError."""
        self.index()
        numbers = np.arange(self._starts[chunk], self._starts[chunk + 1])
        with self._lock:
            return Chunk({self.rules.name: self.column(numbers)}, self.keys(chunk))

    def pick(self, chunks: IntArray, sequences: IntArray) -> Chunk:
        """Read some utterances alone."""
        self.index()
        numbers = np.array(self._starts, dtype=np.int64)[chunks] + sequences
        with self._lock:
            return Chunk({self.rules.name: self.column(numbers)})

    def check(self) -> Iterator[CntkError]:
        """Yield everything that is wrong with the table and its archives."""
        errors: list[CntkError] = []
        with self._lock:
            for _ in self._measure_all(errors):
                pass
        yield from errors

    def close(self) -> None:
        """Close the archives."""
        self.files.close()


class FeatureTable(TableSource):
    """Features: a matrix for each utterance."""

    def measure(self, entry: Entry) -> _Utterance:
        """Return an entry with the sizes of its matrix."""
        header = self.files.get(entry.path).header(entry.offset)
        if header.dim != self.rules.dim:
            text = (
                f"'{entry.key}' has {header.dim} values in a frame, and the stream '{self.rules.name}' {self.rules.dim}"
            )
            raise DataError(text, hint="All matrices of a table have the same number of columns.")
        last = header.rows - 1 if entry.last is None else entry.last
        if last >= header.rows:
            text = f"row {last} of '{entry.key}' is wanted, and its matrix has rows 0 to {header.rows - 1}"
            raise DataError(text, hint="A range counts rows from 0 and includes the last.")
        return _Utterance(entry, last + 1 - entry.first, header)

    def column(self, numbers: IntArray) -> Column:
        """Read the frames of some utterances, with windows around them."""
        lengths = np.array([self.utterances[number].frames for number in numbers.tolist()], dtype=np.int64)
        rules = self.rules
        return read_windows(
            numbers, lengths, self._read, dim=rules.dim, window=rules.window, shape=rules.shape, dtype=rules.dtype
        )

    def _read(self, number: int, target: NDArray[Any]) -> None:
        found = self.utterances[number]
        assert found.header is not None
        try:
            self.files.get(found.entry.path).read(found.header, found.entry.first, target)
        except DataError as error:
            raise DataError(error.message, where=found.entry.where, hint=error.hint) from None


class ClassTable(TableSource):
    """Classes of frames: an alignment or a posterior for each utterance."""

    def measure(self, entry: Entry) -> _Utterance:
        """Read an entry; its classes are read again when they are needed."""
        return _Utterance(entry, len(self._classes(entry)))

    def _classes(self, entry: Entry) -> NDArray[np.int32]:
        classes, _ = self.files.get(entry.path).classes(entry.offset)
        if entry.last is not None:
            if entry.last >= len(classes):
                text = f"frame {entry.last} of '{entry.key}' is wanted, and its alignment has {len(classes)}"
                raise DataError(text, hint="A range counts frames from 0 and includes the last.")
            classes = classes[entry.first : entry.last + 1]
        if not len(classes):
            raise DataError(f"'{entry.key}' has no frames", hint="Leave the utterance out.")
        bad = np.flatnonzero((classes < 0) | (classes >= self.rules.dim))
        if len(bad):
            place, number = int(bad[0]), int(classes[bad[0]])
            text = f"frame {place} of '{entry.key}' is of class {number}, but labelDim={self.rules.dim}"
            raise DataError(text, hint="Classes are counted from 0; labelDim is how many there are.")
        return classes

    def column(self, numbers: IntArray) -> Column:
        """Return the classes of some utterances, one-hot and sparse."""
        parts = [self._read_again(self.utterances[number].entry) for number in numbers.tolist()]
        lengths = np.array([len(classes) for classes in parts], dtype=np.int64)
        classes = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int32)
        return class_column(lengths, classes, np.ones(len(classes), dtype=self.rules.dtype), self.rules.dim)

    def _read_again(self, entry: Entry) -> NDArray[np.int32]:
        try:
            return self._classes(entry)
        except DataError as error:
            raise DataError(error.message, where=entry.where, hint=error.hint) from None


def first_dim(table: Table, files: ArchiveFiles) -> int:
    """Return the values of a frame of the first sound utterance of a table of features.

    Raises:
        DataError: there is none.
    """
    errors = list(table.errors)
    for entry in table.entries:
        try:
            return files.get(entry.path).header(entry.offset).dim
        except DataError as error:
            errors.append(DataError(error.message, where=entry.where, hint=error.hint))
    if errors:
        raise errors[0]
    raise DataError("the table has no utterances", where=Location(str(table.path)), hint="Is it the right file?")


def _too_many(errors: Sequence[CntkError], allowed: int, table: Table) -> CntkError:
    if len(errors) == 1 and allowed == 0:
        return errors[0]
    shown = [str(error) for error in errors[:_SHOWN]]
    if len(errors) > _SHOWN:
        shown.append(f"... and {len(errors) - _SHOWN} more")
    shown.append("`cntk check-data` lists them all; maxErrors=n leaves out up to n.")
    text = f"{len(errors)} malformed entries, maxErrors={allowed}"
    return DataError(text, where=Location(str(table.path)), hint="\n".join(shown))
