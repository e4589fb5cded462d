"""Source text of a compiled time loop: the statements of one time step, between them the kernels that they call.

The text depends on what a loop does, not on its sizes nor on its network, so that layers of one kind share it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_engine_cpu import few_rows
from cntk_engine_cpu.source import HEADER, KernelSpec, is_matrix

Array = NDArray[Any]

_N, _T = ord("N"), ord("T")

_IMPORTS = """
from numba import types

from cntk_engine_cpu.compiler import FAST

sgemm = types.ExternalFunction(
    "dnnl_sgemm",
    types.int32(
        types.int8, types.int8, types.int64, types.int64, types.int64, types.float32, types.uintp, types.int64,
        types.uintp, types.int64, types.float32, types.uintp, types.int64,
    ),
)
"""

_DECORATOR = '@njit(fastmath=FAST, error_model="numpy", nogil=True)'


class LoopText:
    """Gathers the statements of one time step, and the arrays that they use.

    Args:
        dtype: precision.
        onednn: products go to oneDNN (single precision alone), otherwise to the BLAS that SciPy has.
        few: time steps have few rows (:mod:`few_rows`).
    """

    def __init__(self, dtype: np.dtype[Any], *, onednn: bool, few: bool = False) -> None:
        self.dtype = dtype
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
        if self._onednn:
            size = self.dtype.itemsize
            line = (
                f"sgemm({_N}, {_T if transposed else _N}, n, {y}.shape[1], {x}.shape[1], F(1), "
                f"{x}.ctypes.data + a * {x}.shape[1] * {size}, {x}.shape[1], {w}.ctypes.data, {w}.shape[1], "
                f"F({int(accumulate)}), {y}.ctypes.data + a * {y}.shape[1] * {size}, {y}.shape[1])"
            )
            if self._few and few_rows.pays(weights, transposed=transposed):
                name = self._few_rows.setdefault((transposed, accumulate), f"few{len(self._few_rows)}")
                self._lines += few_rows.call(name, x, w, y, line)
            else:
                self._lines.append(line)
            return
        matrix = f"{w}.T" if transposed else w
        if accumulate:
            # `y[a:b] += ...` would also copy the rows onto themselves, and take numba seconds to compile.
            self._lines += [f"part = {y}[a:b]", f"part += np.dot({x}[a:b], {matrix})"]
        else:
            self._lines.append(f"np.dot({x}[a:b], {matrix}, {y}[a:b])")

    def kernel(self, spec: KernelSpec, like: Array, operands: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Call an element-wise kernel for the rows of a time step.

        Args:
            spec: the kernel.
            like: has as many columns as the kernel.
            operands, outputs: whole arrays, in the spec's order.
        """
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
        """Text of a module with the function ``run(starts, counts, sources..., arrays...)``."""
        lines = [HEADER.format(dtype=self.dtype.name), _IMPORTS]
        for spec, name in self._kernels.items():
            lines += ["", _DECORATOR, *spec.lines(name), ""]
        for (transposed, accumulate), name in self._few_rows.items():
            lines += few_rows.source(name, transposed=transposed, accumulate=accumulate)
        arguments = [f"s{index}" for index in range(len(self.shifts))]
        arguments += [f"x{index}" for index in range(len(self.arrays))]
        lines += [
            "",
            f"def run({', '.join(['starts', 'counts', *arguments])}):",
            "    for t in range(len(starts)):",
            "        a = starts[t]",
            "        n = counts[t]",
            "        b = a + n",
            *(f"        {line}" for line in self._lines),
            "",
        ]
        return "\n".join(lines)

    def signature(self) -> str:
        """Argument types for numba."""
        kinds = {1: f"{self.dtype.name}[::1]", 2: f"{self.dtype.name}[:, ::1]"}
        indices = ["int64[::1]"] * (2 + len(self.shifts))
        return f"void({', '.join([*indices, *(kinds[array.ndim] for array in self.arrays)])})"
