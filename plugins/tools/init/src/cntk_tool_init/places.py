"""How a recipe in one folder names files in another."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def seen_from(folder: Path, path: Path) -> str:
    """Return a path as a recipe says it that is run in a folder: relative where there is a way."""
    try:
        return Path(os.path.relpath(path.absolute(), folder.absolute())).as_posix()
    except ValueError:  # another drive
        return path.absolute().as_posix()


def from_list(folder: Path, path: Path) -> str:
    """Return a path as a list in a folder says it, wherever the recipe is run: ``.../`` is the folder of the list."""
    name = seen_from(folder, path)
    return name if Path(name).is_absolute() else f".../{name}"


@contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Paths count from a folder while the block runs."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def first_lines(path: Path, most: int = 200, size: int = 1 << 20) -> list[str]:
    """Return the first whole lines of a text file."""
    with path.open("rb") as file:
        data = file.read(size)
    lines = data.decode("utf-8-sig", errors="replace").splitlines()
    return (lines[:-1] if len(data) == size and len(lines) > 1 else lines)[:most]
