"""Random numbers of images: counter-based, so that they depend on nothing but the seed, the sweep and the image.

The generator is Philox-4x32 with 10 rounds. Source: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers:
as easy as 1, 2, 3", SC 2011. It runs here on many counters at once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
"""Numbers of 32 bits, in arrays with room for their products."""

_ROUNDS = 10
_MULTIPLIERS = np.array([0xD2511F53, 0xCD9E8D57], np.uint64)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_MASK = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_COPY = 1 << 16
"""The last word of a counter has the view of an image and, below it, the number of the block of random words."""


def philox(counter: tuple[Words, Words, Words, Words], key: tuple[int, int]) -> tuple[Words, Words, Words, Words]:
    """Return the four random words of each counter."""
    a, b, c, d = counter
    first, second = key
    for _ in range(_ROUNDS):
        left, right = a * _MULTIPLIERS[0], c * _MULTIPLIERS[1]
        a = (right >> _SHIFT) ^ b ^ np.uint64(first)
        c = (left >> _SHIFT) ^ d ^ np.uint64(second)
        b, d = right & _MASK, left & _MASK
        first = (first + _KEY_STEPS[0]) & 0xFFFFFFFF
        second = (second + _KEY_STEPS[1]) & 0xFFFFFFFF
    return a, b, c, d


def uniform(
    keys: NDArray[np.uint64], copies: NDArray[np.int64], *, count: int, sweep: int, seed: int, purpose: int
) -> NDArray[np.float64]:
    """Return ``count`` random numbers of [0, 1) for each of some images.

    Args:
        keys: number of each image.
        copies: which view of the image it is; below 65536.
        count: at most 131072.
        sweep: over the data.
        seed: of the user.
        purpose: what the numbers are for; each purpose has its own.
    """
    blocks = -(-count // 2)
    images = len(keys)
    low = np.repeat(keys & _MASK, blocks)
    high = np.repeat(keys >> _SHIFT, blocks)
    last = np.repeat(copies.astype(np.uint64) * np.uint64(_COPY), blocks) + np.tile(
        np.arange(blocks, dtype=np.uint64), images
    )
    third = np.full(images * blocks, sweep & 0xFFFFFFFF, np.uint64)
    words = philox((low, high, third, last), (seed & 0xFFFFFFFF, purpose))
    found = np.empty((images * blocks, 2))
    for place in range(2):
        # 53 bits of two words: the numbers of a double in [0, 1).
        upper, lower = words[2 * place] >> np.uint64(5), words[2 * place + 1] >> np.uint64(6)
        found[:, place] = (upper * np.uint64(1 << 26) + lower) / 2.0**53
    return found.reshape(images, 2 * blocks)[:, :count]
