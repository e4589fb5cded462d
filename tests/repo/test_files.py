"""What the repository may hold."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LONGEST_FILE = 500
LONG_FILES: dict[str, str] = {}
"""Files that may be longer, each with its reason."""

LOCK_FILES = {"Pipfile.lock", "pdm.lock", "poetry.lock", "pylock.toml", "uv.lock"}


def pins(root: Path) -> list[str]:
    lines = (root / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_no_lock_file_is_tracked(tracked_files: list[Path]) -> None:
    assert [file for file in tracked_files if file.name in LOCK_FILES] == []


def test_python_files_stay_readable(root: Path, tracked_files: list[Path]) -> None:
    sources = [file for file in tracked_files if file.suffix == ".py" and (root / file).is_file()]
    lengths = {file.as_posix(): len((root / file).read_text(encoding="utf-8").splitlines()) for file in sources}
    assert {file: lines for file, lines in lengths.items() if lines > LONGEST_FILE and file not in LONG_FILES} == {}


def test_scripts_can_be_run(root: Path) -> None:
    scripts = [root / ".ci/run", *root.glob("tools/*.sh")]
    assert [script.name for script in scripts if not os.access(script, os.X_OK)] == []


def test_every_pin_is_one_exact_version(root: Path) -> None:
    wrong = [pin for pin in pins(root) if not re.fullmatch(r"[a-z0-9-]+==[0-9][\w.]*( ; [\w.'=<>!() ]+)?", pin)]
    assert wrong == []


def test_every_dependency_is_pinned(root: Path, core: dict[str, Any], wheels: dict[str, dict[str, Any]]) -> None:
    wanted: list[str] = [
        entry for group in core["dependency-groups"].values() for entry in group if isinstance(entry, str)
    ]
    for project in (core["project"], *(plugin["project"] for plugin in wheels.values())):
        wanted += project["dependencies"]
        wanted += [entry for extra in project.get("optional-dependencies", {}).values() for entry in extra]
    pinned = {pin.split("==")[0] for pin in pins(root)}
    ours = {"cntk-core"} | {plugin["project"]["name"] for plugin in wheels.values()}
    assert {canonicalize_name(Requirement(entry).name) for entry in wanted} - ours - pinned == set()
