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
from killed_run import digest, train

SCRIPT = Path(__file__).with_name("killed_run.py")
EPOCHS = 40
KILLS = 30


def environment() -> dict[str, str]:
    paths = os.pathsep.join(path for path in sys.path if path)
    return {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.slow
def test_every_operation_on_files_may_be_the_last(tmp_path):
    """A cut before each opening, renaming and removal of a file in turn."""
    train(tmp_path / "straight", 2)
    command = [sys.executable, str(SCRIPT), "crash", str(tmp_path / "cut"), "1"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    assert len(rows) > 30
    assert [row[1] for row in rows] == ["1"] * (len(rows) - 1) + ["0"]
    assert {row[2] for row in rows} == {digest(tmp_path / "straight")}


@pytest.mark.slow
def test_kill_9_at_random_moments(tmp_path):
    train(tmp_path / "straight", EPOCHS)
    command = [sys.executable, str(SCRIPT), "train"]
    began = time.monotonic()
    subprocess.run([*command, str(tmp_path / "whole"), str(EPOCHS)], env=environment(), check=True, timeout=120)
    whole = time.monotonic() - began
    moments = random.Random(1)
    killed = 0
    for trial in range(KILLS):
        folder = tmp_path / str(trial)
        process = subprocess.Popen([*command, str(folder), str(EPOCHS)], env=environment())
        while not folder.exists() and process.poll() is None:  # starting Python takes longer than training
            time.sleep(0.001)
        time.sleep(moments.uniform(0.0, whole * 0.5))
        process.send_signal(signal.SIGKILL)
        killed += process.wait(timeout=60) == -signal.SIGKILL
        train(folder, EPOCHS)
        assert digest(folder) == digest(tmp_path / "straight"), f"trial {trial}"
        assert not list(folder.glob("*.tmp"))
    assert killed > KILLS // 2
