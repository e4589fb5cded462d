"""Killing a training at any instant leaves a usable checkpoint, and the run that goes on ends in the same bytes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from killed_run import CRASH_EPOCHS, digest, train
from small import Lines

SCRIPT = Path(__file__).with_name("killed_run.py")
EPOCHS = 40
KILLS = 30
STEPS = {"plain": "1", "inside": "2", "search": "3", "sizes": "3", "after": "7", "interval": "11"}
"""Every so many operations on files there is a cut."""


def environment() -> dict[str, str]:
    paths = os.pathsep.join(path for path in sys.path if path)
    return {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.slow
@pytest.mark.parametrize("recipe", CRASH_EPOCHS)
def test_every_operation_on_files_may_be_the_last(tmp_path, recipe):
    """A cut before each opening, renaming and removal of a file in turn; before some in the longer runs."""
    lines = Lines()
    train(tmp_path / "straight", CRASH_EPOCHS[recipe], recipe, lines)
    if recipe in ("after", "interval"):
        assert lines.with_text("rolling back to"), "the recipe rolls back"
    command = [sys.executable, str(SCRIPT), "crash", str(tmp_path / "cut"), STEPS[recipe], recipe]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    assert len(rows) > 30
    assert [row[1] for row in rows] == ["1"] * (len(rows) - 1) + ["0"]
    assert {row[2] for row in rows} == {digest(tmp_path / "straight")}


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["plain", "search", "sizes"])
def test_kill_9_at_random_moments(tmp_path, recipe):
    kills = KILLS if recipe == "plain" else KILLS // 3
    train(tmp_path / "straight", EPOCHS, recipe)
    command = [sys.executable, str(SCRIPT), "train"]
    began = time.monotonic()
    subprocess.run([*command, str(tmp_path / "whole"), str(EPOCHS), recipe], env=environment(), check=True, timeout=120)
    whole = time.monotonic() - began
    moments = random.Random(1)
    killed = 0
    for trial in range(kills):
        folder = tmp_path / str(trial)
        process = subprocess.Popen([*command, str(folder), str(EPOCHS), recipe], env=environment())
        while not folder.exists() and process.poll() is None:  # starting Python takes longer than training
            time.sleep(0.001)
        time.sleep(moments.uniform(0.0, whole * 0.5))
        process.send_signal(signal.SIGKILL)
        killed += process.wait(timeout=60) == -signal.SIGKILL
        train(folder, EPOCHS, recipe)
        assert digest(folder) == digest(tmp_path / "straight"), f"trial {trial}"
        assert not list(folder.glob("*.tmp"))
    assert killed > kills // 2
