"""The order of the sequences in each sweep over the data: as they lie in the files, or at random within windows.

The random order needs only a window of chunks in memory, like the original's block randomizer: the chunks are shuffled,
each shuffled chunk gets a window of chunks around it, and each of its sequences a random place in that window. Our
places are independent random numbers, drawn with Philox from a key of (seed, purpose) and a counter of (sweep, chunk),
so the order never depends on what was read before, and any epoch can be entered directly.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.data.source import ChunkInfo
from cntk_core.interfaces.layout import IntArray

CHUNK_ORDER = 0x6368756E6B73
"""Purpose of the random numbers that shuffle chunks."""
PLACES = 0x706C61636573
"""Purpose of the random numbers that place sequences."""

_WORD = (1 << 64) - 1


def random_words(count: int, seed: int, purpose: int, *counter: int) -> NDArray[np.uint64]:
    """Return ``count`` random 64-bit words of the stream that (seed, purpose, counter) names, up to two counters."""
    words = [0, 0, *(value & _WORD for value in counter), 0, 0][:4]
    generator = np.random.Philox(key=[seed & _WORD, purpose & _WORD], counter=words)
    return generator.random_raw(count).astype(np.uint64, copy=False)


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
        open_chunks: the chunks of the last window: the order comes back to each of them.
    """

    def __init__(self, index: Sequence[ChunkInfo]) -> None:
        self.open_chunks: frozenset[int] = frozenset()
        self.index = index
        self.samples = sum(chunk.samples for chunk in index)
        self.in_file_order = False

    @abstractmethod
    def blocks(self, sweep: int) -> Iterator[Block]:
        """Yield the sequences of a sweep, block by block."""

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
        """Yield one block for each place of a chunk in the shuffled order; at most a window of chunks is in use."""
        count = len(self.index)
        order = np.argsort(random_words(count, self._seed, CHUNK_ORDER, sweep), kind="stable")
        begin, end = self._windows(order)
        # Places of the sequences of each open chunk, sorted; a chunk is open while its window holds the block.
        open_chunks: dict[int, tuple[NDArray[np.float64], IntArray]] = {}
        first = last = 0
        for place in range(count):
            while last < count and begin[last] <= place:
                number = int(order[last])
                open_chunks[last] = self._places(sweep, number, int(begin[last]), int(end[last]))
                last += 1
            while end[first] <= place:
                del open_chunks[first]
                first += 1
            self.open_chunks = frozenset(int(order[position]) for position in open_chunks)
            yield self._merge(order, open_chunks, place)

    def _windows(self, order: IntArray) -> tuple[IntArray, IntArray]:
        """Return the window ``begin <= place < end`` of each shuffled chunk; neither bound ever decreases."""
        count = len(order)
        size = self._window.size
        if size is None:
            return np.zeros(count, dtype=np.int64), np.full(count, count)
        if not self._window.in_samples:
            width = min(max(size, 1), count)
            begin = np.clip(np.arange(count) - width // 2, 0, count - width)
            return begin, begin + width
        samples = np.array([self.index[number].samples for number in order.tolist()])
        stop = np.cumsum(samples)
        start = stop - samples
        begin = np.searchsorted(start, start - size // 2, side="left")
        end = np.searchsorted(stop, start + size // 2, side="left")
        places = np.arange(count)
        return np.minimum(begin, places), np.maximum(end, places + 1)

    def _places(self, sweep: int, number: int, begin: int, end: int) -> tuple[NDArray[np.float64], IntArray]:
        words = random_words(self.index[number].sequences, self._seed, PLACES, sweep, number)
        places = begin + (words >> np.uint64(11)) * (2.0**-53 * (end - begin))
        # Rounding may reach the end of the window.
        places = np.minimum(places, np.nextafter(end, begin))
        order = np.argsort(places, kind="stable")
        return places[order], order

    def _merge(self, order: IntArray, chunks: dict[int, tuple[NDArray[np.float64], IntArray]], place: int) -> Block:
        """Return the sequences of the open chunks that belong to one place, in the order of their random places."""
        places, numbers, sequences, lengths = [], [], [], []
        for position, (keys, sorted_sequences) in chunks.items():
            low, high = np.searchsorted(keys, [place, place + 1]).tolist()
            if low == high:
                continue
            number = int(order[position])
            chosen = sorted_sequences[low:high]
            known = self.index[number].lengths
            places.append(keys[low:high])
            numbers.append(np.full(high - low, number))
            sequences.append(chosen)
            lengths.append(np.ones(high - low, dtype=np.int64) if known is None else known[chosen])
        if len(places) == 1:
            return Block(numbers[0], sequences[0], lengths[0])
        if not places:
            nothing = np.zeros(0, dtype=np.int64)
            return Block(nothing, nothing, nothing)
        sort = np.argsort(np.concatenate(places), kind="stable")
        return Block(np.concatenate(numbers)[sort], np.concatenate(sequences)[sort], np.concatenate(lengths)[sort])
