"""The action cv: which of the models of a training is best by each criterion."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from cntk_kit_recipes.cli import main
from cntk_testing.small_recipe import RECIPE

READER = RECIPE.partition("Test = [")[2].partition("action = test")[2].partition("\n]\n")[0]

WRONG = "|features 1 0 |labels 0 1\n|features 5 1 |labels 0 1\n|features 0 2 |labels 1 0\n"


@pytest.fixture
def trained(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Models of three epochs; the last is the final one. The classes cannot be told apart."""
    Path("train.ctf").write_text(Path("train.ctf").read_text(encoding="utf-8") + WRONG, encoding="utf-8")
    rates = "learningRatesPerSample=0.1:9:0.3"
    assert main([f"configFile={recipe}", f"Train=[SGD=[maxEpochs=3;keepCheckPointFiles=true;{rates}]]"]) == 0
    capsys.readouterr()


def cv(capsys: pytest.CaptureFixture[str], keys: str, status: int = 0) -> str:
    Path("cv.cntk").write_text(
        f"command = Cv\nprecision = double\nmodelPath = run/net.dnn\nCv = [\n action = cv\n {keys}{READER}\n]\n",
        encoding="utf-8",
    )
    assert main(["configFile=cv.cntk"]) == status
    return capsys.readouterr().err


def evaluated(said: str) -> list[str]:
    return re.findall(r"Model (\S+) -->", said)


@pytest.mark.usefixtures("trained")
def test_the_best_by_each_criterion(capsys: pytest.CaptureFixture[str]) -> None:
    said = cv(capsys, "crossValidationInterval = 1:1:3")
    models = ["run/net.dnn.1", "run/net.dnn.2", "run/net.dnn"]
    assert evaluated(said) == models
    found = re.findall(r"Final Results: .*errs = ([\d.]+)%.*; ce = ([-e\d.]+)", said)
    assert len(found) == 3
    best = re.findall(r"Based on Err\[(\d)\]: Best model = (\S+) with min err (\S+)", said)
    assert [int(index) for index, _, _ in best] == [0, 1]
    for index, (_, model, least) in enumerate(best):
        values = [float(each[index]) / (100 if index == 0 else 1) for each in found]
        assert model == models[values.index(min(values))]
        assert float(least) == pytest.approx(min(values), abs=1e-5)  # a percentage is shown with three digits
    assert len(set(found)) == 3


@pytest.mark.usefixtures("trained")
def test_the_final_model_stands_in_once(capsys: pytest.CaptureFixture[str]) -> None:
    said = cv(capsys, "crossValidationInterval = 2:2:6")
    assert evaluated(said) == ["run/net.dnn.2", "run/net.dnn"]
    assert re.findall(r"Model (\S+) does not exist\.", said) == ["run/net.dnn.4", "run/net.dnn.6"]


@pytest.mark.usefixtures("trained")
def test_without_a_final_model_the_rest_is_evaluated(capsys: pytest.CaptureFixture[str]) -> None:
    Path("run/net.dnn.1").unlink()
    Path("run/net.dnn").unlink()
    said = cv(capsys, "crossValidationInterval = 1:1:3")
    assert re.findall(r"Model (\S+) does not exist\.", said) == ["run/net.dnn.1", "run/net.dnn.3"]
    assert evaluated(said) == ["run/net.dnn.2"]


@pytest.mark.usefixtures("trained")
def test_a_rest_between_the_models(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    cv(capsys, "crossValidationInterval = 1:1:2")
    cv(capsys, "crossValidationInterval = 1:1:2 ; sleepTimeBetweenRuns = 7")
    assert pauses == [0, 0, 7, 7]


@pytest.mark.usefixtures("recipe")
@pytest.mark.parametrize("interval", ["1:1", "1:0:3", "1:1:3:1"])
def test_intervals_that_cannot_be(capsys: pytest.CaptureFixture[str], interval: str) -> None:
    said = cv(capsys, f"crossValidationInterval = {interval}", status=1)
    assert f"Cv:crossValidationInterval must be first:step:last, not '{interval}'" in said
    assert "the step is at least 1" in said
