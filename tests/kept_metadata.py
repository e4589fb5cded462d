"""Metadata of installed wheels is read once for all tests: each run of a recipe looks through that of all wheels.

It is read anew where a file has changed, as in a folder to which a test adds wheels.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.metadata import Distribution, PathDistribution
from typing import Any

FILES = {"metadata": "METADATA", "entry_points": "entry_points.txt"}
"""What is kept, and the file that it is read from."""


def keep_metadata() -> Callable[[], None]:
    """Have distributions share what was read of the same files; return what undoes it."""
    for name, file in FILES.items():
        setattr(PathDistribution, name, property(_kept(vars(Distribution)[name].fget, file)))

    def undo() -> None:
        for name in FILES:
            delattr(PathDistribution, name)

    return undo


def _kept(read: Callable[[Distribution], Any], file: str) -> Callable[[Distribution], Any]:
    """``read``, but once for each state of a wheel's file; of its folder, where there is no such file."""
    found: dict[tuple[str, int, int, int], Any] = {}

    def look(distribution: Distribution) -> Any:
        folder = str(getattr(distribution, "_path", ""))  # there is no door to it
        try:
            status = os.stat(f"{folder}/{file}")
        except OSError:
            try:
                status = os.stat(folder)
            except OSError:
                return read(distribution)
        key = (folder, status.st_ino, status.st_mtime_ns, status.st_size)
        if key not in found:
            found[key] = read(distribution)
        return found[key]

    return look
