"""Sparse matrices among the inputs of ops: their elements one by one, so that nothing as large as they are is made."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_core.ops.language.op import Array

IntArray = NDArray[np.int64]


def is_sparse(value: Any) -> bool:
    """Whether a value is a ``scipy.sparse`` matrix."""
    return hasattr(value, "toarray")


def entries(matrix: Any) -> tuple[IntArray, IntArray, Array]:
    """Return row, column and number of each element that a sparse matrix names."""
    found = matrix.tocsr()
    rows = np.repeat(np.arange(found.shape[0]), np.diff(found.indptr))
    return rows, np.asarray(found.indices, np.int64), found.data


def best_columns(values: Any) -> IntArray:
    """Return the column of the largest number of each row, the first of equal ones; of a sparse matrix, too."""
    if not is_sparse(values):
        return np.asarray(values.argmax(axis=1), np.int64).reshape(-1)
    rows, columns, data = entries(values)
    found = np.full(values.shape[0], -1, np.int64)
    # The last that is written stays: in each row the largest, of equal ones that of the first column.
    order = np.lexsort((-columns, data, rows))
    positive = order[data[order] > 0]
    found[rows[positive]] = columns[positive]
    rest = np.flatnonzero(found < 0)
    if len(rest):  # rows without a positive number are rare: labels have a 1
        found[rest] = np.asarray(values.tocsr()[rest].argmax(axis=1)).reshape(-1)
    return found


def pick(values: Array, rows: IntArray, columns: IntArray) -> Array:
    """Return elements of a matrix; one row stands for all."""
    return values[rows if len(values) > 1 else 0, columns]


def add_at(values: Array, rows: IntArray, columns: IntArray, changes: Array) -> None:
    """Add to elements of a matrix, in place; an element may be named twice, and one row stands for all."""
    np.add.at(values, (rows if len(values) > 1 else np.zeros_like(rows), columns), changes)
