"""Columns, stripes and records: how quantized gradients are cut up and laid out.

A parameter is a matrix whose columns are the runs of its first axis in CNTK's order (its last one in memory). Each
column becomes a record of words that are as wide as a value: the lower and the upper end of its range as they are, then
the packed values. The words of a column are filled side by side: with S of them, word i has the values i, i + S,
i + 2 S, ... from its lowest bits on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import ParameterStore

SCALES = 2
"""Words of a record before the packed values: the ends of the range."""

LANES = 64
"""Partial sums of a column: value i is added to sum i % 64, in order; then the upper half of the sums to the lower one,
until one is left. Of fewer values, halves that are all empty are left out."""

STANDARD_DEVIATIONS = 4.0
"""With more than 1 bit, the range ends so many standard deviations (about 0) from 0."""

NEGLIGIBLE = 1e-36
"""A narrower range is sent as its lower end."""

Words = NDArray[Any]
Blocks = NDArray[np.int64]


@attrs.frozen
class Matrix:
    """The gradient of a parameter.

    Attributes:
        offset: of its first value in the buffer.
        rows: values in a column.
        columns: how many it has.
    """

    offset: int
    rows: int
    columns: int

    def stripe(self, rank: int, ranks: int) -> tuple[int, int]:
        """Return the first and past-the-end column that a rank adds up; the first ranks have one more."""
        each, more = divmod(self.columns, ranks)
        return rank * each + min(rank, more), (rank + 1) * each + min(rank + 1, more)


def matrices_of(store: ParameterStore, shortest_column: int = 1) -> tuple[Matrix, ...]:
    """Return the matrices of all learned parameters.

    Args:
        store: the parameters.
        shortest_column: axes are put together until a column has so many values.
    """
    found = []
    for parameter in store.parameters:
        if parameter.learned:
            first, end = store.range(parameter)
            rows = _rows(parameter.known_shape, shortest_column)
            if end > first:
                found.append(Matrix(first, rows, (end - first) // rows))
    return tuple(found)


def _rows(shape: Sequence[int], shortest: int) -> int:
    rows = 1
    for index, dim in enumerate(reversed(shape)):
        if index and rows >= shortest:
            break
        rows *= dim
    return rows


def record_words(rows: int, bits: int, word_bits: int) -> int:
    """Words of the record of a column."""
    per_word = word_bits // bits
    return SCALES + -(-rows // per_word)


def word_type(dtype: Any) -> np.dtype[Any]:
    """The type of the words that go with a type of values."""
    return np.dtype(f"u{np.dtype(dtype).itemsize}")


@attrs.frozen(eq=False)
class Cut:
    """Columns of all parameters, in the order in which their records follow each other.

    Attributes:
        blocks: for neighbouring columns of a parameter a row: the offsets of their first value in the gradients, in the
            residual and of their first record, the values of a column, and how many columns it is.
        words: length of all records.
    """

    blocks: Blocks
    words: int

    @classmethod
    def of(cls, parts: Iterator[tuple[Matrix, int, int]], bits: int, word_bits: int, *, compact: bool = False) -> Cut:
        """Lay out parts of matrices (their first and past-the-end column).

        Args:
            parts: may be empty.
            bits, word_bits: of a value and of a word.
            compact: the residual has these values only, without gaps; else it is laid out like the gradients.
        """
        rows_of_blocks, word, kept = [], 0, 0
        for matrix, first, end in parts:
            at = matrix.offset + first * matrix.rows
            if end > first:
                rows_of_blocks.append((at, kept if compact else at, word, matrix.rows, end - first))
            word += (end - first) * record_words(matrix.rows, bits, word_bits)
            kept += (end - first) * matrix.rows
        return cls(np.array(rows_of_blocks, np.int64).reshape(-1, 5), word)


def stripe_size(matrices: Sequence[Matrix], rank: int, ranks: int) -> int:
    """Values that a rank adds up."""
    found = 0
    for matrix in matrices:
        first, end = matrix.stripe(rank, ranks)
        found += (end - first) * matrix.rows
    return found


def parts_of(matrices: Sequence[Matrix], rank: int, ranks: int) -> Iterator[tuple[Matrix, int, int]]:
    """The stripes of a rank, for :meth:`Cut.of`."""
    for matrix in matrices:
        first, end = matrix.stripe(rank, ranks)
        yield matrix, first, end
