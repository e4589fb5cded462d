"""What the words of a command line ask for, and the table that `cntk bench` prints."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
from cntk_tool_scaling import bench as benching
from cntk_tool_scaling import drive, simulate
from cntk_tool_scaling.bench import BenchRequest, table
from cntk_tool_scaling.bench_file import ComputeTimes, Measurements, write_measurements
from cntk_tool_scaling.cut import ALL_VALUES
from cntk_tool_scaling.outcome import Failures
from cntk_tool_scaling.simulate import SimulateRequest

from cntk_core.api.parallel import NetworkModel
from cntk_kit_recipes.cli import main

SLOW = ("--network", "bandwidth=1MB/s", "--samples-per-second", "64", "-n", "2")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is asked for, and not done."""
    found: list[Any] = []
    monkeypatch.setattr(simulate, "run_simulation", lambda request: found.append(request) or 0)
    monkeypatch.setattr(benching, "bench", lambda request: found.append(request) or 0)
    return found


def test_a_simulation_with_nothing_said(asked: list[Any]) -> None:
    assert main(["simulate", "r.cntk", "-n", "2,8"]) == 0
    assert main(["simulate", "configFile=r.cntk", "a=b", "-n", "2"]) == 0
    assert asked == [
        SimulateRequest(("configFile=r.cntk",), (2, 8), failures=Failures(math.inf, 600.0, 0.0, 60.0)),
        SimulateRequest(("configFile=r.cntk", "a=b"), (2,)),
    ]
    assert asked[0].values == ALL_VALUES
    assert (asked[0].seed, asked[0].turns, asked[0].epoch, asked[0].slowness) == (1, 0, 0, (1.0,))


def test_a_simulation_with_everything_said(asked: list[Any]) -> None:
    words = (
        "--section S --network 1GbE --method full,1bit --minibatch-size 8x,64, --bench b.json "
        "--compute-per-sample 0.25 "
        "--jitter 0.5 --slow 1:2 --seed 3 --quantize-rate 4 --sum-rate 5 --ranks-per-host 6 --local ideal --mtbf 2 "
        "--checkpoint-every 7 --checkpoint-seconds 8 --restart-seconds 9 --fail 1@2.5 --fail 0@3 --turns 10 --epoch 11 "
        "--values 12 --plot p.svg -o o.json"
    )
    assert main(["simulate", "r.cntk", "-n", "2", *words.split()]) == 0
    assert asked == [
        SimulateRequest(
            ("configFile=r.cntk",),
            (2,),
            network="1GbE",
            section="S",
            methods=("full", "1bit"),
            minibatches=("8x", "64"),
            bench="b.json",
            samples_per_second=4.0,
            jitter=0.5,
            slowness=(1.0, 2.0),
            seed=3,
            quantize_rate=4.0,
            sum_rate=5.0,
            ranks_per_host=6,
            local="ideal",
            failures=Failures(7200.0, 7.0, 8.0, 9.0),
            dies=((1, 2.5), (0, 3.0)),
            turns=10,
            epoch=11,
            values=12,
            plot="p.svg",
            output="o.json",
        )
    ]


def test_what_is_measured(asked: list[Any]) -> None:
    assert main(["bench"]) == 0
    words = ("-n", "0", "-o", "bench.json", "--seconds", "1.0")
    assert asked.pop() == BenchRequest(words=words)
    assert main(["bench", "r.cntk", "a=b", "--section", "S", "-n", "3", "-o", "o.json", "--seconds", "0.5"]) == 0
    again = ("configFile=r.cntk", "a=b")  # processes that take part are given the same words
    assert asked.pop() == BenchRequest(
        again,
        "S",
        3,
        "o.json",
        0.5,
        (),
        ("r.cntk", "a=b", "-n", "3", "-o", "o.json", "--seconds", "0.5", "--section", "S"),
    )


@pytest.mark.parametrize("ranks", ["1", "-1", "-2"])
def test_messages_need_two_ranks(ranks: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "-n", ranks]) == 2
    assert f"-n {ranks} makes no sense: messages need at least 2 ranks" in capsys.readouterr().err


def test_ranks_are_started_with_the_same_words(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    monkeypatch.setattr(benching, "launch", lambda *given: started.append(given) or 7)
    assert benching.bench(BenchRequest(ranks=2, plugin_files=("p.py",), words=("r.cntk", "-n", "2"))) == 7
    assert started == [(2, ["bench", "r.cntk", "-n", "2"], ("p.py",))]


def test_the_table_of_what_was_measured() -> None:
    times = ComputeTimes(((1, 0.001), (64, 0.016)))
    found = Measurements("r.cntk", 42, times, {"full": 0.0, "quantized": 2.5e-9}, 3e9)
    lines = [
        "r.cntk: 42 learned parameters",
        "",
        "   minibatch         ms  us/sample    samples/s",
        "           1      1.000    1000.00         1000",
        "          64     16.000     250.00         4000",
        "",
        "aggregation full:           0.000 ns per value and rank",
        "aggregation quantized:      2.500 ns per value and rank",
        "adding up:                 3.00 GB/s",
    ]
    assert table(found) == lines
    network = NetworkModel(1.5e9, 2e-6, 3e-7, title="sockets")
    assert table(attrs.evolve(found, network=network)) == [
        *lines,
        "sockets: 1.500 GB/s, latency 2.0 us, 0.3 us per message",
    ]
    assert table(Measurements(sum_rate=1e9)) == [
        "a network of 440, 3 x 1024 and 183 units: 0 learned parameters",
        "",
        "adding up:                 1.00 GB/s",
    ]


def test_what_a_file_says_of_aggregations_is_believed(simulated) -> None:
    values = 20 * 300 + 300 + 300 * 400 + 400 + 400 * 10 + 10
    write_measurements(Measurements("r.cntk", values, None, {"quantized": 0.25 / values}), Path("b.json"))
    free = simulated(*SLOW, "--method", "full,1bit", "--quantize-rate", "inf")
    slow = simulated(*SLOW, "--method", "full,1bit", "--bench", "b.json")
    assert slow["full", 2]["computing"] == free["full", 2]["computing"]
    assert slow["1bit", 2]["computing"] - free["1bit", 2]["computing"] == pytest.approx(0.25)


def test_random_durations_keep_their_mean() -> None:
    pace = drive.Pace(64, ComputeTimes.proportional(1 / 64), jitter=0.5)
    rank = SimpleNamespace(rank=0, size=1)
    learner = drive._Learner(rank, SimpleNamespace(), SimpleNamespace(), pace)  # type: ignore[arg-type]
    assert learner._duration(20_000) / 20_000 == pytest.approx(1.0, rel=0.02)
    even = drive._Learner(rank, SimpleNamespace(), SimpleNamespace(), attrs.evolve(pace, jitter=0.0))  # type: ignore[arg-type]
    assert even._duration(3) == pytest.approx(3.0)


def test_numbers_of_ranks_are_simulated_once_and_in_order(simulated, capsys) -> None:
    simulated("--network", "ideal", "--samples-per-second", "64", "-n", "4,1,4", "--method", "full")
    told = json.loads(Path("out.json").read_text(encoding="utf-8"))
    assert [one["ranks"] for one in told] == [1, 4]
    assert "network ideal: without limit, latency 0 us, 0 us per message" in capsys.readouterr().out
