"""Random numbers: known answers, and independence of what is not their business."""

from __future__ import annotations

import numpy as np
import pytest
from cntk_reader_image.draws import philox, uniform
from hypothesis import given
from hypothesis import strategies as st

ONES = 0xFFFFFFFF


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((ONES,) * 4, (ONES, ONES), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_known_answers_of_the_authors(counter, key, expected) -> None:
    words = philox(tuple(np.array([word], np.uint64) for word in counter), key)
    assert tuple(int(word[0]) for word in words) == expected


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=6), st.integers(0, 9), st.integers(1, 40))
def test_an_image_has_its_numbers_whoever_else_is_there(keys: list[int], sweep: int, count: int) -> None:
    every = np.array(keys, np.uint64)
    views = np.arange(len(keys)) % 10
    together = uniform(every, views, count=count, sweep=sweep, seed=1, purpose=2)
    assert together.shape == (len(keys), count)
    for place in range(len(keys)):
        one = slice(place, place + 1)
        alone = uniform(every[one], views[one], count=count, sweep=sweep, seed=1, purpose=2)
        assert (alone[0] == together[place]).all()
        longer = uniform(every[one], views[one], count=count + 5, sweep=sweep, seed=1, purpose=2)
        assert (longer[0, :count] == together[place]).all()


def test_everything_that_should_makes_a_difference() -> None:
    settings = {"count": 8, "sweep": 3, "seed": 4, "purpose": 1}
    key, view = np.array([7], np.uint64), np.array([0])
    found = [uniform(key, view, **settings)]
    found += [uniform(key, view, **{**settings, name: 9}) for name in ("sweep", "seed", "purpose")]
    found += [uniform(key, view + 1, **settings), uniform(key + np.uint64(1), view, **settings)]
    found += [uniform(key + np.uint64(2**40), view, **settings)]
    assert len({each.tobytes() for each in found}) == len(found)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_numbers_are_those_of_a_counter(count: int) -> None:
    """The key of the image, the sweep, then view and block; two words of a block are the 53 bits of a number."""
    key, view, sweep = (5 << 32) + 7, 3, 2
    found = uniform(np.array([key], np.uint64), np.array([view]), count=count, sweep=sweep, seed=9, purpose=4)
    words: list[int] = []
    for block in range(2):
        counter = tuple(np.array([word], np.uint64) for word in (7, 5, sweep, (view << 16) + block))
        words += [int(word[0]) for word in philox(counter, (9, 4))]
    numbers = [((words[at] >> 5) * 2**26 + (words[at + 1] >> 6)) / 2**53 for at in (0, 2, 4, 6)]
    assert found.tolist() == [numbers[:count]]


def test_numbers_are_uniform() -> None:
    found = uniform(np.arange(4000, dtype=np.uint64), np.zeros(4000, np.int64), count=5, sweep=0, seed=0, purpose=1)
    assert found.min() >= 0
    assert found.max() < 1
    counts = np.histogram(found, bins=10, range=(0, 1))[0]
    assert abs(counts - 2000).max() < 200
    assert abs(np.corrcoef(found.T) - np.eye(5)).max() < 0.06
