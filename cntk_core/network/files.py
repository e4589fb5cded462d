"""Writing files and folders so that at every instant the old or the new one is there, whole.

New content goes to a temporary name beside the target, is flushed to the disk, and is then renamed; the parent folder
is flushed last. Temporary names end in ``.tmp``; what a killed run left behind is removed by :func:`remove_leftovers`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

TEMPORARY = ".tmp"


def write_file(path: Path, chunks: Iterable[bytes | memoryview]) -> None:
    """Write a file in one step, as seen from outside. The parent folder is made.

    Raises:
        OSError: it could not be written; the old file, if any, is untouched.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + TEMPORARY)
    try:
        with temporary.open("wb") as file:
            _write(file, chunks)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def _write(file: IO[bytes], chunks: Iterable[bytes | memoryview]) -> None:
    for chunk in chunks:
        file.write(chunk)
    file.flush()
    os.fsync(file.fileno())


@contextlib.contextmanager
def temporary_folder(path: Path) -> Iterator[Path]:
    """Make an empty folder of a temporary name (one that is there is emptied), to be filled and then renamed.

    Raises:
        OSError: it could not be made or filled; then it is removed again.
    """
    remove(path)
    try:
        path.mkdir(parents=True)
        yield path
    except BaseException:
        with contextlib.suppress(OSError):
            remove(path)
        raise


def settle(temporary: Path, path: Path) -> None:
    """Give a filled folder its name in one step; nothing may be there. Files in it must have been flushed.

    Raises:
        OSError: it cannot be renamed.
    """
    sync_folder(temporary)
    temporary.replace(path)
    sync_folder(path.parent)
    sync_folder(path.parent.parent)


def remove(path: Path) -> None:
    """Remove a file or a folder, if it is there.

    A folder gets a temporary name first, so that it is never seen half removed.
    """
    if path.is_dir() and not path.is_symlink():
        doomed = path
        if not path.name.endswith(TEMPORARY):
            doomed = path.with_name(path.name + TEMPORARY)
            if doomed.exists():
                shutil.rmtree(doomed)
            path.replace(doomed)
        shutil.rmtree(doomed)
    else:
        path.unlink(missing_ok=True)


def remove_leftovers(path: Path) -> None:
    """Remove what a killed run left: names beside ``path`` that begin like it and end in ``.tmp``."""
    if not path.parent.is_dir():
        return
    for found in list(path.parent.iterdir()):
        if found.name.startswith(path.name) and found.name.endswith(TEMPORARY):
            remove(found)


def sync_folder(folder: Path) -> None:
    """Flush a folder's list of names to the disk, where the system can do that."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
