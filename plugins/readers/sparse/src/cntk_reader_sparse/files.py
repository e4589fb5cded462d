"""A binary file of which nothing is believed before it is checked: any of its bytes, through a block in memory."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO

from cntk_core.api import DataError, Location

BLOCK_BYTES = 1024 * 1024
"""Bytes that are read at once."""
DAMAGED = "The file is damaged, or was not written to its end."


class DataFile:
    """An open file.

    Bytes are asked for mostly in the order of the file, one call at a time.

    Args:
        path: the file as the recipe names it.
        reader: whose file it is, for messages.
        where: the place in the recipe.

    Attributes:
        name: as the recipe has it.
        size: bytes.

    Raises:
        DataError: it cannot be opened.
    """

    def __init__(self, path: Path, reader: str, where: Location | None) -> None:
        self.name = str(path)
        try:
            self._file: BinaryIO = path.open("rb", buffering=0)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            hint = "A relative name starts at the directory in which the command runs." if not path.exists() else None
            raise DataError(f"{reader}: cannot open file '{path}': {reason}", where=where, hint=hint) from None
        self.size = self._file.seek(0, 2)
        self._first = 0
        self._block = b""

    def wrong(self, offset: int, message: str, hint: str | None = DAMAGED) -> DataError:
        """Return the error that something is wrong at a byte of the file."""
        return DataError(f"byte {offset}: {message}", where=Location(self.name), hint=hint)

    def has(self, offset: int, *, size: int) -> bool:
        """Tell whether the file is long enough for some bytes."""
        return offset >= 0 and 0 <= size <= self.size - offset

    def read(self, offset: int, size: int) -> memoryview:
        """Return some bytes, which the file must have (:meth:`has`).

        Raises:
            DataError: the file cannot be read, or has become shorter.
        """
        begin = offset - self._first
        if begin < 0 or begin + size > len(self._block):
            self._fill(offset, max(size, BLOCK_BYTES))
            begin = 0
            if size > len(self._block):
                end = offset + len(self._block)
                raise self.wrong(end, "the file has become shorter while it was read", None)
        return memoryview(self._block)[begin : begin + size]

    def integer(self, offset: int) -> int:
        """Return the 4 bytes at an offset as a number; as :meth:`read`."""
        found: int = struct.unpack("<i", self.read(offset, 4))[0]
        return found

    def _fill(self, offset: int, size: int) -> None:
        parts: list[bytes] = []
        try:
            self._file.seek(offset)
            while size and (part := self._file.read(size)):
                parts.append(part)
                size -= len(part)
        except (OSError, ValueError) as error:
            raise DataError(f"cannot read the file: {error}", where=Location(self.name)) from None
        self._first, self._block = offset, b"".join(parts)

    def close(self) -> None:
        """Close the file. May be called more than once."""
        self._block = b""
        self._file.close()
