"""Kernels around kernels that take several rows as one, or parts of the rows at a time.

Compiled by :func:`cntk_engine_cpu.compiler.compile_file`, for other precisions too.
"""

from __future__ import annotations

from typing import Any


def repeat(row: Any, target: Any) -> None:
    """Write a row as often as it fits."""
    columns = row.shape[0]
    for i in range(target.shape[0] // columns):
        for j in range(columns):
            target[i * columns + j] = row[j]


def add_up(parts: Any, out: Any, accumulate: bool) -> None:
    """Write or add the sum of the rows of ``parts``, in their order."""
    rows, columns = parts.shape
    begin = 0
    if not accumulate:
        begin = 1
        for j in range(columns):
            out[j] = parts[0, j]
    for i in range(begin, rows):
        for j in range(columns):
            out[j] += parts[i, j]
