"""Every door takes every format: what reads a model, in a program, on the command line, in recipes and scripts.

One network, in the formats that there are; each door gives the same values of it, or tells its nodes.
"""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cntk_core.api import Model
from cntk_core.errors import ModelFormatError
from cntk_kit_recipes.cli import main

ROOT = Path(__file__).parents[2]
FORMATS = {"own.dnn": "", "version1.dnn": "", "version2.model": "CNTK-2", "graph.onnx": "ONNX"}
"""Files by the format that writes them; version 1 is written as the original did."""

NODES = ("features", "W", "R", "b", "z", "h")
X = [np.array([[0.5, -1.0], [0.25, 0.0], [-0.5, 1.0]], np.float32)]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the network in each format, its data and its values."""
    folder = tmp_path_factory.mktemp("formats")
    place = ROOT / "plugins/models/cntk1/tests/bcn_writer.py"
    spec = importlib.util.spec_from_file_location("bcn_writer", place)
    assert spec is not None
    assert spec.loader is not None
    writer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(writer)
    writer.small_model().write(folder / "version1.dnn")
    model = Model.load(folder / "version1.dnn")
    for name, form in FORMATS.items():
        if name != "version1.dnn":
            model.save(folder / name, form)
    lines = [f"0 |features {row[0]} {row[1]} |labels 0 1 0" for row in X[0].tolist()]
    (folder / "data.ctf").write_text("\n".join(lines) + "\n", encoding="utf-8")
    np.save(folder / "wanted.npy", model.evaluate(X, "h")["h"][0])
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for file in made.iterdir():
        shutil.copy(file, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check(file: str) -> None:
    """A model file has the values."""
    found = Model.load(file).evaluate(X, "h")["h"][0]
    np.testing.assert_allclose(found, np.load("wanted.npy"), rtol=1e-5)


def run(*arguments: str) -> None:
    assert main(list(arguments)) == 0


READER = """
    reader = [
        readerType = CNTKTextFormatReader ; file = "data.ctf" ; randomize = false
        input = [ features = [ dim = 2 ; format = dense ] ; labels = [ dim = 3 ; format = dense ] ]
    ]
"""


def recipe(action: str, text: str, *, reader: bool = True) -> str:
    text = f"command = Job\nJob = [\n    action = {action}\n{text}\n{READER if reader else ''}]\n"
    Path("recipe.cntk").write_text(text, encoding="utf-8")
    return "recipe.cntk"


def in_a_program(file: str, told: Callable[[], str]) -> None:
    check(file)
    Model.load(file).clone().save("copy.dnn")
    check("copy.dnn")


def dump(file: str, told: Callable[[], str]) -> None:
    run("dump", file)
    text = told()
    assert all(f"{name}=" in text for name in NODES)


def plot(file: str, told: Callable[[], str]) -> None:
    run("plot", file, "-o", "net.svg")
    drawn = Path("net.svg").read_text(encoding="utf-8")
    assert all(f">{name}" in drawn for name in NODES)


def explain(file: str, told: Callable[[], str]) -> None:
    run("explain", file, "engine=cpu")
    text = told()
    assert text.startswith(f"{file}: ")
    assert all(f"  {name} = " in text for name in NODES)


def weights(file: str, told: Callable[[], str]) -> None:
    run("weights", file)
    assert [line.split()[0] for line in told().splitlines()] == ["W", "R", "b"]
    run("weights", file, "-o", "weights.npz")
    run("weights", file, "--from", "weights.npz", "-o", "again.dnn")
    check("again.dnn")


def convert(file: str, told: Callable[[], str]) -> None:
    for name, form in {"new.dnn": "", "new.onnx": "", "new.cntk2": "", "new.model": "CNTK-2"}.items():
        run("convert", file, "-o", name, *(("--format", form) if form else ()))
        check(name)


def edit(file: str, told: Callable[[], str]) -> None:
    for name in ("new.dnn", "new.onnx", "new.cntk2"):
        run("edit", file, "-c", "Rename(z, total)", "-o", name)
        check(name)
        assert "total" in Model.load(name).network
    assert Path("new.onnx").read_bytes()[:1] == b"\x08"  # a number of ONNX's, not the length of a header


def script(file: str, told: Callable[[], str]) -> None:
    text = f'm = LoadModel("{file}", format=cntk)\nRename(m.z, m.total)\nSaveModel(m, "new.onnx")\n'
    Path("script.mel").write_text(text, encoding="utf-8")
    run("edit", "script.mel")
    check("new.onnx")


def brainscript(file: str, told: Callable[[], str]) -> None:
    network = f'outputModelPath = "new.dnn"\nBrainScriptNetworkBuilder = (BS.Network.Load ("{file}"))'
    run("edit", recipe("edit", network, reader=False))
    check("new.dnn")


def action_test(file: str, told: Callable[[], str]) -> None:
    run("test", recipe("test", f'modelPath = "{file}"'))
    assert "err = " in told()


def write(file: str, told: Callable[[], str]) -> None:
    run("write", recipe("write", f'modelPath = "{file}" ; outputPath = "out" ; outputNodeNames = h'))
    np.testing.assert_allclose(np.loadtxt("out.h"), np.load("wanted.npy")[:, 0], rtol=1e-4, atol=1e-6)


def train(file: str, told: Callable[[], str]) -> None:
    """A training begins with the model of epoch 0, of whatever format that is."""
    shutil.copy(file, "trained.dnn.0")
    network = f'BrainScriptNetworkBuilder = (BS.Network.Load ("{file}"))'
    settings = "SGD = [ maxEpochs = 1 ; minibatchSize = 4 ; learningRatesPerSample = 0 ]"
    run("train", recipe("train", f'modelPath = "trained.dnn"\n{network}\n{settings}'))
    check("trained.dnn")


def predict(file: str, told: Callable[[], str]) -> None:
    run("predict", file, "-i", "data.ctf", "-o", "values.npz")
    with np.load("values.npz") as found:
        np.testing.assert_allclose(found["h"], np.load("wanted.npy"), rtol=1e-5)


def serve(file: str, told: Callable[[], str]) -> None:
    run("serve", file, "--check")
    assert told().startswith(f"{file}: features [2] -> h [3")


DOORS = (
    in_a_program,
    dump,
    plot,
    explain,
    weights,
    convert,
    edit,
    script,
    brainscript,
    action_test,
    write,
    train,
    predict,
    serve,
)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
@pytest.mark.parametrize("file", FORMATS)
def test_every_door_takes_every_format(
    file: str, door: Callable[..., None], folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def told() -> str:
        captured = capfd.readouterr()
        return captured.out or captured.err

    door(file, told)


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_weights_alone_are_no_network(folder: Path, suffix: str, capfd: pytest.CaptureFixture[str]) -> None:
    file = f"weights{suffix}"
    run("weights", "own.dnn", "-o", file)
    with pytest.raises(ModelFormatError) as error:
        Model.load(file)
    assert f"'cntk weights NETWORK --from {file} -o NEW' gives them to a network." in str(error.value)
    capfd.readouterr()
    for arguments in (("dump", file), ("predict", file, "-i", "data.ctf", "-o", "values.npz"), ("serve", file)):
        assert main(list(arguments)) == 1
        assert capfd.readouterr().err == f"error: {error.value}\n"
