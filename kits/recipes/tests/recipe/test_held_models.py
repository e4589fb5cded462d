"""Two runs never write one model; what stands in the way of writing it is said at once."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cntk_kit_recipes.cli import main
from cntk_kit_recipes.locks.lock import Lock
from cntk_kit_recipes.session.saving import Saver

HOLDER = Path(__file__).parent.parent / "locks/holder.py"
REMEDY = "    Wait until it is done, end it, or give another modelPath.\n"


def failed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["configFile=r.cntk", "command=Train", *arguments]) == 1
    return capsys.readouterr().err.rpartition("EXCEPTION occurred: ")[2]


@pytest.fixture
def holder(recipe: Path):
    """Another process that writes the models ``held`` and ``held.dnn``."""
    with subprocess.Popen(
        [sys.executable, str(HOLDER), "held.dnn"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("taken")
        yield process
        process.kill()


def test_a_training_into_the_path_of_another_one(holder, capsys):
    said = failed(capsys, "modelPath=held.dnn")
    assert said.startswith(f"the model 'held.dnn' is being written by process {holder.pid} on ")
    assert said.endswith(f" ({HOLDER} held.dnn)\n{REMEDY}")
    assert [path.name for path in Path().glob("held*")] == ["held.dnn.lock"]
    assert main(["configFile=r.cntk", "command=Train", "modelPath=held"]) == 0, "another model"
    holder.kill()
    holder.wait(30)
    assert main(["configFile=r.cntk", "command=Train", "modelPath=held.dnn"]) == 0
    assert " that is gone; it is taken over." in capsys.readouterr().err
    assert not list(Path().glob("*.lock"))


def test_other_actions_that_write_a_model(holder, capsys):
    assert main(["configFile=r.cntk", "command=Train", "modelPath=net.dnn"]) == 0
    capsys.readouterr()
    Path("e.mel").write_text('m = LoadModel("net.dnn", format=cntk)\nSaveModel(m, "held.dnn", format=cntk)\n')
    Path("e.cntk").write_text("command=E\nE=[\n action=edit\n editPath=e.mel\n]\n")
    assert main(["configFile=e.cntk"]) == 1
    assert f"the model 'held.dnn' is being written by process {holder.pid} on " in capsys.readouterr().err
    assert not Path("held.dnn").exists()


def test_a_training_that_lost_its_lock_writes_no_more(recipe, capsys, monkeypatch):
    real = Saver.save

    def stolen(self, *given, **more):
        lock = Path("net.dnn.lock")
        text = lock.read_text().replace(self.parts.lock.token, "0" * 16)
        lock.unlink()
        lock.write_text(text)
        return real(self, *given, **more)

    monkeypatch.setattr(Saver, "save", stolen)
    said = failed(capsys, "modelPath=net.dnn")
    assert said.startswith("the model 'net.dnn' now belongs to process ")
    assert not list(Path().glob("net.dnn.1*"))
    assert Path("net.dnn.lock").exists(), "it is the other one's"


TRAIN = """
import sys
from cntk_kit_recipes.cli import main
sys.exit(main(["configFile=r.cntk", "command=Train", *sys.argv[1:]]))
"""


@pytest.mark.thorough
def test_of_eight_trainings_that_start_at_once_one_trains(recipe):
    command = [sys.executable, "-c", TRAIN, "modelPath=net.dnn", "Train=[SGD=[maxEpochs=200]]"]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(8)]
    said = [process.communicate(timeout=300)[1] for process in processes]
    codes = [process.returncode for process in processes]
    assert sorted(codes) == [0, *[1] * 7]
    winner = processes[codes.index(0)].pid
    for code, text in zip(codes, said, strict=True):
        assert code == 0 or f"the model 'net.dnn' is being written by process {winner} on " in text
        assert code == 0 or "if they are ranks of one training, their launcher\n    is not known here" in text
    assert not list(Path().glob("*.lock"))


def newest_checkpoint():
    """The last epoch of which there is a checkpoint; older ones are gone at once."""
    return max((int(path.suffixes[-2][1:]) for path in Path().glob("net.dnn.*.ckp")), default=0)


@pytest.mark.thorough  # a lock of a process that was killed is taken over, above; tests/training kills and goes on
@pytest.mark.slow
def test_a_killed_training_is_followed_without_a_word_of_anybody(recipe):
    """kill -9 while it trains, and the same command again."""
    command = [sys.executable, "-c", TRAIN, "modelPath=net.dnn", "Train=[SGD=[maxEpochs=4000]]"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 120
        while newest_checkpoint() < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        process.kill()
    assert Path("net.dnn.lock").exists()
    newest = newest_checkpoint()
    done = subprocess.run(
        [*command[:-1], f"Train=[SGD=[maxEpochs={newest + 2}]]"],
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
        check=True,
    )
    assert " that is gone; it is taken over." in done.stderr
    assert "Restored from 'net.dnn." in done.stderr
    assert not list(Path().glob("*.lock"))


# -- what stands in the way -------------------------------------------------------------------------------


def test_the_path_is_a_folder(recipe, capsys):
    Path("models").mkdir()
    assert failed(capsys, "modelPath=models") == (
        "<command line>:3:11: modelPath 'models' is a folder\n    Give the name of a file, such as models/net.dnn.\n"
    )


@pytest.mark.skipif(not Path("/sys/kernel").exists(), reason="needs a folder that nobody can write to")
def test_a_folder_that_cannot_be_written(recipe, capsys):
    said = failed(capsys, "modelPath=/sys/net.dnn").splitlines()
    assert said[0] in (
        "the model '/sys/net.dnn' cannot be saved: Permission denied",
        "the model '/sys/net.dnn' cannot be saved: Read-only file system",
    )
    assert said[1].startswith("    Make room on the disk, or see to the rights of the folder, and run again: ")


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("folder", "Is a directory"),
        ("r.cntk/done/now", "Not a directory"),
        pytest.param(
            "/sys/kernel/done",
            "Permission denied",
            marks=pytest.mark.skipif(os.access("/sys/kernel", os.W_OK), reason="anybody can write there"),
        ),
    ],
)
def test_a_done_file_that_cannot_be_written(recipe, capsys, path, reason):
    """It is told before anything is trained."""
    Path("folder").mkdir()
    said = f"<command line>:3:1: the doneFile '{path}' cannot be written: {reason}\n"
    assert failed(capsys, f"doneFile={path}") == said
    assert not list(Path().glob("**/*.dnn*"))


@pytest.mark.slow
def test_names_that_the_locale_does_not_have(recipe):
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    Path("n.cntk").write_text('modelPath="mod\u00e8le/n\u00e9t.dnn"\n', encoding="utf-8")
    command = [sys.executable, "-c", TRAIN.replace("r.cntk", "r.cntk+n.cntk")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert done.stderr.endswith(
        "EXCEPTION occurred: 'mod\\xe8le' cannot be the name of a file here: "
        "the locale's encoding is ascii\n"
        "    Set LC_ALL=C.UTF-8 or PYTHONUTF8=1.\n"
    )
    assert not list(Path().glob("mod*"))


def test_the_lock_is_where_the_model_is(recipe, monkeypatch):
    taken: list[Path] = []
    real = Lock.take

    def take(self, **given):
        taken.append(self.path)
        real(self, **given)

    monkeypatch.setattr(Lock, "take", take)
    assert main(["configFile=r.cntk", "modelPath=a/net.dnn"]) == 0
    assert taken == [Path("a/net.dnn.lock")], "test and write need none"
