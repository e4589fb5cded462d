"""Matrix products ``C = alpha A B + beta C`` over row-major arrays, by oneDNN or by SciPy's BLAS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_core.api.engines import native_function
from cntk_engine_cpu.denormals import denormals_kept
from cntk_engine_cpu.inputs import Ports, address_of
from cntk_engine_cpu.libraries import OneDnn, blas_address
from cntk_engine_cpu.parts import Team
from cntk_engine_cpu.rows import Row

Matrix = NDArray[Any]
Product = Callable[[float, float], None]
"""A product bound to its matrices: called with ``alpha`` and ``beta``."""

FEW_ROWS = 128
LARGE_WEIGHTS = 1 << 22
NARROW_WEIGHTS = 1 << 16
"""A product of at most so many rows with the transpose of many weights, or of fewer whose inner size is at least four
times the outer, is computed as its transpose: oneDNN then reads the weights as they lie and does not rearrange them."""

THREADED_WORK = 3e6
"""Multiply-adds from which more than one thread pays."""


class Gemm:
    """Binds matrix products to arrays, so that a call costs only the product.

    Args:
        onednn: the library, None for SciPy's BLAS (which also does double precision).
        threads: most threads that a product may use.
        compiled: let compiled code call oneDNN's products.

    Attributes:
        team: the threads that share the work of kernels.
    """

    def __init__(self, onednn: OneDnn | None, threads: int, *, compiled: bool = False) -> None:
        self.onednn = onednn
        self.threads = threads
        self.compiled = compiled
        self.team = Team(onednn.openmp if onednn is not None else {}, threads)

    def takes_bands(self, dtype: np.dtype[Any]) -> bool:
        """Whether a result may be part of the rows of a wider matrix."""
        return self.onednn is not None and dtype == np.float32

    def address(self, dtype: np.dtype[Any]) -> int:
        """Address of the product that compiled code calls."""
        if self.onednn is not None and self.takes_bands(dtype):
            return self.onednn.sgemm_address
        return blas_address("sgemm" if dtype == np.float32 else "dgemm")

    def set_threads(self, work: float) -> None:
        """Set the number of threads of oneDNN's products that compiled code does; ``work`` is that of one product."""
        if self.onednn is not None:
            self.onednn.set_threads(self.threads if work >= THREADED_WORK else 1)

    def bind(
        self,
        a: Matrix,
        b: Matrix,
        c: Matrix,
        *,
        transpose_a: bool = False,
        transpose_b: bool = False,
        ports: Ports | None = None,
    ) -> Product:
        """Return the product of two matrices into a third. All are row-major; a transposed operand is stored as such.

        ``c`` is ``(m, n)``; ``a`` is ``(m, k)``, or ``(k, m)`` with ``transpose_a``; ``b`` likewise. An operand that
        lies in an input of ``ports`` moves with it.
        """
        ports = ports if ports is not None else Ports({})
        if 0 in (*a.shape, *b.shape, *c.shape):
            # The libraries leave the result as it is or refuse; an empty sum is 0.
            return lambda _alpha, beta: _scale(c, beta)
        if self.onednn is not None and self.takes_bands(c.dtype):
            if transpose_b and not transpose_a and c.shape[0] <= FEW_ROWS and _is_read_as_it_lies(b):
                return self._bind_transposed(a, b, c, ports)
            return self._bind_onednn(self.onednn, a, b, c, transpose_a, transpose_b, ports)
        return _bind_blas(a, b, c, transpose_a, transpose_b, ports)

    def _bind_transposed(self, a: Matrix, b: Matrix, c: Matrix, ports: Ports) -> Product:
        """The product of ``a`` with the transpose of ``b``, by way of its own transpose."""
        assert self.onednn is not None
        transposed = np.empty((c.shape[1], c.shape[0]), c.dtype)
        compute = self._bind_onednn(self.onednn, b, a, transposed, False, True, ports)

        def product(alpha: float, beta: float) -> None:
            compute(alpha, 0.0)
            if beta == 0:
                np.copyto(c, transposed.T)
            else:
                _scale(c, beta)
                np.add(c, transposed.T, out=c)

        return product

    def _bind_onednn(
        self, library: OneDnn, a: Matrix, b: Matrix, c: Matrix, transpose_a: bool, transpose_b: bool, ports: Ports
    ) -> Product:
        k = a.shape[0] if transpose_a else a.shape[1]
        # Small products lose by a second thread: waking it costs more than it does.
        threads = self.threads if c.size * k >= THREADED_WORK else 1
        form = (b"NT"[transpose_a], b"NT"[transpose_b], *c.shape, k)
        if self.compiled:
            return CompiledProduct(library, threads, form, (a, b, c), ports)
        return _bind_called(library, threads, form, (a, b, c), ports)


def _bind_called(
    library: OneDnn, threads: int, form: tuple[int, ...], matrices: tuple[Matrix, Matrix, Matrix], ports: Ports
) -> Product:
    """A product that Python calls."""
    a, b, c = matrices
    ta, tb, m, n, k = form
    operands = [address_of(a), address_of(b)]
    for place, operand in enumerate((a, b)):
        ports.follow(operand, _set_address(operands, place))
    lda, ldb, ldc = map(_row_length, matrices)
    sgemm, set_threads, pc = library.sgemm, library.set_threads, address_of(c)

    def product(alpha: float, beta: float, _keep: tuple[Matrix, ...] = matrices) -> None:
        set_threads(threads)
        pa, pb = operands
        sgemm(bytes([ta]), bytes([tb]), m, n, k, alpha, pa, lda, pb, ldb, beta, pc, ldc)

    return product


_PRODUCT = """
def product(openmp, threads, gemm, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):
    if openmp:
        foreign(openmp, "void(i32)", threads)
    foreign(
        gemm, "i32(i8, i8, i64, i64, i64, float, ptr, i64, ptr, i64, float, ptr, i64)",
        ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc,
    )
"""
_ALPHA, _A, _B, _BETA = 8, 9, 11, 13


class CompiledProduct:
    """A product of oneDNN that compiled code can call, too.

    Args:
        library: oneDNN.
        threads: of the product.
        form: letters of the operands (``N``, or ``T`` for one that is stored transposed), rows, columns, inner size.
        matrices: operands and result.
        ports: the inputs that an operand may lie in.
    """

    def __init__(
        self,
        library: OneDnn,
        threads: int,
        form: tuple[int, ...],
        matrices: tuple[Matrix, Matrix, Matrix],
        ports: Ports,
    ) -> None:
        types = ["int64"] * 16
        types[_ALPHA] = types[_BETA] = "float64"
        self._native = native_function(_PRODUCT, "product", f"void({', '.join(types)})")
        addresses = [number for each in matrices for number in (address_of(each), _row_length(each))]
        head = (library.threads_address, threads, library.sgemm_address, *form)
        self._block = self._native.block(*head, 1.0, *addresses[:4], 0.0, *addresses[4:])
        self._factors = self._block.view(np.float64)
        self._address = address_of(self._block)
        operands = zip(matrices, (_A, _B), strict=False)
        follows = [ports.follow_in(each, self._block, place) for each, place in operands]
        self._kept = [each for each, moves in zip(matrices, [*follows, False], strict=True) if not moves]
        self._last = (1.0, 0.0)

    def __call__(self, alpha: float, beta: float) -> None:
        """Compute ``C = alpha A B + beta C``."""
        self.set(alpha, beta)
        self._native.run(self._address)

    def set(self, alpha: float, beta: float) -> None:
        """Say what the factors are from now on."""
        if (alpha, beta) != self._last:
            self._last = alpha, beta
            self._factors[_ALPHA], self._factors[_BETA] = alpha, beta

    def rows(self, alpha: float, beta: float) -> list[Row]:
        """The compiled function that does it."""
        self.set(alpha, beta)
        return [Row(self._native, self._block, self)]


def _is_read_as_it_lies(weights: Matrix) -> bool:
    outer, inner = weights.shape
    return weights.size >= LARGE_WEIGHTS or (weights.size >= NARROW_WEIGHTS and inner >= 4 * outer)


def _set_address(operands: list[int], place: int) -> Callable[[Matrix, int, int], None]:
    def change(_array: Matrix, address: int, offset: int) -> None:
        operands[place] = address + offset

    return change


def _row_length(matrix: Matrix) -> int:
    """Elements from one row to the next: more than the columns if the matrix is a band of a wider one."""
    assert matrix.strides[1] == matrix.itemsize or matrix.shape[1] == 1
    return int(max(matrix.strides[0] // matrix.itemsize, matrix.shape[1]))


def _bind_blas(a: Matrix, b: Matrix, c: Matrix, transpose_a: bool, transpose_b: bool, ports: Ports) -> Product:
    """Row-major ``C = A B`` is column-major ``C' = B' A'``; the transposes of row-major arrays are column-major."""
    with denormals_kept():
        from scipy.linalg import blas

    gemm = blas.sgemm if c.dtype == np.float32 else blas.dgemm
    out = c.T
    operands = [b.T, a.T]
    for place, operand in enumerate((b, a)):
        ports.follow_view(operand, _set_transposed(operands, place))

    def product(alpha: float, beta: float) -> None:
        left, right = operands
        gemm(alpha, left, right, beta, out, transpose_b, transpose_a, 1)

    return product


def _set_transposed(operands: list[Matrix], place: int) -> Callable[[Matrix], None]:
    def change(view: Matrix) -> None:
        operands[place] = view.T

    return change


def _scale(c: Matrix, beta: float) -> None:
    if beta == 0:
        # What is there may be NaN.
        c.fill(0)
    else:
        np.multiply(c, c.dtype.type(beta), out=c)
