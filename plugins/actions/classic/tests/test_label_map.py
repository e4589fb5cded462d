"""createLabelMap: the names of a column."""

from __future__ import annotations

from pathlib import Path

import pytest

from cntk_kit_recipes.cli import main

RECIPE = """\
command = Map
Map = [ action = createLabelMap ; section = Train ; traceLevel = 1 ]
Train = [
    action = train
    reader = [
        readerType = UCIFastReader
        file = "t.txt"
        features = [ dim = 2 ; start = 1 ]
        labels = [ start = 0 ; dim = 1 ; labelDim = 3 ; labelType = Category ; labelMappingFile = "run/map.txt" ]
    ]
]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.cntk").write_text(RECIPE, encoding="utf-8")
    (tmp_path / "t.txt").write_text("red 1 2\n\n blue\t3 4\nred 5 6\n", encoding="utf-8")
    return tmp_path


def failed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["configFile=r.cntk", *arguments]) == 1
    return capsys.readouterr().err.partition("EXCEPTION occurred: ")[2]


def test_names_as_they_appear_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["configFile=r.cntk"]) == 0
    assert Path("run/map.txt").read_bytes() == b" red \n blue \n"
    assert "read 3 labels and produced run/map.txt\n" in capsys.readouterr().err


def test_file_that_is_there_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    Path("run").mkdir()
    Path("run/map.txt").write_text("mine\n", encoding="utf-8")
    assert main(["configFile=r.cntk"]) == 0
    assert Path("run/map.txt").read_text(encoding="utf-8") == "mine\n"
    assert (
        "CreateLabelMap: the label mapping file 'run/map.txt' already exists, no work to do.\n"
        in capsys.readouterr().err
    )


def test_other_delimiter() -> None:
    Path("t.txt").write_text("1;2;light red\n3;4;blue\n", encoding="utf-8")
    assert main(["configFile=r.cntk", 'Train=[reader=[customDelimiter=";";labels=[start=2]]]']) == 0
    assert Path("run/map.txt").read_text(encoding="utf-8") == " light red \n blue \n"


def test_line_with_too_few_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert failed(capsys, "Train=[reader=[labels=[start=3]]]") == (
        "t.txt:1: the line has 3 columns; labels stand in column 4\n    Columns count from 0: start=3 (r.cntk:9:9).\n"
    )


def test_reader_of_another_kind(capsys: pytest.CaptureFixture[str]) -> None:
    assert failed(capsys, "Train=[reader=[readerType=HTKMLFReader]]") == (
        "<command line>:2:16: createLabelMap reads tables of columns (UCIFastReader), not the data of 'HTKMLFReader'\n"
        "    Other readers give labels as numbers, or take a labelMappingFile that is there already.\n"
    )


def test_section_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert failed(capsys, "Map=[section=Trian]") == (
        "<command line>:2:14: required parameter missing: Map:Trian\n    Is 'Train' (r.cntk:3:1) meant for it?\n"
    )


def test_reader_without_labels(capsys: pytest.CaptureFixture[str]) -> None:
    text = RECIPE.replace("labels = [", "others = [").replace("labelDim = 3 ; labelType = Category ; ", "")
    Path("r.cntk").write_text(text.replace("labelMappingFile", "mapping"), encoding="utf-8")
    assert failed(capsys) == (
        "r.cntk:5:5: CreateLabelMap: no labels found to process\n"
        "    Add labels=[ start=... ; labelType=category ; labelMappingFile=... ] to the reader.\n"
    )


def test_no_file_for_the_names(capsys: pytest.CaptureFixture[str]) -> None:
    text = Path("r.cntk").read_text(encoding="utf-8").replace(' ; labelMappingFile = "run/map.txt"', "")
    Path("r.cntk").write_text(text, encoding="utf-8")
    assert failed(capsys).partition(": ")[2] == (
        "CreateLabelMap: No labelMappingFile defined\n    labelMappingFile=...\n"
    )
