"""Strangers and ranks that lie, in a small number; `tools/fuzz_ranks.py` by hand takes larger ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "fuzz_ranks.py"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("connections", "messages"), [(60, 600), pytest.param(50_000, 50_000, marks=pytest.mark.thorough)]
)
def test_ranks_are_attacked(connections, messages):
    command = [sys.executable, str(TOOL), "--connections", str(connections), "--messages", str(messages)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=7200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{connections} connections in" in done.stdout
    assert f"{messages} streams of messages in" in done.stdout
    assert "0 failures" in done.stdout
