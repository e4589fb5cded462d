"""``cntk demo`` and the examples, as somebody runs them."""

from __future__ import annotations

import re
import runpy
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from cntk_tool_demo.data import labels_of

from cntk_kit_recipes.cli import main

EXAMPLES = Path(__file__).parents[4] / "examples"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_demo(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sklearn")
    pytest.importorskip("matplotlib")
    assert main(["demo", "--folder", "digits"]) == 0
    out = capsys.readouterr().out
    found = re.search(r"^(\d+) of 450 held-out digits are right: (\d+\.\d) %", out, re.MULTILINE)
    assert found is not None
    assert int(found[1]) >= 0.96 * 450
    assert out.count("\n  epoch ") == 30
    assert Path.cwd() == here
    assert (here / "digits/learning-curve.png").read_bytes().startswith(b"\x89PNG")
    for name in ("learning-curve.svg", "network.svg"):
        assert ET.parse(here / "digits" / name).getroot().tag.endswith("svg")
    assert "__COMPLETED__" in (here / "digits/run/log.txt").read_text(encoding="utf-8")


@pytest.mark.slow
def test_demo_keeps_a_recipe_that_was_changed(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sklearn")
    assert main(["demo"]) == 0
    recipe = here / "demo/digits.cntk"
    recipe.write_text(recipe.read_text(encoding="utf-8").replace("maxEpochs = 30", "maxEpochs = 1"), encoding="utf-8")
    capsys.readouterr()
    assert main(["demo"]) == 0
    out = capsys.readouterr().out
    assert f"  {Path('demo/digits.cntk')} was changed and stays as it is" in out
    assert out.count("\n  epoch ") == 1
    monkeypatch.chdir(here / "demo")
    assert main(["configFile=digits.cntk", "command=Test"]) == 0


def test_demo_without_its_libraries(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["demo"]) == 1
    assert capsys.readouterr().err == (
        'error: the demo needs sklearn and matplotlib\n    pip install "cntk-core[demo]"\n'
    )
    assert list(here.iterdir()) == []


def test_demo_where_nothing_can_be_written(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sklearn")
    pytest.importorskip("matplotlib")
    (here / "file").write_text("", encoding="utf-8")
    assert main(["demo", "--folder", "file/demo"]) == 1
    assert capsys.readouterr().err == (
        "error: the folder 'file/demo' cannot be written: Not a directory\n"
        "    Give another one: cntk demo --folder DIR\n"
    )


def test_labels_are_read_back(here: Path) -> None:
    (here / "t.ctf").write_text("|labels 7:1 |features 0 1\n|labels 0:1 |features 1 0\n", encoding="utf-8")
    assert labels_of(here / "t.ctf") == [7, 0]


@pytest.mark.slow
def test_two_spirals(here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    folder = here / "two-spirals"
    shutil.copytree(EXAMPLES / "two-spirals", folder)
    runpy.run_path(str(folder / "make_data.py"), run_name="__main__")
    monkeypatch.chdir(folder)
    assert main(["configFile=spirals.cntk"]) == 0
    final = re.search(r"Final Results: Minibatch\[1-1\]: errs = +([\d.]+)%", capsys.readouterr().err)
    assert final is not None
    assert float(final[1]) < 5
    assert len((folder / "run/out.p").read_text(encoding="utf-8").splitlines()) == 1000
    assert "V=LearnableParameter [2,64]" in (folder / "run/parameters.txt").read_text(encoding="utf-8")
