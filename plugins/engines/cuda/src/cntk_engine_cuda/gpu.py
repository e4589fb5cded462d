"""Gpu: one device through CuPy, with its streams, its kernels and its storage."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from cntk_engine_cuda.blas import make_blas
from cntk_engine_cuda.source import KernelSpec, prelude

if TYPE_CHECKING:
    from cntk_engine_cuda.cudnn import Cudnn

Array = Any
"""An array of CuPy."""

THREADS = 256
"""Threads of a block where a kernel does not want another number."""

BLOCKS_PER_PROCESSOR = 8
"""Blocks after which threads of an element-wise kernel take several elements each."""


@attrs.frozen
class Call:
    """A function and the arguments that it is bound to.

    Attributes:
        function, arguments: what is called.
        captured: it only puts work on the current stream, so that it may be part of a CUDA graph.
        movable: its arguments are all that it knows of arrays: with others in their places it does the same there.
    """

    function: Any
    arguments: tuple[Any, ...] = ()
    captured: bool = True
    movable: bool = False

    def __call__(self) -> None:
        """Do it."""
        self.function(*self.arguments)


def import_cupy() -> Any:
    """Return the module ``cupy``. Raises ImportError."""
    return importlib.import_module("cupy")


def import_cublas() -> Any:
    """Return the module ``cupy.cublas``. Raises ImportError without the library."""
    return importlib.import_module("cupy.cublas")


class Gpu:
    """A device in use.

    Args:
        number: which one.

    Attributes:
        cupy: the module.
        stream: everything is computed there.
        transfer: minibatches are copied there.
        blas: computes products of matrices.
        cudnn: computes convolutions; None if they are products of matrices.
        properties: of the device, as CUDA names them.
    """

    def __init__(self, number: int) -> None:
        self.cupy = import_cupy()
        self.number = number
        cublas = import_cublas()
        with self.cupy.cuda.Device(number):
            self.stream = self.cupy.cuda.Stream(non_blocking=True)
            self.transfer = self.cupy.cuda.Stream(non_blocking=True)
            self.properties: dict[str, Any] = self.cupy.cuda.runtime.getDeviceProperties(number)
        with self.current():
            self.blas = make_blas(self.cupy, cublas, self.stream)
        self.cudnn: Cudnn | None = None
        self.processors = int(self.properties["multiProcessorCount"])
        self._kernels: dict[Any, Any] = {}
        self._modules: dict[tuple[str, str], Any] = {}
        self._texts: dict[str, str] = {}
        self._prelude = prelude()
        self._constants: dict[tuple[float, str], Array] = {}

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        """Use the device and its stream."""
        with self.cupy.cuda.Device(self.number), self.stream:
            yield

    # -- storage ------------------------------------------------------------------------------------------

    def empty(self, count: int, dtype: Any) -> Array:
        """Uninitialised storage for a number of elements."""
        return self.cupy.empty((max(1, count),), dtype=dtype)[:count]

    def constant(self, value: float, dtype: np.dtype[Any]) -> Array:
        """An array of one number that nobody changes."""
        key = value, dtype.char
        if key not in self._constants:
            self._constants[key] = self.cupy.full((1,), value, dtype=dtype)
        return self._constants[key]

    def pinned(self, count: int, dtype: Any) -> np.ndarray[Any, Any]:
        """Storage on the host that copies to the device need not wait for."""
        size = np.dtype(dtype).itemsize
        memory = self.cupy.cuda.alloc_pinned_memory(max(1, count) * size)
        return np.frombuffer(memory, dtype, count)

    def event(self) -> Any:
        """An event without a clock."""
        return self.cupy.cuda.Event(disable_timing=True)

    # -- kernels ------------------------------------------------------------------------------------------

    def kernel(self, spec: KernelSpec, dtype: np.dtype[Any]) -> Any:
        """Return a generated kernel."""
        key = spec, dtype.char
        if key not in self._kernels:
            self._kernels[key] = self._compile(spec.text, dtype).get_function("kernel")
        return self._kernels[key]

    def named(self, file: str, name: str, dtype: np.dtype[Any]) -> Any:
        """Return a kernel of one of the files in ``kernels``."""
        if file not in self._texts:
            self._texts[file] = (Path(__file__).parent / "kernels" / f"{file}.cu").read_text(encoding="utf-8")
        return self.of_text(self._texts[file], name, dtype)

    def of_text(self, text: str, name: str, dtype: np.dtype[Any]) -> Any:
        """Return a kernel of a text of several."""
        key = text, name, dtype.char
        if key not in self._kernels:
            if (text, dtype.char) not in self._modules:
                self._modules[text, dtype.char] = self._compile(text, dtype)
            self._kernels[key] = self._modules[text, dtype.char].get_function(name)
        return self._kernels[key]

    def _compile(self, text: str, dtype: np.dtype[Any]) -> Any:
        options = ("--std=c++14", *(("-DUSE_DOUBLE",) if dtype == np.float64 else ()))
        return self.cupy.RawModule(code=f"{self._prelude}\n{text}", options=options)

    def grid(self, count: int, threads: int = THREADS) -> tuple[int]:
        """Blocks for a loop over elements: not more than keep the device busy."""
        return (max(1, min(-(-count // threads), self.processors * BLOCKS_PER_PROCESSOR)),)

    # -- simple calls -------------------------------------------------------------------------------------

    def fill(self, array: Array, value: float) -> list[Call]:
        """The calls that set all elements."""
        return [Call(self._fill, (array, array.dtype.type(value)), movable=True)] if array.size else []

    @staticmethod
    def _fill(array: Array, value: Any) -> None:
        array.fill(value)

    def copy(self, target: Array, source: Array) -> list[Call]:
        """The calls that copy an array in one piece to another of the same size."""
        if not target.size or target.data.ptr == source.data.ptr:
            return []
        return [Call(self._copy, (target.reshape(-1), source.reshape(-1)), movable=True)]

    @staticmethod
    def _copy(target: Array, source: Array) -> None:
        target[...] = source

    def launch(self, kernel: Any, grid: Sequence[int], block: Sequence[int], arguments: Sequence[Any]) -> Call:
        """The call of a kernel."""
        return Call(kernel, (tuple(map(int, grid)), tuple(map(int, block)), tuple(arguments)), movable=True)
