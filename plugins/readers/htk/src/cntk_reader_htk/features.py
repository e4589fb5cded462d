"""One stream of features: the utterances of a list of files, with a window of frames around each frame."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from cntk_core.api import CntkError, DataError, Location
from cntk_core.api.readers import Chunk, ChunkInfo, ChunkSource, Column, cut_chunks, read_windows
from cntk_reader_htk.chunks import IntArray, say_skipped, too_many
from cntk_reader_htk.htkfile import FeatureFiles, Header
from cntk_reader_htk.scp import FORMS, Entry, Script

_BELIEVED = 100_000
_BELIEVED_IN_ALL = 100_000_000
"""Frames that a list may name, in a line and in all, before the files are looked at: their numbers take memory."""


@attrs.frozen(eq=False)
class FeatureRules:
    """How a stream of features is read.

    Attributes:
        name: of the stream.
        script: name of the list, for messages.
        left, right: frames that are put before and after each frame; at the ends the first and last are repeated.
        shape: of a sample, in memory order.
        dtype: precision of the values.
        max_errors: malformed utterances that are left out.
        longest: utterances with more frames are left out; None is no limit.
    """

    name: str
    script: Path
    left: int
    right: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    max_errors: int = 0
    longest: int | None = None


class FeatureSource(ChunkSource):
    """The utterances of a list, in its order.

    Args:
        script: the list.
        files: opens feature files.
        model: the header that all files have to agree with.
        rules: how they are read.
        warn: function for warnings, one line each.
    """

    def __init__(
        self, script: Script, files: FeatureFiles, model: Header, rules: FeatureRules, warn: Callable[[str], None]
    ) -> None:
        self._script = script
        self._files = files
        self._model = model
        self._rules = rules
        self._warn = warn
        self._entries: list[Entry] = []
        self._lengths: IntArray = np.zeros(0, dtype=np.int64)
        self._starts: list[int] = []
        self._index: list[ChunkInfo] = []

    def __str__(self) -> str:
        return str(self._rules.script)

    # -- index --------------------------------------------------------------------------------------------

    def index(self) -> Sequence[ChunkInfo]:
        """Return what the chunks hold. Headers are read where the list does not tell the lengths.

        Raises DataError if there are more malformed utterances than ``maxErrors``.
        """
        if not self._index:
            errors = list(self._script.errors)
            self._entries = list(self._sound_entries(errors))
            if len(errors) > self._rules.max_errors:
                raise too_many("malformed utterances", errors, self._rules.max_errors, self._rules.script)
            say_skipped(errors, self._rules.script, self._warn)
            self._say_duplicates()
            self._lengths = np.array([entry.frames for entry in self._entries], dtype=np.int64)
            self._starts, self._index = cut_chunks(self._lengths)
        return self._index

    def _sound_entries(self, errors: list[CntkError]) -> Iterator[Entry]:
        """Yield the utterances with their lengths; note what is wrong with the others."""
        skipped = believed = 0
        for entry in self._script.entries:
            own = entry.frames or 0
            believed += own
            check = self._rules.max_errors > 0 or own > _BELIEVED or believed > _BELIEVED_IN_ALL
            try:
                found = self._measured(entry, check=check)
            except DataError as error:
                errors.append(error)
                continue
            if self._rules.longest is not None and (found.frames or 0) > self._rules.longest:
                skipped += 1
                continue
            yield found
        if skipped:
            limit = self._rules.longest
            self._warn(f"WARNING: {self}: {skipped} utterances have more frames than maxUtteranceLength={limit}")

    def _measured(self, entry: Entry, *, check: bool) -> Entry:
        """Return an utterance with its last frame; ``check`` looks into the file in any case."""
        if entry.last is not None and not check:
            return entry
        try:
            header = self._files.header(entry.path)
            last = header.frames - 1 if entry.last is None else entry.last
            self._files.check_range(entry.path, entry.first, last)
            self._check_style(entry, header)
        except DataError as error:
            raise self._at(entry, error) from None
        return attrs.evolve(entry, last=last)

    def _check_style(self, entry: Entry, header: Header) -> None:
        if header.style != self._model.style:
            raise DataError(
                f"'{entry.path}' is {header.style}, but the stream '{self._rules.name}' is {self._model.style}",
                hint="All files of a list have the same kind, dimension and frame period.",
            )

    def _at(self, entry: Entry, error: DataError) -> DataError:
        return DataError(error.message, where=Location(str(self._rules.script), entry.line), hint=error.hint)

    def _say_duplicates(self) -> None:
        twice = self._script.duplicates
        if twice:
            shown = ", ".join(f"'{key}'" for key in twice[:5]) + (", ..." if len(twice) > 5 else "")
            self._warn(f"WARNING: {self}: left out, since they occur more than once: {shown}")

    def check(self) -> Iterator[CntkError]:
        """Yield everything that is wrong with the list and its files."""
        yield from self._script.errors
        for entry in self._script.entries:
            try:
                self._measured(entry, check=True)
            except DataError as error:
                yield error

    # -- data ---------------------------------------------------------------------------------------------

    def keys(self, chunk: int) -> list[str]:
        """Return the keys of a chunk's utterances."""
        self.index()
        return [entry.key for entry in self._entries[self._starts[chunk] : self._starts[chunk + 1]]]

    def load(self, chunk: int) -> Chunk:
        """Read a chunk. Raises DataError."""
        self.index()
        numbers = np.arange(self._starts[chunk], self._starts[chunk + 1])
        return Chunk({self._rules.name: self._read(numbers)}, self.keys(chunk))

    def pick(self, chunks: IntArray, sequences: IntArray) -> Chunk:
        """Read some utterances alone."""
        self.index()
        numbers = np.array(self._starts, dtype=np.int64)[chunks] + sequences
        return Chunk({self._rules.name: self._read(numbers)})

    def _read(self, numbers: IntArray) -> Column:
        rules = self._rules
        # A list can ask for any number of frames: room is made only for those that there are.
        for number in numbers.tolist():
            self._check_entry(self._entries[number])
        return read_windows(
            numbers,
            self._lengths[numbers],
            self._read_one,
            dim=self._model.dim,
            window=(rules.left, rules.right),
            shape=rules.shape,
            dtype=rules.dtype,
        )

    def _check_entry(self, entry: Entry) -> None:
        try:
            self._check_style(entry, self._files.header(entry.path))
            self._files.check_range(entry.path, entry.first, entry.first if entry.last is None else entry.last)
        except DataError as error:
            raise self._at(entry, error) from None

    def _read_one(self, number: int, target: np.ndarray[Any, Any]) -> None:
        entry = self._entries[number]
        try:
            last = entry.first if entry.last is None else entry.last
            self._files.read(entry.path, entry.first, last, target)
        except DataError as error:
            raise self._at(entry, error) from None

    def close(self) -> None:
        """Close all files."""
        self._files.close()


def first_header(script: Script, files: FeatureFiles, path: Path, max_errors: int) -> Header:
    """Return the header of the first sound file of a list.

    Raises:
        DataError: the list is empty, or has no sound file within the errors that are allowed.
    """
    errors: list[CntkError] = list(script.errors)
    for entry in script.entries:
        try:
            return files.header(entry.path)
        except DataError as error:
            errors.append(DataError(error.message, where=Location(str(path), entry.line), hint=error.hint))
            if len(errors) > max_errors:
                break
    if errors:
        raise too_many("malformed utterances", errors, max_errors, path)
    hint = "Every name occurs more than once, and such utterances are left out." if script.duplicates else FORMS
    raise DataError("the list of feature files has no utterances", where=Location(str(path)), hint=hint)


def window_of(dim: int, window: tuple[int, int], header: Header, name: str, where: Location | None) -> tuple[int, int]:
    """Return the frames left and right of each frame.

    Args:
        dim: what the recipe says.
        window: what ``contextWindow`` says; (0, 0) if it says nothing: the window follows from ``dim`` then.
        header: of a file of the stream.
        name, where: of the stream, for messages.

    Raises:
        DataError: the dimensions do not fit.
    """
    if window != (0, 0):
        if dim == header.dim:
            return window
        text = f"stream '{name}' has dim={dim}, but a frame of its files has {header.dim} values"
        raise DataError(text, where=where, hint=f"With contextWindow, dim is the dimension of the files: {header.dim}.")
    frames, rest = divmod(dim, header.dim)
    if rest or frames % 2 == 0:
        raise DataError(
            f"stream '{name}' has dim={dim}, and a frame of its files has {header.dim} values: "
            f"this is no window of {header.dim} x (1, 3, 5, ...)",
            where=where,
            hint=f"Write dim={header.dim} ; contextWindow=..., frames of the window or left:right.",
        )
    return frames // 2, frames // 2
