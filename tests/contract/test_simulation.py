"""Simulated ranks: what arrays stand for, and where the time went."""

from __future__ import annotations

import pytest

from cntk_core.contract.simulation import NetworkModel, SimulationPlan, TimeSpent, WireSize


@pytest.mark.parametrize(
    ("fixed", "factor", "size", "found"),
    [(0, 1, 10, 10), (0, 3, 10, 30), (4, 3, 10, 22), (10, 3, 10, 10), (11, 3, 10, 10), (4, 0.5, 5, 4.5), (4, 3, 0, 0)],
)
def test_what_an_array_stands_for(fixed, factor, size, found):
    """What does not depend on the model counts once, the rest by the factor."""
    assert WireSize(fixed, factor).of(size) == found


def test_time_that_was_spent_since():
    later, before = TimeSpent(10.0, 20.0, 40.0), TimeSpent(1.0, 3.0, 7.0)
    assert later.since(before) == TimeSpent(9.0, 17.0, 33.0)
    assert later.since(later) == TimeSpent()


def test_a_network_that_nobody_describes_takes_no_time():
    inf = float("inf")
    assert SimulationPlan(2).network == NetworkModel(inf, 0.0, 0.0, 1, inf, 0.0, inf)
    assert (SimulationPlan(2).wire, SimulationPlan(2).failures) == ({}, {})
    assert WireSize().of(7) == 7
