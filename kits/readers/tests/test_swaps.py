"""The random order of the original: against figures of a program in C++ and against a slow reading of its rules."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cntk_core.ops.families.mersenne_twister import MersenneTwister64
from cntk_kit_readers.block_randomizer import shuffled, swapped_sequences
from cntk_kit_readers.randomize import RandomOrder, Window
from cntk_kit_readers.source import ChunkInfo

WINDOWED = [
    [(2, 4), (2, 1)],
    [(3, 1), (2, 3), (2, 0), (2, 2), (3, 0)],
    [(1, 1), (1, 0), (1, 2)],
    [(0, 3), (0, 2), (0, 1), (0, 0)],
]


def order_of(counts: list[int], seed: int, window: int) -> RandomOrder:
    return RandomOrder([ChunkInfo(count, count) for count in counts], seed, Window(window))


def pairs(order: RandomOrder, sweep: int) -> list[list[tuple[int, int]]]:
    return [list(zip(b.chunks.tolist(), b.sequences.tolist(), strict=True)) for b in order.blocks(sweep)]


def test_the_order_of_the_original() -> None:
    """``std::mt19937_64`` seeded with 3, a window of two chunks."""
    assert pairs(order_of([4, 3, 5, 2], 3, 2), 0) == WINDOWED
    assert pairs(order_of([4, 3, 5, 2], 1, 2), 2) == WINDOWED


class Slow:
    """The rules, one draw after the other."""

    def __init__(self, seed: int) -> None:
        self.words = iter(MersenneTwister64(seed).blocks(200).tolist())

    def draw(self, low: int, high: int) -> int:
        return low + next(self.words) % (high - low)


def slow_order(counts: list[int], begin: list[int], end: list[int], seed: int) -> list[list[int]]:
    random = Slow(seed)
    starts = np.cumsum([0, *counts]).tolist()
    home = [chunk for chunk, count in enumerate(counts) for _ in range(count)]
    now = list(range(starts[-1]))
    found, cursor = [], 0
    for place in range(len(counts)):
        while cursor < len(counts) and begin[cursor] <= place:
            for here in range(starts[cursor], starts[cursor + 1]):
                while True:
                    there = random.draw(starts[begin[cursor]], starts[end[cursor]])
                    target = home[there]
                    fits = begin[cursor] <= home[now[there]] < end[cursor]
                    if fits and begin[target] <= home[now[here]] < end[target]:
                        break
                now[here], now[there] = now[there], now[here]
            cursor += 1
        found.append(now[starts[place] : starts[place + 1]])
    return found


@given(st.lists(st.integers(1, 9), min_size=1, max_size=9), st.integers(1, 11), st.integers(0, 99))
def test_swaps_follow_the_rules(counts: list[int], width: int, seed: int) -> None:
    width = min(width, len(counts))
    begin = np.clip(np.arange(len(counts)) - width // 2, 0, len(counts) - width).tolist()
    end = [low + width for low in begin]
    found = [numbers.tolist() for numbers in swapped_sequences(counts, begin, end, seed)]
    expected = slow_order(counts, begin, end, seed)
    if width == len(counts) or max(counts) == width == 1:  # not place by place
        found, expected = [[x for one in found for x in one]], [[x for one in expected for x in one]]
    assert found == expected


@pytest.mark.parametrize("counts", [[17], [33], [4356], [30000], [9000, 1, 7000]])
def test_many_at_once_are_one_after_the_other(counts: list[int]) -> None:
    """Large windows are swapped in stretches."""
    words = Slow(5)
    total = sum(counts)
    expected = list(range(total))
    (first, *rest) = (int(word) for word in MersenneTwister64(5).blocks(total // 312 + 1)[:total] % np.uint64(total))
    for here, there in enumerate([first, *rest]):
        expected[here], expected[there] = expected[there], expected[here]
    whole = [len(counts)] * len(counts)
    found = np.concatenate(list(swapped_sequences(counts, [0] * len(counts), whole, 5)))
    assert found.tolist() == expected
    assert words.draw(0, total) == first


def test_the_order_of_chunks() -> None:
    assert shuffled(0, 7) == []
    assert sorted(shuffled(1000, 7)) == list(range(1000))
    assert shuffled(1000, 7) != shuffled(1000, 8)


def test_lengths_go_with_their_sequences() -> None:
    lengths = [np.array([1, 2, 3]), np.array([40, 50]), np.array([600])]
    index = [ChunkInfo(len(each), int(each.sum()), each) for each in lengths]
    for block in RandomOrder(index, 1, Window()).blocks(0):
        found = [lengths[c][s] for c, s in zip(block.chunks.tolist(), block.sequences.tolist(), strict=True)]
        assert block.lengths.tolist() == found
