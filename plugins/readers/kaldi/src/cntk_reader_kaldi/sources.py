"""Streams out of tables: features with a window of frames, and the classes of frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import CntkError, DataError, Location
from cntk_core.api.readers import Chunk, ChunkInfo, ChunkSource, Column, class_column, cut_chunks, read_windows
from cntk_reader_kaldi.archive import ArchiveFiles, Header, IntArray
from cntk_reader_kaldi.nnet1_transform import Transform
from cntk_reader_kaldi.posteriors import Posterior
from cntk_reader_kaldi.tables import Entry, Table
from cntk_reader_kaldi.transition_model import TransitionModel

_SHOWN = 5
_TOLERANCE = 3
"""Frames by which a range may be too long, as in Kaldi."""


@attrs.frozen(eq=False)
class LabelRules:
    """How the classes of frames are read.

    Attributes:
        soft: weights of posteriors are kept; else the class with the largest counts.
        delay: each frame has the classes of that many frames before.
        numbers: class in the table to the network's; None if they are the same.
        model: the table has its transition-ids; None: classes.
    """

    soft: bool = True
    delay: int = 0
    numbers: Mapping[int, int] | None = None
    model: TransitionModel | None = None


@attrs.frozen(eq=False)
class Rules:
    """How a stream is read.

    Attributes:
        name: of the stream.
        shape: of a sample, in memory order.
        dtype: precision of the values.
        dim: values of a frame (after a transform), or number of classes.
        window: frames before and after each frame.
        max_errors: malformed utterances that are left out.
        longest: utterances with more frames are left out; None is no limit.
        counts: frames of each utterance that is wanted, by key; None: all are.
        transform: what becomes of the frames of a table, if anything.
        labels: how classes are read.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    dim: int
    window: tuple[int, int] = (0, 0)
    max_errors: int = 0
    longest: int | None = None
    counts: dict[str, int] | None = None
    transform: Transform | None = None
    labels: LabelRules = attrs.field(factory=LabelRules)

    @property
    def file_dim(self) -> int:
        """Values of a frame in the table."""
        return self.dim if self.transform is None else self.transform.input_dim


@attrs.frozen(eq=False)
class Utterance:
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
        self.lock = Lock()
        self.utterances: list[Utterance] = []
        self._starts: list[int] = []
        self._index: list[ChunkInfo] = []
        self._cut = 0

    def __str__(self) -> str:
        return self._table.title

    def index(self) -> Sequence[ChunkInfo]:
        """Return what the chunks hold. Raises DataError if there are more malformed entries than ``maxErrors``."""
        if not self._index:
            errors: list[CntkError] = []
            with self.lock:
                self.utterances = list(self.measure_all(errors))
            if len(errors) > self.rules.max_errors:
                raise _too_many(errors, self.rules.max_errors, self._table)
            for error in errors[:_SHOWN]:
                self._warn(f"WARNING: left out: {error}")
            if len(errors) > _SHOWN:
                self._warn(f"WARNING: {self}: {len(errors)} malformed entries left out in all")
            self._starts, self._index = cut_chunks(np.array([one.frames for one in self.utterances], dtype=np.int64))
        return self._index

    def measure_all(self, errors: list[CntkError]) -> Iterator[Utterance]:
        """Yield the sound entries, and gather what is wrong with others."""
        errors += self._table.errors
        skipped = self._cut = 0
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
        if self._cut:
            self._warn(f"WARNING: {self}: {self._cut} ranges end up to {_TOLERANCE} frames behind their utterance")

    def _last_of(self, entry: Entry, frames: int, what: str) -> int:
        """Return the last frame that is wanted. Lengths in seconds are rounded, so ranges may end a little late."""
        if entry.last is None:
            return frames - 1
        if entry.last >= frames + _TOLERANCE or entry.first >= frames:
            wrong = entry.last if entry.first < frames else entry.first
            text = f"{what} {wrong} of '{entry.key}' is wanted, and it has {what}s 0 to {frames - 1}"
            raise DataError(text, hint=f"A range counts {what}s from 0 and includes the last.")
        self._cut += entry.last >= frames
        return min(entry.last, frames - 1)

    def _check_count(self, entry: Entry, frames: int) -> None:
        wanted = frames if self.rules.counts is None else self.rules.counts[entry.key]
        if frames != wanted:
            text = f"'{entry.key}' has {frames} frames, and the list of lengths says {wanted}"
            raise DataError(text, hint="Make the list again: feat-to-len writes it.")

    def measure(self, entry: Entry) -> Utterance:
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
        with self.lock:
            return Chunk({self.rules.name: self.column(numbers)}, self.keys(chunk))

    def pick(self, chunks: IntArray, sequences: IntArray) -> Chunk:
        """Read some utterances alone."""
        self.index()
        numbers = np.array(self._starts, dtype=np.int64)[chunks] + sequences
        with self.lock:
            return Chunk({self.rules.name: self.column(numbers)})

    def check(self) -> Iterator[CntkError]:
        """Yield everything that is wrong with the table and its archives."""
        errors: list[CntkError] = []
        with self.lock:
            for _ in self.measure_all(errors):
                pass
        yield from errors

    def close(self) -> None:
        """Close the archives."""
        self.files.close()


class FeatureTable(TableSource):
    """Features: a matrix for each utterance."""

    def measure(self, entry: Entry) -> Utterance:
        """Return an entry with the sizes of its matrix."""
        header = self.files.get(entry.path).header(entry.offset)
        dim = _columns_of(entry, header)
        if dim != self.rules.file_dim:
            text = f"'{entry.key}' has {dim} values in a frame, and the stream '{self.rules.name}' "
            raise DataError(
                f"{text}{self.rules.file_dim}", hint="All matrices of a table have the same number of columns."
            )
        return Utterance(entry, self._last_of(entry, header.rows, "row") + 1 - entry.first, header)

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
        transform, columns = self.rules.transform, found.entry.columns
        try:
            file = self.files.get(found.entry.path)
            if transform is None and columns is None:
                file.read(found.header, found.entry.first, target)
                return
            frames = np.empty((len(target), found.header.dim), dtype=target.dtype)
            file.read(found.header, found.entry.first, frames)
        except DataError as error:
            raise DataError(error.message, where=found.entry.where, hint=error.hint) from None
        wanted = frames if columns is None else frames[:, columns[0] : columns[1] + 1]
        target[:] = wanted if transform is None else transform.apply(wanted)


class ClassTable(TableSource):
    """Classes of frames: an alignment or a posterior for each utterance."""

    def measure(self, entry: Entry) -> Utterance:
        """Read an entry; its classes are read again when they are needed."""
        return Utterance(entry, len(self._classes(entry)))

    def _classes(self, entry: Entry) -> Posterior:
        found, _ = self.files.get(entry.path).posterior(entry.offset)
        if entry.last is not None:
            found = found.part(entry.first, self._last_of(entry, len(found), "frame") + 1)
        if not len(found):
            raise DataError(f"'{entry.key}' has no frames", hint="Leave the utterance out.")
        rules = self.rules.labels
        if rules.model is not None:
            wrong = rules.model.unknown(found.classes)
            if wrong is not None:
                error = rules.model.says(wrong)
                raise DataError(f"'{entry.key}': {error.message}", hint=error.hint)
            found = attrs.evolve(found, classes=rules.model.pdfs[found.classes])
        found = found.delayed(rules.delay) if rules.soft else found.delayed(rules.delay).largest()
        return self._checked(entry, found)

    def _checked(self, entry: Entry, found: Posterior) -> Posterior:
        """Return the network's classes. Raises DataError if there is one that it does not have."""
        numbers = self.rules.labels.numbers
        if numbers is not None:
            known = np.array([numbers.get(one, -1) for one in found.classes.tolist()], dtype=np.int32)
            bad = np.flatnonzero(known < 0)
            if len(bad):
                text = f"frame {found.frame_of(int(bad[0]))} of '{entry.key}' is of class {found.classes[bad[0]]}"
                raise DataError(
                    f"{text}, which labelMappingFile does not have",
                    hint="It has one class to a line, as the table does.",
                )
            found = attrs.evolve(found, classes=known)
        bad = np.flatnonzero((found.classes < 0) | (found.classes >= self.rules.dim))
        if len(bad):
            place, number = found.frame_of(int(bad[0])), int(found.classes[bad[0]])
            text = f"frame {place} of '{entry.key}' is of class {number}, but labelDim={self.rules.dim}"
            raise DataError(text, hint="Classes are counted from 0; labelDim is how many there are.")
        bad = np.flatnonzero(~np.isfinite(found.weights))
        if len(bad):
            text = f"frame {found.frame_of(int(bad[0]))} of '{entry.key}' has a weight that is no number"
            raise DataError(text, hint="Weights of a posterior are numbers, mostly from 0 to 1.")
        return found

    def column(self, numbers: IntArray) -> Column:
        """Return the classes of some utterances, a sparse row for each frame."""
        from scipy.sparse import csr_array

        parts = [self._read_again(self.utterances[number].entry) for number in numbers.tolist()]
        lengths = np.array([len(part) for part in parts], dtype=np.int64)
        counts = _joined([part.counts for part in parts], np.dtype(np.int64))
        classes = _joined([part.classes for part in parts], np.dtype(np.int32))
        weights = _joined([part.weights for part in parts], self.rules.dtype)
        if (counts == 1).all():
            return class_column(lengths, classes, weights, self.rules.dim)
        pointers = np.concatenate([[0], np.cumsum(counts)])
        data = csr_array((weights, classes, pointers), shape=(len(counts), self.rules.dim))
        data.sum_duplicates()
        return Column(data, None if (lengths == 1).all() else np.concatenate([[0], np.cumsum(lengths)]))

    def _read_again(self, entry: Entry) -> Posterior:
        try:
            return self._classes(entry)
        except DataError as error:
            raise DataError(error.message, where=entry.where, hint=error.hint) from None


def _joined(parts: Sequence[NDArray[Any]], dtype: np.dtype[Any]) -> NDArray[Any]:
    return np.concatenate(parts).astype(dtype, copy=False) if parts else np.zeros(0, dtype=dtype)


def _columns_of(entry: Entry, header: Header) -> int:
    """Return how many values of each row are wanted. Raises DataError."""
    if entry.columns is None:
        return header.dim
    first, last = entry.columns
    if last >= header.dim:
        text = f"column {last} of '{entry.key}' is wanted, and its matrix has columns 0 to {header.dim - 1}"
        raise DataError(text, hint="A range counts columns from 0 and includes the last.")
    return last + 1 - first


def first_dim(table: Table, files: ArchiveFiles) -> int:
    """Return the values of a frame of the first sound utterance of a table of features.

    Raises:
        DataError: there is none.
    """
    errors = list(table.errors)
    for entry in table.entries:
        try:
            return _columns_of(entry, files.get(entry.path).header(entry.offset))
        except DataError as error:
            errors.append(DataError(error.message, where=entry.where, hint=error.hint))
    if errors:
        raise errors[0]
    raise DataError("the table has no utterances", where=Location(table.title), hint="Is it the right file?")


def _too_many(errors: Sequence[CntkError], allowed: int, table: Table) -> CntkError:
    if len(errors) == 1 and allowed == 0:
        return errors[0]
    shown = [str(error) for error in errors[:_SHOWN]]
    if len(errors) > _SHOWN:
        shown.append(f"... and {len(errors) - _SHOWN} more")
    shown.append("`cntk check-data` lists them all; maxErrors=n leaves out up to n.")
    text = f"{len(errors)} malformed entries, maxErrors={allowed}"
    return DataError(text, where=Location(table.title), hint="\n".join(shown))
