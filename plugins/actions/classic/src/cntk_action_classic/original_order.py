"""In which order the original meets words that occur equally often.

It keeps the words in a hash table of its C++ library and takes the most frequent ones from a heap, neither of which
heeds the words when counts are equal. Which rare words are kept, and the numbers of all words, hang on that: files that
the original wrote are repeated only by the same table and the same heap. Both are GNU's (libstdc++ from GCC 5 on).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

Word = tuple[bytes, int]
"""A word and how often it occurs."""

_WORD, _BITS = 8, (1 << 64) - 1
_FACTOR, _SEED, _SHIFT = 0xC6A4A7935BD1E995, 0xC70F6907, 47
_SIZES = (
    1, 13, 29, 59, 127, 257, 541, 1109, 2357, 5087, 10273, 20753, 42043, 85229, 172933, 351061, 712697, 1447153,
    2938679, 5967347, 12117689, 24607243, 49969847, 101473717, 206062531, 418470781, 849809627, 1725759739,
)  # fmt: skip
"""The numbers of buckets that a table has when it grows word by word: about twice as many each time, and prime."""


def hash_of(word: bytes) -> int:
    """Return the hash of a word: MurmurHash64A (Appleby, 2008), with the seed of libstdc++."""
    whole = len(word) - len(word) % _WORD
    found = _SEED ^ (len(word) * _FACTOR & _BITS)
    for place in range(0, whole, _WORD):
        part = int.from_bytes(word[place : place + _WORD], "little") * _FACTOR & _BITS
        part ^= part >> _SHIFT
        found = (found ^ (part * _FACTOR & _BITS)) * _FACTOR & _BITS
    if whole < len(word):
        found = (found ^ int.from_bytes(word[whole:], "little")) * _FACTOR & _BITS
    found ^= found >> _SHIFT
    found = found * _FACTOR & _BITS
    return found ^ (found >> _SHIFT)


class _Chain:
    """The list in which a table has all its words; those of one bucket stand together.

    A word comes first in its bucket, and a bucket without words comes first in the list.
    """

    def __init__(self, hashes: Sequence[int], buckets: int) -> None:
        self._hashes, self._buckets = hashes, buckets
        self._start = len(hashes)  # stands before the first word
        self._after: dict[int, int | None] = {self._start: None}
        self._before: dict[int, int] = {}

    def add(self, word: int) -> None:
        bucket = self._hashes[word] % self._buckets
        before = self._before.get(bucket)
        if before is None:
            first = self._after[self._start]
            if first is not None:
                self._before[self._hashes[first] % self._buckets] = word
            before = self._before[bucket] = self._start
        self._after[word] = self._after[before]
        self._after[before] = word

    def words(self) -> list[int]:
        found: list[int] = []
        word = self._after[self._start]
        while word is not None:
            found.append(word)
            word = self._after[word]
        return found


def table_order(words: Iterable[bytes]) -> list[bytes]:
    """Return different words in the order in which a table has them that took them in this one."""
    given = list(words)
    hashes = [hash_of(word) for word in given]
    chain = _Chain(hashes, _SIZES[0])
    for size, larger in pairwise((0, *_SIZES)):
        if size >= len(given):
            break
        grown = _Chain(hashes, larger)
        for word in chain.words():
            grown.add(word)
        for word in range(size, min(larger, len(given))):
            grown.add(word)
        chain = grown
    return [given[word] for word in chain.words()]


class Heap:
    """Words of which the most frequent comes out first; equally frequent ones as C++'s ``priority_queue`` has them."""

    def __init__(self, words: Iterable[Word]) -> None:
        self._words = list(words)
        for place in range(len(self._words) // 2 - 1, -1, -1):
            self._settle(place, self._words[place])

    def __len__(self) -> int:
        return len(self._words)

    def pop(self) -> Word:
        """Take the most frequent word out.

        Raises:
            IndexError: there is none.
        """
        found, last = self._words[0], self._words.pop()
        if self._words:
            self._settle(0, last)
        return found

    def _settle(self, top: int, word: Word) -> None:
        """Let a hole sink to the bottom, then the word rise from there."""
        words, hole, child = self._words, top, 2 * top + 2
        while child <= len(words):
            if child == len(words) or words[child][1] < words[child - 1][1]:
                child -= 1
            words[hole] = words[child]
            hole, child = child, 2 * child + 2
        while hole > top and words[(hole - 1) // 2][1] < word[1]:
            words[hole] = words[(hole - 1) // 2]
            hole = (hole - 1) // 2
        words[hole] = word
