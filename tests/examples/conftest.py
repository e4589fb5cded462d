"""Running the examples in a copy of their folder."""

from __future__ import annotations

import runpy
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Copy an example, make its data with the sizes that ``main`` of its script takes, and go to that folder."""

    def copy(name: str, **sizes: int) -> Path:
        folder = tmp_path / name
        shutil.copytree(EXAMPLES / name, folder, ignore=shutil.ignore_patterns("run"))
        runpy.run_path(str(folder / "make_data.py"))["main"](folder, **sizes)
        monkeypatch.chdir(folder)
        return folder

    return copy


@pytest.fixture
def script() -> Callable[[Path], dict[str, Any]]:
    """Return the definitions of a script."""
    return lambda path: runpy.run_path(str(path))
