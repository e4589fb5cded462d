"""The folder in which the ranks of one launcher leave word for it."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cntk_core.system.processes import TOKEN, Process, is_of_dead

_PREFIX = "cntk-ranks-"
_PATTERN = rf"{_PREFIX}({TOKEN})-.*"


@contextmanager
def report_folder() -> Iterator[Path]:
    """Within, there is an empty folder for temporary files; those of launchers that were killed are removed.

    Raises:
        OSError: it cannot be made.
    """
    place = Path(tempfile.gettempdir())
    for name in os.listdir(place):
        if is_of_dead(name, _PATTERN) and _is_own_folder(place / name):
            shutil.rmtree(place / name, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{Process.own().token}-") as folder:
        yield Path(folder)


def _is_own_folder(path: Path) -> bool:
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and (not hasattr(os, "getuid") or found.st_uid == os.getuid())
