"""``cntk config show`` and ``cntk config check``, with their exact output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cntk_kit_recipes.cli import main

RECIPE = """\
command = Train
modelPath = "$RunDir$/net.dnn"
RunDir = run
minibatchSize = 8
Train = [
    action = train
    NDLNetworkBuilder = [
        run = net
        net = [ x = Input(2) ; W = Parameter(2, 2) ; z = Times(W, x) ; y = Input(2) ; FeatureNodes = (x)
                CriterionNodes = (c) ; c = SquareError(y, z) ]
    ]
    SGD = [ maxEpochs = 2 ; learningRatesPerSample = 0.1 ]
    reader = [ readerType = CNTKTextFormatReader ; file = "a b.ctf" ; input = [ x = [ dim = 2 ; format = dense ] ] ]
]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r.cntk").write_text(RECIPE, encoding="utf-8")


def lines(text: str) -> list[str]:
    """The listing with one blank where there are more, but for the indent."""
    return [f"{line[: len(line) - len(line.lstrip())]}{' '.join(line.split())}" for line in text.splitlines()]


def show(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main(["config", "show", "r.cntk", *arguments]) == 0
    return lines(capsys.readouterr().out)


def test_what_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    assert show(capsys, "--given", "Train=[SGD=[maxEpochs=3]]", "precision=double") == [
        "command = Train # r.cntk:1",
        "modelPath = $RunDir$/net.dnn # r.cntk:2",
        "RunDir = run # r.cntk:3",
        "minibatchSize = 8 # r.cntk:4",
        "Train = [ # r.cntk:5",
        "    action = train # r.cntk:6",
        "    NDLNetworkBuilder = [ # r.cntk:7",
        "        run = net",
        "        net = [ x = Input(2) ; W = Parameter(2, 2) ; z = Times(W, x) ; y = Input(2) ; FeatureNodes = (x)",
        "                CriterionNodes = (c) ; c = SquareError(y, z) ]",
        "    ]",
        "    SGD = [ # r.cntk:12",
        "        maxEpochs = 3 # command line, argument 2",
        "        learningRatesPerSample = 0.1 # r.cntk:12",
        "    ]",
        "    reader = [ # r.cntk:13",
        "        readerType = CNTKTextFormatReader # r.cntk:13",
        '        file = "a b.ctf" # r.cntk:13',
        "        input = [ # r.cntk:13",
        "            x = [ # r.cntk:13",
        "                dim = 2 # r.cntk:13",
        "                format = dense # r.cntk:13",
        "            ]",
        "        ]",
        "    ]",
        "]",
        "precision = double # command line, argument 3",
    ]


def test_values_from_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    found = show(capsys, "--section", "Train:SGD")
    assert found[0] == "SGD = [ # r.cntk:12"
    assert "    minibatchSize = 8 # r.cntk:4, inherited" in found
    assert "    dropoutRate = 0.0 # default" in found
    assert "    useNAG = false # default" in found  # the learner's own
    assert found[-1] == "]"


def test_defaults_of_the_top_level_and_of_readers(capsys: pytest.CaptureFixture[str]) -> None:
    found = show(capsys)
    assert "precision = float # default" in found
    assert "        randomize = auto # default" in found


def test_variables(capsys: pytest.CaptureFixture[str]) -> None:
    assert "modelPath = run/net.dnn # r.cntk:2" in show(capsys, "--resolved")
    assert "modelPath = other/net.dnn # r.cntk:2" in show(capsys, "--resolved", "RunDir=other")


def test_listing_is_a_recipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "show", "r.cntk"]) == 0
    first = capsys.readouterr().out
    Path("s.cntk").write_text(first, encoding="utf-8")
    assert main(["config", "show", "s.cntk", "--given", "--section", "Train:reader:input"]) == 0
    assert [line.partition(" #")[0] for line in lines(capsys.readouterr().out)] == [
        "input = [",
        "    x = [",
        "        dim = 2",
        "        format = dense",
        "    ]",
        "]",
    ]


def test_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "show", "r.cntk", "precision=double", "--given", "--resolved", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == 1
    values = {each.pop("path"): each for each in found["values"]}
    assert values["modelPath"] == {"value": "run/net.dnn", "origin": "r.cntk:2"}
    assert values["precision"] == {"value": "double", "origin": "command line, argument 2"}
    assert values["Train:reader:file"] == {"value": "a b.ctf", "origin": "r.cntk:13"}
    assert values["Train:reader:input:x:dim"] == {"value": "2", "origin": "r.cntk:13"}
    assert values["Train:NDLNetworkBuilder"]["value"].count("\n") == 4  # a network is one text
    assert "Train" not in values
    assert "Train:SGD:dropoutRate" not in values


def test_for_programs_with_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "show", "r.cntk", "--section", "Train:SGD", "--json"]) == 0
    values = {each.pop("path"): each for each in json.loads(capsys.readouterr().out)["values"]}
    assert values["Train:SGD:minibatchSize"] == {"value": "8", "origin": "r.cntk:4, inherited"}
    assert values["Train:SGD:dropoutRate"] == {"value": "0.0", "origin": "default"}


def test_section_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "show", "r.cntk", "--section", "Trian"]) == 1
    assert capsys.readouterr().err == (
        "error: r.cntk: the recipe has no section 'Trian'; did you mean 'Train'?\n    Sections: Train\n"
    )


def test_sound_recipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "check", "r.cntk"]) == 0
    assert capsys.readouterr().out == "Train: train\nno problems found\n"


def test_everything_that_is_wrong_is_said_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    text = RECIPE.replace("Times(W, x)", "Tmes(W, x)").replace("maxEpochs = 2", "maxEpoch = 2")
    text = text.replace("RunDir =", "Dir =")
    Path("r.cntk").write_text(text, encoding="utf-8")
    assert main(["config", "check", "r.cntk", "precision=half"]) == 1
    found = capsys.readouterr().err.splitlines()
    found = [line for line in found if not line.startswith("    ")]
    assert found.pop(4).startswith("r.cntk:9:58: ")  # Tmes, in the words of the builder
    assert found == [
        "error: r.cntk:2:14: unknown variable $RunDir$; did you mean 'Dir'?",
        '<command line>:2:1: Invalid precision string: "half", must be "float" or "double"',
        "r.cntk:12:13: the SGD block has no option 'maxEpoch'; did you mean 'maxEpochs'?",
        "r.cntk:12:5: required parameter missing: Train:SGD:maxEpochs",
        "5 problems found",
    ]


@pytest.mark.parametrize("arguments", [["config"], ["config", "show"], ["config", "shwo", "r.cntk"]])
def test_usage(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
