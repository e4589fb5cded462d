"""CpuEngine: makes programs, and says what it found on this machine."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from typing import Any, Literal

from cntk_core.api import (
    Available,
    Cache,
    ExecutionEngine,
    ParameterStore,
    Plan,
    Unavailable,
    UpdateRule,
    option,
    options,
)
from cntk_core.api.engines import Loop, can_compile, compiles, kernel_cache
from cntk_engine_cpu.binding import KERNELS
from cntk_engine_cpu.denormals import float_control, mode_for
from cntk_engine_cpu.gemm import Gemm
from cntk_engine_cpu.kernels import KernelLibrary
from cntk_engine_cpu.libraries import OPENMP, has_openmp, load_onednn, onednn_path, thread_count
from cntk_engine_cpu.op_kernels import OpKernels
from cntk_engine_cpu.program import CpuProgram

COMPILED_PARAMETERS = 4096
"""Parameter values from which kernels are compiled: less is done before a compiler has started. With a loop they always
are: NumPy takes some 0.3 ms for each of its time steps, however small it is."""


@options
class CpuOptions:
    """Keys of the recipe that the CPU engine reads."""

    num_cpu_threads: int = option(
        default=0, key="numCPUThreads", doc="0 is all processors, n > 0 is n, n < 0 leaves that many free"
    )
    cpu_kernels: Literal["auto", "compiled", "numpy"] = option(
        default="auto",
        doc="element-wise kernels: compiled by LLVM, or NumPy; auto compiles for all but tiny networks without loops",
    )
    cpu_products: Literal["auto", "onednn", "blas"] = option(
        default="auto", doc="matrix products: oneDNN, or SciPy's BLAS; auto takes oneDNN where it is installed"
    )
    cpu_denormals: Literal["flush", "keep"] = option(
        default="flush",
        doc="numbers below 1.2e-38 while a network is computed in single precision: flush takes them for 0, as other "
        "engines do, keep computes with them, which is many times slower",
    )


class CpuEngine(ExecutionEngine):
    """Compiles plans to straight-line code over compiled kernels and oneDNN products; both are optional.

    The environment variable ``CNTK_CPU=numpy`` makes it use neither (for tests of the portable path).
    """

    options = CpuOptions
    requires_api = "1.0"
    priority = 10

    @classmethod
    def availability(cls) -> Available | Unavailable:
        """Say which of the fast parts are here."""
        kernels = "LLVM" if can_compile() else "NumPy (llvmlite is not installed)"
        has_onednn = importlib.util.find_spec("cffi") is not None and onednn_path() is not None
        if has_onednn and not has_openmp():
            products = f"SciPy's BLAS (oneDNN needs {OPENMP}, which this system has not: install its package libgomp1)"
        else:
            products = "oneDNN" if has_onednn else "SciPy's BLAS (oneDNN is not installed)"
        denormals = "flushed" if float_control() is not None else "kept (this machine has no known way to flush them)"
        return Available(
            f"{thread_count(0)} threads, kernels by {kernels}, products by {products}, denormals {denormals}"
        )

    @classmethod
    def caches(cls) -> Sequence[Cache]:
        """Return the folder of compiled kernels."""
        return (kernel_cache(),) if can_compile() else ()

    @compiles
    def compile(
        self, plan: Plan, store: ParameterStore, rule: UpdateRule | None = None, *, seed: int = 0
    ) -> CpuProgram:
        """Make a program of a plan."""
        portable = os.environ.get("CNTK_CPU", "").lower() == "numpy"
        kernels = KernelLibrary(compiled=not portable and self._compiles(plan, store))
        threads = thread_count(self.settings.num_cpu_threads)
        gemm = Gemm(None if portable else self._onednn(), threads, compiled=kernels.compiled)
        flush = self.settings.cpu_denormals == "flush"
        floats = mode_for(store.dtype, gemm.threads, flush=flush, openmp=gemm.onednn is not None)
        op_kernels = OpKernels(self.kernels, KERNELS)
        return CpuProgram(plan, store, rule, gemm, kernels, op_kernels, floats, seed)

    def _onednn(self) -> Any:
        return None if self.settings.cpu_products == "blas" else load_onednn()

    def _compiles(self, plan: Plan, store: ParameterStore) -> bool:
        """Whether kernels are compiled. Depends on the network alone, so that a resumed run does the same sums."""
        if self.settings.cpu_kernels == "numpy" or not can_compile():
            return False
        if self.settings.cpu_kernels == "compiled" or store.values.size >= COMPILED_PARAMETERS:
            return True
        return any(isinstance(step, Loop) for step in plan.steps)
