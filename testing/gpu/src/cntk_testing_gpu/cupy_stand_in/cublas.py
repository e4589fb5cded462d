"""``cupy.cublas`` of the stand-in."""

from __future__ import annotations

from typing import Any

from cntk_testing_gpu.cupy_stand_in.arrays import ndarray
from cntk_testing_gpu.cupy_stand_in.streams import current_stream, launch


def gemm(transa: str, transb: str, a: ndarray, b: ndarray, out: ndarray, alpha: float = 1.0, beta: float = 0.0) -> Any:
    """``out = alpha * op(a) @ op(b) + beta * out``, as cuBLAS takes it: matrices of one type, none of them empty."""
    if current_stream().capturing:
        raise NotImplementedError("calling cuBLAS API during stream capture is currently unsupported")
    assert transa in ("N", "T")
    assert transb in ("N", "T")
    assert isinstance(alpha, float)
    assert isinstance(beta, float)
    for each in (a, b, out):
        assert isinstance(each, ndarray)
        assert each.ndim == 2
        assert each.dtype == a.dtype
        assert each.flags.c_contiguous or each.flags.f_contiguous, "the engine never needs a copy"
        if 0 in each.shape:
            raise RuntimeError("CUBLAS_STATUS_INVALID_VALUE: a matrix without elements")
    left = a.use().T if transa == "T" else a.use()
    right = b.use().T if transb == "T" else b.use()
    result = out.use()
    assert left.shape[1] == right.shape[0]
    assert out.shape == (left.shape[0], right.shape[1])

    def work() -> None:
        product = left @ right
        result[...] = alpha * product if beta == 0.0 else alpha * product + beta * result

    launch("gemm", work, a, b, out)
    return out
