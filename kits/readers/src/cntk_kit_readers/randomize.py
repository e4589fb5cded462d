"""The order of the sequences in each sweep over the data: as they lie in the files, or at random within windows.

The random order is that of the original's block randomizer (:mod:`cntk_kit_readers.block_randomizer`). It needs only a
window of chunks in memory, and each sweep has a seed of its own, so it never depends on what was read before, and any
epoch can be entered directly.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import attrs
import numpy as np

from cntk_core.records.layout import IntArray
from cntk_kit_readers.block_randomizer import shuffled, swapped_sequences
from cntk_kit_readers.source import ChunkInfo


@attrs.frozen
class Window:
    """How far a sequence may move.

    Attributes:
        size: number of chunks, or of samples; None is the whole data set.
        in_samples: the unit of ``size``.
    """

    size: int | None = None
    in_samples: bool = False


@attrs.frozen(eq=False)
class Block:
    """Consecutive sequences of a sweep.

    Attributes:
        chunks: chunk number of each sequence.
        sequences: number of each sequence in its chunk.
        lengths: samples of each sequence.
    """

    chunks: IntArray
    sequences: IntArray
    lengths: IntArray


class SweepOrder(ABC):
    """The order of all sequences in each sweep.

    Attributes:
        index: what the chunks hold.
        samples: of a sweep.
        in_file_order: whether the sequences come as they lie in the files.
    """

    def __init__(self, index: Sequence[ChunkInfo]) -> None:
        self._open: tuple[Sequence[int], int, int] = ((), 0, 0)
        self.index = index
        self.samples = sum(chunk.samples for chunk in index)
        self.in_file_order = False

    @property
    def open_chunks(self) -> frozenset[int]:
        """The chunks of the last window: the order comes back to each of them."""
        order, begin, end = self._open
        return frozenset(order[begin:end])

    @open_chunks.setter
    def open_chunks(self, chunks: frozenset[int]) -> None:
        self._open = tuple(chunks), 0, len(chunks)

    @abstractmethod
    def blocks(self, sweep: int) -> Iterator[Block]:
        """Yield the sequences of a sweep, block by block."""

    def chunk_places(self, sweep: int) -> IntArray:
        """Return the place of each chunk in the order of the chunks of a sweep."""
        return np.arange(len(self.index))

    def start_at(self, sweep: int, sample: int) -> tuple[int, int, Iterator[Block]]:
        """Return the blocks from the one that holds ``sample`` on, and the sequences and samples before it."""
        blocks = self.blocks(sweep)
        sequences = samples = 0
        for block in blocks:
            size = int(block.lengths.sum())
            if samples + size > sample:
                return sequences, samples, _with_first(block, blocks)
            sequences += len(block.lengths)
            samples += size
        return sequences, samples, iter(())


def _with_first(block: Block, rest: Iterator[Block]) -> Iterator[Block]:
    yield block
    yield from rest


class FileOrder(SweepOrder):
    """The sequences as they lie in the files, every sweep."""

    def __init__(self, index: Sequence[ChunkInfo]) -> None:
        super().__init__(index)
        self.in_file_order = True

    def blocks(self, sweep: int) -> Iterator[Block]:
        """Yield one block for each chunk."""
        return (self._block(number) for number in range(len(self.index)))

    def start_at(self, sweep: int, sample: int) -> tuple[int, int, Iterator[Block]]:
        """Find the chunk by its number of samples alone."""
        sequences = samples = 0
        for number, chunk in enumerate(self.index):
            if samples + chunk.samples > sample:
                return sequences, samples, (self._block(i) for i in range(number, len(self.index)))
            sequences += chunk.sequences
            samples += chunk.samples
        return sequences, samples, iter(())

    def _block(self, number: int) -> Block:
        chunk = self.index[number]
        return Block(np.full(chunk.sequences, number), np.arange(chunk.sequences), chunk.sample_counts())


class RandomOrder(SweepOrder):
    """A random order within windows, another one in each sweep."""

    def __init__(self, index: Sequence[ChunkInfo], seed: int, window: Window) -> None:
        super().__init__(index)
        self._seed = seed
        self._window = window

    def blocks(self, sweep: int) -> Iterator[Block]:
        """Yield blocks for the places of the chunks in the shuffled order; at most a window of chunks is in use."""
        order = shuffled(len(self.index), self._seed + sweep)
        samples = np.array([self.index[number].samples for number in order], np.int64)
        begin, end = (bounds.tolist() for bounds in chunk_windows(samples, self._window))
        counts = [self.index[number].sequences for number in order]
        chunk_at, starts = np.array(order, np.int64), np.cumsum([0, *counts], dtype=np.int64)
        lengths = self._all_lengths(order)
        swapped = swapped_sequences(counts, begin, end, self._seed + sweep)
        done = 0
        for numbers in swapped:
            # They come chunk by chunk or many at a time: see where the first and the last of them belong.
            first, last = _place(starts, done), _place(starts, max(done, done + len(numbers) - 1))
            done += len(numbers)
            self._open = (order, begin[first], end[last])
            came_from = np.searchsorted(starts, numbers, side="right") - 1
            own = np.ones(len(numbers), np.int64) if lengths is None else lengths[numbers]
            yield Block(chunk_at[came_from], numbers - starts[came_from], own)

    def chunk_places(self, sweep: int) -> IntArray:
        """Return the place of each chunk in the order of the chunks of a sweep."""
        return np.argsort(shuffled(len(self.index), self._seed + sweep))

    def _all_lengths(self, order: list[int]) -> IntArray | None:
        """Return the samples of each sequence, chunk after chunk; None if every one has one sample."""
        if all(chunk.lengths is None for chunk in self.index):
            return None
        return np.concatenate([self.index[number].sample_counts() for number in order])


def _place(starts: IntArray, sequence: int) -> int:
    """The place of the chunk whose sequences are numbered from ``starts`` on that has a sequence."""
    return min(int(np.searchsorted(starts, sequence, side="right")), len(starts) - 1) - 1


def chunk_windows(samples: IntArray, window: Window) -> tuple[IntArray, IntArray]:
    """Return the window ``begin <= place < end`` of each chunk of a shuffled order; neither bound ever decreases.

    Args:
        samples: of the chunks, in the shuffled order.
        window: how far a sequence may move.
    """
    count = len(samples)
    size = window.size
    if size is None:
        return np.zeros(count, dtype=np.int64), np.full(count, count)
    if not window.in_samples:
        width = min(max(size, 1), count)
        begin = np.clip(np.arange(count) - width // 2, 0, count - width)
        return begin, begin + width
    stop = np.cumsum(samples)
    start = stop - samples
    begin = np.searchsorted(start, start - size // 2, side="left")
    end = np.searchsorted(stop, start + size // 2, side="left")
    places = np.arange(count)
    return np.minimum(begin, places), np.maximum(end, places + 1)
