"""Whole runs whose files lie elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import fsspec
import pytest

from cntk_kit_recipes.cli import main
from cntk_testing.small_recipe import DATA, RECIPE


def names(folder: str) -> list[str]:
    memory = fsspec.filesystem("memory")
    return sorted(name.removeprefix(f"/{folder}/") for name in memory.find(f"/{folder}"))


def test_a_run_reads_and_writes_elsewhere(elsewhere: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = set(os.listdir())
    assert main([f"configFile={elsewhere}", "command=Train:Test:Write"]) == 0, capsys.readouterr().err
    told = capsys.readouterr().err
    assert "Written to memory://models/out*" in told
    assert str(tmp_path / "cache") not in told
    found = names("models")
    assert {"net.dnn", "net.dnn.0", "net.dnn.1", "net.dnn.ckp", "out.z"} <= set(found)
    assert not any(name.endswith((".lock", ".tmp")) for name in found)
    assert set(os.listdir()) - before <= {"cache"}


def test_it_is_the_model_of_files_here(elsewhere: str, recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", elsewhere]) == 0
    recipe.write_text(RECIPE)
    Path("train.ctf").write_text(DATA)
    assert main(["train", str(recipe)]) == 0
    assert fsspec.filesystem("memory").cat("/models/net.dnn") == Path("run/net.dnn").read_bytes()


def test_a_training_goes_on_from_what_lies_elsewhere(
    elsewhere: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    forget: Callable[[], None],
) -> None:
    assert main(["train", elsewhere, "Train=[SGD=[maxEpochs=4]]"]) == 0
    whole = fsspec.filesystem("memory").cat("/models/net.dnn")
    fsspec.filesystem("memory").rm("/models", recursive=True)
    assert main(["train", elsewhere, "Train=[SGD=[maxEpochs=2]]"]) == 0
    capsys.readouterr()
    forget()
    monkeypatch.setenv("CNTK_CACHE", str(tmp_path / "another-machine"))
    assert main(["train", elsewhere, "resume=must", "Train=[SGD=[maxEpochs=4]]"]) == 0
    told = capsys.readouterr().err
    assert "Restored from 'memory://models/net.dnn.ckp': 2 epochs" in told
    assert "the recipe is not the one" not in told
    assert fsspec.filesystem("memory").cat("/models/net.dnn") == whole


def test_checkpoints_are_removed_elsewhere_as_here(elsewhere: str, copies: Path) -> None:
    assert main(["train", elsewhere, "Train=[SGD=[maxEpochs=5]]"]) == 0
    here = copies / "memory/models"
    files = {str(path.relative_to(here)) for path in here.rglob("*") if path.is_file() and path.suffix != ".lock"}
    assert set(names("models")) == files
    assert "net.dnn.1.ckp" not in files


def test_a_file_that_is_not_there(elsewhere: str, capsys: pytest.CaptureFixture[str]) -> None:
    fsspec.filesystem("memory").rm("/data/train.ctf")
    assert main([f"configFile={elsewhere}", "command=Train"]) == 1
    told = capsys.readouterr().err
    assert "memory://recipes/r.cntk:25:9: CNTKTextFormatReader: cannot open file 'memory://data/train.ctf'" in told
    assert "'memory://data/train.ctf'" in told
    assert "Traceback" not in told


def test_a_recipe_that_is_not_there(copies: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "memory://recipes/none.cntk"]) == 1
    assert "'memory://recipes/none.cntk'" in capsys.readouterr().err


def test_safe_brings_nothing(elsewhere: str, recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe.write_text(RECIPE.replace('"train.ctf"', '"memory://data/train.ctf"'))
    assert main([f"configFile={recipe}", "--safe=run"]) == 1
    assert (
        f"{recipe}:25:17: --safe: 'memory://data/train.ctf' lies elsewhere\n    Bring it here, and name the file."
    ) in capsys.readouterr().err


def test_a_verb_reads_and_writes_elsewhere(elsewhere: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", elsewhere]) == 0
    capsys.readouterr()
    arguments = [
        "predict",
        "memory://models/net.dnn",
        "-i",
        "memory://data/train.ctf",
        "--output=memory://out/scores.csv",
    ]
    assert main(arguments) == 0
    assert capsys.readouterr().out == "memory://out/scores.csv: 4 samples, z\n"
    lines = fsspec.filesystem("memory").cat("/out/scores.csv").decode().splitlines()
    assert len(lines) == 5


def test_ranks_share_a_copy(recipe: Path, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    (tmp_path / "train.ctf").rename(there / "train.ctf")
    text = RECIPE.replace('"train.ctf"', f'"{there.as_uri()}/train.ctf"').replace('"run/', f'"{there.as_uri()}/models/')
    (there / "r.cntk").write_text(text)
    command = [sys.executable, "-m", "cntk_core", "train", f"{there.as_uri()}/r.cntk", "-n", "2", "--data-parallel"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert {"net.dnn", "net.dnn.0", "net.dnn.1", "net.dnn.ckp"} <= {path.name for path in (there / "models").iterdir()}
    assert not list((there / "models").glob("*.lock"))


KILL = """
import os
import signal

from cntk_core.api import hookimpl


@hookimpl
def cntk_epoch_begin(job, epoch):
    if epoch.epoch == 2:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def command(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cntk_core", *words],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, **variables},
    )


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="kills a process as POSIX does")
def test_a_killed_training_goes_on_on_another_machine(recipe: Path, tmp_path: Path) -> None:
    there = (tmp_path / "there").as_uri()
    Path("kill.py").write_text(KILL)
    words = ("train", str(recipe), f"modelPath={there}/net.dnn", "Train=[SGD=[maxEpochs=5]]")
    killed = command(*words, "--plugin", "kill.py")
    assert killed.returncode == -9, killed.stderr
    assert {"net.dnn.0", "net.dnn.1", "net.dnn.2", "net.dnn.2.ckp"} <= {one.name for one in Path("there").iterdir()}
    again = command(*words, "resume=must", CNTK_CACHE=str(tmp_path / "another"))
    assert again.returncode == 0, again.stderr
    assert f"Starting from checkpoint. Loading network from '{there}/net.dnn.2'." in again.stderr
    straight = command("train", str(recipe), "modelPath=straight/net.dnn", "Train=[SGD=[maxEpochs=5]]")
    assert straight.returncode == 0, straight.stderr
    assert Path("there/net.dnn").read_bytes() == Path("straight/net.dnn").read_bytes()
