"""CuPy and NCCL: whether they are here, and how they are loaded."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cntk_core.api import Available, Unavailable

INSTALL = 'pip install "cntk-parallel-nccl[cuda12]", or [cuda13]'


def load_cupy() -> Any:
    """Import CuPy, with NCCL of a wheel where there is one.

    Raises:
        ImportError: CuPy is not installed, or does not load.
    """
    spec = find_spec("nvidia")
    for folder in (spec.submodule_search_locations or []) if spec is not None else []:
        for path in sorted(Path(folder).glob("*/lib/libnccl.so.*")):
            with suppress(OSError):  # CuPy may have another one
                ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)
    import cupy

    return cupy


def availability() -> Available | Unavailable:
    """Whether there is a GPU, and what it takes to send something from one to another."""
    if find_spec("cupy") is None:
        return Unavailable("CuPy is not installed", INSTALL)
    try:
        cupy = load_cupy()
    except ImportError as error:
        return Unavailable(f"CuPy does not load: {_first_line(error)}", INSTALL)
    try:
        count = int(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return Unavailable(
            f"CUDA finds no GPU: {_first_line(error)}",
            "It needs a GPU of NVIDIA and a driver that is as new as CuPy's CUDA; nvidia-smi shows both.",
        )
    if not count:
        return Unavailable(
            "CUDA finds no GPU", "CUDA_VISIBLE_DEVICES may hide them; nvidia-smi shows those that are there."
        )
    nccl = cupy.cuda.nccl
    if not getattr(nccl, "available", False):
        return Unavailable("CuPy finds no NCCL", "pip install nvidia-nccl-cu12 (or nvidia-nccl-cu13)")
    number = int(nccl.get_version())
    return Available(f"{count} {'GPU' if count == 1 else 'GPUs'}, NCCL {_version(number)}")


def _version(number: int) -> str:
    """NCCL's number of a version in words: 22703 is 2.27.3."""
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
