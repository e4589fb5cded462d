"""The network of examples/reasoning that stops reading when it knows the answer."""

from __future__ import annotations

import re

import pytest

from cntk_core.model import Model
from cntk_kit_recipes.cli import main

EVALUATED = r"Final Results: .*errors = +([\d.]+)% .*reading = ([\d.]+)"


def test_questions_have_their_distance(example, script) -> None:
    folder = example("reasoning", train=60, test=20)
    data = script(folder / "make_data.py")
    assert data["distances"]([(0, 1), (1, 2), (2, 0), (3, 4)], 0) == {0: 0, 1: 1, 2: 2}
    assert data["distances"]([(0, 1), (0, 2), (1, 3), (2, 3)], 0) == {0: 0, 1: 1, 2: 1, 3: 2}
    lines = (folder / "train.ctf").read_text(encoding="utf-8").splitlines()
    told = (folder / "train.txt").read_text(encoding="utf-8").split()
    assert len(lines) == len(told) == 60
    for line, distance in zip(lines, told, strict=True):
        parts = {
            name: [int(one) for one in re.findall(r"(\d+):1", rest)]
            for name, rest in re.findall(r"\|(\w+)([^|]*)", line)
        }
        edges = [(begin % 10, end % 10) for begin, end in zip(parts["from"], parts["to"], strict=True)]
        way = data["distances"](edges, parts["source"][0]).get(parts["target"][0], 0)
        assert way == int(distance)
        assert parts["answer"] == [int(way > 0)]


def test_it_runs_on_little_data(example, script, capsys: pytest.CaptureFixture[str]) -> None:
    folder = example("reasoning", train=40, test=30)
    assert main(["configFile=reasoning.cntk", "reads=2", "Train=[SGD=[maxEpochs=1]]"]) == 0
    found = re.search(EVALUATED, capsys.readouterr().err)
    assert found is not None
    assert 1 < float(found[2]) < 2
    rows = script(folder / "readings.py")["table"](folder)["stopping2"]
    assert all(1 < readings < 2 for _, readings in rows.values())
    assert main(["configFile=reasoning.cntk", "model=fixed", "reads=2", "Train=[SGD=[maxEpochs=1]]"]) == 0
    rows = script(folder / "readings.py")["table"](folder)["fixed2"]
    assert {round(readings, 2) for _, readings in rows.values()} == {2.0}


@pytest.mark.slow
def test_graphs_of_other_sizes_and_another_reward(example, script, capsys: pytest.CaptureFixture[str]) -> None:
    folder = example("reasoning", train=2, test=2)
    sizes = ["--nodes", "6", "--edges", "7", "--farthest", "2", "--train", "40", "--seed", "3"]
    script(folder / "make_data.py")["from_command_line"]([str(folder), *sizes])
    assert {*(folder / "train.txt").read_text(encoding="utf-8").split()} == {"0", "1", "2"}
    smaller = ["nodes=6", "edges=7", "pairs=42", "reads=2", "Train=[SGD=[maxEpochs=2]]"]
    assert main(["configFile=reasoning.cntk", "model=baseline", *smaller]) == 0
    found = re.search(EVALUATED, capsys.readouterr().err)
    assert found is not None
    assert 1 < float(found[2]) < 2
    baselines = Model.load("run/baseline2/net.dnn").network["baselines"].value
    assert baselines.shape == (2,)
    assert (baselines > 0.01).all()
    assert (baselines < 1).all()


@pytest.mark.thorough
@pytest.mark.slow
def test_it_reads_as_often_as_the_way_is_long(example, script, capsys: pytest.CaptureFixture[str]) -> None:
    folder = example("reasoning", train=4000, test=300)
    assert main(["configFile=reasoning.cntk"]) == 0
    found = re.search(EVALUATED, capsys.readouterr().err)
    assert found is not None
    assert float(found[1]) < 3
    rows = script(folder / "readings.py")["table"](folder)["stopping6"]
    assert sorted(rows) == [0, 1, 2, 3, 4, 5]
    readings = [rows[distance][1] for distance in range(1, 6)]
    assert readings == sorted(readings)
    assert readings[0] < 2
    assert readings[-1] > 4


@pytest.mark.thorough  # both networks run on little data, above
@pytest.mark.slow
def test_a_fixed_number_of_readings_misses_longer_ways(example, script) -> None:
    folder = example("reasoning", train=3000, test=300)
    assert main(["configFile=reasoning.cntk", "model=fixed", "reads=2"]) == 0
    rows = script(folder / "readings.py")["table"](folder)["fixed2"]
    assert {round(readings, 2) for _, readings in rows.values()} == {2.0}
    assert rows[1][0] < 5
    assert rows[5][0] > 25
