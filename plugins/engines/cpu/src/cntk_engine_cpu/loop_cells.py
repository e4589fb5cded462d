"""Kernels of a time loop whose rows several threads share: one region of OpenMP for each time step.

A library's products use its threads inside the loop; without this the cell between two products would be all that one
thread does alone. What a kernel does for a row does not depend on other rows, nor does any result on the threads.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from cntk_core.api.engines import Expr, Native
from cntk_engine_cpu.compiler import compile_text
from cntk_engine_cpu.parts import Array, Team
from cntk_engine_cpu.source import HEADER, KernelSpec, is_matrix

CELL_WORK = 1 << 17
"""Work of a time step from which a second thread pays: elements, times what each of them takes."""

MANY_ROWS = 32
"""Rows of a time step with which a kernel has to reach that to be written for several threads at all."""

SLOW = frozenset({"exp", "log", "tanh", "sigmoid", "sqrt", "power", "logaddexp", "erf", "sin", "cos", "div"})
"""Operations that take about as long as :data:`SLOW_COST` numbers read or written."""

SLOW_COST = 4

FIXED = 5
"""Arguments of a cell before its arrays."""


@attrs.frozen(eq=False)
class Cell:
    """A kernel and its arrays.

    Attributes:
        function: ``cell(first row, rows, two functions of OpenMP, columns, arrays...)``, in a region or outside.
        block: its arguments, of which a loop writes the first two.
        arrays: whole ones.
    """

    function: Native
    block: Array
    arrays: tuple[Array, ...]


def cost_of(spec: KernelSpec) -> int:
    """What an element of a kernel takes, in numbers read or written."""
    slow: set[Expr] = set()
    for result in spec.results:
        _find_slow(result.expression, slow)
    return len(spec.operands) + len(spec.results) + SLOW_COST * len(slow)


def _find_slow(tree: Expr | float | str, found: set[Expr]) -> None:
    if isinstance(tree, Expr) and tree not in found:
        if tree.operation in SLOW:
            found.add(tree)
        for arg in tree.args:
            _find_slow(arg, found)


def make_cell(team: Team, spec: KernelSpec, dtype: str, columns: int, arrays: Sequence[Array]) -> Cell:
    """Return a kernel with its operands and outputs, in the spec's order, as a loop can have it done."""
    kinds = [kind for _, kind in spec.operands] + [spec.results[index].kind for index in spec.outputs]
    names = [f"x{index}" for index in range(len(kinds))]
    cut = [
        f"{name}[begin:end]" if is_matrix(kind) or kind == "col" else name
        for name, kind in zip(names, kinds, strict=True)
    ]
    lines = [
        HEADER.format(dtype=dtype),
        *spec.lines("kernel"),
        "",
        f"def cell(first, rows, thread, threads, columns, {', '.join(names)}):",
        '    me = foreign(thread, "i32()")',
        '    all = foreign(threads, "i32()")',
        "    begin = first + rows * me // all",
        "    end = first + rows * (me + 1) // all",
        f"    kernel(end - begin, columns, {', '.join(cut)})",
        "",
    ]
    types = [f"{dtype}[:, ::1]" if is_matrix(kind) else f"{dtype}[::1]" for kind in kinds]
    function = compile_text("\n".join(lines), "cell", dtype, f"void({', '.join(['int64'] * FIXED + types)})")
    known = team.openmp["omp_get_thread_num"], team.openmp["omp_get_num_threads"]
    return Cell(function, function.block(0, 0, *known, columns, *arrays), tuple(arrays))


def call_lines(place: int, cost: int, columns: str) -> list[str]:
    """Lines that have the cell at a place of a loop's list done for ``n`` rows from ``a``."""
    return [
        f"block{place}[0] = a",
        f"block{place}[1] = n",
        f"if n > 1 and n * {columns} * {cost} >= {CELL_WORK}:",
        f'    foreign(openmp, "void(ptr, ptr, i32, i32)", cell{place}, block{place}, threads, 0)',
        "else:",
        f'    foreign(cell{place}, "void(ptr)", block{place})',
    ]
