"""A folder for the files that parsers read, and values in a form in which NaN equals NaN."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

_MEMORY = Path("/dev/shm")  # only where it is quick: the folder has a name of its own


@cache
def folder() -> Path:
    """Return a folder of this process, in memory if there is such a place; it goes with the process."""
    made = Path(tempfile.mkdtemp(prefix="fuzz-", dir=_MEMORY if _MEMORY.is_dir() else None))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def write(name: str, data: bytes) -> Path:
    """Write a file anew and return where it is."""
    path = folder() / name
    path.write_bytes(data)
    return path


def plain(values: Any) -> list[str]:
    """Return numbers as text that tells all of them apart but NaNs, and the zeros."""
    array = np.asarray(values)
    return [repr(value + 0.0) for value in array.reshape(-1).tolist()]


def rows_of(data: Any) -> list[list[str]]:
    """Return the rows of an array or of a sparse matrix."""
    dense = data if isinstance(data, np.ndarray) else data.toarray()
    return [plain(row) for row in dense]
