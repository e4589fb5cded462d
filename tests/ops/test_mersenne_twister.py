"""The random numbers of C++'s ``std::mt19937_64``, against the standard and a generator that goes word by word."""

from __future__ import annotations

import numpy as np
import pytest

from cntk_core.ops.families.mersenne_twister import STATE, MersenneTwister64


def word_by_word(seed, count):
    """The algorithm as its authors describe it."""
    mask = 2**64 - 1
    state = [seed & mask]
    for index in range(1, 312):
        state.append((6364136223846793005 * (state[-1] ^ (state[-1] >> 62)) + index) & mask)
    words = []
    for _ in range(count):
        mixed = (state[0] & 0xFFFFFFFF80000000) | (state[1] & 0x7FFFFFFF)
        word = state[156] ^ (mixed >> 1) ^ (0xB5026F5AA96619E9 if mixed & 1 else 0)
        state = [*state[1:], word]
        word ^= (word >> 29) & 0x5555555555555555
        word ^= (word << 17) & 0x71D67FFFEDA60000
        word ^= (word << 37) & 0xFFF7EEE000000000
        words.append(word ^ (word >> 43))
    return words


@pytest.mark.parametrize("seed", [0, 1, 5489, 2**63 + 12345, 2**64 + 7, -1])
def test_words_of_a_seed(seed):
    stream = MersenneTwister64(seed)
    found = np.concatenate([stream.blocks(1), stream.blocks(2)])
    assert found.dtype == np.uint64
    assert found.tolist() == word_by_word(seed, 3 * STATE)


def test_the_word_that_the_standard_names():
    """Of the default seed, 5489, it is the 10000th."""
    assert MersenneTwister64(5489).blocks(33)[9999] == 9981545732273789042
