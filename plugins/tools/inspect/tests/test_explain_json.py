"""``cntk explain --json``: the network and its plan for programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cntk_kit_recipes.cli import main

RECIPE = """\
command = T
T = [ action = train ; NDLNetworkBuilder = [ run = n ; n = [
 x = Input(4) ; y = Input(3) ; W = Parameter(3, 4) ; R = Parameter(3, 3) ; d = PastValue(3, 1, h)
 a = Times(W, x) ; b = Times(R, d) ; s = Plus(a, b) ; h = Tanh(s) ; c = SquareError(y, h)
 FeatureNodes = (x) ; LabelNodes = (y) ; CriterionNodes = (c) ] ] ]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r.cntk").write_text(RECIPE, encoding="utf-8")


def explained(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["explain", "r.cntk", "--json", *words]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    found = explained(capsys)
    assert (found["schema"], found["name"], found["computedBefore"]) == (1, "T", [])
    nodes = {node["name"]: node for node in found["nodes"]}
    assert nodes["W"] == {
        "name": "W",
        "operation": "LearnableParameter",
        "inputs": [],
        "shape": [3, 4],
        "framed": False,
        "place": "r.cntk:3:36",
    }
    assert (nodes["s"]["inputs"], nodes["s"]["shape"], nodes["s"]["framed"]) == (["a", "b"], [3], True)


def test_plan(capsys: pytest.CaptureFixture[str]) -> None:
    found = explained(capsys, "--frames", "10")
    assert (found["roots"], found["criterion"], sorted(found["trained"])) == (["c"], "c", ["R", "W"])
    loops = [step for step in found["forward"] if step["loop"]]
    assert len(loops) == 1
    assert loops[0]["loop"]["order"] == "first to last"
    inner = [name for step in loops[0]["loop"]["steps"] for name in step["nodes"]]
    assert sorted(inner) == sorted(loops[0]["nodes"]) == ["b", "d", "h", "s"]
    assert [step["nodes"] for step in found["forward"] if not step["loop"]] == [["a"], ["c"]]
    back = [step for step in found["gradients"] if step["loop"]]
    assert [step["loop"]["order"] for step in back] == ["last to first"]
    assert found["gradients"][0]["from"] == ["c"]
    assert {name for step in found["gradients"] for name in step["to"]} >= {"W", "R"}
    assert not any(step["host"] for step in [*found["forward"], *found["gradients"]])
    memory = found["memory"]
    assert memory["frames"] == 10
    assert 0 < memory["bytes"] <= memory["bytesAlone"]


def test_the_text_has_the_same_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    memory = explained(capsys)["memory"]
    assert main(["explain", "r.cntk"]) == 0
    saved = memory["bytesAlone"] - memory["bytes"]
    assert capsys.readouterr().out.splitlines()[-1] == (
        f"Buffers for 256 frames: {memory['values']} values share {memory['buffers']} buffers, {memory['bytes']} bytes "
        f"instead of {memory['bytesAlone']} ({saved} saved)"
    )


def test_sizes_that_minibatches_bring(capsys: pytest.CaptureFixture[str]) -> None:
    build = "def build(graph):\n    graph.output(b.sigmoid(graph.input('x', (b.FREE, 2))), 'z')\n"
    Path("net.py").write_text(f"import cntk_builder_python as b\n\n\n{build}", encoding="utf-8")
    Path("r.cntk").write_text('command=T\nT=[ action=train\nPythonNetworkBuilder=[ file="net.py" ] ]', encoding="utf-8")
    nodes = {node["name"]: node for node in explained(capsys)["nodes"]}
    assert sorted(nodes["x"]["shape"], key=str) == [2, None]


@pytest.mark.parametrize("word", ["--time", "--depth=1"])
def test_what_it_does_not_go_with(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "r.cntk", "--json", word]) == 2
    assert capsys.readouterr().err == (
        "error: --json describes the plan with all nodes: leave --time and --depth out\n"
    )
