"""The three tiers in which the tests are run, and which test is run in which.

======== ================================= ============================================================ ===========
tier     how                               tests                                                        examples
======== ================================= ============================================================ ===========
quick    ``make quick``, ``-m "not slow"`` none that are ``slow``; of ``sampled(n)`` a sample           10
default  ``make test``                     those too; of both larger samples; none ``thorough``         15
thorough ``make nightly``, ``--thorough``  all                                                          100
======== ================================= ============================================================ ===========

Of a test that is ``sampled(n)`` the quick tier has one case in n, and the default one one in n // 2; all if n < 4.

The last column is how many examples hypothesis tries of a property. Everything that decides about a tier is in this
file; tests only have markers.
"""

from __future__ import annotations

import heapq
import math
import zlib
from collections.abc import Hashable, Iterable, Mapping, Sequence
from enum import IntEnum
from itertools import combinations
from typing import Any

import attrs
import pytest


class Tier(IntEnum):
    """How much is run; each tier has all tests of those before it."""

    QUICK = 0
    DEFAULT = 1
    THOROUGH = 2


EXAMPLES = {Tier.QUICK: 10, Tier.DEFAULT: 15, Tier.THOROUGH: 100}

MARKERS = (
    "slow: from the default tier on, mostly because it takes more than about two seconds",
    "thorough: in the thorough tier only, because others of its kind are run always",
    "sampled(n, later=n // 2, **by_test): the quick tier has one in n of a test's cases, the default one has one in "
    "later, and both have every value of every parameter; by_test has numbers of single tests of a class",
    "thinned(n=None, **by_test): the quick and the default tier have one in n of a test's cases, and every value of "
    "every parameter; without a number only as many as that takes; by_test has numbers of single tests of a class",
)

Case = Mapping[str, Hashable]
"""The parameters of one case of a test, by name."""


@attrs.frozen
class Group:
    """The cases of one test with parameters, and those that a sample holds."""

    test: str
    """Its id without parameters."""
    cases: Sequence[Case]
    kept: Sequence[int]
    """Places of the cases of the sample, in order."""

    @property
    def lost(self) -> dict[str, set[Hashable]]:
        """The values that the sample should have and has not, by parameter."""
        wanted = _values(self.cases, recurring(self.cases))
        found = _values([self.cases[place] for place in self.kept], wanted)
        return {name: values - found[name] for name, values in wanted.items() if values - found[name]}


def recurring(cases: Sequence[Case]) -> set[str]:
    """The parameters whose values recur: there are two cases for each on average, or more.

    A parameter that has a value of its own in nearly every case is the list of cases itself: a sample of it has some.
    """
    names = {name for case in cases for name in case}
    return {name for name, values in _values(cases, names).items() if 2 * len(values) <= len(cases)}


def _values(cases: Iterable[Case], names: Iterable[str]) -> dict[str, set[Hashable]]:
    found: dict[str, set[Hashable]] = {name: set() for name in names}
    for case in cases:
        for name in found.keys() & case.keys():
            found[name].add(case[name])
    return found


def covering_sample(cases: Sequence[Case], count: int, seeds: Sequence[int] | None = None) -> list[int]:
    """Choose ``count`` cases, or as many more as it takes to have every value of the parameters that recur.

    Each choice is the case with the most values that no other has yet, then the most pairs of values: a greedy
    covering array, as in D. M. Cohen et al., "The AETG system" (1997). So a sample never has one value of a parameter
    alone because the number of values divides the distance of the samples.

    Args:
        cases: the parameters of each.
        count: how many are wanted, at least.
        seeds: a number for each case, the lowest of which is preferred where cases are alike; by default their places.

    Returns:
        The places of the chosen cases, in order.
    """
    wanted = {(name, value) for name, values in _values(cases, recurring(cases)).items() for value in values}
    singles = [frozenset(case.items()) for case in cases]
    pairs = [frozenset(map(frozenset, combinations(case.items(), 2))) for case in cases]
    seen: set[Any] = set()

    def gain(place: int) -> tuple[int, int, int]:
        return (
            -len(singles[place] & wanted),
            -len(singles[place] - seen),
            -len(pairs[place] - seen),
        )

    # What a case adds can only become less, so that the first whose gain is still what it was is the best.
    heap = [(gain(place), seeds[place] if seeds else place, place) for place in range(len(cases))]
    heapq.heapify(heap)
    chosen: list[int] = []
    while heap and (wanted or len(chosen) < count):
        before, seed, place = heapq.heappop(heap)
        if gain(place) != before:
            heapq.heappush(heap, (gain(place), seed, place))
            continue
        chosen.append(place)
        wanted -= singles[place]
        seen |= singles[place] | pairs[place]
    return sorted(chosen)


@attrs.frozen
class Arrangement:
    """Which test is run from which tier on, and what was sampled for that."""

    tiers: dict[pytest.Item, Tier]
    samples: list[Group]


def arrange(items: Sequence[pytest.Item]) -> Arrangement:
    """Find the first tier of every test, by its markers and among the cases of the same test."""
    tiers = {item: _marked(item) for item in items}
    samples: list[Group] = []
    for marker, last in (("thinned", Tier.DEFAULT), ("sampled", Tier.DEFAULT), ("sampled", Tier.QUICK)):
        groups: dict[str, list[pytest.Item]] = {}
        for item in items:
            if tiers[item] <= last and item.get_closest_marker(marker) is not None:
                groups.setdefault(item.nodeid.partition("[")[0], []).append(item)
        for test, members in groups.items():
            one_in = _share(members[0], marker, last)
            if one_in == 1:
                continue
            group = _sample(test, members, one_in)
            samples.append(group)
            for place in set(range(len(members))).difference(group.kept):
                tiers[members[place]] = Tier(last + 1)
    return Arrangement(tiers, samples)


def _share(item: pytest.Item, marker: str, tier: Tier) -> float | None:
    """One in how many of a test's cases a tier has, of those that the tier after it has."""
    one_in = _one_in(item, marker)
    if marker == "thinned" or one_in is None:
        return one_in
    later = _value(item, marker, "later") or max(1, one_in // 2)
    return later if tier == Tier.DEFAULT else one_in / later


def _marked(item: pytest.Item) -> Tier:
    if item.get_closest_marker("thorough") is not None:
        return Tier.THOROUGH
    return Tier.QUICK if item.get_closest_marker("slow") is None else Tier.DEFAULT


def _sample(test: str, members: Sequence[pytest.Item], one_in: float | None) -> Group:
    cases = [_case(item) for item in members]
    count = math.ceil(len(members) / one_in) if one_in else 0
    # Cases that are alike are chosen by their names: which one it is does not change with those that are added.
    seeds = [zlib.crc32(item.name.encode()) for item in members]
    return Group(test, cases, covering_sample(cases, max(count, 1), seeds))


def _one_in(item: pytest.Item, marker: str) -> int | None:
    mark = item.get_closest_marker(marker)
    assert mark is not None
    of_all: int | None = mark.args[0] if mark.args else None
    own = _value(item, marker, item.name.partition("[")[0])
    return of_all if own is None else own


def _value(item: pytest.Item, marker: str, name: str) -> int | None:
    mark = item.get_closest_marker(marker)
    assert mark is not None
    found: int | None = mark.kwargs.get(name)
    return found


def _case(item: pytest.Item) -> dict[str, Hashable]:
    if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
        return {}
    return {name: _key(value) for name, value in item.callspec.params.items()}


def _key(value: object) -> Hashable:
    """What equals for equal values of one type alone."""
    try:
        hash(value)
    except TypeError:
        return type(value), repr(value)
    return type(value), value
