"""Files with an encoded image in each line: ``class TAB base64`` or ``key TAB class TAB base64``."""

from __future__ import annotations

import base64
import binascii
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import CntkError, DataError, Location
from cntk_core.api.readers import LINE_BYTES, bounded_lines
from cntk_reader_image.limits import BrokenImageError, Limits
from cntk_reader_image.listing import Images, LineProblems, cannot_open, class_of

CHUNK_BYTES = 32 * 1024 * 1024
"""A chunk has so many bytes of lines at most, as in CNTK: the random order depends on it."""
_BOM = b"\xef\xbb\xbf"
_JUNK = b" \t\r\n\0"


@attrs.frozen(eq=False)
class Base64Images(Images):
    """The images of a base64 file.

    Attributes:
        data: the file.
        begins, sizes: the place of the base64 text of each image, in bytes.
    """

    data: BinaryIO = attrs.field(kw_only=True)
    begins: NDArray[np.int64] = attrs.field(kw_only=True)
    sizes: NDArray[np.int64] = attrs.field(kw_only=True)
    lock: threading.Lock = attrs.field(kw_only=True, factory=threading.Lock)

    def title(self, image: int) -> str:
        """Return what a message calls an image."""
        return f"'{self.key(image)}'"

    def read(self, image: int) -> bytes:
        """Return the encoded bytes of an image. Raises BrokenImageError."""
        self.limits.check_file(int(self.sizes[image]) * 3 // 4)
        with self.lock:
            try:
                self.data.seek(int(self.begins[image]))
                text = self.data.read(int(self.sizes[image]))
            except (OSError, ValueError) as error:
                raise BrokenImageError(str(error)) from None
        try:
            return base64.b64decode(text, validate=True)
        except binascii.Error as error:
            raise BrokenImageError(f"the line is no base64: {str(error).lower()}") from None

    def close(self) -> None:
        """Close the file."""
        self.data.close()


def read_base64(
    path: Path, labels: int, where: Location | None, limits: Limits | None = None, max_line_bytes: int = LINE_BYTES
) -> Base64Images:
    """Read where the images of a base64 file are. The first line says whether lines have keys.

    Args:
        path: the file.
        labels: number of classes.
        where: what named the file.
        limits: what an image may take.
        max_line_bytes: a longer line is refused.

    Raises:
        DataError, Problems: the file cannot be read; lines are wrong.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise cannot_open(path, error, where, "base64 file") from None
    try:
        return _read(file, path, labels, limits or Limits(), max_line_bytes)
    except BaseException:
        file.close()
        raise


def _read(file: BinaryIO, path: Path, labels: int, limits: Limits, max_line_bytes: int) -> Base64Images:
    problems = LineProblems()
    rows: list[tuple[int, int, int, int]] = []
    keys: list[str] = []
    starts: list[int] = []
    has_keys: bool | None = None
    for number, offset, line in _lines(bounded_lines(file, max_line_bytes, str(path))):
        columns = line.rstrip(_JUNK).split(b"\t")
        if has_keys is None:
            has_keys = len(columns) > 2 and bool(columns[2])
        place = Location(str(path), number)
        if len(columns) < 2 + has_keys or not all(columns[: 2 + has_keys]):
            problems.add(DataError(_WRONG_WITH_KEYS if has_keys else _WRONG_WITHOUT_KEYS, where=place))
            continue
        key = columns[0].decode(errors="replace") if has_keys else str(number - 1)
        found = class_of(columns[has_keys].decode(errors="replace"), labels, key, place)
        if isinstance(found, CntkError):
            problems.add(found)
            continue
        before = sum(len(column) + 1 for column in columns[: 1 + has_keys])
        rows.append((number, found, offset + before, len(columns[1 + has_keys].strip())))
        starts.append(offset)
        keys.append(key)
    problems.finish(bool(rows), path)
    lines, classes, begins, sizes = np.array(rows, dtype=np.int64).T
    return Base64Images(
        str(path),
        lines,
        classes,
        keys if has_keys else None,
        _cut(np.array(starts, dtype=np.int64), file.seek(0, 2)),
        data=file,
        begins=begins,
        sizes=sizes,
        limits=limits,
    )


_WRONG_WITHOUT_KEYS = "the line must have a class and an image in base64, with a tab between them"
_WRONG_WITH_KEYS = "the line must have a key, a class and an image in base64, with tabs between them, as the first line"


def _lines(lines: Iterator[bytes]) -> Iterator[tuple[int, int, bytes]]:
    """Yield the lines that are not empty, with their numbers from 1 and their offsets."""
    offset = 0
    for number, line in enumerate(lines, start=1):
        skipped = len(_BOM) if number == 1 and line.startswith(_BOM) else 0
        if line.strip(_JUNK):
            yield number, offset + skipped, line[skipped:]
        offset += len(line)


def _cut(starts: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Return the first image of each chunk, and the end: a chunk ends before the line that would make it too large."""
    ends = np.append(starts[1:], size)
    cuts = [0]
    while cuts[-1] < len(starts):
        limit = starts[cuts[-1]] + CHUNK_BYTES
        cuts.append(max(int(np.searchsorted(ends, limit, side="right")), cuts[-1] + 1))
    return np.array(cuts, dtype=np.int64)
