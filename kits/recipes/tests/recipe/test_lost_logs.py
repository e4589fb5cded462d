"""A log that cannot be written, and a console that is gone, never end a training."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cntk_kit_recipes.cli import main
from cntk_kit_recipes.recipe.log import Log
from cntk_kit_recipes.session.saving import Saver

needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is full")
TRAIN = f"{sys.executable} -m cntk_core configFile=r.cntk"


@needs_full
def test_a_full_disk_under_the_log(recipe, capsys):
    assert main(["configFile=r.cntk", "stderr=/dev/full"]) == 0
    console = capsys.readouterr().err.splitlines()
    at = console.index(
        "Warning: the log file '/dev/full' cannot be written any more: No space left on device. "
        "Lines go to the console from now on."
    )
    assert console[at - 1] == "Redirecting stderr to file /dev/full"
    assert console[at + 1].startswith("CNTK 2.0+"), "nothing is left out"
    assert console[-1] == "COMPLETED."
    assert Path("run/net.dnn").exists()


def test_a_log_that_is_taken_away(recipe, capsys, monkeypatch):
    real = Saver.initial

    def remove(self, *given):
        Path("log").unlink()
        real(self, *given)

    monkeypatch.setattr(Saver, "initial", remove)
    assert main(["configFile=r.cntk", "stderr=log"]) == 0
    console = capsys.readouterr().err
    assert console.count("Warning: the log file 'log' cannot be written any more: somebody has removed it. ") == 1
    assert console.count("Finished Epoch[") == 2


def test_a_log_that_is_full_when_it_is_closed(tmp_path, capsys):
    log = Log()
    log.redirect(str(tmp_path / "log"))
    file = log._file
    assert file is not None
    file.write("not flushed")
    os.dup2(os.open("/dev/full", os.O_WRONLY), file.fileno())
    log.close()
    assert not log.to_file
    assert "cannot be written any more: No space left on device" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    "streams",
    [
        "<&- >&- 2>&-",
        pytest.param("2>/dev/full", marks=[needs_full, pytest.mark.thorough]),
        pytest.param("2>&1 | head -1; exit ${PIPESTATUS[0]}", marks=pytest.mark.thorough),
    ],
)
def test_a_console_that_is_not_there(recipe, streams):
    done = subprocess.run(["bash", "-c", f"{TRAIN} {streams}"], check=False, timeout=120)
    assert done.returncode == 0
    assert Path("run/net.dnn").exists()
