"""``cntk train -n`` that is killed, or told to end more than once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from cntk_core.errors import UsageError
from cntk_kit_recipes.launch import launcher
from cntk_kit_recipes.launch.launcher import GRACE, _grace

RUNS = """
import sys, tempfile
from pathlib import Path
from cntk_kit_recipes.launch.launcher import _run
from cntk_kit_recipes.launch.rank_watch import RankWatch

sleeping = "import os, time; print(os.getpid(), flush=True); time.sleep(120)"
_run([sys.executable, "-c", sleeping], {}, RankWatch(Path(tempfile.mkdtemp())))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs prctl")
def test_what_starts_the_ranks_ends_with_the_command_that_is_killed():
    command = subprocess.Popen([sys.executable, "-c", RUNS], stdout=subprocess.PIPE, text=True)
    child = int(command.stdout.readline())
    os.kill(child, 0)
    command.kill()
    command.wait()
    command.stdout.close()
    end = time.monotonic() + 30.0
    while _lives(child) and time.monotonic() < end:
        time.sleep(0.02)
    assert not _lives(child)


def _lives(process):
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_how_long_ranks_have():
    assert _grace({}) == launcher._GRACE == 30.0
    assert _grace({GRACE: "2.5"}) == 2.5
    for wrong in ("0", "-1", "inf", "nan", "long"):
        with pytest.raises(UsageError) as caught:
            _grace({GRACE: wrong})
        assert str(caught.value) == f"CNTK_GRACE is '{wrong}': it is a number of seconds that is more than 0"


class Ranks:
    """A watch whose ranks end with the second request."""

    ended = ()

    def __init__(self, process):
        self.process, self.told, self.begun = process, [], time.monotonic()

    def look(self, seconds):
        time.sleep(0.02)
        waited = time.monotonic() - self.begun
        if waited > 0.2 * (len(self.told) + 1) and len(self.told) < 2:
            os.kill(os.getpid(), signal.SIGTERM)

    def tell(self, number):
        self.told.append(number)
        if len(self.told) == 2:
            os.kill(self.process(), signal.SIGKILL)
        return True


def test_who_tells_it_twice_does_not_wait(monkeypatch, tmp_path):
    """As a rank by itself: the first request saves, a later one ends."""
    monkeypatch.setattr(launcher, "ECHO", 0.1)
    note = tmp_path / "process"
    text = f"import os, time; open({str(note)!r}, 'w').write(str(os.getpid())); time.sleep(120)"

    def process():
        while not (note.is_file() and note.read_text(encoding="utf-8")):
            time.sleep(0.01)
        return int(note.read_text(encoding="utf-8"))

    ranks = Ranks(process)
    assert launcher._run([sys.executable, "-c", text], dict(os.environ), ranks) == 128 + signal.SIGTERM
    assert ranks.told == [signal.SIGTERM] * 2
