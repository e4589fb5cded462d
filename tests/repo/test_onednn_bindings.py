"""What cffi loads is what the CPU engine declares."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

pytest.importorskip("cffi")
ROOT = Path(__file__).parents[2]


def test_bindings_are_up_to_date():
    tool = runpy.run_path(str(ROOT / "tools/onednn_bindings.py"))
    assert tool["HERE"].read_text() == tool["text"](), "run python tools/onednn_bindings.py"
