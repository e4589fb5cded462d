"""Gradients on a GPU: kernels in CUDA, launched by CuPy, which is imported only when there are such gradients.

The sources are in ``quantize.cu``. The kernels give the same bits as those for the processor.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_core.api import Communicator, UnsupportedError
from cntk_parallel_onebit.format import LANES, NEGLIGIBLE, SCALES, STANDARD_DEVIATIONS, Blocks, Words

Array = NDArray[Any]

OPTIONS = ("--fmad=false", "--std=c++17")
"""For the compiler. Products and sums are rounded one by one, as on the processor."""


def source() -> str:
    """Return the CUDA source, whole."""
    defines = {"LANES": LANES, "SCALES": SCALES, "NEGLIGIBLE": NEGLIGIBLE, "STANDARD_DEVIATIONS": STANDARD_DEVIATIONS}
    text = Path(__file__).with_name("quantize.cu").read_text(encoding="utf-8")
    return "".join(f"#define {name} {value}\n" for name, value in defines.items()) + text


def kernel_name(kernel: str, dtype: Any, bits: int) -> str:
    """Return the name of a kernel for a type of values and a number of bits, as C++ spells it."""
    return f"{kernel}<{'float' if np.dtype(dtype) == np.float32 else 'double'}, {bits}>"


class DeviceKernels:
    """What ``portable`` has, for arrays of a GPU; ``blocks`` are an array of the processor.

    Args:
        cupy: the module.
    """

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self._modules: dict[tuple[Any, int], Any] = {}
        self._tables: dict[int, tuple[Array, Array, int]] = {}

    def quantize(
        self,
        gradients: Array,
        residual: Array,
        words: Words,
        scales: Array,
        blocks: Blocks,
        bits: int,
        by_sign: bool,
        /,
    ) -> None:
        """See ``portable``."""
        self._launch("quantize", (gradients, residual, words), blocks, gradients.dtype, bits, by_sign)

    def unquantize(
        self, words: Words, scales: Array, gradients: Array, blocks: Blocks, bits: int, add: bool, /
    ) -> None:
        """See ``portable``."""
        self._launch("unquantize", (words, gradients), blocks, gradients.dtype, bits, add)

    def _launch(self, name: str, arrays: Sequence[Array], blocks: Blocks, dtype: Any, bits: int, flag: bool) -> None:
        table, firsts, columns = self._table(blocks)
        if columns:
            kernel = self._module(dtype, bits).get_function(kernel_name(name, dtype, bits))
            numbers = (np.int32(len(blocks)), np.int32(flag))
            kernel((columns,), (LANES,), (*arrays, table, firsts, *numbers))

    def _module(self, dtype: Any, bits: int) -> Any:
        key = np.dtype(dtype), bits
        if key not in self._modules:
            names = [kernel_name(kernel, dtype, bits) for kernel in ("quantize", "unquantize")]
            self._modules[key] = self._cupy.RawModule(code=source(), options=OPTIONS, name_expressions=names)
        return self._modules[key]

    def _table(self, blocks: Blocks) -> tuple[Array, Array, int]:
        """The blocks, how many columns are before each of them, both on the GPU, and how many columns there are."""
        key = id(blocks)
        if key not in self._tables:
            ends = np.cumsum(blocks[:, 4], dtype=np.int64)
            firsts = np.concatenate([np.zeros(1, np.int64), ends])
            arrays = self._cupy.asarray(blocks), self._cupy.asarray(firsts)
            self._tables[key] = (*arrays, int(firsts[-1]))
            weakref.finalize(blocks, self._tables.pop, key, None)
        return self._tables[key]


class Device:
    """Where arrays of a GPU are at home: see ``homes``.

    Args:
        cupy: the module.
        number: which GPU.
    """

    def __init__(self, cupy: Any, number: int) -> None:
        self._cupy, self._number = cupy, number
        self.kernels = DeviceKernels(cupy)

    def current(self) -> AbstractContextManager[Any]:
        """Within, CuPy works on this GPU."""
        found: AbstractContextManager[Any] = self._cupy.cuda.Device(self._number)
        return found

    def view(self, array: Any) -> Array:
        """Return the array as one of CuPy, of the same memory."""
        found: Array = self._cupy.asarray(array)
        return found

    def put(self, array: Array) -> Array:
        """Copy an array of the processor to the GPU."""
        found: Array = self._cupy.asarray(array)
        return found

    def get(self, array: Any) -> Array:
        """Copy an array to the processor."""
        found: Array = array.get()
        return found

    def zeros(self, size: int, dtype: Any) -> Array:
        """Return zeros."""
        found: Array = self._cupy.zeros(size, dtype)
        return found

    def allreduce(self, array: Array, communicator: Communicator) -> None:
        """Sum over all ranks in place, by way of the processor where the communicator needs that."""
        if communicator.takes_device_arrays:
            communicator.allreduce(array)
        else:
            values = self.get(array)
            communicator.allreduce(values)
            array[...] = self.put(values)

    def alltoall(self, arrays: Sequence[Array], communicator: Communicator) -> list[Array]:
        """Exchange arrays between all ranks, likewise."""
        if communicator.takes_device_arrays:
            return communicator.alltoall(arrays)
        return [self.put(one) for one in communicator.alltoall([self.get(one) for one in arrays])]

    def allgather(self, words: Words, header: Array, communicator: Communicator) -> list[tuple[Words, Array]]:
        """Bring words, and a header of the processor, of all ranks together, likewise."""
        if not communicator.takes_device_arrays:
            packed = communicator.allgather(np.concatenate([self.get(words).view(np.uint8), header.view(np.uint8)]))
            cut = -header.nbytes
            return [(self.put(one[:cut].view(words.dtype)), one[cut:].view(header.dtype)) for one in packed]
        return list(zip(communicator.allgather(words), communicator.allgather(header), strict=True))

    def finish(self) -> None:
        """Wait until everything is done that was begun here."""
        self._cupy.cuda.get_current_stream().synchronize()


def device_of(array: Any) -> Device:
    """Return the home of an array of a GPU.

    Raises:
        UnsupportedError: CuPy is not installed.
    """
    try:
        import cupy
    except ImportError as error:
        raise UnsupportedError(
            f"gradients on a GPU cannot be quantized: {error}",
            hint='pip install "cntk-parallel-onebit[cuda12]", or [cuda13]; or train in full precision.',
        ) from None
    return _device(cupy, cupy.asarray(array).device.id)


@cache
def _device(cupy: Any, number: int) -> Device:
    return Device(cupy, number)
