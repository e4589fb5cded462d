"""The random order of the original's block randomizer: chunks and sequences change places.

The chunks are shuffled. Each sequence, from the first to the last, then changes places with a random one from the
window around its chunk; where one of the two would leave the window of the chunk that it comes to, another one is
drawn. A 64-bit Mersenne Twister draws; it is seeded with the seed of the reader plus the number of the sweep, for the
chunks and for the sequences alike.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

import numpy as np

from cntk_core.ops.families.mersenne_twister import STATE, MersenneTwister64, Words
from cntk_core.records.layout import IntArray

_BLOCKS = 64
_MOST_BLOCKS = 4096
"""How many states of the twister are drawn at once: 10 MiB of words."""
_AT_ONCE = 65536
"""So many words are used at a time."""


def shuffled(count: int, seed: int) -> list[int]:
    """Return the numbers up to ``count`` in random order."""
    order = array("q", range(count))
    _swap(order, 0, _Words(seed).take(count) % np.uint64(max(count, 1)))
    return order.tolist()


def swapped_sequences(counts: Sequence[int], begin: list[int], end: list[int], seed: int) -> Iterator[IntArray]:
    """Yield the sequences that come to the place of each chunk.

    Where one window has all chunks, or each window has one sequence, they come many at a time.

    Args:
        counts: sequences of the chunks. The sequences are numbered through all chunks.
        begin, end: window of each chunk, ``begin <= place < end``; neither bound ever decreases.
        seed: of the sweep.
    """
    return _Swaps(counts, begin, end, seed).places()


class _Swaps:
    """The sequences in use: ``items`` holds those at the places from ``dropped`` on."""

    def __init__(self, counts: Sequence[int], begin: list[int], end: list[int], seed: int) -> None:
        self._begin, self._end = begin, end
        self._whole = bool(begin) and begin[-1] == 0 and end[0] == len(end)
        starts = np.cumsum([0, *counts], dtype=np.int64)
        self._fixed = bool((starts[end] - starts[begin] == 1).all())
        self._starts = starts.tolist()
        self._words = _Words(seed)
        self._items = array("q")
        self._chunks = array("q")  # of the places of the items
        self._known = 0
        self._dropped = 0
        self._cursor = 0

    def places(self) -> Iterator[IntArray]:
        """Yield the sequences of each place."""
        if self._whole or self._fixed:
            yield from self._all_places()
            return
        for place in range(len(self._begin)):
            self._randomize_for(place)
            first, last = (start - self._dropped for start in self._starts[place : place + 2])
            yield np.array(self._items[first:last], np.int64)
            done = self._starts[place + 1] - self._dropped
            if 2 * done >= len(self._items):
                del self._items[:done]
                del self._chunks[:done]
                self._dropped += done

    def _all_places(self) -> Iterator[IntArray]:
        """Yield the sequences where each may come to every place, or to its own alone."""
        total = self._starts[-1]
        items = array("q", range(total))
        if not self._fixed:
            _swap(items, 0, self._words.take(total) % np.uint64(max(total, 1)))
        found = np.array(items, np.int64)
        for first in range(0, total, _AT_ONCE):
            yield found[first : first + _AT_ONCE]

    def _randomize_for(self, place: int) -> None:
        """Let all sequences change places that may come to a place; none that is drawn later comes to it."""
        upto = max(self._end[place], self._cursor)
        while upto < len(self._begin) and self._begin[upto] <= place:
            upto += 1
        known = self._dropped + len(self._items)
        self._items.extend(range(known, self._starts[self._end[upto - 1]]))
        for chunk in range(self._known, self._end[upto - 1]):
            count = self._starts[chunk + 1] - self._starts[chunk]
            self._chunks.frombytes(np.full(count, chunk, np.int64).tobytes())
        self._known = max(self._known, self._end[upto - 1])
        for chunk in range(self._cursor, upto):
            self._randomize(chunk)
        self._cursor = upto

    def _randomize(self, chunk: int) -> None:
        low, high = self._starts[self._begin[chunk]], self._starts[self._end[chunk]]
        first, last = self._starts[chunk], self._starts[chunk + 1]
        items, chunks, starts, dropped = self._items, self._chunks, self._starts, self._dropped
        # A sequence is in a range of chunks if its number is in the range of their sequences.
        first, last, base = first - dropped, last - dropped, low - dropped
        while first < last:  # each place still needs a word, so that all of these are used
            drawn = (self._words.take(min(last - first, _AT_ONCE)) % np.uint64(high - low)).astype(np.int64) + base
            for other in drawn.tolist():
                mine, theirs, there = items[first], items[other], chunks[other]
                # Each goes into the window of the chunk that it comes to, or another one is drawn.
                if low <= theirs < high and starts[self._begin[there]] <= mine < starts[self._end[there]]:
                    items[first], items[other] = theirs, mine
                    first += 1


class _Words:
    """A stream of random words that gives as many as are asked for."""

    def __init__(self, seed: int) -> None:
        self._twister = MersenneTwister64(seed)
        self._left = np.empty(0, np.uint64)

    def take(self, count: int) -> Words:
        """Return the next ``count`` words."""
        parts = [self._left]
        have = len(self._left)
        while have < count:
            parts.append(self._twister.blocks(min(max(_BLOCKS, (count - have) // STATE + 1), _MOST_BLOCKS)))
            have += len(parts[-1])
        words = parts[0] if len(parts) == 1 else np.concatenate(parts)
        self._left = words[count:]
        return words[:count]


def _swap(items: array[int], first: int, targets: Words) -> None:
    """Let the items from ``first`` on change places with those at ``targets``, one after the other.

    Stretches in which no place occurs twice are done at once.
    """
    size = max(int(len(items) ** 0.5) // 4, 16)
    for start in range(0, len(targets), size):
        others = targets[start : start + size].astype(np.int64)
        here, stop = first + start, first + start + len(others)
        # As ``np.unique`` tells it, without the 10 ms of imports of its first call.
        ordered = np.sort(others)
        apart = bool((ordered[1:] != ordered[:-1]).all()) and not np.any((others >= here) & (others < stop))
        if apart:
            held = np.frombuffer(items, np.int64)
            mine = held[here:stop].copy()
            held[here:stop] = held[others]
            held[others] = mine
            continue
        for place, other in enumerate(others.tolist(), here):
            items[place], items[other] = items[other], items[place]
