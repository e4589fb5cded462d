"""What is run in which tier: samples lose no value of a parameter."""

from __future__ import annotations

from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cntk_testing.packaging import HEAVY
from tests.tiers import MARKERS, Group, Tier, arrange, covering_sample, recurring

pytest_plugins = ["pytester"]


def grid(**values: int) -> list[dict[str, int]]:
    """All combinations of some parameters, each of which has so many values."""
    return [dict(zip(values, place, strict=True)) for place in product(*map(range, values.values()))]


def test_no_sample_loses_a_value(samples: list[Group]) -> None:
    """Of all tests that were collected: with the whole suite, of all there are."""
    assert {group.test: group.lost for group in samples if group.lost} == {}


def test_collecting_imports_nothing_that_takes_long(early_imports: set[str]) -> None:
    """Each worker collects all tests, whichever it runs: what takes long is imported inside of tests and fixtures."""
    assert early_imports & {*HEAVY, "hatchling"} == set()


def test_a_sample_has_every_value_though_their_number_divides_the_distance() -> None:
    cases = grid(slots=4, kind=4)
    kept = covering_sample(cases, 4)
    assert len(kept) == 4
    assert Group("a", cases, kept).lost == {}
    assert Group("a", cases, range(0, 16, 4)).lost == {"kind": {1, 2, 3}}


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.integers(0, 40))
def test_samples_of_grids_cover_and_are_no_larger_than_that_takes(sizes: list[int], count: int) -> None:
    cases = grid(**{f"p{place}": size for place, size in enumerate(sizes)})
    kept = covering_sample(cases, count)
    assert Group("a", cases, kept).lost == {}
    assert kept == sorted(set(kept))
    longest = max((sizes[int(name[1:])] for name in recurring(cases)), default=0)
    # Greedy choices of a grid may take a case more here and there, never as many as one after the other would.
    assert min(count, len(cases)) <= len(kept) <= max(count, 2 * longest)


def pairs(cases: list[dict[str, int]]) -> int:
    """How many pairs of values of two parameters some cases have."""
    return len({frozenset(pair) for case in cases for pair in combinations(case.items(), 2)})


def test_pairs_are_spread_after_single_values() -> None:
    cases = grid(a=2, b=2, c=2)
    assert pairs(cases) == 12
    assert pairs([cases[place] for place in covering_sample(cases, 4)]) == 10
    assert pairs(cases[::2]) == 8


def test_a_parameter_with_a_value_of_its_own_in_each_case_is_sampled() -> None:
    cases = grid(name=12)
    assert recurring(cases) == set()
    assert len(covering_sample(cases, 3)) == 3


def test_a_sample_stays_when_cases_come_in_another_order() -> None:
    cases, seeds = grid(name=9), [5, 3, 8, 1, 9, 2, 7, 4, 6]
    assert covering_sample(cases, 3, seeds) == [1, 3, 5]


SUITE = """
import pytest

@pytest.mark.slow
def test_slow(): pass

@pytest.mark.thorough
def test_thorough(): pass

def test_plain(): pass

@pytest.mark.sampled(4)
@pytest.mark.parametrize("b", range(4))
@pytest.mark.parametrize("a", range(4))
def test_sampled(a, b): pass

@pytest.mark.sampled(3)
@pytest.mark.parametrize("a", range(9))
def test_sampled_in_three(a): pass

@pytest.mark.sampled(6, later=1)
@pytest.mark.parametrize("a", range(12))
def test_all_later(a): pass

@pytest.mark.thinned
@pytest.mark.parametrize("b", range(2))
@pytest.mark.parametrize("a", range(4))
def test_thinned(a, b): pass

@pytest.mark.thinned(1, test_few=4)
class TestShares:
    @pytest.mark.parametrize("a", range(8))
    def test_few(self, a): pass

    @pytest.mark.parametrize("a", range(3))
    def test_all(self, a): pass
"""


def test_tiers_of_a_suite(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nmarkers =\n" + "".join(f"    {marker}\n" for marker in MARKERS))
    items, _ = pytester.inline_genitems(pytester.makepyfile(SUITE))
    arrangement = arrange(items)
    counts: dict[str, list[int]] = {}
    for item, tier in arrangement.tiers.items():
        counts.setdefault(item.name.partition("[")[0], [0] * len(Tier))[tier] += 1
    assert counts == {
        "test_slow": [0, 1, 0],
        "test_thorough": [0, 0, 1],
        "test_plain": [1, 0, 0],
        "test_sampled": [4, 4, 8],
        "test_sampled_in_three": [3, 6, 0],
        "test_all_later": [2, 10, 0],
        "test_thinned": [4, 0, 4],
        "test_few": [2, 0, 6],
        "test_all": [3, 0, 0],
    }
    assert [len(group.kept) for group in arrangement.samples] == [4, 2, 8, 4, 3, 2]
