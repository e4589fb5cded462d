"""Pictures of digits: examples/digits_convnet."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cntk_core.config import load_recipe
from cntk_core.contract.store import ParameterStore
from cntk_core.network.model_file import load_model
from cntk_core.network.network import Network
from cntk_core.network.node import Parameter
from cntk_core.ops.language.layouts import frame_layout
from cntk_core.ops.language.shapes import elements
from cntk_core.ops.table import core_ops
from cntk_core.plan.make import make_plan
from cntk_core.records.minibatch import Minibatch, StreamData
from cntk_kit_recipes.cli import main
from cntk_kit_recipes.recipe.context import ActionContext
from cntk_kit_recipes.recipe.log import Log
from cntk_testing import ReferenceEngine

# Importing it takes seconds: not where tests are only collected.
pytestmark = pytest.mark.skipif(find_spec("sklearn") is None, reason="sklearn is not installed")

FINAL = r"Final Results: .*?{} = ([\d.]+)(%?) \* 450"


def final(text: str, name: str) -> float:
    """The last figure of a test, shares in percent."""
    found = re.findall(FINAL.format(name), text)
    assert found, text
    return float(found[-1][0])


def run(*arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(list(arguments)) == 0
    return capsys.readouterr().err


def test_turning_pictures(example: Any, script: Any) -> None:
    """A quarter turns exactly; half a degree changes little; nothing else is changed by no turn at all."""
    turned = script(example("digits_convnet", train_digits=60) / "make_data.py")["turned"]
    image = np.random.default_rng(1).integers(256, size=(8, 8), dtype=np.uint8)
    assert np.array_equal(turned(image, 0.0), image)
    assert np.array_equal(turned(image, 90.0), np.rot90(image, 1)) or np.array_equal(
        turned(image, 90.0), np.rot90(image, -1)
    )
    there_and_back = turned(turned(np.full((8, 8), 200, np.uint8), 30.0), -30.0)
    assert there_and_back[2:6, 2:6].min() > 190


def test_pictures_and_text_are_the_same(example: Any, script: Any) -> None:
    image = pytest.importorskip("PIL.Image")
    folder = example("digits_convnet", train_digits=60)
    labels, images = script(folder / "draw.py")["read_test"](folder / "test.ctf")
    lines = (folder / "test_map.txt").read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(labels) == 450
    for number in (0, 449):
        name, label = lines[number].split("\t")
        assert float(label) == labels[number]
        assert np.array_equal(np.asarray(image.open(name.replace("...", "."))), images[number])
    few, _ = script(folder / "draw.py")["read_test"](folder / "few.ctf")
    assert few == sorted(few)
    assert max(map(few.count, range(10))) <= 5


def networks() -> dict[str, Network]:
    """The network of convnet.cntk from each of its builders, in double precision."""
    found = {}
    for name in ("Train", "TrainNDL", "TrainPython"):
        config = load_recipe(["configFile=convnet.cntk", "precision=double", "SGD=[dropoutRate=0]"])
        context = ActionContext.create(config, Log(quiet=True))
        found[name] = context.build_network(config.section(name))
    return found


def by_size(network: Network) -> dict[int, Parameter]:
    """Parameters that learn, by the number of their elements, of which each has another one."""
    found = {elements(item.known_shape): item for item in network.parameters if item.learned}
    assert len(found) == 8
    return found


def test_the_three_builders_agree(example: Any) -> None:
    """From the same values the three networks have the same criterion and the same gradients."""
    example("digits_convnet", train_digits=60)
    built = networks()
    random = np.random.default_rng(0)
    values = {size: 0.3 * random.standard_normal(size) for size in by_size(built["Train"])}
    layout = frame_layout(5)
    pixels = random.integers(256, size=(5, 1, 8, 8)).astype(float)
    labels = np.eye(10)[random.integers(10, size=5)]
    data = Minibatch({"features": StreamData(pixels, layout), "labels": StreamData(labels, layout)}, 5)
    results = []
    for network in built.values():
        parameters = by_size(network)
        for size, parameter in parameters.items():
            parameter.value = values[size].reshape(parameter.known_shape).copy()
        (criterion,) = network.roots["criterion"]
        store = ParameterStore(network.parameters, np.float64)
        program = ReferenceEngine().compile(make_plan(network, [criterion], criterion), store)
        program.compute_gradients(data)
        gradients = {size: store.gradient(parameter).ravel().copy() for size, parameter in parameters.items()}
        results.append((float(program.value(criterion.name).sum()), gradients))
    for value, gradients in results[1:]:
        assert value == pytest.approx(results[0][0], rel=1e-12)
        for size, gradient in results[0][1].items():
            assert np.abs(gradient).max() > 0
            np.testing.assert_allclose(gradients[size], gradient, rtol=1e-9, atol=1e-12)


@pytest.mark.thorough  # it begins to learn, below, and from pictures it tells them apart
@pytest.mark.slow
@pytest.mark.parametrize("command", ["Train", "TrainNDL", "TrainPython"])
@pytest.mark.timeout(900)
def test_it_tells_digits_apart(example: Any, script: Any, capsys: pytest.CaptureFixture[str], command: str) -> None:
    folder = example("digits_convnet")
    log = run("configFile=convnet.cntk", f"command={command}:Test:Write", capsys=capsys)
    assert final(log, "errs") < 3
    if command == "Train":
        pytest.importorskip("matplotlib")
        draw = script(folder / "draw.py")
        assert draw["first_filters"](draw["Model"].load("run/convnet.dnn")).shape == (16, 3, 3)
        for name in ("filters", "predictions"):
            assert draw["DRAWINGS"][name](folder).stat().st_size > 2000


def test_it_begins_to_learn(example: Any, script: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The quick form of the test above: a few digits, two epochs, and the pictures of what came of it."""
    folder = example("digits_convnet", train_digits=300)
    log = run("configFile=convnet.cntk", "SGD=[maxEpochs=2;minibatchSize=10;dropoutRate=0]", capsys=capsys)
    assert final(log, "errs") < 75  # 90 by chance
    pytest.importorskip("matplotlib")
    draw = script(folder / "draw.py")
    model = draw["Model"].load("run/convnet.dnn")
    labels, images = draw["read_test"](folder / "test.ctf")
    scores = draw["outputs"](model, images, "z").reshape(450, 10)
    wrong = np.mean(scores.argmax(axis=1) != np.array(labels))
    assert 100 * wrong == pytest.approx(final(log, "errs"), abs=0.01)
    written = np.loadtxt("run/out.z")
    np.testing.assert_allclose(written, scores, rtol=1e-3, atol=1e-3)
    for name in ("filters", "predictions"):
        assert draw["DRAWINGS"][name](folder).stat().st_size > 2000


@pytest.mark.thorough  # pictures and text are the same, below, and resnet_cifar learns from pictures
@pytest.mark.slow
def test_from_the_pictures(example: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Pictures that are read as they are give the figures of the text file."""
    pytest.importorskip("cntk_reader_image")
    example("digits_convnet", train_digits=60)
    run("configFile=convnet.cntk", "command=Train", "SGD=[maxEpochs=1]", capsys=capsys)
    text = run("configFile=convnet.cntk", "command=Test", capsys=capsys)
    pictures = run("configFile=convnet.cntk+pictures.cntk", "command=Test", capsys=capsys)
    assert final(pictures, "ce") == pytest.approx(final(text, "ce"), rel=1e-5)
    assert final(pictures, "errs") == final(text, "errs")
    log = run(
        "configFile=convnet.cntk+pictures.cntk",
        "command=Train:Test",
        "modelPath=run/p.dnn",
        "SGD=[maxEpochs=1]",
        capsys=capsys,
    )
    assert "Finished Epoch[ 1 of 1]: [Training] ce = " in log


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_auto_encoder_and_transfer(example: Any, script: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Reconstructions are close; the lower layers help where labels are few, and stay as they are."""
    folder = example("digits_convnet")
    log = run("configFile=autoencoder.cntk", capsys=capsys)
    assert final(log, "squared") < 1.2  # of 64 pixels, whose squares sum up to 16
    errors = {}
    for name, command in (("transfer", "Train"), ("edited", "Edit:TrainEdited"), ("alone", "TrainAlone")):
        log = run("configFile=transfer.cntk", f"command={command}:Test", f"modelPath=run/{name}.dnn", capsys=capsys)
        errors[name] = final(log, "errs")
    assert errors["transfer"] == errors["edited"]  # the same network, made in two ways
    assert errors["transfer"] < min(errors["alone"], 16)
    lower, above = (load_model(f"run/{name}.dnn", core_ops().find) for name in ("autoencoder", "edited"))
    for name in ("first.W", "second.W", "second.b"):
        assert np.array_equal(lower[name].value, above[name].value)
    pytest.importorskip("matplotlib")
    assert script(folder / "draw.py")["draw_reconstructions"](folder).stat().st_size > 2000


@pytest.mark.thorough  # others of its networks learn, and tests of MEL edit networks
@pytest.mark.slow
def test_transfer_learns_the_new_layer_only(example: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The quick form: one epoch of each; both ways give the same numbers."""
    example("digits_convnet", train_digits=100)
    run("configFile=autoencoder.cntk", "command=Train", "Train=[SGD=[maxEpochs=1]]", capsys=capsys)
    small = ["configFile=transfer.cntk", "SGD=[maxEpochs=2]"]
    first = run(*small, capsys=capsys)
    edited = run(*small, "command=Edit:TrainEdited:Test", "modelPath=run/edited.dnn", capsys=capsys)
    assert "Training 1290 parameters in 2 parameter tensors." in first
    assert "Training 1290 parameters in 2 parameter tensors." in edited
    assert final(first, "ce") == final(edited, "ce")
    lower, above = (load_model(f"run/{name}.dnn", core_ops().find) for name in ("autoencoder", "transfer"))
    assert np.array_equal(lower["first.W"].value, next(p for p in above.parameters if p.name.endswith("first.W")).value)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_angles(example: Any, script: Any, capsys: pytest.CaptureFixture[str]) -> None:
    folder = example("digits_convnet")
    log = run("configFile=regression.cntk", capsys=capsys)
    assert final(log, "angleError") < 5  # degrees; always saying 0 would leave 23
    pytest.importorskip("matplotlib")
    assert script(folder / "draw.py")["draw_angles"](folder).stat().st_size > 2000


def test_angles_run_on_little_data(example: Any, capsys: pytest.CaptureFixture[str]) -> None:
    example("digits_convnet", train_digits=60)
    log = run("configFile=regression.cntk", "Train=[SGD=[maxEpochs=1]]", capsys=capsys)
    assert final(log, "angleError") < 30
    assert len(Path("run/angle.found").read_text(encoding="utf-8").splitlines()) == 450
