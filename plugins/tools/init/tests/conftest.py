"""What the tests beside this file share."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test is in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
