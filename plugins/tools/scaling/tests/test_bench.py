"""``cntk bench``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cntk_tool_scaling.bench import BenchRequest, bench
from cntk_tool_scaling.bench_file import read_measurements

from cntk_kit_recipes.cli import main

VALUES = 20 * 300 + 300 + 300 * 400 + 400 + 400 * 10 + 10


@pytest.mark.slow
def test_a_recipe_is_measured_and_simulated(folder, capsys, simulated):
    assert main(["bench", "r.cntk", "--seconds", "0", "-o", "b.json"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"r.cntk: {VALUES} learned parameters\n")
    assert shown.endswith("b.json\n")
    assert not Path("m.dnn").exists()
    found = read_measurements(Path("b.json"))
    assert found.compute is not None
    # There are 200 samples; the largest sizes are left out, because the data have no such minibatch.
    assert [samples for samples, _ in found.compute.points] == [1, 4, 16, 64]
    assert all(time > 0 for _, time in found.compute.points)
    assert set(found.aggregations) >= {"full", "quantized"}
    # The units are right; how slow a busy machine is nobody knows.
    assert all(1e-11 < time < 1e-3 for time in found.aggregations.values())
    assert 1e4 < found.sum_rate < 1e12
    assert found.network is None
    row = simulated("-n", "2", "--bench", "b.json", "--network", "ideal", "--method", "full")["full", 2]
    assert row["serial"] == pytest.approx(found.compute.seconds(64))
    assert row["computing"] == pytest.approx(found.compute.seconds(32))


def test_overrides_and_sections(folder):
    request = BenchRequest(("configFile=r.cntk", "Train=[SimpleNetworkBuilder=[layerSizes=20:5:10]]"), seconds=0.0)
    assert bench(request) == 0
    assert json.loads(Path("bench.json").read_text(encoding="utf-8"))["parameters"] == 20 * 5 + 5 + 5 * 10 + 10


@pytest.mark.thorough  # a network of a recipe is measured in the same way, above
@pytest.mark.slow
def test_a_network_of_our_own(folder, capsys):
    assert main(["bench", "--seconds", "0"]) == 0
    assert capsys.readouterr().out.startswith("a network of 440, 3 x 1024 and 183 units: 2738359 learned parameters\n")
    assert read_measurements(Path("bench.json")).recipe == ""


@pytest.mark.thorough  # the page about scaling measures them between two processes, too
@pytest.mark.slow
def test_messages_between_two_processes(folder, capfd, simulated):
    assert main(["bench", "r.cntk", "-n", "2", "--seconds", "0", "-o", "b.json"]) == 0
    assert " on this machine, 2 ranks: " in capfd.readouterr().out
    found = read_measurements(Path("b.json")).network
    assert found is not None
    assert 1e3 < found.bandwidth < 1e12
    assert 0 <= found.latency < 60
    assert 0 < found.overhead < 60
    row = simulated("-n", "2", "--bench", "b.json", "--network", "b.json", "--method", "full")["full", 2]
    assert row["communicating"] >= 4 * VALUES / found.bandwidth


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["r.cntk", "-n", "1"], "-n 1 makes no sense: messages need at least 2 ranks\n"),
        (["a=b"], "'a=b' is no recipe\n    cntk bench recipe.cntk [key=value ...]\n"),
        (["r.cntk", "--section", "modelPath"], "r.cntk:2:14: modelPath must be a section, not 'm.dnn'"),
    ],
)
def test_mistakes(refused, arguments, message):
    assert refused("bench", *arguments).startswith(message.rstrip("\n"))


@pytest.mark.thorough  # README.md simulates without a file in tests/docs
@pytest.mark.slow
def test_without_a_file_computing_is_measured_on_the_spot(simulated, capsys):
    row = simulated("-n", "2", "--network", "ideal", "--method", "full,1bit")["1bit", 2]
    assert "measuring how long this machine computes with minibatches ...\n" in capsys.readouterr().out
    # A rank computes its share, and compresses.
    assert 0 < row["computing"] <= row["seconds"]
    assert row["serial"] > 0
