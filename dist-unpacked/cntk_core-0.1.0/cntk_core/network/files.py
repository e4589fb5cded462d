"""Writing files and folders so that at every instant the old or the new one is there, whole.

New content goes to a temporary name on the same disk, is flushed, and is then renamed; the parent folder is flushed
last. A temporary name is of one process alone, which it names: ``.NAME.TOKEN.tmp`` beside the target, or
``file-TOKEN.tmp`` and ``new-TOKEN.tmp`` in a folder for them. What a process left that has ended is removed when the
same file is written again; nothing else is.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO

from cntk_core.system.processes import TOKEN, Process, is_of_dead

TEMPORARY = ".tmp"
SCRATCH = rf"(?:file|new)-{TOKEN}-[0-9]+\.tmp"
"""Pattern of temporary names in a folder for them."""

_MOST_OF_NAME = 100
_NUMBERS = itertools.count()


def _unique() -> str:
    return f"{Process.own().token}-{next(_NUMBERS)}{TEMPORARY}"


def write_file(path: Path, chunks: Iterable[bytes | memoryview]) -> None:
    """Write a file in one step, as seen from outside. The parent folder is made.

    Raises:
        OSError: it could not be written; the old file, if any, is untouched.
    """
    replace_file(path, chunks)


def replace_file(
    path: Path,
    chunks: Iterable[bytes | memoryview],
    *,
    scratch: Path | None = None,
    seen: Callable[[bytes | memoryview], None] = lambda chunk: None,
) -> None:
    """Do the same.

    Args:
        path, chunks: as above.
        scratch: a folder for the temporary file, which is made; it is only used if it is on the same disk.
        seen: told what was written, such as ``update`` of a digest.

    Raises:
        OSError: as above.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(path, scratch)
    try:
        with temporary.open("wb") as file:
            _write(file, _told(chunks, seen))
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
    if temporary.parent != path.parent:  # otherwise the old name may come back, and a strict disk forget the new one
        sync_folder(temporary.parent)


def _temporary(path: Path, scratch: Path | None) -> Path:
    if scratch is not None:
        scratch.mkdir(parents=True, exist_ok=True)
        if scratch.stat().st_dev == path.parent.stat().st_dev:
            return scratch / f"file-{_unique()}"
    name = f".{path.name[:_MOST_OF_NAME]}."
    pattern = rf"{re.escape(name)}({TOKEN})-[0-9]+\.tmp"
    for found in os.listdir(path.parent):
        if found.startswith(name) and is_of_dead(found, pattern):
            (path.parent / found).unlink(missing_ok=True)
    return path.with_name(name + _unique())


def _told(
    chunks: Iterable[bytes | memoryview], seen: Callable[[bytes | memoryview], None]
) -> Iterator[bytes | memoryview]:
    for chunk in chunks:
        yield chunk
        seen(chunk)


def _write(file: IO[bytes], chunks: Iterable[bytes | memoryview]) -> None:
    for chunk in chunks:
        file.write(chunk)
    file.flush()
    os.fsync(file.fileno())


@contextlib.contextmanager
def temporary_folder(place: Path) -> Iterator[Path]:
    """Make an empty folder of a temporary name in ``place``, to be filled and then renamed.

    Raises:
        OSError: it could not be made or filled; then it is removed again.
    """
    path = place / f"new-{_unique()}"
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


def sync_folder(folder: Path) -> None:
    """Flush a folder's list of names to the disk, where the system can do that."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
