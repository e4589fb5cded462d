"""The sources that a release is built from: the files that git tracks, with pages that can be read elsewhere.

A page of a wheel links to other files of the repository by relative paths. An index shows the page alone, so there the
links have to lead to the project's address.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import subprocess
from pathlib import Path

_LINK = re.compile(r"(\]\(|\]: )([^)\s]+)")
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|#|//")
_PICTURES = (".gif", ".jpg", ".png", ".svg")


class ReleaseError(Exception):
    """Something that a person has to mend before the release: says what and where."""


def tracked_files(root: Path) -> list[str]:
    """The files that git tracks, and those that it would if they were added, relative to the root.

    Raises:
        ReleaseError: git cannot say it.
    """
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=root, capture_output=True, check=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError) as reason:
        raise ReleaseError(f"{root}: git does not list its files: {reason}") from None
    return [name for name in sorted(set(listed.split("\0"))) if name and (root / name).is_file()]


def when(root: Path) -> int:
    """The time of a release in seconds since 1970: that of the last commit, or ``SOURCE_DATE_EPOCH``.

    Raises:
        ReleaseError: there is no commit.
    """
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    command = ["git", "log", "-1", "--format=%ct"]
    found = subprocess.run(command, cwd=root, capture_output=True, check=False, text=True).stdout.strip()
    if not found:
        raise ReleaseError(f"{root}: there is no commit whose time the files could have")
    return int(found)


def absolute_links(text: str, folder: str, home: str, version: str) -> str:
    """A page in Markdown whose relative links lead to the files of a version.

    Args:
        text: the page.
        folder: where it lies, relative to the root.
        home: the address of the project.
        version: of the release; its tag is that with a ``v`` before it.
    """

    def absolute(found: re.Match[str]) -> str:
        target = found[2]
        if _ELSEWHERE.match(target):
            return found[0]
        path, mark, anchor = target.partition("#")
        kind = "raw" if path.endswith(_PICTURES) else "blob"
        return f"{found[1]}{home}/{kind}/v{version}/{posixpath.normpath(posixpath.join(folder, path))}{mark}{anchor}"

    return _LINK.sub(absolute, text)


def stage(root: Path, into: Path, folders: list[str], home: str, version: str) -> None:
    """Copy the sources of all wheels, and what was compiled for them.

    Args:
        root: the repository.
        into: a folder; what was there is removed.
        folders: of the wheels, relative to the root.
        home: see :func:`absolute_links`.
        version: see :func:`absolute_links`.

    Raises:
        ReleaseError: git cannot say which files there are.
    """
    shutil.rmtree(into, ignore_errors=True)
    shipped = sorted(path.relative_to(root).as_posix() for path in root.glob("kits/*/src/*/shipped/*.kernels"))
    for name in [*tracked_files(root), *shipped]:
        target = into / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, target)
    for folder in folders:
        page = into / folder / "README.md"
        text = absolute_links(page.read_text(encoding="utf-8"), folder, home, version)
        page.write_text(text, encoding="utf-8")
