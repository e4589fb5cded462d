"""The actions convertdbn and exportdbn: from a DBN file to a model and back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cntk_model_cntk1.dbn_file import Dbn, DbnLayer, write_dbn

from cntk_core.api import core_ops
from cntk_kit_recipes.cli import main
from cntk_testing.inside import load_model


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(1)
    layers = [
        DbnLayer("rbmgaussbernoulli", random.random((3, 4), np.float32), random.random(3, np.float32)),
        DbnLayer("perceptron", random.random((2, 3), np.float32), random.random(2, np.float32)),
    ]
    mean, deviation = random.random(4, np.float32), np.full(4, 0.5, np.float32)
    write_dbn(Dbn(mean, deviation, layers, np.array([0.25, 0.75], np.float32)), "in.dbn")


def run(*commands: str, status: int = 0) -> None:
    names = [f"C{number}" for number in range(len(commands))]
    sections = "\n".join(f"{name} = [ {keys} ]" for name, keys in zip(names, commands, strict=True))
    Path("r.cntk").write_text(f"command = {':'.join(names)}\n{sections}\n", encoding="utf-8")
    assert main(["configFile=r.cntk"]) == status


@pytest.mark.parametrize(
    ("keys", "evaluation", "dropout", "kind"),
    [
        ("", "ClassificationError", 0, "uniform"),
        ("evalCriterion = squareError ; addDropoutNodes = true", "SquareError", 1, "uniform"),
        ("uniformInit = false ; initValueScale = 100", "ClassificationError", 0, "normal"),
        ("initValueScale = 0", "ClassificationError", 0, "zero"),
    ],
)
def test_what_a_recipe_says_of_the_network(keys: str, evaluation: str, dropout: int, kind: str) -> None:
    random = np.random.default_rng(1)
    layer = DbnLayer("rbmgaussbernoulli", random.random((3, 4), np.float32), random.random(3, np.float32))
    write_dbn(Dbn(random.random(4, np.float32), np.ones(4, np.float32), [layer]), "trained.dbn")
    run(f"action = convertdbn ; modelPath = net.dnn ; dbnModelPath = trained.dbn ; outputLayerSize = 300 ; {keys}")
    network = load_model("net.dnn", core_ops().find)
    assert [node.op.name for node in network.roots["evaluation"]] == [evaluation]
    assert sum(node.op.name == "Dropout" for node in network) == dropout
    (values,) = [node.value for node in network.parameters if node.known_shape in ((3, 300), (300, 3))]
    largest = float(np.abs(values).max())
    bounded = float(np.sqrt(6 / 303))
    assert {"uniform": 0 < largest <= bounded, "normal": largest > 5 * bounded, "zero": largest == 0}[kind]


def test_there_and_back(capsys: pytest.CaptureFixture[str]) -> None:
    run(
        "action = convertdbn ; modelPath = models/net.dnn ; dbnModelPath = in.dbn ; layerSizes = 4:3:2",
        "action = exportdbn ; modelPath = models/net.dnn ; dbnModelPath = models/out.dbn",
        "action = dumpNodes ; modelPath = models/net.dnn ; outputFile = nodes.txt",
    )
    assert Path("models/out.dbn").read_bytes() == Path("in.dbn").read_bytes()
    said = capsys.readouterr().err
    assert "DBN: Reading (3 x 4) rbmgaussbernoulli layer\nDBN: Reading (2 x 3) perceptron layer\n" in said
    assert "ScaledLogLikelihood=Minus" in Path("nodes.txt").read_text(encoding="utf-8").replace(" ", "")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            "action = convertdbn ; modelPath = a.dnn",
            "r.cntk:2:1: required parameter missing: C0:dbnModelPath",
        ),
        (
            "action = convertdbn ; modelPath = a.dnn ; dbnModelPath = no.dbn",
            "r.cntk:2:50: the DBN file 'no.dbn' cannot be read: No such file or directory",
        ),
        (
            "action = convertdbn ; modelPath = a.dnn ; dbnModelPath = in.dbn ; trainingCriterion=CRF ; layerTypes=Tan",
            "r.cntk:2:74: there is no trainingCriterion 'CRF' for a DBN file\n"
            "    Accepted: crossEntropyWithSoftmax, squareError, logistic\n"
            "r.cntk:2:98: there is no layer type 'Tan'; did you mean 'Tanh'?\n"
            "    Accepted: Sigmoid, RectifiedLinear, Tanh, None\n"
            "2 problems found",
        ),
        (
            "action = convertdbn ; modelPath = a.dnn ; dbnModelPath = in.dbn ; outputLayerSize = 0",
            "r.cntk:2:74: an output layer of size 0 is not possible",
        ),
        (
            "action = convertdbn ; modelPath = a.dnn ; dbnModelPath = in.dbn ; layerSizes = 4:3:0",
            "r.cntk:2:74: an output layer of size 0 is not possible",
        ),
        (
            "action = exportdbn ; modelPath = a.dnn ; dbnModelPath = b.dbn",
            "r.cntk:2:29: the model 'a.dnn' does not exist",
        ),
    ],
)  # fmt: skip
def test_messages(keys: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(keys, status=1)
    assert message in capsys.readouterr().err


def test_a_model_without_prior(capsys: pytest.CaptureFixture[str]) -> None:
    layer = DbnLayer("perceptron", np.ones((2, 1), np.float32), np.ones(2, np.float32))
    write_dbn(Dbn(np.ones(1, np.float32), np.ones(1, np.float32), [layer]), "bare.dbn")
    run(
        "action = convertdbn ; modelPath = net.dnn ; dbnModelPath = bare.dbn",
        "action = exportdbn ; modelPath = net.dnn ; dbnModelPath = out.dbn",
    )
    assert Path("out.dbn").read_bytes() == Path("bare.dbn").read_bytes()
    assert "Warning: the model has no node of which it is certain that it is the prior" in capsys.readouterr().err


def test_what_cannot_be_exported_is_told_with_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    run("action = convertdbn ; modelPath = net.dnn ; dbnModelPath = in.dbn ; layerTypes = Tanh")
    capsys.readouterr()
    run("action = exportdbn ; modelPath = net.dnn ; dbnModelPath = out.dbn", status=1)
    said = capsys.readouterr().err.partition("EXCEPTION occurred: ")[2]
    assert said.startswith("r.cntk:2:29: Tanh 'H1' cannot be written to a DBN file: ")
    run("action = convertdbn ; modelPath = net.dnn ; dbnModelPath = in.dbn")
    Path("folder").mkdir()
    capsys.readouterr()
    run("action = exportdbn ; modelPath = net.dnn ; dbnModelPath = folder", status=1)
    said = capsys.readouterr().err.partition("EXCEPTION occurred: ")[2]
    assert said.startswith("r.cntk:2:51: the DBN file 'folder' cannot be written: Is a directory")


def test_an_output_layer_of_one_element_and_one_without_a_size(capsys: pytest.CaptureFixture[str]) -> None:
    write_dbn(Dbn(np.zeros(4, np.float32), np.ones(4, np.float32), [
        DbnLayer("rbmgaussbernoulli", np.ones((3, 4), np.float32), np.zeros(3, np.float32))]), "part.dbn")  # fmt: skip
    common = "action = convertdbn ; modelPath = net.dnn ; dbnModelPath = part.dbn"
    run(f"{common} ; outputLayerSize = 1")
    assert load_model("net.dnn", core_ops().find)["labels"].known_shape == (1,)
    run(common, status=1)
    assert "r.cntk:2:52: " in capsys.readouterr().err
