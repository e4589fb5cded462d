"""The order of sentences, and which of them are read side by side."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
_WORD = 0xFFFFFFFF


def twister(seed: int) -> np.random.MT19937:
    """Return the generator that C++ calls ``mt19937``, seeded with one word."""
    key = np.zeros(624, dtype=np.uint32)
    word = seed & _WORD
    for i in range(624):
        key[i] = word
        word = (1812433253 * (word ^ (word >> 30)) + i + 1) & _WORD
    bits = np.random.MT19937(0)
    bits.state = {"bit_generator": "MT19937", "state": {"key": key, "pos": 624}}
    return bits


def shuffled(count: int, seed: int) -> IntArray:
    """Return the numbers below ``count`` in the order that GNU's ``std::shuffle`` with ``mt19937(seed)`` gives.

    Two places are drawn with one random number as long as their product fits into it; a number below a limit is
    drawn by D. Lemire's method (Fast random integer generation in an interval, 2019).
    """
    order = list(range(count))
    bits = twister(seed)

    def below(limit: int) -> int:
        product = int(bits.random_raw()) * limit
        if product & _WORD < limit:
            least = (1 << 32) % limit
            while product & _WORD < least:
                product = int(bits.random_raw()) * limit
        return product >> 32

    def swap(i: int, j: int) -> None:
        order[i], order[j] = order[j], order[i]

    if count and _WORD // count >= count:
        start = 1
        if count % 2 == 0:
            swap(1, below(2))
            start = 2
        for i in range(start, count, 2):
            first, second = divmod(below((i + 1) * (i + 2)), i + 2)
            swap(i, first)
            swap(i + 1, second)
    else:
        for i in range(1, count):
            swap(i, below(i + 1))
    return np.array(order, dtype=np.int64)


def group_equal(order: IntArray, lengths: IntArray, parallel: int, size: int) -> list[IntArray]:
    """Put sentences of one length together: each time the first that is left and others of its length after it.

    At most ``parallel`` of them, or with ``parallel=0`` as many as have fewer than ``size`` frames together.
    """
    by_length: dict[int, deque[int]] = {}
    for sentence in order.tolist():
        by_length.setdefault(int(lengths[sentence]), deque()).append(sentence)
    done = np.zeros(len(lengths), dtype=bool)
    groups = []
    for sentence in order.tolist():
        if done[sentence]:
            continue
        length = int(lengths[sentence])
        same = by_length[length]
        most = parallel or max((size - 1) // length, 1)
        group = [same.popleft() for _ in range(min(most, len(same)))]
        done[group] = True
        groups.append(np.array(group, dtype=np.int64))
    return groups


def group_near(order: IntArray, lengths: IntArray, parallel: int, *, equal: bool) -> list[IntArray]:
    """Put sentences together: of the next ``parallel`` those as long as the first, or all of them."""
    left: deque[int] = deque(order.tolist())
    groups = []
    while left:
        near = [left.popleft() for _ in range(min(parallel, len(left)))]
        group = [one for one in near if not equal or lengths[one] == lengths[near[0]]]
        left.extendleft(reversed([one for one in near if equal and lengths[one] != lengths[near[0]]]))
        groups.append(np.array(group, dtype=np.int64))
    return groups


def blocks(tokens: Sequence[int], size: int) -> list[tuple[int, int]]:
    """Cut sentences into blocks of at least ``size`` tokens: pairs of the first sentence and the one after the last."""
    found = []
    first = count = 0
    for number, more in enumerate(tokens, start=1):
        count += more
        if count >= size:
            found.append((first, number))
            first, count = number, 0
    if first < len(tokens):
        found.append((first, len(tokens)))
    return found
