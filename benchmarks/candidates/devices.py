"""Where the candidates compute: on processors, or on the first GPU."""

from __future__ import annotations

import os
from typing import Any

DEVICES = ("cpu", "cuda")
VARIABLE = "BENCHMARKED_DEVICE"
"""Environment variable by which the device is told to a candidate's process."""


def device() -> str:
    """Return the device of :data:`VARIABLE`, by default ``cpu``."""
    return os.environ.get(VARIABLE, "cpu")


def environment(name: str) -> dict[str, str]:
    """Return the variables that have every library compute there and nowhere else."""
    return {VARIABLE: name} if name == "cuda" else {VARIABLE: name, "CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}


def pin_to_processors(threads: int) -> None:
    """Let this process have so many processors: XLA's flags do not limit its threads. Nothing where a GPU computes."""
    if device() == "cpu":
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])


def load_jax(threads: int) -> Any:
    """Import JAX for as many threads; on a GPU it computes products in single precision, not in TF32.

    Raises:
        ImportError: JAX is not installed, or finds no GPU though it should.
    """
    pin_to_processors(threads)
    import jax

    if device() == "cuda":
        if jax.default_backend() != "gpu":
            raise ImportError("this JAX finds no GPU")
        jax.config.update("jax_default_matmul_precision", "highest")
    return jax
