"""The engine that our candidates compile their plans with."""

from __future__ import annotations

import os

from cntk_core.api import ExecutionEngine

ENGINES = ("cpu", "xla", "cuda")
VARIABLE = "BENCHMARKED_ENGINE"
"""Environment variable by which the engine is told to a candidate's process."""


def make_engine(threads: int) -> ExecutionEngine:
    """Make the engine of :data:`VARIABLE`, by default that of the CPU.

    XLA's flags do not limit its threads; its process is pinned to as many processors as it may have.

    Raises:
        ImportError: the engine, or what it computes with, is not installed.
    """
    name = os.environ.get(VARIABLE, "cpu")
    if name == "xla":
        from cntk_engine_xla import XlaEngine

        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
        return XlaEngine()
    if name == "cuda":
        from cntk_engine_cuda import CudaEngine

        return CudaEngine()
    from cntk_engine_cpu import CpuEngine

    return CpuEngine(CpuEngine.options(num_cpu_threads=threads))
