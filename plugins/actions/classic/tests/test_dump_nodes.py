"""The actions dumpNodes, dumpNode, PrintAction and FailAction."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cntk_core.api import Input, Network, Node, Parameter
from cntk_kit_recipes.cli import main
from cntk_testing.inside import TIMES, save_model


@pytest.fixture(autouse=True)
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model with the nodes features, W, b2 and W*."""
    monkeypatch.chdir(tmp_path)
    network = Network(np.float64)
    features = network.add(Input.make("features", (2,)))
    matrix = network.add(Parameter.make("W", (2, 1), value=np.array([[3.0], [4.0]])))
    network.add(Parameter.make("b2", (1,), value=np.array([5.0])))
    network.mark(network.add(Node("W*", TIMES, [matrix, features], attributes=TIMES.attributes())), "output")
    network.infer()
    save_model(network, "m.dnn")


def run(keys: str, status: int = 0, action: str = "dumpNodes") -> None:
    Path("r.cntk").write_text(
        f"command = X\nprecision = double\nX = [ action = {action} ; modelPath = m.dnn ; {keys} ]\n", encoding="utf-8"
    )
    assert main(["configFile=r.cntk"]) == status


def dumped(file: str) -> dict[str, list[str]]:
    """The lines of each node, by its name."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in Path(file).read_text(encoding="utf-8").splitlines():
        if "=" in line:
            lines = found.setdefault(line.partition("=")[0], [])
        lines.append(line)
    return found


@pytest.mark.parametrize("action", ["dumpNodes", "dumpNode"])
def test_all_nodes(action: str) -> None:
    run("", action=action)
    found = dumped("m.dnn.__AllNodes__.txt")
    assert list(found) == ["b2", "features", "W", "W*"]
    assert any("3 4" in " ".join(line.split()) for line in found["W"])


def test_one_node() -> None:
    run("nodeName = W")
    assert list(dumped("m.dnn.W.txt")) == ["W"]


def test_a_name_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    run("nodeName = feature ; outputFile = all.txt")
    assert list(dumped("all.txt")) == ["b2", "features", "W", "W*"]
    assert (
        "Warning: node name 'feature' does not exist in the network; did you mean 'features'?. dumping all nodes "
        "instead." in capsys.readouterr().err
    )


def test_names_that_match_as_a_whole(capsys: pytest.CaptureFixture[str]) -> None:
    run('nodeNameRegex = "W.?" ; outputFile = some.txt')
    assert list(dumped("some.txt")) == ["W", "W*"]
    assert "DumpNodeInfo: 2 nodes matching RegEx(W.?): \n\tW\n\tW*\n" in capsys.readouterr().err
    run('nodeNameRegex = "" ; nodeName = W ; outputFile = one.txt')
    assert list(dumped("one.txt")) == ["W"]


def test_values_or_what_they_are() -> None:
    run("outputFile = all.txt")
    run("printValues = false ; outputFile = meta.txt")
    run("printMetadata = false ; outputFile = values.txt")
    whole, meta, values = (Path(f"{name}.txt").read_text(encoding="utf-8") for name in ("all", "meta", "values"))
    assert "LearnableParameter" in whole
    assert "LearnableParameter" in meta
    assert "LearnableParameter" not in values
    assert "3" in values
    assert len(meta) < len(whole)
    assert len(values) < len(whole)


def test_a_pattern_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    run('nodeNameRegex = "W("', status=1)
    assert "nodeNameRegex is not a regular expression" in capsys.readouterr().err
    assert not list(Path().glob("*.txt"))


def test_a_text_in_the_log_and_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    run('what = "hello"', action="PrintAction")
    assert "\nhello\n" in capsys.readouterr().err
    run('what = "enough"', status=1, action="FailAction")
    assert "EXCEPTION occurred: r.cntk:3:1: enough\n" in capsys.readouterr().err
