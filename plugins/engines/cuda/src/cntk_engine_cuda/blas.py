"""Matrix products by cuBLAS, in a way that CUDA graphs can hold.

CuPy's own calls refuse while a graph is captured. So the library that CuPy has loaded is called directly, with a handle
on the engine's stream and with work space of the engine's, as capturing wants it. Where that cannot be had, CuPy's
calls serve, and stand between graphs.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

WORKSPACE = 32 << 20
"""Bytes that cuBLAS may use while it computes; what NVIDIA advises for its latest GPUs."""

_STATUS = "cuBLAS returned status {}"


def load_library(cupy: Any) -> Any:
    """Return the cuBLAS that CuPy has loaded, for calls by :mod:`ctypes`. Raises OSError if it is not found."""
    return ctypes.CDLL(f"libcublas.so.{cupy.cuda.runtime.runtimeGetVersion() // 1000}")


class CupyBlas:
    """Products by CuPy's calls.

    Attributes:
        captured: whether a CUDA graph can hold a product.
    """

    captured = False

    def __init__(self, cublas: Any) -> None:
        self._gemm = cublas.gemm

    def gemm(self, a: Any, b: Any, out: Any, turn_a: bool, turn_b: bool, accumulate: bool) -> None:
        """``out = a b`` or ``out += a b``, each matrix turned if asked for; all lie row by row in one piece."""
        self._gemm("NT"[turn_a], "NT"[turn_b], a, b, out, 1.0, 1.0 if accumulate else 0.0)


class DirectBlas:
    """Products by the library itself.

    Args:
        library: cuBLAS.
        cupy: the module.
        stream: where products are computed.
    """

    captured = True

    def __init__(self, library: Any, cupy: Any, stream: Any) -> None:
        self._handle = ctypes.c_void_p()
        _check(library.cublasCreate_v2(ctypes.byref(self._handle)))
        _check(library.cublasSetStream_v2(self._handle, ctypes.c_void_p(stream.ptr)))
        # The stream first: to set it takes the work space away.
        self._workspace = cupy.empty((WORKSPACE,), dtype=np.uint8)
        place = ctypes.c_void_p(self._workspace.data.ptr)
        _check(library.cublasSetWorkspace_v2(self._handle, place, ctypes.c_size_t(WORKSPACE)))
        self._functions = {"f": library.cublasSgemm_v2, "d": library.cublasDgemm_v2}
        self._numbers = {
            kind: {number: make(number) for number in (0.0, 1.0)}
            for kind, make in (("f", ctypes.c_float), ("d", ctypes.c_double))
        }

    def gemm(self, a: Any, b: Any, out: Any, turn_a: bool, turn_b: bool, accumulate: bool) -> None:
        """``out = a b`` or ``out += a b``, each matrix turned if asked for; all lie row by row in one piece."""
        # cuBLAS counts column by column: there the matrices are turned, and so is their product.
        kind = out.dtype.char
        numbers = self._numbers[kind]
        rows, columns = out.shape
        inner = a.shape[0] if turn_a else a.shape[1]
        pointer, size = ctypes.c_void_p, ctypes.c_int
        _check(
            self._functions[kind](
                self._handle, size(turn_b), size(turn_a), size(columns), size(rows), size(inner),
                ctypes.byref(numbers[1.0]), pointer(b.data.ptr), size(b.shape[1]), pointer(a.data.ptr),
                size(a.shape[1]), ctypes.byref(numbers[1.0 if accumulate else 0.0]), pointer(out.data.ptr),
                size(columns),
            )
        )  # fmt: skip


def _check(status: int) -> None:
    if status:
        raise RuntimeError(_STATUS.format(status))


def make_blas(cupy: Any, cublas: Any, stream: Any) -> CupyBlas | DirectBlas:
    """Return what computes products: the library itself, if it gives what CuPy's call gives."""
    plain = CupyBlas(cublas)
    try:
        direct = DirectBlas(load_library(cupy), cupy, stream)
        return direct if _agree(cupy, plain, direct) else plain
    except (OSError, AttributeError, RuntimeError):
        return plain


def _agree(cupy: Any, plain: CupyBlas, direct: DirectBlas) -> bool:
    """Whether both compute the same products of small matrices, turned in every way."""
    for dtype in (np.float32, np.float64):
        for turn_a, turn_b in ((False, False), (True, False), (False, True)):
            a = cupy.asarray(np.arange(6, dtype=dtype).reshape((3, 2) if turn_a else (2, 3)))
            b = cupy.asarray(np.arange(12, dtype=dtype).reshape((4, 3) if turn_b else (3, 4)))
            found = [cupy.ones((2, 4), dtype=dtype) for _ in range(2)]
            plain.gemm(a, b, found[0], turn_a, turn_b, True)
            direct.gemm(a, b, found[1], turn_a, turn_b, True)
            if not np.array_equal(found[0].get(), found[1].get()):
                return False
    return True
