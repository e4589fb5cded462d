"""What the tests of examples share: a folder with the files of an example, in which its scripts and recipes run."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Callable[[str], ModuleType]]:
    """Go to a copy of an example by name; returns what imports one of its scripts."""

    def go(name: str) -> Callable[[str], ModuleType]:
        folder = tmp_path / name
        shutil.copytree(EXAMPLES / name, folder, ignore=shutil.ignore_patterns("run", "*.ctf"))
        monkeypatch.chdir(folder)
        monkeypatch.syspath_prepend(folder)

        def script(stem: str) -> ModuleType:
            spec = importlib.util.spec_from_file_location(stem, folder / f"{stem}.py")
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            monkeypatch.setitem(sys.modules, stem, module)
            spec.loader.exec_module(module)
            return module

        return script

    return go
