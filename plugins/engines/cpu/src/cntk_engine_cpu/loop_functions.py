"""Functions around compiled time loops."""

from __future__ import annotations

from typing import Any

BLOCK = 32


def transpose(source: Any, target: Any) -> None:
    """Write the transpose of a matrix into another, block by block, so that both are read and written by the line."""
    rows, columns = source.shape
    for top in range(0, rows, BLOCK):
        bottom = min(top + BLOCK, rows)
        for left in range(0, columns, BLOCK):
            for j in range(left, min(left + BLOCK, columns)):
                for i in range(top, bottom):
                    target[j, i] = source[i, j]
