"""A training cut at any operation on files goes on to the same bytes; ``test_kill_tool`` kills at any moment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from killed_run import CRASH_EPOCHS, digest, train
from small import Lines

SCRIPT = Path(__file__).with_name("killed_run.py")
STEPS = {"plain": 1, "inside": 2, "search": 3, "sizes": 3, "after": 7, "interval": 11}
"""Every so many operations on files there is a cut."""
SAMPLE = 17
"""One of so many of these cuts, unless all are asked for."""


def environment() -> dict[str, str]:
    paths = os.pathsep.join(path for path in sys.path if path)
    return {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.slow
@pytest.mark.parametrize(
    "recipe",
    [
        pytest.param(name, marks=[pytest.mark.thorough] if name not in ("after", "inside") else [])
        for name in CRASH_EPOCHS
    ],
)
def test_every_operation_on_files_may_be_the_last(tmp_path, recipe, thorough):
    """A cut before each opening, renaming and removal of a file in turn; before some in the longer runs."""
    lines = Lines()
    train(tmp_path / "straight", CRASH_EPOCHS[recipe], recipe, lines)
    if recipe in ("after", "interval"):
        assert lines.with_text("rolling back to"), "the recipe rolls back"
    sample = 1 if thorough else SAMPLE
    command = [sys.executable, str(SCRIPT), str(tmp_path / "cut"), str(STEPS[recipe] * sample), recipe]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    assert len(rows) > 30 // sample
    assert [row[1] for row in rows] == ["1"] * (len(rows) - 1) + ["0"]
    assert {row[2] for row in rows} == {digest(tmp_path / "straight")}
