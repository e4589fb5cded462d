"""``cntk simulate`` with workers of several ranks, by hand; and numbers of ranks that are left out."""

from __future__ import annotations

import pytest

from cntk_kit_recipes.cli import main

VALUES = 20 * 300 + 300 + 300 * 400 + 400 + 400 * 10 + 10
SLOW = ("--network", "bandwidth=1MB/s", "--samples-per-second", "64", "--quantize-rate", "inf")
SUM = 4 * VALUES / 1e6
"""Seconds in which two ranks sum what all learned values have: each sends half of them twice."""


def method(block, more=""):
    return f"BlockMomentumSGD=[ blockSizePerWorker={block} ; ranksPerWorker=2 {more}]"


@pytest.mark.parametrize("minibatches", [1, 3, 8, 9, 40, 400])
def test_sums_in_each_step_and_between_workers_once_in_a_block(simulated, minibatches):
    """Blocks of more than eight minibatches are reckoned from those of four and of eight."""
    name = method(32 * minibatches)
    one = simulated("-n", "4", *SLOW, "--method", name)[name, 4]
    assert one["computing"] == pytest.approx(16 / 64)
    assert one["seconds"] == pytest.approx(16 / 64 + SUM + SUM / minibatches, rel=0.005)
    assert one["sent"] == pytest.approx(1e6 * (SUM + SUM / minibatches), rel=0.005)
    assert one["waiting"] == pytest.approx(0.0, abs=0.01)


def test_what_is_reckoned_is_what_would_be_simulated(simulated, monkeypatch):
    name = method(32 * 20, "; gradientBits=1 ")
    given = ("-n", "4", *SLOW, "--method", name)
    reckoned = simulated(*given)[name, 4]
    monkeypatch.setattr("cntk_tool_scaling.simulation._SHORT", 100)
    through = simulated(*given)[name, 4]
    numbers = {key: value for key, value in through.items() if isinstance(value, float)}
    assert {key: reckoned[key] for key in numbers} == pytest.approx(numbers, rel=1e-6)
    assert through["seconds"] < 16 / 64 + SUM / 8, "the bits of gradients"


def test_ranks_of_a_worker_that_learn_asynchronously(simulated):
    """They exchange half the parameters with each other once in a period, and once more at the end of a block."""
    local = "; localMethod=DataParallelASGD ; DataParallelASGD=[ syncPeriodPerWorker={} ] "
    for every in (1, 8):
        name = method(32 * 32, local.format(16 * every))
        one = simulated("-n", "4", *SLOW, "--method", name)[name, 4]
        assert one["computing"] == pytest.approx(16 / 64)
        # A push and an answer of half the parameters each, to and from the other rank; SUM between workers.
        assert one["sent"] == pytest.approx(1e6 * (SUM / every + (SUM + SUM) / 32), rel=0.01)
        assert one["seconds"] > 16 / 64


def test_workers_of_models_that_are_cut(simulated):
    name = method(32 * 3)
    given = ("-n", "8", *SLOW, "--method", name)
    whole, cut = simulated(*given)[name, 8], simulated(*given, "--values", str(VALUES * 2))[name, 8]
    assert cut["share"] < 1 == whole["share"]
    assert cut["seconds"] == pytest.approx(whole["seconds"], rel=0.02)
    assert cut["sent"] == pytest.approx(whole["sent"], rel=0.02)


def test_numbers_of_ranks_that_cannot_be_are_left_out(simulated, capsys):
    found = simulated("-n", "2,3,4,128", *SLOW, "--method", f"full,{method(96)}", "--turns", "1")
    assert sorted(ranks for name, ranks in found if name == "full") == [2, 3, 4]
    assert sorted(ranks for name, ranks in found if name != "full") == [2, 4]
    assert main(["simulate", "r.cntk", "-n", "2,128", *SLOW, "--method", "full"]) == 0
    said = capsys.readouterr().out
    assert "\n  128  skipped: a minibatch of 64 samples cannot be divided among 128 ranks\n" in said
