"""Whatever goes wrong while training is saved, the old or the new checkpoint is there, and nothing is lost."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from small import TABLE, Lines, make_session
from test_inside import StopAfter

from cntk_core.errors import CntkError, TrainingError
from cntk_core.network.model_file import load_model
from cntk_kit_recipes.session.generations import ModelPaths, find_start
from cntk_kit_recipes.session.saving import Saver
from cntk_kit_recipes.session.session import TrainingSession
from cntk_testing.faults import KINDS, SHORT, Crash, Faults

GIVEN = {"max_epochs": 3, "minibatch_size": 11, "checkpoint_every_samples": 11, "gaussian_noise_inject_std": 0.01}
SAVES = {
    "epoch": ("save", {(1, 3), (2, 0)}),
    "inside": ("save_inside", {(1, 2), (1, 3)}),
    "final": ("save", {(2, 3), (3, 0)}),
}
"""By kind of save: the method, and the places in training that may be found afterwards: the old and the new one."""
FIRST = {"epoch": (2, 0), "inside": (1, 3), "final": (3, 0)}


def session(folder: Path, lines: Lines | None = None, **changes) -> TrainingSession:
    return make_session(folder, lines, **{**GIVEN, **changes})


class Once:
    """Faults around the save of one place in training."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, save: str, faults: Faults) -> None:
        name, _ = SAVES[save]
        real = getattr(Saver, name)
        wanted = FIRST[save]
        self.done = False

        def watched(saver, progress, *given, **more):
            place = (progress.epochs, given[0].minibatches if given else 0)
            if place != wanted:
                return real(saver, progress, *given, **more)
            self.done = True
            with faults:
                return real(saver, progress, *given, **more)

        monkeypatch.setattr(Saver, name, watched)


@pytest.fixture(autouse=True)
def no_flush(monkeypatch):
    """Flushing takes long and cannot be seen from inside."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


@pytest.fixture(scope="module")
def straight(tmp_path_factory) -> bytes:
    folder = tmp_path_factory.mktemp("straight")
    session(folder).run()
    return (folder / "net.dnn").read_bytes()


@pytest.fixture(scope="module")
def begun(tmp_path_factory) -> dict[str, Path]:
    """Trainings that were stopped a little before the save, by kind of save."""
    from test_inside import Stop

    found = {}
    for save, minibatches in {"epoch": 8, "inside": 7, "final": 12}.items():
        found[save] = tmp_path_factory.mktemp(save)
        with pytest.raises(Stop):
            session(found[save], hooks=StopAfter(minibatches)).run()
    return found


def count(folder: Path, begun: Path, save: str) -> list[str]:
    """The calls of a save that nothing happens to."""
    shutil.copytree(begun, folder)
    with pytest.MonkeyPatch.context() as patch:
        faults = Faults(folder)
        watched = Once(patch, save, faults)
        session(folder).run()
    assert watched.done
    return faults.calls


def place(folder: Path) -> tuple[int, int]:
    """Where a fresh process would go on."""
    paths = ModelPaths(folder / "net.dnn", GIVEN["max_epochs"])
    final = 3 if paths.final.is_file() else None
    start = find_start(paths, lambda path: load_model(path, TABLE.find), None, lambda line: None, final=final)
    assert start is not None
    assert start.checkpoint is not None
    return start.epochs, start.minibatches


def fault(folder: Path, begun: Path, save: str, at: int, kind: str, straight: bytes) -> str:
    """Let one call go wrong, look at what is left, go on; return what the run said."""
    shutil.copytree(begun, folder)
    lines = Lines()
    said = ""
    with pytest.MonkeyPatch.context() as patch:
        faults = Faults(folder, at, kind)
        watched = Once(patch, save, faults)
        try:
            session(folder, lines).run()
        except Crash:
            said = "crash"
        except TrainingError as error:
            said = str(error)
    assert watched.done
    if said:
        assert place(folder) in SAVES[save][1]
    else:
        # A name that cannot be read keeps old files from being removed, and the next save tries again; and a folder
        # that is there need not be made.
        assert lines.with_text("Warning: ") or faults.calls[at] in ("open", "mkdir")
    more = Lines()
    session(folder, more).run()
    assert (folder / "net.dnn").read_bytes() == straight
    assert not more.with_text("Warning")
    assert not list(folder.glob("*.tmp"))
    if said and save != "final":  # a training that is complete tidies up no more
        assert sorted(path.name for path in folder.glob("*.ckp")) == ["net.dnn.ckp"]
        assert len(list((folder / "net.dnn.checkpoints").iterdir())) == 1
    shutil.rmtree(folder)
    return said or "\n".join(lines.with_text("Warning: "))


def pairs_of(calls: list[str], steps: int) -> Iterator[list[tuple[int, str]]]:
    """Every so many calls of a save with all kinds of faults; another kind is the first one for each of them."""
    for number, at in enumerate(range(0, len(calls), steps)):
        kinds = [kind for kind in KINDS if kind != SHORT or calls[at] == "write"]
        yield [(at, kinds[(number + n) % len(kinds)]) for n in range(len(kinds))]


def some(tmp_path: Path, begun: dict[str, Path], save: str, straight: bytes, kinds: int, steps: int = 1) -> list[str]:
    """Try every so many calls of a save with so many kinds of faults."""
    calls = count(tmp_path / "count", begun[save], save)
    pairs = [pair for of_call in pairs_of(calls, steps) for pair in of_call[:kinds]]
    return [fault(tmp_path / str(n), begun[save], save, *pair, straight) for n, pair in enumerate(pairs)]


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("save", SAVES)
def test_every_call_of_a_save_may_go_wrong(tmp_path, begun, straight, save):
    said = some(tmp_path, begun, save, straight, kinds=len(KINDS), steps=1)
    assert len(said) > 80
    assert said.count("crash") > 40


@pytest.mark.parametrize("save", SAVES)
@pytest.mark.sampled(4, later=2)
def test_some_calls_of_a_save_go_wrong(tmp_path, begun, straight, save):
    assert len(some(tmp_path, begun, save, straight, kinds=1, steps=5)) >= 4


@pytest.mark.parametrize("save", SAVES)
def test_a_save_makes_these_calls(tmp_path, begun, save):
    calls = count(tmp_path / "count", begun[save], save)
    assert {"open", "write", "fsync", "replace", "mkdir", "unlink"} <= set(calls)
    # what is new is flushed before it gets its name
    assert all("fsync" in calls[:at] for at, name in enumerate(calls) if name == "replace")


def test_the_message_says_what_to_do(tmp_path, begun, straight):
    calls = count(tmp_path / "count", begun["epoch"], "epoch")
    said = fault(tmp_path / "full", begun["epoch"], "epoch", calls.index("write"), SHORT, straight)
    assert said == (
        f"the model '{tmp_path}/full/net.dnn.2' cannot be saved: No space left on device\n"
        "    Make room on the disk, or see to the rights of the folder, and run again: the models and checkpoints "
        "of before are untouched, and training goes on from them."
    )


def test_old_files_that_cannot_be_removed_do_not_end_training(tmp_path, begun, straight):
    calls = count(tmp_path / "count", begun["epoch"], "epoch")
    last = len(calls) - 1 - calls[::-1].index("unlink")
    said = fault(tmp_path / "kept", begun["epoch"], "epoch", last, "gone", straight)
    assert said == ("Warning: old checkpoints cannot be removed: Input/output error. They are of no use any more.")


def test_a_crash_is_no_error_of_ours():
    assert not issubclass(Crash, Exception)
    assert issubclass(TrainingError, CntkError)
