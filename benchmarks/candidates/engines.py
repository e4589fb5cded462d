"""The engine that our candidates compile their plans with."""

from __future__ import annotations

import os

from candidates.devices import pin_to_processors
from cntk_core.api import ExecutionEngine

ENGINES = ("cpu", "xla", "cuda")
VARIABLE = "BENCHMARKED_ENGINE"
"""Environment variable by which the engine is told to a candidate's process."""


def make_engine(threads: int) -> ExecutionEngine:
    """Make the engine of :data:`VARIABLE`, by default that of the CPU.

    Raises:
        ImportError: the engine, or what it computes with, is not installed.
    """
    name = os.environ.get(VARIABLE, "cpu")
    if name == "xla":
        from cntk_engine_xla import XlaEngine

        pin_to_processors(threads)
        return XlaEngine()
    if name == "cuda":
        from cntk_engine_cuda import CudaEngine

        return CudaEngine()
    from cntk_engine_cpu import CpuEngine

    return CpuEngine(CpuEngine.options(num_cpu_threads=threads))
