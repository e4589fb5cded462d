"""``cntk check-data``, ``cntk explain`` and ``cntk convert``, with their output."""

from __future__ import annotations

from pathlib import Path

import pytest
from cntk_tool_inspect.check_data import check_data

from cntk_kit_recipes.cli import main

BOTH = "Train=[cvReader=[readerType=CNTKTextFormatReader;file=cv.ctf;input=[features=[dim=2;format=dense]]]]"


def said(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> list[str]:
    assert main([*arguments]) == status
    return capsys.readouterr().out.splitlines()


@pytest.mark.usefixtures("recipe")
def test_data_without_mistakes(capsys: pytest.CaptureFixture[str]) -> None:
    Path("cv.ctf").write_text("|features 1 2\n", encoding="utf-8")
    assert said(capsys, "check-data", "r.cntk", BOTH, "--section", "Train") == [
        "Train:reader: features [2], labels [2]",
        "Train:cvReader: features [2]",
        "no problems found",
    ]
    sections = [
        line.partition(":")[0] for line in said(capsys, "check-data", "r.cntk", "command=Train:Test:Write")[:-1]
    ]
    assert sections == ["Train", "Test", "Write"]


@pytest.mark.usefixtures("recipe")
def test_every_mistake_is_told_up_to_a_number(capsys: pytest.CaptureFixture[str]) -> None:
    Path("cv.ctf").write_text("|features 1 y\n|features x 2\n|features 1 2\n", encoding="utf-8")
    found = said(capsys, "check-data", "r.cntk", BOTH, "--section", "Train", status=1)
    assert found[-1] == "2 problems found"
    assert sum(line.startswith("cv.ctf:") for line in found) == 2
    for most, last in ((1, "1 problem found"), (2, "2 problems found")):
        assert check_data(["configFile=r.cntk", BOTH], section="Train", most=most) == 1
        lines = capsys.readouterr().out.splitlines()
        assert (f"and more; only the first {most} are shown" in lines) == (most == 1)
        assert lines[-1] == last


@pytest.mark.usefixtures("recipe")
def test_a_reader_that_cannot_be_opened_is_one_problem(capsys: pytest.CaptureFixture[str]) -> None:
    found = said(capsys, "check-data", "r.cntk", BOTH, "--section", "Train", status=1)
    assert "Train:cvReader" in found
    assert any("cv.ctf" in line for line in found)
    assert found[-1] == "1 problem found"


@pytest.mark.usefixtures("recipe")
def test_a_recipe_without_data(capsys: pytest.CaptureFixture[str]) -> None:
    Path("empty.cntk").write_text("command=P\nP=[ action=PrintAction ; what=x ]\n", encoding="utf-8")
    assert main(["check-data", "empty.cntk"]) == 1
    assert "the recipe has no reader block to check" in capsys.readouterr().err


@pytest.mark.usefixtures("recipe")
def test_what_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(capsys, "explain", "r.cntk", "--frames", "7")
    assert lines[0] == "Train: 6 nodes"
    assert [line.partition(" ")[0] for line in map(str.strip, lines[1:7])] == [
        "features", "labels", "W", "z", "ce", "errs",
    ]  # fmt: skip
    other = said(capsys, "explain", "r.cntk", "--frames", "14")
    recipes_own = said(capsys, "explain", "r.cntk")
    assert lines != other
    assert recipes_own == said(capsys, "explain", "r.cntk", "--frames", "2")
    assert recipes_own != said(capsys, "explain", "r.cntk", "--frames", "3")


@pytest.mark.usefixtures("recipe")
def test_a_recipe_without_a_network(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "r.cntk", "--section", "Test"]) == 1
    assert "no section of the recipe describes a network" in capsys.readouterr().err


@pytest.mark.usefixtures("recipe")
def test_models_are_converted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["configFile=r.cntk"]) == 0
    capsys.readouterr()
    assert said(capsys, "convert", "run/net.dnn", "-o", "half.dnn", "--precision", "float") == [
        "half.dnn: 6 nodes, 4 numbers in 1 parameters"
    ]
    assert Path("half.dnn").stat().st_size < Path("run/net.dnn").stat().st_size
    assert main(["convert", "half.dnn", "-o", "./half.dnn"]) == 2
    assert capsys.readouterr().err == (
        "error: './half.dnn' is the model that is read\n    Give the new one another name: it may be lost.\n"
    )
