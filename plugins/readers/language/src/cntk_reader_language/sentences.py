"""The part that both readers have in common: sentences in memory to minibatches."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from itertools import islice
from typing import Any

import attrs
import numpy as np

from cntk_core.api import DataReader, EpochSpec, Minibatch, SequenceLayout, StreamData, raise_problems
from cntk_core.api.readers import slot_layout
from cntk_reader_language.vocabulary import IntArray

_SHOWN = 10
"""Errors that are shown at once."""


@attrs.frozen
class Piece:
    """Sentences that are read side by side, or a stretch of them.

    Attributes:
        sentences: numbers of the sentences.
        first, last: frames of each; a shorter sentence ends before ``last``.
        turn: number of the group, for the shares of ranks.
    """

    sentences: IntArray
    first: int
    last: int
    turn: int


class SentenceReader(DataReader):
    """Reads minibatches of sentences. A subclass sets ``offsets`` and says in which groups and what is in a frame.

    An epoch of at least the whole text is one sweep over it, unless the reader ``passes``; smaller ones follow each
    other through the sweeps.

    Attributes:
        offsets: sentence ``i`` has the frames ``offsets[i]`` to ``offsets[i + 1]`` of the text.
    """

    offsets: IntArray

    @abstractmethod
    def groups(self, sweep: int, size: int) -> list[IntArray]:
        """Return the groups of sentences of a sweep."""

    @abstractmethod
    def frames(self, rows: IntArray, sweep: int, turn: int) -> dict[str, Any]:
        """Return the data of each stream for frames of the text."""

    cuts: bool = False
    """Whether sentences longer than a minibatch are read in stretches."""
    passes: bool = False
    """Whether an epoch that is larger than the text reads it again."""

    def minibatches(self, epoch: EpochSpec) -> Iterator[Minibatch]:
        """Yield the minibatches of an epoch. Raises the first errors of the text."""
        raise_problems(list(islice(self.check(), _SHOWN)))
        total = int(self.offsets[-1])
        size = epoch.epoch_size
        if not size or (size >= total and not self.passes):
            sweep, position, size = epoch.epoch, epoch.epoch * total, total
            begin = position
        else:
            begin = epoch.epoch * size
            sweep = begin // total
            position = sweep * total
        end = begin + size
        read = 0
        while position < end:
            for piece in self._pieces(sweep, epoch.minibatch_size):
                here = self._count(piece)
                position += here
                if not begin <= position - here < end:
                    continue
                if epoch.max_samples and read >= epoch.skip_samples + epoch.max_samples:
                    return
                read += here
                if read > epoch.skip_samples:
                    yield self._minibatch(piece, sweep, epoch)
            sweep += 1

    def _pieces(self, sweep: int, size: int) -> Iterator[Piece]:
        lengths = np.diff(self.offsets)
        for turn, group in enumerate(self.groups(sweep, size)):
            longest = int(lengths[group].max())
            step = max(size, 1) if self.cuts else longest
            for first in range(0, longest, step):
                yield Piece(group, first, min(first + step, longest), turn)

    def _lengths(self, piece: Piece) -> IntArray:
        found: IntArray = np.minimum(np.diff(self.offsets)[piece.sentences], piece.last) - piece.first
        return found

    def _count(self, piece: Piece) -> int:
        return int(self._lengths(piece).sum())

    def _minibatch(self, piece: Piece, sweep: int, epoch: EpochSpec) -> Minibatch:
        mine = (np.arange(len(piece.sentences)) + piece.turn) % epoch.ranks == epoch.rank
        own = attrs.evolve(piece, sentences=piece.sentences[mine])
        lengths = self._lengths(own)
        whole = np.diff(self.offsets)[own.sentences]
        layout = slot_layout(
            [[length] for length in lengths.tolist()],
            continued=[piece.first > 0] * len(lengths),
            continues=(whole > piece.last).tolist(),
        )
        rows = _rows(layout, self.offsets[own.sentences] + piece.first)
        data = self.frames(rows, sweep, piece.turn)
        streams = {name: StreamData(values, layout) for name, values in data.items()}
        # The original gives each sentence a row of its own, as long as the longest of them.
        return Minibatch(streams, int(lengths.sum()), layout.slots * layout.steps)


def _rows(layout: SequenceLayout, first: IntArray) -> IntArray:
    """Return the frames of the text in the order of the layout."""
    steps = np.repeat(np.arange(layout.steps), layout.alive)
    slots = np.arange(layout.frames) - np.repeat(layout.start, layout.alive)
    rows: IntArray = (first[layout.order][slots] + steps) if len(slots) else np.zeros(0, dtype=np.int64)
    return rows
