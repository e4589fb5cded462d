"""Running the examples in a copy of their folder."""

from __future__ import annotations

import importlib.util
import runpy
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
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


@pytest.fixture
def example_scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Callable[[str], ModuleType]]:
    """Go to a copy of an example by name; returns what imports one of its scripts, which may import the others."""

    def go(name: str) -> Callable[[str], ModuleType]:
        folder = tmp_path / name
        shutil.copytree(EXAMPLES / name, folder, ignore=shutil.ignore_patterns("run", "*.ctf"))
        monkeypatch.chdir(folder)
        monkeypatch.syspath_prepend(folder)

        def import_script(stem: str) -> ModuleType:
            spec = importlib.util.spec_from_file_location(stem, folder / f"{stem}.py")
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            monkeypatch.setitem(sys.modules, stem, module)
            spec.loader.exec_module(module)
            return module

        return import_script

    return go
