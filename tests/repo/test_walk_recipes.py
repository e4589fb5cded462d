"""The tool that builds every network in a folder of recipes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

NDL = "x=Input({})\ns=Sigmoid(x)\nFeatureNodes=(x)\nOutputNodes=(s)\n"


@pytest.fixture(scope="module")
def walk(load_tool: Callable[[str], ModuleType]) -> ModuleType:
    return load_tool("walk_recipes")


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")


def recipe(network: str, head: str = "command = T") -> str:
    return f"{head}\nT = [ action = train ; modelPath = $RunDir$/m ; NDLNetworkBuilder = [ {network} ] ]\n"


@pytest.fixture
def outcomes(walk: ModuleType, tmp_path: Path):
    def run(limit: float = 20) -> dict[str, str]:
        walker = walk.Walker([tmp_path])
        reports = [walk.examine(walker, path, limit) for path in walker.files]
        return {Path(report.path).name: report.outcome for report in reports}

    return run


@pytest.mark.thorough  # tests/examples runs them, and what the tool says of recipes is below
def test_the_examples_of_the_repository(
    walk: ModuleType, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert walk.main([str(root / "examples"), "--json", str(tmp_path / "all.json"), "--limit", "60"]) == 0
    found = json.loads((tmp_path / "all.json").read_text(encoding="utf-8"))
    outcomes = {Path(entry["path"]).name: entry["outcome"] for entry in found}
    # The decoders of the first, the upper layers of the second and the criteria of the third are put on models that a
    # training writes.
    assert [outcomes.pop(name) for name in ("g2p.cntk", "transfer.cntk", "sequence.cntk")] == ["missing files"] * 3
    # Other readers and sizes for the recipe before them.
    assert [outcomes.pop(name) for name in ("pictures.cntk", "mnist.cntk")] == ["no network"] * 2
    assert set(outcomes.values()) == {"built"}
    assert f"all          {len(found):5d} " in capsys.readouterr().out


def test_outcomes(outcomes, tmp_path: Path) -> None:
    inside = "run = n ; n = [ x = Input(2) ; s = {}(x) ; FeatureNodes = (x) ; OutputNodes = (s) ]"
    write(tmp_path, "good.cntk", recipe(inside.format("Sigmoid")))
    write(tmp_path, "operator.cntk", recipe(inside.format("Sgmoid")))
    write(tmp_path, "file.cntk", recipe("networkDescription = no.ndl"))
    write(tmp_path, "other.cntk", recipe(inside.format("Sigmoid").replace("Input(2)", "Input(two)")))
    write(tmp_path, "broken.cntk", "command = T\nT = [ action = train\n")
    write(tmp_path, "none.cntk", "command = T\nT = [ action = test ; modelPath = m ]\n")
    assert outcomes() == {
        "good.cntk": "built",
        "operator.cntk": "missing operators",
        "file.cntk": "missing files",
        "other.cntk": "other error",
        "broken.cntk": "other error",
        "none.cntk": "no network",
    }


def test_parts_are_judged_by_the_recipes_that_name_them(outcomes, tmp_path: Path) -> None:
    write(tmp_path, "a/net.ndl", NDL.format("$featDim$"))
    write(tmp_path, "a/use.cntk", recipe("networkDescription = $ConfigDir$/net.ndl", "command = T\nfeatDim = 3"))
    write(tmp_path, "b/alone.ndl", NDL.format(4))
    write(tmp_path, "b/macros.ndl", "Double(x) = [ y = Plus(x, x) ]\n")
    write(tmp_path, "b/edit.mel", 'm = LoadModel("$RunDir$/m")\nSaveModel(m, "$RunDir$/n")\n')
    assert outcomes() == {
        "net.ndl": "built",
        "use.cntk": "built",
        "alone.ndl": "built",
        "macros.ndl": "built",
        "edit.mel": "built",
    }


def test_variables_that_the_command_line_gives(outcomes, tmp_path: Path) -> None:
    write(tmp_path, "v.cntk", "deviceId = $DeviceId$\n" + recipe("networkDescription = $NetDir$/net.ndl"))
    write(tmp_path, "net.ndl", NDL.format("$dim$"))
    assert outcomes()["v.cntk"] == "built"


def test_recipe_that_is_read_after_another(outcomes, tmp_path: Path) -> None:
    write(tmp_path, "base.cntk", recipe("run = n", "command = T\nsize = 2"))
    write(tmp_path, "over.cntk", f"T = [ NDLNetworkBuilder = [ run = n ; n = [ {NDL.format(3)} ] ] ]\n")
    assert outcomes()["over.cntk"] == "built"


def test_tracebacks_and_endless_work_are_found(
    walk: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "a.cntk", "command = T\n")
    monkeypatch.setattr(walk.Walker, "examine", lambda self, path: 1 / 0)
    assert walk.main([str(tmp_path), "--verbose"]) == 1
    assert "ZeroDivisionError" in capsys.readouterr().out
    monkeypatch.setattr(walk.Walker, "examine", lambda self, path: time.sleep(60))
    assert walk.main([str(tmp_path), "--limit", "0.2", "--verbose"]) == 1
    assert "file: timeout: more than 0.2 seconds" in capsys.readouterr().out
