"""The random order of the original: chunks and sequences swapped by a Mersenne Twister.

Each sweep has its own seed, so that every epoch can be entered directly. The chunks are shuffled; each sequence then changes
places with a random one from the window around its chunk, from the first to the last, and draws again where one of the
two would leave the window of the chunk that it comes from.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

import numpy as np

from cntk_core.data.randomize import Block, RandomOrder
from cntk_core.interfaces.layout import IntArray
from cntk_core.ops.mersenne_twister import STATE, MersenneTwister64

_BLOCKS = 64


class OriginalOrder(RandomOrder):
    """The order of CNTK's block randomizer; the same seed gives the same order."""

    def blocks(self, sweep: int) -> Iterator[Block]:
        """Yield one block for each place of a chunk in the shuffled order; at most a window of chunks is in use."""
        order = self._shuffled_chunks(sweep)
        begin, end = (bounds.tolist() for bounds in self._windows(np.array(order)))
        state = _Sweep(self, order, begin, end, MersenneTwister64(self._seed + sweep))
        for place in range(len(order)):
            yield state.block(place)

    def _shuffled_chunks(self, sweep: int) -> list[int]:
        count = len(self.index)
        order = list(range(count))
        words = MersenneTwister64(self._seed + sweep).blocks(count // STATE + 1)[:count]
        _swap(order, 0, (words % np.uint64(count)).tolist())
        return order


class _Sweep:
    """The sequences of one sweep: numbers in the order of the shuffled chunks, and where they are now."""

    def __init__(
        self, owner: OriginalOrder, order: list[int], begin: list[int], end: list[int], twister: MersenneTwister64
    ) -> None:
        self._owner, self._order, self._begin, self._end, self._twister = owner, order, begin, end, twister
        counts = [owner.index[number].sequences for number in order]
        self._starts = [0, *np.cumsum(counts).tolist()]
        self._words = np.empty(0, np.uint64)
        self._items: list[int] = []
        self._dropped = 0
        self._cursor = 0

    def block(self, place: int) -> Block:
        """Return the sequences that have come to the place of a chunk. Places are asked for in a row."""
        self._randomize(place)
        first, last = self._starts[place] - self._dropped, self._starts[place + 1] - self._dropped
        numbers = np.array(self._items[first:last], np.int64)
        after = min(place + 1, len(self._order) - 1)
        keep = self._starts[min(self._begin[after], after)]
        del self._items[: keep - self._dropped]
        self._dropped = max(self._dropped, keep)
        self._owner.open_chunks = frozenset(self._order[self._begin[place] : self._end[place]])
        return self._described(numbers)

    def _described(self, numbers: IntArray) -> Block:
        positions = np.searchsorted(self._starts, numbers, side="right") - 1
        chunks = np.array(self._order, np.int64)[positions]
        sequences = numbers - np.array(self._starts, np.int64)[positions]
        lengths = np.ones(len(numbers), np.int64)
        for chunk in np.unique(chunks).tolist():
            known = self._owner.index[chunk].lengths
            if known is not None:
                mine = chunks == chunk
                lengths[mine] = known[sequences[mine]]
        return Block(chunks, sequences, lengths)

    def _randomize(self, place: int) -> None:
        """Swap all sequences that may come to a place."""
        count = len(self._order)
        upto = max(self._end[place], self._cursor)
        while upto < count and self._begin[upto] <= place:
            upto += 1
        loaded = self._dropped + len(self._items)
        self._items.extend(range(loaded, self._starts[self._end[upto - 1]]))
        for chunk in range(self._cursor, upto):
            self._randomize_chunk(chunk)
        self._cursor = upto

    def _randomize_chunk(self, chunk: int) -> None:
        low, high = self._starts[self._begin[chunk]], self._starts[self._end[chunk]]
        first, last = self._starts[chunk], self._starts[chunk + 1]
        if self._begin[chunk] == 0 and self._end[chunk] == len(self._order) == self._end[0]:
            targets = low + self._take(last - first) % np.uint64(high - low)
            _swap(self._items, first, targets.tolist())
            return
        items, dropped, starts = self._items, self._dropped, self._starts
        begin, end = self._begin, self._end
        for place in range(first, last):
            while True:
                other = low + int(self._take(1)[0]) % (high - low)
                theirs = bisect_right(starts, items[other - dropped]) - 1
                mine = bisect_right(starts, items[place - dropped]) - 1
                there = bisect_right(starts, other) - 1
                if begin[chunk] <= theirs < end[chunk] and begin[there] <= mine < end[there]:
                    break
            here = place - dropped
            items[here], items[other - dropped] = items[other - dropped], items[here]

    def _take(self, count: int) -> np.ndarray:
        while len(self._words) < count:
            blocks = max(_BLOCKS, (count - len(self._words)) // STATE + 1)
            self._words = np.concatenate([self._words, self._twister.blocks(min(blocks, 4096))])
        taken, self._words = self._words[:count], self._words[count:]
        return taken


def _swap(items: list[int], first: int, targets: list[int]) -> None:
    for place, other in enumerate(targets, first):
        items[place], items[other] = items[other], items[place]
