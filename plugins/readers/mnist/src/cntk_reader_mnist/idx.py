"""IDX files: a header with the sizes, then the values, row by row; maybe compressed with gzip."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from cntk_core.api import DataError, Location, UnsupportedError

_GZIP = b"\x1f\x8b"
_UNSIGNED_BYTES = 0x08
_OTHER_TYPES = {0x09: "signed bytes", 0x0B: "16-bit", 0x0C: "32-bit", 0x0D: "float", 0x0E: "double"}
_MOST_UNPACKED = 4 << 30
"""Bytes that a compressed file may have: four GiB, fifty times the digits."""
_MOST_PIXELS = 1 << 48
"""Of one image: no memory has more, and an array could not. A damaged header may promise them, of no image even."""
_PART = 1 << 24
_WHAT = {1: "labels", 3: "images"}


class IdxFile:
    """An IDX file of unsigned bytes.

    Args:
        path: the file.
        axes: number of dimensions that it must have: 1 for labels, 3 for images.
        where: the recipe's place that names the file.

    Attributes:
        name: the file as the recipe names it.
        shape: the sizes in its header; the first is the number of samples.
    """

    def __init__(self, path: Path, axes: int, where: Location | None = None) -> None:
        self.name = str(path)
        self._path = path
        try:
            with path.open("rb") as file:
                self._packed = file.read(2) == _GZIP
            with self._open() as file:
                header = file.read(4 + 4 * axes)
        except OSError as error:
            if isinstance(error, gzip.BadGzipFile):
                raise self._damaged(str(error)) from None
            reason = (error.strerror or str(error)).lower()
            raise DataError(f"MNISTReader: cannot open file '{path}': {reason}", where=where) from None
        except (EOFError, zlib.error) as error:
            raise self._damaged(str(error)) from None
        self._check_magic(header, axes)
        self._offset = len(header)
        self.shape = tuple(int(size) for size in np.frombuffer(header[4:], dtype=">u4"))
        if not math.prod(self.shape[1:]):
            raise self._error(f"the images have no pixels: they are {self.shape[1]} x {self.shape[2]}")
        if math.prod(self.shape[1:]) > _MOST_PIXELS:
            size = f"{self.shape[1]} x {self.shape[2]}"
            raise self._error(f"the header says that images have {size} pixels, more than {_MOST_PIXELS}")
        self._data: NDArray[np.uint8] | None = None

    def _open(self) -> BinaryIO:
        return cast(BinaryIO, gzip.open(self._path, "rb")) if self._packed else self._path.open("rb")

    def _error(self, message: str) -> DataError:
        return DataError(message, where=Location(self.name))

    def _damaged(self, reason: str) -> DataError:
        return self._error(f"the compressed file is damaged: {reason}")

    def _check_magic(self, header: bytes, axes: int) -> None:
        begin = header[:4].hex(" ")
        wanted = f"00 00 08 {axes:02x}"
        if len(header) < 4 or header[:2] != b"\0\0" or header[2] not in (_UNSIGNED_BYTES, *_OTHER_TYPES):
            raise self._error(f"this is no IDX file: it begins with {begin or 'nothing'}, {_WHAT[axes]} with {wanted}")
        if header[2] != _UNSIGNED_BYTES:
            raise UnsupportedError(
                f"IDX files with {_OTHER_TYPES[header[2]]} values are not supported, only unsigned bytes",
                where=Location(self.name),
            )
        if header[3] != axes:
            other = f": they are {_WHAT[header[3]]}" if header[3] in _WHAT else ""
            plural = "" if header[3] == 1 else "s"
            raise self._error(f"the values have {header[3]} dimension{plural}, {_WHAT[axes]} have {axes}{other}")
        if len(header) < 4 + 4 * axes:
            raise self._error("the file is truncated in its header")

    def values(self) -> NDArray[np.uint8]:
        """Return all values, ``shape``. Raises DataError if the file is damaged."""
        if self._data is None:
            try:
                self._data = self._load()
            except (EOFError, OSError, zlib.error) as error:
                raise self._damaged(str(error)) from None
        return self._data

    def _load(self) -> NDArray[np.uint8]:
        needed = math.prod(self.shape)
        if self._packed:
            data = self._unpacked(needed)
        else:
            # Not mapped: where a mapped file is cut while it is read, the system ends the process (SIGBUS).
            data = np.fromfile(self._path, np.uint8, offset=self._offset)
        if len(data) != needed:
            sizes = " x ".join(map(str, self.shape))
            what = "truncated" if len(data) < needed else "too long"
            has = "more" if self._packed and len(data) > needed else str(len(data))
            raise self._error(f"the file is {what}: its header says {sizes} = {needed} values, it has {has}")
        return data.reshape(self.shape)

    def _unpacked(self, needed: int) -> NDArray[np.uint8]:
        """Return the values of a compressed file: no more of them are unpacked than its header says, and one."""
        if needed > _MOST_UNPACKED:
            raise DataError(
                f"the file is compressed, and its header promises {needed} values, more than are unpacked in memory "
                f"({_MOST_UNPACKED})",
                where=Location(self.name),
                hint="Unpack it (gunzip): a plain file is read where it lies.",
            )
        parts = bytearray()
        with self._open() as file:
            file.seek(self._offset)
            while len(parts) <= needed and (part := file.read(min(needed + 1 - len(parts), _PART))):
                parts += part
        return np.frombuffer(parts, dtype=np.uint8)

    def close(self) -> None:
        """Forget the values."""
        self._data = None
