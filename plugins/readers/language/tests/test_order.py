"""The order of sentences and what is read side by side."""

from __future__ import annotations

import numpy as np
import pytest
from cntk_reader_language.order import blocks, group_equal, group_near, shuffled, twister
from hypothesis import given
from hypothesis import strategies as st

LENGTHS = st.lists(st.integers(1, 4), min_size=1, max_size=30)


def test_the_generator_is_that_of_the_standard() -> None:
    # The C++ standard names the 10000th number of mt19937 with its default seed 5489.
    assert int(twister(5489).random_raw(10000)[-1]) == 4123659995


@given(st.integers(0, 200), st.integers(0, 2**32 - 1))
def test_shuffling_loses_nothing(count: int, seed: int) -> None:
    assert sorted(shuffled(count, seed).tolist()) == list(range(count))


def test_shuffling_with_one_number_for_each_place() -> None:
    order = shuffled(70000, 3)
    assert len(np.unique(order)) == 70000
    assert (order != np.arange(70000)).mean() > 0.99


@given(LENGTHS, st.integers(0, 5), st.integers(1, 12))
def test_groups_of_equal_length(lengths: list[int], parallel: int, size: int) -> None:
    groups = group_equal(np.arange(len(lengths)), np.array(lengths), parallel, size)
    assert sorted(np.concatenate(groups).tolist()) == list(range(len(lengths)))
    firsts = [int(group[0]) for group in groups]
    assert firsts == sorted(firsts)
    for group in groups:
        assert len({lengths[one] for one in group}) == 1
        limit = parallel or max((size - 1) // lengths[group[0]], 1)
        assert len(group) <= limit


@given(LENGTHS, st.integers(1, 5), st.booleans())
def test_groups_of_near_sentences(lengths: list[int], parallel: int, equal: bool) -> None:
    groups = group_near(np.arange(len(lengths)), np.array(lengths), parallel, equal=equal)
    assert sorted(np.concatenate(groups).tolist()) == list(range(len(lengths)))
    assert all(len(group) <= parallel for group in groups)
    assert not equal or all(len({lengths[one] for one in group}) == 1 for group in groups)


@given(LENGTHS, st.integers(1, 20))
def test_blocks_cover_the_text(tokens: list[int], size: int) -> None:
    found = blocks(tokens, size)
    assert [one for first, last in found for one in range(first, last)] == list(range(len(tokens)))
    assert all(sum(tokens[first:last]) >= size for first, last in found[:-1])


@pytest.mark.parametrize(
    ("tokens", "found"),
    [([2, 2], [(0, 1), (1, 2)]), ([1, 1, 1], [(0, 2), (2, 3)]), ([1], [(0, 1)]), ([], []), ([5, 0], [(0, 1), (1, 2)])],
)
def test_the_last_block_is_what_is_left(tokens: list[int], found: list[tuple[int, int]]) -> None:
    assert blocks(tokens, 2) == found
