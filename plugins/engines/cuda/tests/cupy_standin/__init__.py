"""A stand-in for CuPy over NumPy, as strict as CuPy is: for machines without a GPU.

Arrays mix with nothing of NumPy's, kernels are compiled and run by the C++ compiler of the machine, work on streams
waits until somebody synchronises, and what CUDA does not allow while a graph is captured is not allowed here.
"""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from cupy_standin import arrays, cublas, kernels, streams
from cupy_standin.arrays import add, array, asarray, ascontiguousarray, asnumpy, copyto, made, ndarray

__version__ = "14.2.0 (stand-in)"

float32, float64, int32, int64, uint8, uint64 = np.float32, np.float64, np.int32, np.int64, np.uint8, np.uint64
bool_, intp, inf, nan, newaxis, dtype = np.bool_, np.intp, np.inf, np.nan, None, np.dtype
empty, zeros, ones, full = made("empty"), made("zeros"), made("ones"), made("full")
RawModule, RawKernel = kernels.RawModule, kernels.RawKernel

PROPERTIES = {
    "name": b"Stand-in", "major": 9, "minor": 0, "multiProcessorCount": 132, "totalGlobalMem": 8 << 30,
    "sharedMemPerBlockOptin": 227 << 10, "l2CacheSize": 50 << 20,
}  # fmt: skip


class OutOfMemoryError(MemoryError):
    """There is no memory left on the GPU."""


class _Device:
    current = 0

    def __init__(self, number: int | None = None) -> None:
        self.id = self.current if number is None else number

    def use(self) -> None:
        """Make it the current one."""
        if not 0 <= self.id < runtime.getDeviceCount():
            raise streams.CUDARuntimeError("cudaErrorInvalidDevice: invalid device ordinal")
        _Device.current = self.id

    def __enter__(self) -> _Device:
        return self

    def __exit__(self, *exception: object) -> None:
        return None

    def synchronize(self) -> None:
        """Wait for everything."""
        streams.settle()

    @property
    def mem_info(self) -> tuple[int, int]:
        """Free and total bytes."""
        return 7 << 30, 8 << 30


class _Pool:
    def used_bytes(self) -> int:
        """Bytes that arrays hold."""
        return 0

    def total_bytes(self) -> int:
        """Bytes that the pool holds."""
        return 0

    def free_all_blocks(self) -> None:
        """Give back what no array holds."""


def _pinned(count: int) -> Any:
    return memoryview(bytearray(count))


def _memset(pointer: int, value: int, size: int, stream: int) -> None:
    raise NotImplementedError


runtime = SimpleNamespace(
    CUDARuntimeError=streams.CUDARuntimeError,
    getDeviceCount=lambda: 1,
    getDevice=lambda: _Device.current,
    setDevice=lambda number: _Device(number).use(),
    getDeviceProperties=lambda number: dict(PROPERTIES),
    driverGetVersion=lambda: 13000,
    runtimeGetVersion=lambda: 13000,
    memGetInfo=lambda: (7 << 30, 8 << 30),
    streamCaptureModeGlobal=0,
    streamCaptureModeThreadLocal=1,
    streamCaptureModeRelaxed=2,
)
cuda = SimpleNamespace(
    runtime=runtime,
    Device=_Device,
    Stream=streams.Stream,
    Event=streams.Event,
    Graph=streams.Graph,
    get_current_stream=streams.get_current_stream,
    alloc_pinned_memory=_pinned,
    memory=SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
    compiler=SimpleNamespace(CompileException=kernels.CompileException),
)
_pool = _Pool()


def get_default_memory_pool() -> _Pool:
    """The pool that arrays come from."""
    return _pool


class _Fused(ModuleType):
    """The module: functions of NumPy by their names."""

    def __getattr__(self, name: str) -> Any:
        if name in arrays.SAME | arrays.VIEWS:
            return arrays.function(name)
        raise AttributeError(f"module 'cupy' has no attribute '{name}'")


sys.modules[__name__].__class__ = _Fused

__all__ = ["add", "array", "asarray", "ascontiguousarray", "asnumpy", "copyto", "cublas", "ndarray"]
