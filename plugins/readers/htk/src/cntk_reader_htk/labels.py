"""One stream of labels: the class of every frame, one-hot and sparse, out of label files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from cntk_core.api import CntkError, Location
from cntk_core.api.readers import LINE_BYTES, Chunk, ChunkInfo, ChunkSource, Column, class_column, cut_chunks
from cntk_reader_htk.chunks import IntArray, say_skipped, too_many
from cntk_reader_htk.mlf import LabelParser, Labels, read_states
from cntk_reader_htk.targets import read_targets

PHONE_START = 2
"""The label of a frame with which a phone begins, with ``phoneBoundaries``; else it is 1."""


@attrs.frozen(eq=False)
class LabelRules:
    """How a stream of labels is read.

    Attributes:
        name: of the stream.
        files: label files.
        states: list of states; None if the labels have their numbers.
        dim: number of classes.
        dtype: precision of the values.
        phone_boundaries: mark the first frame of each range.
        max_errors: malformed entries that are left out.
        targets: file with a target of zeros and ones for each state, which takes the place of its class.
        target_dim: elements of such a target.
        where: where the recipe names the files.
        places: the lines of a list that names the files, one for each; nothing if the recipe names the file.
        max_line_bytes: a longer line is refused.
    """

    name: str
    files: tuple[Path, ...]
    states: Path | None
    dim: int
    dtype: np.dtype[Any]
    phone_boundaries: bool = False
    max_errors: int = 0
    targets: Path | None = None
    target_dim: int = 0
    where: Location | None = None
    places: tuple[Location, ...] = ()
    max_line_bytes: int = LINE_BYTES


class LabelSource(ChunkSource):
    """The utterances of label files, in their order."""

    def __init__(self, rules: LabelRules, warn: Callable[[str], None]) -> None:
        self._rules = rules
        self._warn = warn
        self._labels: Labels | None = None
        self._targets: Any = None
        self._starts: list[int] = []
        self._index: list[ChunkInfo] = []

    def __str__(self) -> str:
        return str(self._rules.files[0])

    def index(self) -> Sequence[ChunkInfo]:
        """Return what the chunks hold. All files are read at the first call; the ranges of labels are kept.

        Raises DataError if a file cannot be read or there are more malformed entries than ``maxErrors``.
        """
        if not self._index:
            labels = self._read()
            if len(labels.errors) > self._rules.max_errors:
                what = "malformed entries"
                raise too_many(what, labels.errors, self._rules.max_errors, self._rules.files[0])
            say_skipped(labels.errors, self._rules.files[0], self._warn)
            frames = np.concatenate([[0], np.cumsum(labels.counts, dtype=np.int64)])
            self._starts, self._index = cut_chunks(np.diff(frames[labels.offsets]))
            self._labels = labels
        return self._index

    def _read(self) -> Labels:
        rules = self._rules
        longest = rules.max_line_bytes
        states = None if rules.states is None else read_states(rules.states, rules.where, longest)
        if rules.targets is not None and states is not None:
            self._targets = read_targets(rules.targets, states, rules.target_dim, rules.where, longest)
        parser = LabelParser(states, rules.dim, longest)
        places = rules.places or (rules.where,) * len(rules.files)
        for path, place in zip(rules.files, places, strict=True):
            parser.read(path, place)
        return parser.labels()

    def check(self) -> Iterator[CntkError]:
        """Yield everything that is wrong with the files."""
        try:
            yield from self._read().errors
        except CntkError as error:
            yield error

    def keys(self, chunk: int) -> list[str]:
        """Return the keys of a chunk's utterances."""
        return self._known().keys[self._starts[chunk] : self._starts[chunk + 1]]

    def load(self, chunk: int) -> Chunk:
        """Make the labels of a chunk."""
        keys = self.keys(chunk)
        return Chunk({self._rules.name: self._column(np.arange(len(keys)) + self._starts[chunk])}, keys)

    def pick(self, chunks: IntArray, sequences: IntArray) -> Chunk:
        """Make the labels of some utterances."""
        self.index()
        return Chunk({self._rules.name: self._column(np.array(self._starts, dtype=np.int64)[chunks] + sequences)})

    def _known(self) -> Labels:
        self.index()
        assert self._labels is not None
        return self._labels

    def _column(self, numbers: IntArray) -> Column:
        labels = self._known()
        first, last = labels.offsets[numbers], labels.offsets[numbers + 1]
        sizes = last - first
        ranges = np.repeat(first - np.cumsum(sizes) + sizes, sizes) + np.arange(int(sizes.sum()))
        counts = labels.counts[ranges].astype(np.int64)
        indices = np.repeat(labels.classes[ranges], counts)
        values = np.ones(len(indices), dtype=self._rules.dtype)
        if self._rules.phone_boundaries:
            values[(np.cumsum(counts) - counts)[counts > 0]] = PHONE_START
        ends = np.cumsum(counts)[np.cumsum(sizes) - 1] if len(numbers) else np.zeros(0, dtype=np.int64)
        sizes = np.diff(np.concatenate([[0], ends]))
        if self._targets is None:
            return class_column(sizes, indices, values, self._rules.dim)
        found = class_column(sizes, indices, values, self._targets.shape[0])
        return Column((found.data @ self._targets).astype(self._rules.dtype), found.offsets, found.rows)

    def close(self) -> None:
        """Forget the labels."""
        self._labels = None
        self._index = []
