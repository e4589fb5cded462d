"""The binary basics of the format, to be written: numbers, texts, shapes and matrices, as :mod:`.reader` reads them.

Numbers are little endian, texts end in a zero. Arrays are not copied: what is kept of them are views.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_model_cntk1.bcn.reader import encoded

Piece = bytes | memoryview


class BinaryWriter:
    """Collects the content of a file.

    Attributes:
        pieces: what was written so far, to be written to the file one after the other.
    """

    def __init__(self) -> None:
        self.pieces: list[Piece] = []

    def put(self, form: str, *values: Any) -> None:
        """Add numbers, packed as :mod:`struct` says."""
        self.pieces.append(struct.pack(f"<{form}", *values))

    def int32(self, *values: int) -> None:
        """Add signed numbers of 4 bytes."""
        self.put(f"{len(values)}i", *values)

    def size(self, *values: int) -> None:
        """Add unsigned numbers of 8 bytes; -1 is the largest one, as in the original."""
        self.put(f"{len(values)}Q", *(value % 2**64 for value in values))

    def flag(self, *values: bool) -> None:
        """Add truth values of one byte."""
        self.put(f"{len(values)}?", *values)

    def element(self, value: float, dtype: np.dtype[Any]) -> None:
        """Add a number in the precision of a node."""
        self.put("d" if dtype.itemsize == 8 else "f", value)

    def wide(self, *texts: str) -> None:
        """Add texts of two bytes a character, or the marks of sections."""
        self.pieces += [encoded(text) for text in texts]

    def narrow(self, text: str) -> None:
        """Add a text of one byte a character."""
        self.pieces.append(text.encode() + b"\0")

    def names(self, names: Sequence[str]) -> None:
        """Add a list of names."""
        self.size(len(names))
        self.wide(*names)

    def dims(self, dims: Sequence[int]) -> None:
        """Add the dimensions of a shape, in CNTK's order."""
        self.put(f"{len(dims) + 1}I", len(dims), *dims)

    def flags(self, values: Iterable[bool]) -> None:
        """Add a list of truth values."""
        values = tuple(values)
        self.size(len(values))
        self.flag(*values)

    def sizes(self, values: Sequence[int]) -> None:
        """Add a list of unsigned numbers of 8 bytes."""
        self.size(len(values), *values)

    def matrix(self, dims: Sequence[int], values: NDArray[Any]) -> None:
        """Add a dense matrix.

        Args:
            dims: the shape of the tensor that it holds, in CNTK's order: the first dimension are its rows.
            values: in memory order, in the precision of the file.
        """
        rows, columns = (dims[0], math.prod(dims[1:])) if dims else (1, 1)
        self.pieces.append(b"d")
        self.wide("BMAT")
        self.size(values.dtype.itemsize)
        self.wide("unnamed")
        self.int32(0)  # column by column
        self.size(rows, columns)
        flat: Any = np.ascontiguousarray(values, values.dtype.newbyteorder("<")).reshape(-1)
        self.pieces.append(memoryview(flat).cast("B") if flat.size else b"")
        self.wide("EMAT")
