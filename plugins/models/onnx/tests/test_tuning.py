"""Networks of other programs are trained on: by a Trainer, and in a recipe."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from judge import DATA, load, values
from numpy.typing import NDArray

from cntk_core.api import Input, Network, Node, core_ops
from cntk_core.api.builders import BATCH
from cntk_core.api.training import LearnerSettings, Trainer
from cntk_kit_recipes.cli import main
from cntk_testing.inside import load_model

RECIPE = """
command = Tune
modelPath = "tuned.dnn"
Tune = [
    action = "train"
    BrainScriptNetworkBuilder = [
        net = BS.Network.Load ("normalized.onnx")
        labels = Input {CLASSES, tag = "label", dynamicAxis = BatchAxis}
        ce = CrossEntropyWithSoftmax (labels, net.y, tag = "criterion")
    ]
    reader = [
        readerType = CNTKTextFormatReader ; file = "images.txt"
        input = [ x = [ dim = FEATURES ; format = dense ] ; labels = [ dim = CLASSES ; format = dense ] ]
    ]
    SGD = [ learningRatesPerSample = 0.01 ; minibatchSize = 8 ; maxEpochs = 2 ; epochSize = 8 ]
]
"""


def images() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Pictures for the network of the file, and a class for each."""
    network = load(DATA / "normalized.script.onnx")
    rng = np.random.default_rng(0)
    classes = network["y"].known_shape[0]
    x = rng.normal(size=(8, *network.inputs[0].known_shape)).astype(np.float32)
    return x, np.eye(classes, dtype=np.float32)[rng.integers(classes, size=8)]


def row(array: NDArray[np.float32]) -> str:
    return " ".join(map(str, array.reshape(-1)))


def with_criterion(network: Network, classes: int) -> Network:
    labels = network.add(Input.make("labels", (classes,), axis=BATCH))
    network.mark(labels, "label")
    op = core_ops().find("", "CrossEntropyWithSoftmax")
    assert op is not None
    network.mark(network.add(Node("ce", op, [labels, network["y"]], op.attributes())), "criterion")
    network.infer()
    return network


def moved(network: Network, other: Network, part: str) -> list[bool]:
    """Which parameters whose names have a part are others than before."""
    pairs = [(node.value, other[node.name].value) for node in network.parameters if part in node.name]
    assert pairs
    return [one is not None and other is not None and not np.array_equal(one, other) for one, other in pairs]


def test_a_trainer_trains_on() -> None:
    x, labels = images()
    before = load(DATA / "normalized.script.onnx")
    network = with_criterion(load(DATA / "normalized.script.onnx"), labels.shape[1])
    trainer = Trainer(network, network["ce"], LearnerSettings("sgd", rate=0.3, mean=True))
    losses = [trainer.train_minibatch({"x": x, "labels": labels}).loss for _ in range(20)]
    assert losses[-1] < 0.8 * losses[0]
    tuned = trainer.model.network
    assert all(moved(tuned, before, "7."))
    assert all(moved(tuned, before, "running"))  # statistics follow the data, though nobody learns them
    assert not np.array_equal(values(tuned, {"x": x}, ["y"])["y"], values(before, {"x": x}, ["y"])["y"])


@pytest.mark.slow
def test_a_recipe_trains_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    x, labels = images()
    rows = [f"|x {row(one)} |labels {row(two)}\n" for one, two in zip(x, labels, strict=True)]
    Path("images.txt").write_text("".join(rows))
    Path("normalized.onnx").write_bytes((DATA / "normalized.script.onnx").read_bytes())
    text = RECIPE.replace("CLASSES", str(labels.shape[1])).replace("FEATURES", str(x[0].size))
    Path("tune.cntk").write_text(text)
    assert main(["train", "tune.cntk"]) == 0
    tuned = load_model("tuned.dnn", core_ops().find)
    before = load(DATA / "normalized.script.onnx")
    assert all(moved(tuned, before, "7."))
    assert all(moved(tuned, before, "running"))
