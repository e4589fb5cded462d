"""Logs, checkpoints and models name the plugins that took part."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import pytest

from cntk_core.network.model_file import read_model_origins
from cntk_core.plugins import specs
from cntk_core.plugins.took_part import CHANGING
from cntk_core.records.origin import Origin, as_entries
from cntk_kit_recipes.cli import main

WHEELS = {
    ("builder", "NDLNetworkBuilder"): "cntk-builder-ndl",
    ("engine", "cpu"): "cntk-engine-cpu",
    ("learner", "sgd"): "cntk-learner-sgd",
    ("reader", "CNTKTextFormatReader"): "cntk-reader-cntk-text",
}

SQUASH = """
from cntk_core.api import elementwise_op

@elementwise_op("Squash", gradient=lambda m, a, g, y, x: g / ((1 + m.abs(x)) * (1 + m.abs(x))))
def squash(m, a, x):
    return x / (1 + m.abs(x))
"""


def parts(*kinds: str) -> tuple[Origin, ...]:
    return tuple(Origin(*key, wheel, version(wheel)) for key, wheel in WHEELS.items() if key[0] in kinds)


def of(wheel: str) -> str:
    return f"{wheel} {version(wheel)}"


def test_a_training(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"configFile={recipe}", "engine=cpu"]) == 0
    lines = capsys.readouterr().err.splitlines()
    told = (
        f"Plugins: {of('cntk-builder-ndl')} (builder NDLNetworkBuilder), {of('cntk-engine-cpu')} (engine cpu), "
        f"{of('cntk-learner-sgd')} (learner sgd), {of('cntk-reader-cntk-text')} (reader CNTKTextFormatReader)"
    )
    assert lines.count(told) == 1
    everything = parts("builder", "engine", "learner", "reader")
    assert read_model_origins("run/net.dnn") == read_model_origins("run/net.dnn.0") == everything
    (manifest,) = Path("run").glob("net.dnn.checkpoints/*/manifest.json")
    assert json.loads(manifest.read_text(encoding="utf-8"))["plugins"] == as_entries(everything)


def test_test_and_write_tell_what_they_use(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"configFile={recipe}", "engine=cpu"]) == 0
    capsys.readouterr()
    told = f"Plugins: {of('cntk-engine-cpu')} (engine cpu), {of('cntk-reader-cntk-text')} (reader CNTKTextFormatReader)"
    for command in ("Test", "Write"):
        assert main([f"configFile={recipe}", "engine=cpu", f"command={command}"]) == 0
        lines = capsys.readouterr().err.splitlines()
        assert [line for line in lines if line.startswith("Plugins: ")] == [told]


def test_going_on_gives_the_same_bytes(recipe: Path) -> None:
    assert main([f"configFile={recipe}", "modelPath=straight"]) == 0
    assert main([f"configFile={recipe}", "modelPath=stopped", "Train=[SGD=[maxEpochs=1]]"]) == 0
    assert main([f"configFile={recipe}", "modelPath=stopped", "Train=[resume=auto]"]) == 0
    assert Path("stopped").read_bytes() == Path("straight").read_bytes()


def test_an_op_of_a_file(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("squash.py").write_text(SQUASH, encoding="utf-8")
    text = recipe.read_text(encoding="utf-8").replace("z = Times(W, features)", "t = Times(W, features)\nz = Squash(t)")
    recipe.write_text(text, encoding="utf-8")
    assert main(["train", str(recipe), "--plugin", "squash.py"]) == 0
    assert Origin("op", "Squash", "squash.py") in read_model_origins("run/net.dnn")
    assert "squash.py (op Squash)" in capsys.readouterr().err
    assert main(["test", str(recipe)]) != 0
    assert capsys.readouterr().err.endswith(
        "'run/net.dnn' uses operations that are not there: Squash of squash.py\n    --plugin squash.py\n"
    )


def test_the_hooks_that_change_something_are_hooks() -> None:
    assert {"cntk_configure", "cntk_network_built", "cntk_should_stop"} <= set(CHANGING) & set(vars(specs))


SLOWER = """
from cntk_core.api import hookimpl

@hookimpl
def cntk_learning_rate(job, epoch, rate):
    return rate / 2
"""

WATCHING = """
from cntk_core.api import hookimpl

@hookimpl
def cntk_epoch_end(job, summary):
    print(summary.epoch)
"""


def test_hooks_of_a_file(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those that may change what comes out, as of wheels."""
    Path("slower.py").write_text(SLOWER, encoding="utf-8")
    Path("watching.py").write_text(WATCHING, encoding="utf-8")
    assert main(["train", str(recipe), "--plugin", "slower.py", "--plugin", "watching.py"]) == 0
    found = [one for one in read_model_origins("run/net.dnn") if one.kind == "hooks"]
    assert found == [Origin("hooks", "slower", "slower.py")]
    assert "slower.py (hooks slower)" in capsys.readouterr().err
