"""Operands and results of kernels that are brought into another form: repeated before, and summed up afterwards.

Of a kernel over few columns several rows are taken as one: the inner loop then is long enough to pay.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import attrs
import numpy as np

from cntk_engine_cpu.shared_calls import repeat_call
from cntk_engine_cpu.site import Array, Call, Site
from cntk_engine_cpu.source import Result

FEW_COLUMNS = 256
"""Fewer than these are too few for a loop, if there are many rows."""

MANY_ROWS = 1024

LONG_ROW = 1024
"""Columns that several rows have together at most."""


def rows_as_one(site: Site, rows: int, columns: int, kinds: Collection[str]) -> int:
    """How many rows of a kernel are taken as one: 1, or a power of 2 that divides their number.

    Args:
        site: where.
        rows, columns: of the kernel.
        kinds: of its operands and results.
    """
    times = 1
    if not site.kernels.compiled or "col" in kinds or rows < MANY_ROWS or not 0 < columns < FEW_COLUMNS:
        return 1
    while 2 * times * columns <= LONG_ROW and rows % (2 * times) == 0:
        times *= 2
    return times


def repeated(
    site: Site, times: int, columns: int, arrays: Mapping[str, tuple[Array, str]], before: list[Call]
) -> dict[str, tuple[Array, str]]:
    """Return a kernel's operands for several rows as one; ``before`` gets what has to be done first."""
    wide = {}
    for name, (array, kind) in arrays.items():
        if kind == "row":
            several = np.empty(times * columns, array.dtype)
            before.append(repeat_call(site, array.reshape(columns), several))
            array = several
        wide[name] = array, kind
    return wide


def _set_sum(parts: Array, total: Array) -> None:
    np.add.reduce(parts, axis=0, out=total)


def _add_sum(parts: Array, total: Array) -> None:
    total += np.add.reduce(parts, axis=0)


class Outer:
    """Operands that are the same along all columns and in all samples: repeated for the samples they are columns.

    Attributes:
        before, after: what has to be done before the kernel, and after it.
    """

    def __init__(self) -> None:
        self.before: list[Call] = []
        self.after: list[Call] = []

    def operand(self, rows: int, array: Array, kind: str) -> tuple[Array, str]:
        """Return an operand and its kind for a kernel over ``rows``."""
        if kind != "outer":
            return array, kind
        repeated = np.empty(rows, array.dtype)
        self.before.append(Call(np.copyto, (repeated.reshape(-1, array.size), array.reshape(-1))))
        return repeated, "col"

    def result(self, rows: int, result: Result, output: Array) -> tuple[Result, Array]:
        """Return a result and its place for a kernel over ``rows``."""
        if result.kind != "outer":
            return result, output
        sums = np.empty(rows, output.dtype)
        add = _add_sum if result.accumulate else _set_sum
        self.after.append(Call(add, (sums.reshape(-1, output.size), output.reshape(-1))))
        return attrs.evolve(result, kind="col", accumulate=False), sums
