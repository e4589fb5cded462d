"""The 64-bit Mersenne Twister MT19937-64, in blocks.

Source: T. Nishimura, "Tables of 64-bit Mersenne Twisters", ACM TOMACS 10 (2000); seeded as by ``std::mt19937_64`` of
C++11, [rand.eng.mers].
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

STATE = 312
"""Words of a state."""
_STEP = 156
"""So many words follow from those before them without needing each other."""
_SEEDING = 6364136223846793005
_MASK = 2**64 - 1
# Arrays of one element: ufuncs take them faster than scalars.
_MATRIX = np.array([0xB5026F5AA96619E9], np.uint64)
_HIGH = np.array([0xFFFFFFFF80000000], np.uint64)
_LOW = np.array([0x7FFFFFFF], np.uint64)
_ONE = np.array([1], np.uint64)


class MersenneTwister64:
    """A stream of random 64-bit words."""

    def __init__(self, seed: int) -> None:
        """Start the stream of a seed, of which the lowest 64 bits count."""
        word = seed & _MASK
        words = [word]
        for index in range(1, STATE):
            word = (_SEEDING * (word ^ (word >> 62)) + index) & _MASK
            words.append(word)
        self._state = np.array(words, np.uint64)

    def blocks(self, count: int) -> Words:
        """Return the next ``count`` times :data:`STATE` words."""
        words = np.empty((count + 1) * STATE, np.uint64)
        words[:STATE] = self._state
        _continue(words)
        self._state = words[-STATE:].copy()
        return _tempered(words[STATE:])


def _continue(words: Words) -> None:
    """Fill an array whose first :data:`STATE` words are given."""
    mixed, part = np.empty((2, _STEP), np.uint64)
    for start in range(0, words.size - STATE, _STEP):
        end = start + _STEP
        new = words[start + STATE : end + STATE]
        np.bitwise_and(words[start:end], _HIGH, mixed)
        np.bitwise_and(words[start + 1 : end + 1], _LOW, part)
        np.bitwise_or(mixed, part, mixed)
        np.bitwise_and(mixed, _ONE, part)
        np.multiply(part, _MATRIX, part)
        np.right_shift(mixed, _ONE, mixed)
        np.bitwise_xor(mixed, part, mixed)
        np.bitwise_xor(mixed, words[end : end + _STEP], new)


def _tempered(words: Words) -> Words:
    for shift, mask in ((29, 0x5555555555555555), (-17, 0x71D67FFFEDA60000), (-37, 0xFFF7EEE000000000), (43, _MASK)):
        moved = words >> np.uint64(shift) if shift > 0 else words << np.uint64(-shift)
        moved &= np.uint64(mask)
        words ^= moved
    return words
