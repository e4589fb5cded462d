"""The binary basics of the format: numbers, texts, shapes and matrices, each checked against the end of the file.

Numbers are little endian. Texts end in a zero: wide ones are UTF-16, narrow ones bytes. Sections begin and end with
wide texts. Nothing that a file claims makes it read, or reserve, more than the file has.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, NoReturn

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import ModelFormatError, UnsupportedError

MAX_RANK = 32
"""Most dimensions of a shape."""

MOST = 2**31 - 1
"""Largest number that is believed where something is counted: sizes, repetitions, layers."""

_SHOWN = 40
_DENSE, _SPARSE = ord("d"), ord("s")
_ELEMENTS: dict[int, np.dtype[Any]] = {4: np.dtype("<f4"), 8: np.dtype("<f8")}


@attrs.frozen(eq=False)
class Matrix:
    """A dense matrix: its rows and columns, and its values column by column, which are those of the file itself."""

    rows: int
    columns: int
    values: NDArray[Any]


class BinaryReader:
    """Reads the content of a file from its beginning.

    Args:
        content: all of the file.
        path: its name, for messages.

    Every method raises ModelFormatError where the file ends too early or makes no sense.
    """

    def __init__(self, content: bytes, path: Path) -> None:
        self.content = content
        self.path = path
        self.position = 0

    @property
    def left(self) -> int:
        """Bytes up to the end of the file."""
        return len(self.content) - self.position

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        """Raise ModelFormatError for the byte ``at``, by default the next one."""
        place = self.position if at is None else at
        raise ModelFormatError(f"'{self.path}' is damaged at byte {place}: {message}")

    def need(self, count: int, what: str) -> None:
        """Check that so many bytes are there."""
        if count > self.left:
            self.fail(f"{what} needs {count} bytes, but the file ends after {self.left}")

    def take(self, count: int, what: str) -> bytes:
        """Return the next bytes."""
        self.need(count, what)
        begin = self.position
        self.position += count
        return self.content[begin : self.position]

    # -- numbers ------------------------------------------------------------------------------------------

    def _number(self, form: str, size: int, what: str) -> Any:
        return struct.unpack(form, self.take(size, what))[0]

    def int32(self) -> int:
        """A signed number of 4 bytes."""
        return int(self._number("<i", 4, "a number"))

    def uint32(self) -> int:
        """An unsigned number of 4 bytes."""
        return int(self._number("<I", 4, "a number"))

    def int64(self) -> int:
        """A signed number of 8 bytes."""
        return int(self._number("<q", 8, "a number"))

    def size(self) -> int:
        """An unsigned number of 8 bytes."""
        return int(self._number("<Q", 8, "a number"))

    def amount(self, what: str, most: int = MOST) -> int:
        """An unsigned number of 8 bytes that must not be larger than ``most``."""
        begin, found = self.position, self.size()
        if found > most:
            self.fail(f"{found} is no sensible {what}", begin)
        return found

    def count(self, what: str, least: int) -> int:
        """How many things follow, of which each takes at least so many bytes."""
        begin, found = self.position, self.size()
        if found * least > self.left:
            self.fail(f"{found} {what} cannot follow in {self.left} bytes", begin)
        return found

    def flag(self) -> bool:
        """A truth value."""
        return self.take(1, "a truth value") != b"\0"

    def float32(self) -> float:
        """A number in single precision."""
        return float(self._number("<f", 4, "a number"))

    def float64(self) -> float:
        """A number in double precision."""
        return float(self._number("<d", 8, "a number"))

    def element(self, dtype: np.dtype[Any]) -> float:
        """A number in the precision of a node."""
        return self.float64() if dtype.itemsize == 8 else self.float32()

    # -- texts --------------------------------------------------------------------------------------------

    def wide(self, what: str = "a text") -> str:
        """A text of two bytes a character."""
        begin = self.position
        end = self.content.find(b"\0\0", begin)
        while end >= 0 and (end - begin) % 2:
            end = self.content.find(b"\0\0", end + 1)
        if end < 0:
            self.fail(f"{what} does not end")
        self.position = end + 2
        try:
            return self.content[begin:end].decode("utf-16-le")
        except UnicodeDecodeError:
            self.fail(f"{what} is not UTF-16", begin)

    def narrow(self, what: str = "a text") -> str:
        """A text of one byte a character."""
        begin = self.position
        end = self.content.find(b"\0", begin)
        if end < 0:
            self.fail(f"{what} does not end")
        self.position = end + 1
        return self.content[begin:end].decode("utf-8", "replace")

    def sees(self, marker: str) -> bool:
        """Whether the marker of a section comes next."""
        return self.content.startswith(encoded(marker), self.position)

    def skip(self, marker: str) -> bool:
        """Go past the marker of a section, if it comes next; return whether it did."""
        found = self.sees(marker)
        if found:
            self.position += len(encoded(marker))
        return found

    def expect(self, marker: str) -> None:
        """Go past the marker of a section, which must come next."""
        if not self.skip(marker):
            if self.left < len(encoded(marker)):
                self.fail(f"the file ends where the section mark '{marker}' must stand")
            found = self.content[self.position : self.position + _SHOWN].decode("utf-16-le", "replace").split("\0")[0]
            self.fail(f"here the section mark '{marker}' must stand, not {found!r}")

    # -- shapes and matrices ------------------------------------------------------------------------------

    def dims(self, *, legacy: bool = False) -> tuple[int, ...]:
        """The dimensions of a shape, in CNTK's order.

        Args:
            legacy: what stands here may be an image of the oldest files, 8 bytes each for width, height and channels.
        """
        begin, rank = self.position, self.uint32()
        if legacy and self.content[self.position : self.position + 4] == bytes(4):
            self.position += 4
            height, channels = self.amount("height"), self.amount("number of channels")
            return (channels, rank, height)
        if rank > MAX_RANK:
            self.fail(f"a shape of {rank} dimensions", begin)
        return tuple(self.uint32() for _ in range(rank))

    def flags(self) -> tuple[bool, ...]:
        """A list of truth values."""
        return tuple(self.flag() for _ in range(self.count("truth values", 1)))

    def sizes(self) -> tuple[int, ...]:
        """A list of unsigned numbers of 8 bytes."""
        return tuple(self.size() for _ in range(self.count("numbers", 8)))

    def matrix(self) -> Matrix:
        """A dense matrix.

        Raises:
            UnsupportedError: it is sparse.
        """
        begin = self.position
        kind = self.take(1, "a matrix")[0]
        if kind == _SPARSE:
            raise UnsupportedError(f"'{self.path}' has a sparse matrix at byte {begin}, which cannot be read")
        if kind != _DENSE:
            self.fail("here a matrix must begin", begin)
        self.expect("BMAT")
        dtype = _ELEMENTS.get(self.size())
        if dtype is None:
            self.fail("the elements of a matrix have 4 or 8 bytes", self.position - 8)
        self.wide("the name of a matrix")
        self.int32()  # how it lies in memory; in the file it is always column by column
        rows, columns = self.amount("number of rows"), self.amount("number of columns")
        begin = self.position
        self.need(rows * columns * dtype.itemsize, "a matrix")
        self.position += rows * columns * dtype.itemsize
        self.expect("EMAT")
        return Matrix(rows, columns, np.frombuffer(self.content, dtype, rows * columns, begin))


def encoded(text: str) -> bytes:
    """Return a text as a file has it."""
    return text.encode("utf-16-le") + b"\0\0"
