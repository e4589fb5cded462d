"""CuPy and NCCL: whether they are here, and how they are loaded."""

from __future__ import annotations

import warnings
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from cntk_core.api import Available, Unavailable

INSTALL = 'pip install "cntk-parallel-nccl[cuda12]", or [cuda13]'


def load_cupy() -> Any:
    """Import CuPy.

    Raises:
        ImportError: it is not installed, or does not load.
    """
    import cupy

    return cupy


def load_nccl() -> Any:
    """Import CuPy's binding of NCCL; its attribute ``available`` says whether it has found the library."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says at length what is said better here
        return import_module("cupy.cuda.nccl")


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
    nccl = load_nccl()
    if not nccl.available:
        return Unavailable("CuPy finds no NCCL", INSTALL)
    number = int(nccl.get_version())
    return Available(f"{count} {'GPU' if count == 1 else 'GPUs'}, NCCL {_version(number)}")


def _version(number: int) -> str:
    """NCCL's number of a version in words: 22703 is 2.27.3."""
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
