"""Streams: frames that are computed when a chunk is read, and the labels of these frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from threading import Lock
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import CntkError, DataError, Location
from cntk_core.api.readers import Chunk, ChunkInfo, ChunkSource, Column, class_column, cut_chunks, read_windows
from cntk_reader_audio.labels import Labels
from cntk_reader_audio.noise import Noise
from cntk_reader_audio.options import FeatureOptions
from cntk_reader_audio.spectra import normalized, with_deltas
from cntk_reader_audio.waves import (
    Entry,
    Piece,
    copies,
    find_piece,
    ratio_of,
    read_list,
    read_samples,
    resample,
    resampled_count,
)

IntArray = NDArray[np.int64]
Warn = Callable[[str], None]
_SHOWN = 5


@attrs.frozen(eq=False)
class Utterance:
    """A sound entry.

    Attributes:
        key: its name, with its speed.
        entry: its file.
        speed: of this copy.
        piece: where the samples are in the file.
        ratio: by what their number is multiplied.
        frames: how many there are of it.
    """

    key: str
    entry: Entry
    speed: float
    piece: Piece
    ratio: Fraction
    frames: int


@attrs.frozen(eq=False)
class Form:
    """How a stream goes into the network.

    Attributes:
        name: of the stream.
        shape: of a sample.
        dtype: precision of the values.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class _Utterances(ChunkSource):
    """Utterances in chunks. A subclass finds them and reads a column.

    Args:
        title: the file that names them.
        form: how they go into the network.
        max_errors: malformed ones that are left out.
        warn: function for warnings, one line each.
    """

    def __init__(self, title: str, form: Form, max_errors: int, warn: Warn) -> None:
        self._title = title
        self.form = form
        self._max_errors = max_errors
        self._warn = warn
        self._lock = Lock()
        self._starts: list[int] = []
        self._index: list[ChunkInfo] = []

    def __str__(self) -> str:
        return self._title

    def found(self) -> Sequence[Utterance]:
        """Return the utterances. Raises DataError."""
        raise NotImplementedError

    def column(self, numbers: IntArray) -> Column:
        """Read some utterances. Raises DataError."""
        raise NotImplementedError

    def index(self) -> Sequence[ChunkInfo]:
        """Return what the chunks hold. Raises DataError if there are more malformed utterances than ``maxErrors``."""
        if not self._index:
            frames = np.array([one.frames for one in self.found()], dtype=np.int64)
            self._starts, self._index = cut_chunks(frames)
        return self._index

    def _leave_out(self, errors: Sequence[CntkError]) -> None:
        """Tell of utterances that are left out. Raises a CntkError if there are more than ``maxErrors``."""
        if len(errors) > self._max_errors:
            raise _too_many(errors, self._max_errors, self._title)
        for error in errors[:_SHOWN]:
            self._warn(f"WARNING: left out: {error}")
        if len(errors) > _SHOWN:
            self._warn(f"WARNING: {self}: {len(errors)} malformed utterances left out in all")

    def keys(self, chunk: int) -> list[str]:
        """Return the keys of a chunk's utterances."""
        self.index()
        return [one.key for one in self.found()[self._starts[chunk] : self._starts[chunk + 1]]]

    def load(self, chunk: int) -> Chunk:
        """Read a chunk. Raises DataError."""
        self.index()
        numbers = np.arange(self._starts[chunk], self._starts[chunk + 1])
        with self._lock:
            return Chunk({self.form.name: self.column(numbers)}, self.keys(chunk))

    def pick(self, chunks: IntArray, sequences: IntArray) -> Chunk:
        """Read some utterances alone."""
        self.index()
        numbers = np.array(self._starts, dtype=np.int64)[chunks] + sequences
        with self._lock:
            return Chunk({self.form.name: self.column(numbers)})

    def close(self) -> None:
        """Files are open only while they are read."""


class WaveSource(_Utterances):
    """The frames of sound files.

    Args:
        options: of the stream.
        form: how it goes into the network.
        noise: that is added, if any.
        max_errors: malformed utterances that are left out.
        longest: utterances with more frames are left out; None is no limit.
        warn: function for warnings, one line each.

    Raises:
        DataError: the list cannot be read.
    """

    def __init__(
        self,
        options: FeatureOptions,
        form: Form,
        noise: Noise | None,
        *,
        max_errors: int,
        longest: int | None,
        warn: Warn,
    ) -> None:
        super().__init__(str(options.script), form, max_errors, warn)
        self._options = options
        self._noise = noise
        self._longest = longest
        where = options.where or Location("<options>")
        self._entries, self._wrong = read_list(options.script, where, options.max_line_bytes)
        self._found: list[Utterance] | None = None
        if not self._entries:
            raise next(iter(self._wrong), DataError("the list has no utterances", where=Location(self._title)))

    def found(self) -> Sequence[Utterance]:
        """Return the utterances: the heads of the files are read once."""
        if self._found is None:
            errors: list[CntkError] = []
            found = list(self._measure(errors))
            self._leave_out(errors)
            self._found = found
        return self._found

    def _measure(self, errors: list[CntkError]) -> Iterator[Utterance]:
        errors += self._wrong
        pieces: dict[str, Piece] = {}
        for entry in self._entries:
            try:
                pieces[entry.key] = self._checked(entry)
            except DataError as error:
                errors.append(error)
        skipped = short = 0
        for key, entry, speed in copies(
            [entry for entry in self._entries if entry.key in pieces], self._options.speeds
        ):
            piece, spectrum = pieces[entry.key], self._options.spectrum
            ratio = ratio_of(speed, piece.rate, spectrum.rate)
            samples = resampled_count(piece.count, ratio)
            frames = spectrum.frames(samples)
            if not frames and spectrum.frames(resampled_count(piece.count, ratio_of(1, piece.rate, spectrum.rate))):
                short += 1
            elif not frames:
                text = f"'{key}' has {samples} samples, and a frame {spectrum.frame_samples}"
                errors.append(DataError(text, where=entry.where, hint="Leave the utterance out."))
            elif self._longest is not None and frames > self._longest:
                skipped += 1
            else:
                yield Utterance(key, entry, speed, piece, ratio, frames)
        if short:
            self._warn(f"WARNING: {self}: {short} copies at another speed are shorter than a frame and left out")
        if skipped:
            text = f"{skipped} utterances have more frames than maxUtteranceLength={self._longest}"
            self._warn(f"WARNING: {self}: {text}")

    def _checked(self, entry: Entry) -> Piece:
        """Return where the samples of an utterance are. Raises DataError."""
        piece, rate = find_piece(entry, self._options.channel), self._options.spectrum.rate
        if piece.rate != rate and not self._options.resample:
            text = f"'{entry.path}' has {piece.rate} samples in a second, and sampleRate={rate}"
            hint = f"Set sampleRate={piece.rate}, or resample=true."
            raise DataError(text, where=entry.where, hint=hint)
        return piece

    def column(self, numbers: IntArray) -> Column:
        """Compute the frames of some utterances, with windows around them."""
        form, options = self.form, self._options
        lengths = np.array([self.found()[number].frames for number in numbers.tolist()], dtype=np.int64)
        dim = options.frame_dim
        return read_windows(
            numbers, lengths, self._read, dim=dim, window=options.window, shape=form.shape, dtype=form.dtype
        )

    def _read(self, number: int, target: NDArray[Any]) -> None:
        one, options = self.found()[number], self._options
        samples = read_samples(one.entry, one.piece, options.channel, target.dtype)
        wave = resample(samples, one.ratio)
        if self._noise is not None:
            wave = self._noise.add(wave, one.key)
        frames = with_deltas(options.spectrum.compute(wave), options.deltas)
        target[:] = normalized(frames, options.normalize)

    def check(self) -> Iterator[CntkError]:
        """Yield everything that is wrong with the list and its files; all samples are read."""
        errors: list[CntkError] = []
        for one in self._measure(errors):
            if one.speed != self._options.speeds[0]:
                continue
            try:
                read_samples(one.entry, one.piece, self._options.channel, self.form.dtype)
            except DataError as error:
                errors.append(error)
        yield from errors


class LabelSource(_Utterances):
    """The labels of the frames of sound files.

    Args:
        labels: of the utterances.
        waves: says which frames there are.
        form: how they go into the network.
        dim: number of classes.
        max_errors: malformed lines that are left out.
        title: the file of the labels.
        warn: function for warnings, one line each.
    """

    def __init__(
        self,
        labels: Labels,
        waves: WaveSource,
        form: Form,
        *,
        dim: int,
        max_errors: int,
        title: str,
        warn: Warn,
    ) -> None:
        super().__init__(title, form, max_errors, warn)
        self._labels = labels
        self._waves = waves
        self._dim = dim
        self._found: list[Utterance] | None = None

    def found(self) -> Sequence[Utterance]:
        """Return the utterances that have labels."""
        if self._found is None:
            errors: list[CntkError] = []
            found = list(self._fitting(errors))
            self._leave_out(errors)
            self._found = found
        return self._found

    def _fitting(self, errors: list[CntkError]) -> Iterator[Utterance]:
        errors += self._labels.errors
        for one in self._waves.found():
            if one.entry.key not in self._labels.classes:
                continue
            try:
                self._labels.of_frames(one.entry.key, one.frames, one.speed)
            except DataError as error:
                errors.append(error)
                continue
            yield one

    def column(self, numbers: IntArray) -> Column:
        """Return the labels of some utterances, a sparse row for each frame."""
        chosen = [self.found()[number] for number in numbers.tolist()]
        lengths = np.array([one.frames for one in chosen], dtype=np.int64)
        read = [self._labels.of_frames(one.entry.key, one.frames, one.speed) for one in chosen]
        classes = np.concatenate([found for found, _ in read]) if read else np.zeros(0, dtype=np.int32)
        values = np.concatenate([found for _, found in read]) if read else np.zeros(0)
        return class_column(lengths, classes, values.astype(self.form.dtype), self._dim)

    def check(self) -> Iterator[CntkError]:
        """Yield everything that is wrong with the labels."""
        errors: list[CntkError] = []
        for _ in self._fitting(errors):
            pass
        yield from errors


def _too_many(errors: Sequence[CntkError], allowed: int, title: str) -> CntkError:
    if len(errors) == 1 and allowed == 0:
        return errors[0]
    shown = [str(error) for error in errors[:_SHOWN]]
    if len(errors) > _SHOWN:
        shown.append(f"... and {len(errors) - _SHOWN} more")
    shown.append("`cntk check-data` lists them all; maxErrors=n leaves out up to n.")
    text = f"{len(errors)} malformed utterances, maxErrors={allowed}"
    return DataError(text, where=Location(title), hint="\n".join(shown))
