"""The action plot."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from cntk_kit_recipes.cli import main


@pytest.fixture(autouse=True)
def trained(recipe: Path) -> None:
    recipe.write_text(recipe.read_text(encoding="utf-8") + "Plot = [ action = plot ]\n", encoding="utf-8")
    assert main(["configFile=r.cntk"]) == 0


def plot(*arguments: str, status: int = 0) -> None:
    assert main(["configFile=r.cntk", "command=Plot", *arguments]) == status


def test_text_and_picture_lie_beside_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    plot()
    assert Path("run/net.dnn.dot").read_text(encoding="utf-8").startswith(" strict digraph {\n rankdir = BT ;  \n")
    assert ET.parse("run/net.dnn.svg").getroot().tag == "{http://www.w3.org/2000/svg}svg"
    assert capsys.readouterr().err.endswith(
        "Created network description in dot format: run/net.dnn.dot\n"
        "Created picture: run/net.dnn.svg\nDone.\n\nCOMPLETED.\n"
    )


def test_names_of_the_files() -> None:
    plot("Plot=[outputDotFile=new/a.dot;outputFile=new/b.svg]")
    assert sorted(path.name for path in Path("new").iterdir()) == ["a.dot", "b.svg"]


def test_other_program(capsys: pytest.CaptureFixture[str]) -> None:
    plot('Plot=[outputDotFile="a b.dot";outputFile=c.png;renderCmd="cp <IN> <OUT>"]')
    assert Path("c.png").read_bytes() == Path("a b.dot").read_bytes()
    assert "Executing third-party tool for rendering dot:\ncp 'a b.dot' c.png\n" in capsys.readouterr().err


def test_other_program_fails(capsys: pytest.CaptureFixture[str]) -> None:
    plot('Plot=[outputFile=c.png;renderCmd="exit 3"]', status=1)
    assert capsys.readouterr().err.endswith(
        "EXCEPTION occurred: <command line>:3:24: plot: the renderCmd ended with exit status 3: exit 3\n"
    )


def test_picture_that_needs_another_program(capsys: pytest.CaptureFixture[str]) -> None:
    plot("Plot=[outputFile=c.png]", status=1)
    assert capsys.readouterr().err.partition("EXCEPTION occurred: ")[2] == (
        "<command line>:3:7: plot: If you specify an outputFile, you also need a renderCmd.\n"
        "    Without one an outputFile that ends in .svg is drawn; with one, for example: "
        'renderCmd="dot -Tpng <IN> -o<OUT>"\n'
    )
