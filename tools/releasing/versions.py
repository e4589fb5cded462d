"""The version of all wheels, which is one, and what they ask of each other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from releasing.staging import ReleaseError

_VERSION = re.compile(r'^version = "([^"]+)"$', re.MULTILINE)
_DUNDER = re.compile(r'^__version__ = "[^"]+"$', re.MULTILINE)
_RANGE = re.compile(r'"(cntk-[a-z0-9-]+(?:\[[a-z0-9,-]+\])?)>=[0-9.]+(,<[0-9.]+)?"')
_FORM = re.compile(r"(\d+)\.(\d+)\.(\d+)((?:a|b|rc)\d+)?")


def with_version(text: str, version: str) -> str:
    """A ``pyproject.toml`` of a version: what it asks of our wheels begins with its minor version.

    Raises:
        ReleaseError: this is no version, or the file has none.
    """
    found = _FORM.fullmatch(version)
    if found is None:
        raise ReleaseError(f"'{version}' is no version: one is 0.2.0 or 0.2.0rc1")
    if len(_VERSION.findall(text)) != 1:
        raise ReleaseError("a pyproject.toml has not one line with a version")
    major, minor = int(found[1]), int(found[2])
    # What a release candidate asks for is there before the final version is.
    least = f"{version}" if found[4] else f"{major}.{minor}"

    def asked(requirement: re.Match[str]) -> str:
        below = f",<{major}.{minor + 1}" if requirement[2] else ""
        return f'"{requirement[1]}>={least}{below}"'

    return _RANGE.sub(asked, _VERSION.sub(f'version = "{version}"', text))


def set_version(root: Path, projects: Sequence[str], version: str) -> list[str]:
    """Write a version into all project files, and into the core; return the files that changed, relative to the root.

    Raises:
        ReleaseError: this is no version, or a file has none.
    """
    texts = {name: (root / name).read_text(encoding="utf-8") for name in [*projects, "cntk_core/__init__.py"]}
    new = {name: with_version(texts[name], version) for name in projects}
    new["cntk_core/__init__.py"] = _DUNDER.sub(f'__version__ = "{version}"', texts["cntk_core/__init__.py"])
    changed = [name for name, text in new.items() if text != texts[name]]
    for name in changed:
        (root / name).write_text(new[name], encoding="utf-8")
    return changed
