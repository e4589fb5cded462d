"""Matrices as people write them: one row of CNTK's matrix per line (initial values, ReviseParameter)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_core.errors import DataError, Location
from cntk_core.ops.language.shapes import Shape, elements, from_cntk, show, to_cntk


def parse_matrix(lines: Iterable[str], locate: Callable[[int, int], Location]) -> NDArray[np.float64]:
    """Read a matrix, one row per line, numbers separated by blanks.

    Args:
        lines: the text; empty lines do not count.
        locate: makes the place of a line and a column.

    Raises:
        DataError: a row has another length than the first, a word is not a number, or there is nothing.
    """
    rows: list[list[float]] = []
    for number, line in enumerate(lines, start=1):
        words = line.split()
        if not words:
            continue
        try:
            row = [_number(word) for word in words]
        except ValueError:
            bad = next(word for word in words if not _is_number(word))
            place = locate(number, line.index(bad) + 1)
            raise DataError(f"'{bad[:40]}' is not a number", where=place) from None
        if rows and len(row) != len(rows[0]):
            raise DataError(
                f"this row has {len(row)} values, the first one has {len(rows[0])}",
                where=locate(number, 0),
                hint="The file has one row of the matrix per line.",
            )
        rows.append(row)
    if not rows:
        raise DataError("there are no values", where=locate(0, 0))
    return np.array(rows)


def _number(word: str) -> float:
    if "_" in word:  # Python reads 1_000; nobody else does
        raise ValueError
    return float(word)


def _is_number(word: str) -> bool:
    try:
        _number(word)
    except ValueError:
        return False
    return True


def fit_matrix(
    matrix: NDArray[np.float64], shape: Shape, dtype: np.dtype[Any], what: str, where: Location | None
) -> NDArray[Any]:
    """Return the values of a parameter of a shape; memory order is the transpose of the written matrix.

    Raises:
        DataError: ``what`` (the file, the literal) has another number of rows or values.
    """
    rows, columns = matrix.shape
    wanted_rows = shape[-1] if shape else 1
    if rows != wanted_rows or rows * columns != elements(shape):
        wanted_columns = elements(shape) // max(wanted_rows, 1)
        raise DataError(
            f"{what} has {_count(rows, 'row')} of {_count(columns, 'value')}, "
            f"the parameter {show(shape)} needs {_count(wanted_rows, 'row')} of {_count(wanted_columns, 'value')}",
            where=where,
        )
    return np.ascontiguousarray(matrix.T, dtype).reshape(shape)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def complete_shape(matrix: NDArray[np.float64], shape: Shape, what: str, where: Location | None) -> Shape:
    """Return a parameter's shape with its unknown dimensions (0) taken from a matrix.

    Raises:
        DataError: they cannot be inferred.
    """
    rows, columns = matrix.shape
    dims = list(to_cntk(shape))
    if 0 not in dims:
        return shape
    if len(dims) == 1 and columns != 1:
        dims.append(0)
    dims[0] = dims[0] or rows
    unknown = [axis for axis, dim in enumerate(dims) if dim == 0]
    known = elements([dim for dim in dims[1:] if dim])
    if len(unknown) > 1 or columns % known:
        raise DataError(
            f"{what} has {_count(rows, 'row')} of {_count(columns, 'value')}, "
            f"from which the dimensions {show(shape)} cannot be inferred",
            where=where,
        )
    for axis in unknown:
        dims[axis] = columns // known
    return from_cntk(dims)
