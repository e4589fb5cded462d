"""What tests compile is kept from run to run: XLA's functions, numba's kernels, the stand-ins' objects for CUDA.

Every cache has what decides about a result in its key (source, compiler, flags, versions). ``FRESH=1`` does without,
for a run that takes nothing from the runs before it; the nightly run is one.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FOLDER = "CNTK_TESTS_CACHE"
"""Variable that says to the processes of a run where it keeps what is compiled."""


@contextmanager
def shared_caches() -> Iterator[None]:
    """Name the folders to all libraries that compile, in this process and in those that it starts."""
    fresh = os.environ.get("FRESH", "0") not in ("", "0")
    made = FOLDER not in os.environ and fresh
    if made:
        os.environ[FOLDER] = tempfile.mkdtemp(prefix="cntk-tests-")
    folder = Path(os.environ.setdefault(FOLDER, str(_lasting())))
    os.environ.setdefault("CNTK_CACHE", str(folder))
    os.environ.setdefault("CUDA_STANDIN_CACHE", str(folder / "cuda"))
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(folder / "xla"))
    # The functions of tests are small: all of them together take minutes.
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    try:
        yield
    finally:
        if made:
            shutil.rmtree(folder, ignore_errors=True)


def _lasting() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "cntk" / "tests"
