"""What tests compile is compiled quickly, and kept from run to run: XLA's functions, numba's kernels, objects for CUDA.

Every cache has what decides about a result in its key (source, compiler, flags, versions). ``FRESH=1`` does without,
for a run that takes nothing from the runs before it; the nightly run is one.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

FOLDER = "CNTK_TESTS_CACHE"
"""Variable that says to the processes of a run where it keeps what is compiled."""

PLAIN_LOOPS = "--xla_cpu_use_fusion_emitters=false"
"""Has XLA write each loop by LLVM alone, not by way of MLIR: a small function is compiled in a third of the time."""

IN_ONE_PIECE = "--xla_cpu_parallel_codegen_split_count=1"
"""Has LLVM compile a function as one module, not as up to 32 side by side: a third less of the processors' time."""

QUICKLY = f"{PLAIN_LOOPS} {IN_ONE_PIECE}"

WITH_PLAIN_LOOPS = "0.10."
"""The versions of jaxlib that know these; others end the process at an option that they do not know."""


def compile_quickly() -> None:
    """Have XLA compile in the way that takes least time, unless somebody has said how."""
    try:
        known = version("jaxlib").startswith(WITH_PLAIN_LOOPS)
    except PackageNotFoundError:
        return
    if known:
        os.environ.setdefault("XLA_FLAGS", QUICKLY)


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
