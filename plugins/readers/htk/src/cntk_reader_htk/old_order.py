"""The random orders of CNTK's HTKMLFReader, drawn with the numbers of the C library."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from cntk_core.api.readers import Block, ChunkInfo, SweepOrder, Window, chunk_windows, cut_chunks
from cntk_reader_htk.gnu_random import GnuRandom

IntArray = NDArray[np.int64]

_TRIES = 5
"""How often another frame is drawn where one would leave its window."""


class OldOrder(SweepOrder):
    """The order of utterances with ``readMethod=blockRandomize``.

    Chunks of a quarter of an hour are shuffled. Each utterance, from the first to the last, then changes places with a
    random one of the window around its chunk; where one of the two would leave the window of the chunk that it comes
    to, another one is drawn.
    """

    def __init__(self, index: Sequence[ChunkInfo], seed: int, window: Window) -> None:
        super().__init__(index)
        self._seed = seed
        self._window = window
        self._lengths = np.concatenate([info.sample_counts() for info in index] or [np.zeros(0, np.int64)])
        self._firsts = np.cumsum([0, *(info.sequences for info in index)], dtype=np.int64)
        self._chunks = np.repeat(np.arange(len(index)), np.diff(self._firsts))
        # Utterances that were left out do not count for the chunks of the order.
        self._starts = cut_chunks(self._lengths)[0]
        self._known: tuple[int, list[tuple[IntArray, frozenset[int]]]] = (-1, [])

    def blocks(self, sweep: int) -> Iterator[Block]:
        """Yield one block for each place of a chunk in the shuffled order."""
        if self._known[0] != sweep:
            self._known = (sweep, list(self._swapped(sweep)))
        for numbers, chunks in self._known[1]:
            self.open_chunks = chunks
            chunk_at = self._chunks[numbers]
            yield Block(chunk_at, numbers - self._firsts[chunk_at], self._lengths[numbers])

    def _swapped(self, sweep: int) -> Iterator[tuple[IntArray, frozenset[int]]]:
        """Yield the utterances that come to the place of each chunk, and the chunks of the data in its window."""
        order = self._shuffled_chunks(sweep)
        starts = self._starts
        ranges = [range(starts[chunk], starts[chunk + 1]) for chunk in order]
        samples = np.array([self._lengths[one.start : one.stop].sum() for one in ranges], np.int64)
        begin, end = (bounds.tolist() for bounds in chunk_windows(samples, self._window))
        firsts = [0, *np.cumsum([len(one) for one in ranges], dtype=np.int64).tolist()]
        numbers = [number for one in ranges for number in one]
        places = [place for place, one in enumerate(ranges) for _ in one]
        _swap_within(numbers, places, firsts, begin, end, GnuRandom(self._seed + sweep + 1))
        for place in range(len(order)):
            window = [self._chunks[one.start : one.stop] for one in ranges[begin[place] : end[place]]]
            opened = frozenset(np.unique(np.concatenate(window)).tolist())
            yield np.array(numbers[firsts[place] : firsts[place + 1]], np.int64), opened

    def _shuffled_chunks(self, sweep: int) -> list[int]:
        random = GnuRandom(self._seed + sweep)
        order = list(range(len(self._starts) - 1))
        for i in range(len(order)):
            j = random.between(0, len(order))
            order[i], order[j] = order[j], order[i]
        return order


def _swap_within(
    numbers: list[int], places: list[int], firsts: list[int], begin: list[int], end: list[int], random: GnuRandom
) -> None:
    """Let each utterance change places with a random one.

    Args:
        numbers: utterances, chunk after chunk in the shuffled order.
        places: in which of these chunks each position is.
        firsts: first position of each chunk, and the end.
        begin, end: window of each chunk.
        random: draws.
    """
    owners = list(places)
    for i, place in enumerate(places):
        low, high = firsts[begin[place]], firsts[end[place]]
        while True:
            j = random.between(low, high)
            there = places[j]
            stays = begin[place] <= owners[j] < end[place] and begin[there] <= owners[i] < end[there]
            if i == j or stays:
                break
        numbers[i], numbers[j] = numbers[j], numbers[i]
        owners[i], owners[j] = owners[j], owners[i]


def rolling_order(count: int, size: int | None, seed: int) -> IntArray:
    """Return the order of frames with ``readMethod=rollingWindow``.

    Each frame, from the first to the last, changes places with a random one near it, if both stay near to where they
    were at first; five are tried.

    Args:
        count: frames.
        size: twice as far as a frame may move; None is as far as there are frames.
        seed: of the sweep.
    """
    half = count if size is None else size // 2
    random = GnuRandom(seed)
    order = list(range(count))
    if half == 0:
        return np.array(order, np.int64)
    for here in range(count):
        for _ in range(_TRIES):
            there = random.between(max(here - half, 0), min(here + half, count))
            mine, theirs = order[here], order[there]
            if -half <= mine - there < half and -half <= theirs - here < half:
                order[here], order[there] = theirs, mine
                break
    return np.array(order, np.int64)
