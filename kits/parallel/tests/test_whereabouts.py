"""Ending the process of a rank that does not answer."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cntk_kit_parallel import process_locations as module
from cntk_kit_parallel.process_locations import Whereabouts
from cntk_testing import VirtualRanks

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux")


@pytest.fixture
def sleeper():
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        yield process
        process.kill()


def test_a_process_on_this_machine(sleeper, monkeypatch):
    monkeypatch.setattr(module.os, "getpid", lambda: sleeper.pid)
    [found, _] = VirtualRanks(2).run(Whereabouts.gather)
    assert found.texts[0] == found.texts[1]
    assert found.end(1)
    assert sleeper.wait(30) == -signal.SIGKILL
    assert found.end(1)  # it has ended, so nothing is left to do


def test_processes_that_are_let_be(sleeper):
    [here] = VirtualRanks(1).run(Whereabouts.gather)
    machine, _, began = here.texts[0].rsplit(" ", 2)
    # The number was given to another process; another machine; a system that does not say when processes began.
    others = Whereabouts(
        (f"{machine} {sleeper.pid} {began}0", f"elsewhere {sleeper.pid} {began}", f"{machine} {sleeper.pid} ")
    )
    assert [others.end(rank) for rank in range(3)] == [True, False, False]
    assert sleeper.poll() is None


@pytest.mark.parametrize(
    "text", ["", "x", "a b", "{machine} -1 {began}", "{machine} x {began}", "{machine} \u0663 {began}"]
)
def test_what_a_rank_says_of_its_process_is_not_believed(text):
    """A number that is none could be that of a whole group of processes."""
    [here] = VirtualRanks(1).run(Whereabouts.gather)
    machine, _, began = here.texts[0].rsplit(" ", 2)
    assert not Whereabouts((text.format(machine=machine, began=began),)).end(0)
