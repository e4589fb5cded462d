"""``cntk convert``, with its exact output, and models of the original wherever a model is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bcn_writer import Model, int32, size

from cntk_core.api import core_ops
from cntk_kit_recipes.cli import main
from cntk_testing.inside import load_model

RECIPE = """\
command = T
modelPath = old.dnn
T = [ action = test ; reader = [
 readerType = CNTKTextFormatReader ; file = data.ctf ; randomize = false
 input = [ features = [ dim = 2 ; format = dense ] ; labels = [ dim = 3 ; format = dense ] ] ] ]
"""


@pytest.fixture(autouse=True)
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    old = Model().input("features", 2).input("labels", 3)
    old.parameter("W", np.zeros((3, 2))).add("Times", "z", size(1) + int32(-1), ("W", "features"))
    old.add("CrossEntropyWithSoftmax", "ce", b"", ("labels", "z"))
    old.root("FeatureNodes", "features").root("LabelNodes", "labels").root("CriterionNodes", "ce")
    old.root("OutputNodes", "z").write(tmp_path / "old.dnn")


def test_convert(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "old.dnn", "-o", "new.model"]) == 0
    assert capsys.readouterr().out == "new.model: 5 nodes, 6 numbers in 1 parameters\n"
    assert load_model("new.model", core_ops().find).dtype == np.float32
    assert main(["convert", "new.model", "-o", "newer.model", "--precision", "double"]) == 0
    assert load_model("newer.model", core_ops().find).dtype == np.float64


def test_convert_onto_itself(capsys: pytest.CaptureFixture[str]) -> None:
    before = Path("old.dnn").read_bytes()
    assert main(["convert", "old.dnn", "-o", "./old.dnn"]) == 2
    assert capsys.readouterr().err == (
        "error: './old.dnn' is the model that is read\n    Give the new one another name: it may be lost.\n"
    )
    assert Path("old.dnn").read_bytes() == before


def test_convert_to_where_nothing_can_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    Path("folder").mkdir()
    assert main(["convert", "old.dnn", "-o", "folder"]) == 1
    assert capsys.readouterr().err == "error: the model 'folder' cannot be written: Is a directory\n"


def test_convert_what_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "odd.dnn", "-o", "new.model"]) == 1
    assert capsys.readouterr().err == "error: the model 'odd.dnn' does not exist; did you mean 'old.dnn'?\n"


def test_a_model_of_the_original_is_tested(capsys: pytest.CaptureFixture[str]) -> None:
    Path("data.ctf").write_text("|features 1 2 |labels 0 1 0\n|features 3 4 |labels 1 0 0\n", encoding="utf-8")
    Path("r.cntk").write_text(RECIPE, encoding="utf-8")
    assert main(["configFile=r.cntk"]) == 0
    assert "Final Results: Minibatch[1-1]: ce = 1.09861231 * 2" in capsys.readouterr().err


def test_a_model_of_the_original_is_drawn_and_edited(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plot", "old.dnn", "-o", "-"]) == 0
    assert ">Times [3 x *]<" in capsys.readouterr().out
    assert main(["edit", "old.dnn", "-c", 'Rename("z", "score")', "-o", "new.dnn"]) == 0
    assert "score" in load_model("new.dnn", core_ops().find)


TRAIN = """\
command = T
T = [ action = train ; modelPath = net
 NDLNetworkBuilder = [ run = n ; n = [ features = Input(2) ; y = SumElements(features)
  FeatureNodes = (features) ; CriterionNodes = (y) ] ]
 SGD = [ epochSize = 0 ; minibatchSize = 2 ; learningRatesPerSample = 0.5 ; maxEpochs = 2 ]
 reader = [ readerType = CNTKTextFormatReader ; file = data.ctf ; randomize = false
 input = [ features = [ dim = 2 ; format = dense ] ; labels = [ dim = 3 ; format = dense ] ] ] ]
"""


@pytest.mark.parametrize(("name", "epochs"), [("net.0", 2), ("net.1", 1)])
def test_training_goes_on_from_a_model_of_the_original(
    name: str, epochs: int, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("data.ctf").write_text("|features 1 2 |labels 0 1 0\n|features 3 4 |labels 1 0 0\n", encoding="utf-8")
    Path("r.cntk").write_text(TRAIN, encoding="utf-8")
    Path("old.dnn").rename(name)
    Path(f"{name}.ckp").write_bytes(b"B\0C\0K\0P\0\0\0")  # as the original's begin
    assert main(["configFile=r.cntk"]) == 0
    output = capsys.readouterr().err
    assert f"Starting from checkpoint. Loading network from '{name}'." in output
    assert output.count("Finished Epoch[") == epochs
    network = load_model("net", core_ops().find)
    assert np.abs(network["W"].value).max() > 0
