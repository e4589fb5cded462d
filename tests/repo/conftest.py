"""The repository itself: its root, its wheels, its tracked files."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def read_toml(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def load_tool() -> Callable[[str], ModuleType]:
    """Imports a program of ``tools/``, once for all tests: they have the same classes in whatever order they run."""

    def load(name: str) -> ModuleType:
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(str(ROOT / "tools"))
            return importlib.import_module(name)

    return load


@pytest.fixture(scope="session")
def core() -> dict[str, Any]:
    """The root ``pyproject.toml``."""
    return read_toml(ROOT / "pyproject.toml")


@pytest.fixture(scope="session")
def plugins() -> dict[str, dict[str, Any]]:
    """The ``pyproject.toml`` of each plugin, by folder, for example ``readers/mnist``."""
    files = sorted(ROOT.glob("plugins/*/*/pyproject.toml"))
    return {file.parent.relative_to(ROOT / "plugins").as_posix(): read_toml(file) for file in files}


@pytest.fixture(scope="session")
def wheels() -> dict[str, dict[str, Any]]:
    """The ``pyproject.toml`` of each wheel but the core's, by folder, for example ``plugins/readers/mnist``."""
    listing = subprocess.run(
        [sys.executable, "tools/wheels.py", "--paths"], cwd=ROOT, capture_output=True, check=True, text=True
    )
    return {folder: read_toml(ROOT / folder / "pyproject.toml") for folder in listing.stdout.split()}


@pytest.fixture(scope="session")
def tracked_files() -> list[Path]:
    """The files of the repository that git tracks, relative to its root."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listing = subprocess.run([git, "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    return [Path(name) for name in listing.split("\0") if name]
