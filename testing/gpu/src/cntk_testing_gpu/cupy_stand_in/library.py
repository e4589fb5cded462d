"""The library cuBLAS, as calls by ctypes see it: pointers, and matrices column by column."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from cntk_testing_gpu.cupy_stand_in.streams import current_stream, launch


class Cublas:
    """Two products, and what they need before."""

    def cublasCreate_v2(self, handle: Any) -> int:
        """Make a handle."""
        handle._obj.value = 4711
        return 0

    def cublasSetStream_v2(self, handle: Any, stream: Any) -> int:
        """Choose a stream; that takes the work space away."""
        assert handle.value == 4711
        self.stream, self.workspace = stream.value, 0
        return 0

    def cublasSetWorkspace_v2(self, handle: Any, place: Any, size: Any) -> int:
        """Give work space."""
        assert place.value
        self.workspace = size.value
        return 0

    def cublasSgemm_v2(self, *arguments: Any) -> int:
        """A product in single precision."""
        return self._gemm(ctypes.c_float, *arguments)

    def cublasDgemm_v2(self, *arguments: Any) -> int:
        """A product in double precision."""
        return self._gemm(ctypes.c_double, *arguments)

    def _gemm(
        self, kind: Any, handle: Any, ta: Any, tb: Any, m: Any, n: Any, k: Any, alpha: Any, a: Any, lda: Any, b: Any,
        ldb: Any, beta: Any, c: Any, ldc: Any,
    ) -> int:  # fmt: skip
        stream = current_stream()
        assert stream.ptr == self.stream, "the product is computed on another stream than that of its arguments"
        assert self.workspace or not stream.capturing, "capturing needs work space that was given before"
        if min(m.value, n.value, k.value) <= 0 or type(alpha._obj) is not kind:
            return 7
        left = _matrix(kind, a, m.value, k.value, lda.value, bool(ta.value))
        right = _matrix(kind, b, k.value, n.value, ldb.value, bool(tb.value))
        out = _matrix(kind, c, m.value, n.value, ldc.value, False)
        if left is None or right is None or out is None:
            return 7
        one, other = alpha._obj.value, beta._obj.value

        def work() -> None:
            product = one * (left @ right)
            out[...] = product if other == 0.0 else product + other * out

        launch("gemm", work)
        return 0


def _matrix(kind: Any, pointer: Any, rows: int, columns: int, lead: int, turned: bool) -> Any:
    """A matrix that lies column by column, ``lead`` elements from one column to the next."""
    stored = (columns, rows) if turned else (rows, columns)
    if lead < stored[0]:
        return None
    flat = np.ctypeslib.as_array((kind * (lead * stored[1])).from_address(pointer.value))
    found = flat.reshape(stored[1], lead).T[: stored[0]]
    return found.T if turned else found
