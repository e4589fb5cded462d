"""Sparse rows: in the files of two readers a row is the number of its values, the values, and their indices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cntk_core.api import DataError
from cntk_core.api.readers import in_precision
from cntk_reader_sparse.files import DataFile

if TYPE_CHECKING:
    from scipy.sparse import csr_array

INDEX = np.dtype("<i4")
OTHER_PRECISION = (
    "The file is damaged, or its values have another precision: precision=float or precision=double in the reader's "
    "block says which."
)


def stored_type(precision: str | None, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of the values of a file: what the reader's block says, else that of the network."""
    if precision is None:
        return dtype.newbyteorder("<")
    return np.dtype("<f8" if precision == "double" else "<f4")


def sparse_matrix(
    values: NDArray[Any], indices: NDArray[Any], pointers: NDArray[Any], dim: int, dtype: np.dtype[Any]
) -> csr_array:
    """Return rows of ``dim`` values in a precision. Raises OverflowError if a value is too large for it."""
    from scipy.sparse import csr_array

    own = in_precision(values, dtype).astype(dtype, copy=False)
    return csr_array((own, indices, pointers), shape=(len(pointers) - 1, dim))


class SparseRows:
    """Collects the rows of one stream.

    Args:
        file: where they are.
        name: of the stream, for messages.
        dim: values of a sample.
        stored: type of the values in the file.
    """

    def __init__(self, file: DataFile, name: str, dim: int, stored: np.dtype[Any]) -> None:
        self._file = file
        self._name = name
        self._dim = dim
        self._stored = stored
        self._begins: list[int] = []
        self._counts: list[int] = []
        self._values = bytearray()
        self._indices = bytearray()

    def end_of(self, at: int) -> int:
        """Return where the row ends that begins at a byte.

        Raises:
            DataError: there is no such row: it has too many values for its dimension, or for the file.
        """
        file = self._file
        if not file.has(at, size=4):
            raise file.wrong(min(at, file.size), f"the file ends before a row of stream '{self._name}'")
        count = file.integer(at)
        if not 0 <= count <= self._dim:
            text = f"a row of stream '{self._name}' (dim={self._dim}) cannot have {count} values"
            raise file.wrong(at, text, OTHER_PRECISION)
        size = 4 + count * (self._stored.itemsize + INDEX.itemsize)
        if not file.has(at, size=size):
            text = f"a row of stream '{self._name}' has {count} values, more than the file has room for"
            raise file.wrong(at, text, OTHER_PRECISION)
        return at + size

    def add(self, at: int) -> int:
        """Take the row that begins at a byte; return where it ends. Raises DataError, as :meth:`end_of`."""
        end = self.end_of(at)
        row = self._file.read(at, end - at)
        count = int.from_bytes(row[:4], "little")
        middle = 4 + count * self._stored.itemsize
        self._begins.append(at)
        self._counts.append(count)
        self._values += row[4:middle]
        self._indices += row[middle:]
        return end

    def matrix(self, dtype: np.dtype[Any]) -> csr_array:
        """Return the rows, in a precision.

        Raises:
            DataError: an index is not below the dimension, or a value is too large for the precision.
        """
        indices = np.frombuffer(bytes(self._indices), dtype=INDEX)
        pointers = np.concatenate([[0], np.cumsum(self._counts, dtype=np.int64)])
        bad = np.flatnonzero((indices < 0) | (indices >= self._dim))
        if len(bad):
            row = int(np.searchsorted(pointers, bad[0], side="right")) - 1
            text = f"index {int(indices[bad[0]])} of stream '{self._name}' is not below its dimension {self._dim}"
            at = self._begins[row] + 4 + self._counts[row] * self._stored.itemsize
            raise self._wrong(at + 4 * (int(bad[0]) - int(pointers[row])), text)
        try:
            return sparse_matrix(
                np.frombuffer(bytes(self._values), dtype=self._stored), indices, pointers, self._dim, dtype
            )
        except OverflowError as error:
            raise self._wrong(self._begins[0], f"stream '{self._name}': {error}") from None

    def _wrong(self, at: int, text: str) -> DataError:
        return self._file.wrong(at, text, OTHER_PRECISION)
