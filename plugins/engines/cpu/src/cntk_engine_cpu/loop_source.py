"""Source text of a compiled time loop: the statements of one time step, between them the kernels that they call.

The text depends on what a loop does, not on its sizes nor on its network, so that layers of one kind share it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_engine_cpu import few_rows
from cntk_engine_cpu.loop_cells import CELL_WORK, MANY_ROWS, Cell, call_lines, cost_of, make_cell
from cntk_engine_cpu.parts import Team
from cntk_engine_cpu.source import HEADER, KernelSpec, is_matrix

Array = NDArray[Any]

_ONEDNN = "i32(i8, i8, i64, i64, i64, float, ptr, i64, ptr, i64, float, ptr, i64)"
_BLAS = f"void({', '.join(['ptr'] * 13)})"
_N, _T = ord("N"), ord("T")

ARGUMENTS = ("starts", "counts", "gemm", "letters", "sizes", "factors")
"""What every loop is given before the sources of its delays and its arrays: rows of its time steps, the address of the
matrix product; and room for arguments of the BLAS, which takes addresses of ``"NT"``, of four sizes, of 0 and 1."""


class LoopText:
    """Gathers the statements of one time step, and the arrays that they use.

    Args:
        dtype: precision.
        onednn: products go to oneDNN (single precision alone), otherwise to the BLAS that SciPy has.
        few: time steps have few rows (:mod:`few_rows`).
        team: the threads that share the kernels with much to do.
    """

    def __init__(self, dtype: np.dtype[Any], team: Team, *, onednn: bool, few: bool = False) -> None:
        self.dtype = dtype
        self.cells: list[Cell] = []
        self._team = team
        self.arrays: list[Array] = []
        self.shifts: list[int] = []
        self._onednn = onednn
        self._few = few
        self._names: dict[tuple[int, tuple[int, ...]], str] = {}
        self._kernels: dict[KernelSpec, str] = {}
        self._few_rows: dict[tuple[bool, bool], str] = {}
        self._lines: list[str] = []

    def delay(self, delayed: Array, source: Array, shift: int) -> None:
        """Copy rows of an earlier time step; rows that have none are there already."""
        to, origin = self._name(delayed), self._name(source)
        self._move(f"{to}[i, j] = {origin}[p, j]", to, shift)

    def delay_gradient(self, delayed: Array, source: Array, shift: int) -> None:
        """Add the gradient of a delay to that of the rows that it read."""
        origin, to = self._name(delayed), self._name(source)
        self._move(f"{to}[p, j] += {origin}[i, j]", to, shift)

    def _move(self, statement: str, like: str, shift: int) -> None:
        if shift not in self.shifts:
            self.shifts.append(shift)
        self._lines += [
            "for i in range(a, b):",
            f"    p = s{self.shifts.index(shift)}[i]",
            "    if p >= 0:",
            f"        for j in range({like}.shape[1]):",
            f"            {statement}",
        ]

    def product(self, rows: Array, weights: Array, out: Array, *, transposed: bool, accumulate: bool) -> None:
        """Multiply the rows of a time step with weights, ``(inner, outer)`` or, ``transposed``, ``(outer, inner)``."""
        x, w, y = self._name(rows), self._name(weights), self._name(out)
        if not self._onednn:
            self._lines += _blas_product(x, w, y, transposed=transposed, accumulate=accumulate)
            return
        line = (
            f'foreign(gemm, "{_ONEDNN}", {_N}, {_T if transposed else _N}, n, {y}.shape[1], {x}.shape[1], F(1), '
            f"{x}[a:b], {x}.shape[1], {w}, {w}.shape[1], F({int(accumulate)}), {y}[a:b], {y}.shape[1])"
        )
        if self._few and few_rows.pays(weights, transposed=transposed):
            name = self._few_rows.setdefault((transposed, accumulate), f"few{len(self._few_rows)}")
            self._lines += few_rows.call(name, x, w, y, line)
        else:
            self._lines.append(line)

    def kernel(self, spec: KernelSpec, like: Array, operands: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Call an element-wise kernel for the rows of a time step.

        Args:
            spec: the kernel.
            like: has as many columns as the kernel.
            operands, outputs: whole arrays, in the spec's order.
        """
        cost = cost_of(spec)
        if self._team.threads > 1 and MANY_ROWS * like.shape[1] * cost >= CELL_WORK:
            self._lines += call_lines(len(self.cells), cost, f"{self._name(like)}.shape[1]")
            arrays = [*operands, *outputs]
            self.cells.append(make_cell(self._team, spec, self.dtype.name, like.shape[1], arrays))
            return
        name = self._kernels.setdefault(spec, f"k{len(self._kernels)}")
        kinds = [kind for _, kind in spec.operands] + [spec.results[index].kind for index in spec.outputs]
        arguments = [
            f"{self._name(array)}[a:b]" if is_matrix(kind) or kind == "col" else self._name(array)
            for array, kind in zip([*operands, *outputs], kinds, strict=True)
        ]
        self._lines.append(f"{name}(n, {self._name(like)}.shape[1], {', '.join(arguments)})")

    def _name(self, array: Array) -> str:
        key = (array.__array_interface__["data"][0], array.shape)
        if key not in self._names:
            self._names[key] = f"x{len(self.arrays)}"
            self.arrays.append(array)
        return self._names[key]

    def source(self) -> str:
        """Text of a module with the function ``run(*ARGUMENTS, sources..., arrays..., cell arguments...)``."""
        lines = [HEADER.format(dtype=self.dtype.name)]
        for spec, name in self._kernels.items():
            lines += ["", *spec.lines(name), ""]
        for (transposed, accumulate), name in self._few_rows.items():
            lines += few_rows.source(name, transposed=transposed, accumulate=accumulate)
        arguments = [f"s{index}" for index in range(len(self.shifts))]
        arguments += [f"x{index}" for index in range(len(self.arrays))]
        if self.cells:
            arguments += ["openmp", "threads"]
            arguments += [f"{name}{index}" for index in range(len(self.cells)) for name in ("cell", "block")]
        lines += [
            "",
            f"def run({', '.join([*ARGUMENTS, *arguments])}):",
            "    for t in range(len(starts)):",
            "        a = starts[t]",
            "        n = counts[t]",
            "        b = a + n",
            *(f"        {line}" for line in self._lines),
            "",
        ]
        return "\n".join(lines)

    def signature(self) -> str:
        """Argument types."""
        flat = f"{self.dtype.name}[::1]"
        kinds = {1: flat, 2: f"{self.dtype.name}[:, ::1]"}
        own = ["int64[::1]", "int64[::1]", "int64", "uint8[::1]", "int32[::1]", flat]
        sources = ["int64[::1]"] * len(self.shifts)
        cells = ["int64", "int64", *["int64", "int64[::1]"] * len(self.cells)] if self.cells else []
        return f"void({', '.join([*own, *sources, *(kinds[array.ndim] for array in self.arrays), *cells])})"

    def cell_arguments(self) -> list[Any]:
        """What the function is given after its arrays."""
        if not self.cells:
            return []
        each = [argument for cell in self.cells for argument in (cell.function.address, cell.block)]
        return [self._team.openmp["GOMP_parallel"], self._team.threads, *each]


def _blas_product(x: str, w: str, y: str, *, transposed: bool, accumulate: bool) -> list[str]:
    """Row-major ``Y = X W`` is column-major ``Y' = W' X'``."""
    return [
        f"sizes[0] = {y}.shape[1]",
        "sizes[1] = n",
        f"sizes[2] = {x}.shape[1]",
        f"sizes[3] = {w}.shape[1]",
        f'foreign(gemm, "{_BLAS}", letters[{int(transposed)}:], letters, sizes, sizes[1:], sizes[2:], factors[1:], '
        f"{w}, sizes[3:], {x}[a:b], sizes[2:], factors[{int(accumulate)}:], {y}[a:b], sizes)",
    ]
