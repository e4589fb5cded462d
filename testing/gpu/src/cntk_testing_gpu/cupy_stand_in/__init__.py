"""A stand-in for CuPy over NumPy, for tests of plugins that use it where there is no GPU: see :func:`make_cupy`.

It has what plugins of this project use and little else, and it is strict where a GPU is: arrays mix with nothing of
NumPy's, each belongs to a device and is used on that, lies between guards, and shows where it was never written; work
on streams waits until somebody synchronises; what CUDA does not allow while a graph is captured is not allowed. Kernels
are the real sources, compiled and run by the machine's C++ compiler. Memory of the processor is that of the devices.

A plugin's test puts it in CuPy's place::

    module = make_cupy(devices=2)
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setitem(sys.modules, "cupy.cublas", module.cublas)
"""

from __future__ import annotations

import ctypes
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from cntk_testing_gpu.cupy_stand_in import cublas, functions, kernels, streams
from cntk_testing_gpu.cupy_stand_in.kernels import RawModule
from cntk_testing_gpu.cupy_stand_in.library import Cublas
from cntk_testing_gpu.cupy_stand_in.memory import check_guards
from cntk_testing_gpu.cupy_stand_in.streams import CudaError, Event, Graph, Stream, launched

PROPERTIES = {
    "name": b"Stand-in", "major": 9, "minor": 0, "multiProcessorCount": 132, "totalGlobalMem": 8 << 30,
    "sharedMemPerBlockOptin": 227 << 10, "l2CacheSize": 50 << 20,
}  # fmt: skip

FREE, TOTAL = 7 << 30, 8 << 30


def why_not_kernels() -> str:
    """Return why kernels cannot run here; empty if they can."""
    return "" if kernels.COMPILER else "there is no C++ compiler: the stand-in for CuPy cannot run kernels"


class OutOfMemoryError(MemoryError):
    """A device has no memory left."""


class StandIn(ModuleType):
    """What ``import cupy`` gives in tests."""

    def __init__(self, **names: Any) -> None:
        super().__init__("cupy stand-in")
        self.__spec__ = ModuleSpec("cupy", None)
        vars(self).update(names)

    def __getattr__(self, name: str) -> Any:
        if name in functions.SAME | functions.VIEWS:
            return functions.function(name)
        raise AttributeError(f"module 'cupy' has no attribute '{name}'")


class _Device:
    """A device; ``cuda`` is the module's, whose runtime knows how many there are."""

    cuda: Any

    def __init__(self, number: int | None = None) -> None:
        self.id = streams.current_device() if number is None else number
        if not 0 <= self.id < self.cuda.runtime.getDeviceCount():
            raise CudaError("cudaErrorInvalidDevice: invalid device ordinal")
        self._outer: list[int] = []

    def __enter__(self) -> _Device:
        self._outer.append(streams.current_device())
        self.use()
        return self

    def __exit__(self, *exception: object) -> None:
        streams.use_device(self._outer.pop())

    def use(self) -> None:
        """Make it the device of this thread."""
        streams.use_device(self.id)

    def synchronize(self) -> None:
        """Wait for the current stream."""
        streams.settle()

    @property
    def mem_info(self) -> tuple[int, int]:
        """Free and total bytes."""
        return FREE, TOTAL


class _Pool:
    """The pool that arrays come from."""

    def used_bytes(self) -> int:
        """Bytes that arrays hold."""
        return 0

    def total_bytes(self) -> int:
        """Bytes that the pool holds."""
        return 0

    def free_all_blocks(self) -> None:
        """Give back what no array holds."""


def _memcpy(to: int, source: int, size: int, kind: int, stream: int) -> None:
    Stream.by_pointer[stream].add(lambda: ctypes.memmove(to, source, size))


def make_cupy(devices: int = 8, *, background: bool = False) -> StandIn:
    """Make a module for the place of ``cupy``.

    Args:
        devices: how many there are.
        background: what a stream was told to do is done by a thread, as soon as it can be; otherwise when somebody
            waits for it. Ranks that are threads and meet on their GPUs need it.
    """
    runtime = SimpleNamespace(
        CUDARuntimeError=CudaError,
        deviceGetPCIBusId=lambda number: f"0000:{number:02X}:00.0",
        driverGetVersion=lambda: 13000,
        getDevice=streams.current_device,
        getDeviceCount=lambda: devices,
        getDeviceProperties=lambda number: dict(PROPERTIES),
        memGetInfo=lambda: (FREE, TOTAL),
        memcpyAsync=_memcpy,
        memcpyDeviceToDevice=3,
        memcpyDeviceToHost=2,
        memcpyHostToDevice=1,
        runtimeGetVersion=lambda: 13000,
        streamCaptureModeGlobal=0,
        streamCaptureModeRelaxed=2,
        streamCaptureModeThreadLocal=1,
    )
    cuda = SimpleNamespace(
        Event=Event,
        Graph=Graph,
        Stream=type("Stream", (Stream,), {"background": background}),
        alloc_pinned_memory=lambda count: memoryview(bytearray(count)),
        compiler=SimpleNamespace(CompileException=kernels.CompileException),
        get_current_stream=streams.current_stream,
        memory=SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
        runtime=runtime,
    )
    cuda.Device = type("Device", (_Device,), {"cuda": cuda})
    pool = _Pool()
    types = {name: getattr(np, name) for name in ("float32", "float64", "int32", "int64", "uint8", "uint64")}
    numbers = {name: getattr(np, name) for name in ("bool_", "dtype", "inf", "intp", "nan", "newaxis")}
    return StandIn(
        **functions.MADE,
        **types,
        **numbers,
        OutOfMemoryError=OutOfMemoryError,
        RawKernel=kernels.RawKernel,
        RawModule=RawModule,
        __version__="14.2.0 (stand-in)",
        cublas=cublas,
        cuda=cuda,
        get_default_memory_pool=lambda: pool,
    )


__all__ = [
    "Cublas", "CudaError", "Event", "OutOfMemoryError", "RawModule", "StandIn", "Stream", "check_guards",
    "launched", "make_cupy",
    "why_not_kernels",
]  # fmt: skip
