"""``cntk convert`` to ONNX and back, with its exact output."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from judge import DATA, load, written

from cntk_core.api import core_ops
from cntk_kit_recipes.cli import main
from cntk_testing.inside import load_model, save_model
from cntk_testing.networks import classifier


@pytest.fixture(autouse=True)
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = classifier("float32")
    made.network.roots["output"] = made.roots
    save_model(made.network, "net.dnn")


def test_there_and_back(capsys: pytest.CaptureFixture[str]) -> None:
    network = load_model("net.dnn", core_ops().find)
    told = f"{len(network)} nodes, {sum(math.prod(each.known_shape) for each in network.parameters)} numbers in "
    told += f"{len(network.parameters)} parameters\n"
    assert main(["convert", "net.dnn", "-o", "net.onnx"]) == 0
    assert capsys.readouterr().out == f"net.onnx: {told}"
    assert main(["convert", "net.onnx", "-o", "back.dnn"]) == 0
    assert capsys.readouterr().out == f"back.dnn: {told}"
    assert Path("back.dnn").read_bytes() == Path("net.dnn").read_bytes()


@pytest.mark.parametrize("more", [[], ["--quantize", "int8"], ["--quantize", "fp16"], ["--set", "sequences=one"]])
def test_check(more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "net.dnn", "-o", "net.onnx", "--check", *more]) == 0
    line = capsys.readouterr().out.splitlines()[1]
    found = re.fullmatch(r"net\.onnx: onnxruntime differs by (\S+) at most, in '\w+' of up to \S+", line)
    assert found is not None
    assert float(found[1]) < (0.2 if more[:1] == ["--quantize"] else 1e-5)


def test_smaller_numbers_make_smaller_files() -> None:
    network = load(DATA / "vgg.script.onnx")
    sizes = [written(network, Path(f"{kind}.onnx"), quantize=kind).stat().st_size for kind in ("none", "fp16", "int8")]
    assert sizes[1] < 0.6 * sizes[0]
    assert sizes[2] < 0.45 * sizes[0]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--set", "one"], "--set needs NAME=VALUE, not 'one'"),
        (
            ["--set", "frames=one"],
            "ONNX files have no setting 'frames'\n    Settings: sequences, sparse, quantize, loops",
        ),
        (
            ["--quantize", "int9"],
            "the setting quantize cannot be 'int9'; did you mean 'int8'?\n    It is one of none, int8, fp16.",
        ),
    ],
)
def test_what_the_format_does_not_know(more: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "net.dnn", "-o", "net.onnx", *more]) == 2
    assert capsys.readouterr().err == f"error: {message}\n"
    assert not Path("net.onnx").exists()


def test_other_formats_have_no_settings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "net.dnn", "-o", "new.dnn", "--quantize", "int8"]) == 2
    assert capsys.readouterr().err == "error: CoreFormat has no setting 'quantize'\n"
    assert main(["convert", "net.dnn", "-o", "new.dnn", "--check"]) == 1
    assert capsys.readouterr().err == "error: nothing checks models in the format of CoreFormat\n"


def test_any_verb_takes_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    Path("other.onnx").write_bytes((DATA / "resnet.script.onnx").read_bytes())
    assert main(["dump", "other.onnx"]) == 0
    assert "fc.weight" in capsys.readouterr().out
    assert main(["edit", "other.onnx", "-c", 'Rename("y", "scores")', "-o", "edited.dnn"]) == 0
    assert "scores" in load_model("edited.dnn", core_ops().find)


def test_a_training_writes_no_onnx(capsys: pytest.CaptureFixture[str]) -> None:
    """What a training goes on from is in its model, which a graph of ONNX cannot hold."""
    recipe = 'command = Train\nTrain = [\n action = "train"\n modelPath = "models/net.onnx"\n'
    recipe += " BrainScriptNetworkBuilder = { x = Input{2} }\n SGD = [ maxEpochs = 1 ]\n"
    recipe += ' reader = [ file = "none" ]\n]\n'
    Path("r.cntk").write_text(recipe, encoding="utf-8")
    assert main(["train", "r.cntk"]) == 1
    dnn, other = Path("models/net.dnn"), Path("models/net.onnx")
    assert (
        f"error: r.cntk:4:15: modelPath '{other}' is called like a file of another format, but a training writes our "
        f"own\n    Name it {dnn}, and afterwards: cntk convert {dnn} -o {other}\n"
    ) in capsys.readouterr().err
    assert not Path("models").exists()
