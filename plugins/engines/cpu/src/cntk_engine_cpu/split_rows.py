"""Rows of an element-wise kernel through the threads of OpenMP that oneDNN's products use, too.

A region of OpenMP costs one or two microseconds where its threads are awake. Kernels with sums over rows are not split:
the sums would be in another order. So results do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from cntk_core.api.engines import Native, native_function
from cntk_engine_cpu.inputs import Ports, address_of
from cntk_engine_cpu.libraries import OneDnn
from cntk_engine_cpu.rows import Row
from cntk_engine_cpu.site import Call, Site
from cntk_engine_cpu.source import KernelSpec, is_matrix

SPLIT_ELEMENTS = 1 << 17
"""Elements of an operand from which a second thread pays."""

PARTS = 16
"""Most parts: each thread takes every n-th of them."""

_TEXT = """
def region(thread, threads, kernel, blocks):
    first = foreign(thread, "i32()")
    for part in range(first, len(blocks), foreign(threads, "i32()")):
        foreign(kernel, "void(ptr)", blocks[part])

def parallel(openmp, region, block, threads):
    foreign(openmp, "void(ptr, ptr, i32, i32)", region, block, threads, 0)
"""


def kernel_call(site: Site, spec: KernelSpec, rows: int, columns: int, arrays: Sequence[Any]) -> Call:
    """Return the call of an element-wise kernel.

    Args:
        site: where.
        spec: the kernel; it has no numbers.
        rows, columns: of its matrices.
        arrays: its operands, then its outputs.
    """
    kernel = site.kernels.get(spec, site.dtype)
    kinds = [kind for _, kind in spec.operands] + [spec.results[index].kind for index in spec.outputs]
    library = site.gemm.onednn
    if (
        not isinstance(kernel, Native)
        or library is None
        or not library.openmp
        or site.gemm.threads < 2
        or rows < 2
        or rows * columns < SPLIT_ELEMENTS
        or any(result.kind in ("row", "scalar") for result in spec.results)
    ):
        return Call(kernel, (rows, columns, *arrays))
    by_rows = [is_matrix(kind) or kind == "col" for kind in kinds]
    return Call(SplitKernel(kernel, library, site.gemm.threads, rows, columns, arrays, by_rows, site.ports))


class SplitKernel:
    """A kernel bound to its arrays, whose rows several threads share.

    Args:
        kernel: the kernel; what it does for a row does not depend on other rows.
        library: knows OpenMP.
        threads: how many share them.
        rows, columns: of the matrices.
        arrays: operands and outputs.
        by_rows: for each, whether a part of the rows has a part of it.
        ports: the inputs that an array may lie in.
    """

    def __init__(
        self,
        kernel: Native,
        library: OneDnn,
        threads: int,
        rows: int,
        columns: int,
        arrays: Sequence[Any],
        by_rows: Sequence[bool],
        ports: Ports,
    ) -> None:
        count = min(rows, PARTS)
        ends = [rows * part // count for part in range(count + 1)]
        self._blocks = []
        self._kept: list[Any] = []
        for first, end in pairwise(ends):
            parts = [array[first:end] if cut else array for array, cut in zip(arrays, by_rows, strict=True)]
            block = kernel.block(end - first, columns, *parts)
            for place, array in zip(kernel.places[2:], parts, strict=True):
                if not ports.follow(array, _mover(block, place)):
                    self._kept.append(array)
            self._blocks.append(block)
        table = np.array([address_of(block) for block in self._blocks], np.int64)
        region = native_function(_TEXT, "region", "void(int64, int64, int64, int64[::1])")
        known = library.openmp["omp_get_thread_num"], library.openmp["omp_get_num_threads"]
        inner = region.block(*known, kernel.address, table)
        self._kept += [table, inner]
        self._native = native_function(_TEXT, "parallel", "void(int64, int64, int64, int64)")
        self._block = self._native.block(library.openmp["GOMP_parallel"], region.address, address_of(inner), threads)
        self._address = address_of(self._block)

    def __call__(self) -> None:
        """Compute all rows."""
        self._native.run(self._address)

    def rows(self) -> list[Row]:
        """The compiled function that does it."""
        return [Row(self._native, self._block, self)]


def _mover(block: Any, place: int) -> Any:
    def move(_array: Any, address: int, offset: int) -> None:
        block[place] = address + offset

    return move
