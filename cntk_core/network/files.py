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
REPLACED = ".old.tmp"
DOOMED = ".gone.tmp"


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
def new_folder(path: Path) -> Iterator[Path]:
    """Fill a folder under a temporary name, then give it its own in one step.

    Yields:
        The temporary folder. Files in it must have been flushed (:func:`write_file` does).

    Raises:
        OSError: it could not be written; the old folder, if any, is still there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + TEMPORARY)
    remove(temporary)
    try:
        temporary.mkdir()
        yield temporary
        sync_folder(temporary)
        _take_place(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            remove(temporary)
        raise
    sync_folder(path.parent)


def _take_place(temporary: Path, path: Path) -> None:
    # A folder cannot be renamed onto one that is not empty, so the old one steps aside first.
    old = path.with_name(path.name + REPLACED)
    remove(old)
    if path.exists() or path.is_symlink():
        path.replace(old)
    try:
        temporary.replace(path)
    except BaseException:
        if old.exists():
            old.replace(path)
        raise
    remove(old)


def remove(path: Path) -> None:
    """Remove a file or a folder, if it is there.

    A folder gets a temporary name first, so that it is never seen half removed.
    """
    if path.is_dir() and not path.is_symlink():
        doomed = path
        if not path.name.endswith(TEMPORARY):
            doomed = path.with_name(path.name + DOOMED)
            if doomed.exists():
                shutil.rmtree(doomed)
            path.replace(doomed)
        shutil.rmtree(doomed)
    else:
        path.unlink(missing_ok=True)


def remove_leftovers(path: Path) -> None:
    """Clean up after a killed run: temporary names that begin with ``path``.

    A folder that had stepped aside for one that never took its place gets its name back.
    """
    if not path.parent.is_dir():
        return
    for found in sorted(path.parent.iterdir()):
        if not (found.name.startswith(path.name) and found.name.endswith(TEMPORARY)):
            continue
        target = found.with_name(found.name.removesuffix(REPLACED))
        if found.name.endswith(REPLACED) and not target.exists():
            found.replace(target)
        else:
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
