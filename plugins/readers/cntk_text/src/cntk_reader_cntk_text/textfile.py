"""The file as bytes: where its text begins and ends, pieces of whole lines, sequence ids of lines."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cntk_core.api import DataError, Location
from cntk_core.api.readers import LINE_BYTES, line_too_long
from cntk_reader_cntk_text.records import Bytes, IdArray, IntArray

_BOM = b"\xef\xbb\xbf"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_NEWLINE = ord("\n")
_TAIL = 65536
_BLOCK = 1 << 22
LARGEST_ID = 2**64 - 1
_MOST_DIGITS = len(str(LARGEST_ID))
_SURE_DIGITS = _MOST_DIGITS - 1
"""So many digits are a number of 64 bits whatever they are."""


class TextFile:
    """A text file that is read in pieces, from any thread.

    Attributes:
        name: the file as the recipe names it, for messages.
        begin: offset of the first byte after a byte order mark.
        end: offset after the last byte that is not white space.
        ends_with_newline: whether the last line is complete.
        max_line_bytes: a longer line is refused, before more of it is read.
    """

    def __init__(self, path: Path, where: Location | None = None, max_line_bytes: int = LINE_BYTES) -> None:
        self.name = str(path)
        self.max_line_bytes = max_line_bytes
        self._lock = threading.Lock()
        try:
            self._file: BufferedReader = path.open("rb")
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            hint = "A relative name starts at the directory in which the command runs." if not path.exists() else None
            message = f"CNTKTextFormatReader: cannot open file '{path}': {reason}"
            raise DataError(message, where=where, hint=hint) from None
        try:
            self._find_text()
        except BaseException:
            self.close()
            raise

    def _find_text(self) -> None:
        start = self.read(0, 3)
        if start[:2] in _UTF16:
            raise DataError(
                "the file is in UTF-16; the text format is UTF-8",
                where=Location(self.name),
                hint=f"Convert it: iconv -f UTF-16 -t UTF-8 '{self.name}' > new.ctf",
            )
        self.begin = len(_BOM) if start == _BOM else 0
        self._file.seek(0, 2)
        self.end = self._file.tell()
        while self.end > self.begin:
            first = max(self.begin, self.end - _TAIL)
            tail = self.read(first, self.end - first)
            self.end = first + len(tail.rstrip(b" \t\r\n"))
            if self.end > first:
                break
        if self.end == self.begin:
            raise DataError("the file is empty", where=Location(self.name))
        self.ends_with_newline = b"\n" in self.read(self.end, _TAIL)

    def read(self, offset: int, size: int) -> bytes:
        """Return some bytes. Raises DataError if the file cannot be read any more."""
        with self._lock:
            try:
                self._file.seek(offset)
                return self._file.read(size)
            except (OSError, ValueError) as error:
                raise self._unreadable(error) from None

    def lines(self, offset: int, size: int) -> bytes:
        """Return whole lines of text: ``size`` bytes and a newline at the end if there is none."""
        data = self.read(offset, size)
        if len(data) < size:
            raise DataError("the file has become shorter while it was read", where=Location(self.name))
        return data if data.endswith(b"\n") else data + b"\n"

    def piece_sizes(self, size: int) -> Iterator[tuple[int, int, int]]:
        """Yield offset, bytes and lines of each of the :meth:`pieces`, which all go through the same memory.

        Raises DataError for a line of more bytes than are allowed.
        """
        memory = bytearray(min(size, self.end - self.begin))
        offset = self.begin
        while offset < self.end:
            count = self._read_into(memoryview(memory)[: self.end - offset], offset)
            cut = count if offset + count == self.end else memory.rfind(b"\n", 0, count) + 1
            if cut and count <= self.max_line_bytes:
                lines = memory.count(b"\n", 0, cut) + (memory[cut - 1] != _NEWLINE)
            else:
                _, data = next(self.pieces(size, offset))
                cut, lines = len(data), data.count(b"\n") + (not data.endswith(b"\n"))
            yield offset, cut, lines
            offset += cut

    def _read_into(self, memory: memoryview, offset: int) -> int:
        """Fill memory with bytes and return how many there are. Raises DataError if the file cannot be read."""
        with self._lock:
            try:
                self._file.seek(offset)
                return self._file.readinto(memory)
            except (OSError, ValueError) as error:
                raise self._unreadable(error) from None

    def _unreadable(self, error: Exception) -> DataError:
        return DataError(f"cannot read the file: {error}", where=Location(self.name))

    def pieces(self, size: int, begin: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Yield the text in pieces of whole lines of at most ``size`` bytes, a longer line alone, with their offsets.

        The last piece may lack its newline. Raises DataError for a line of more bytes than are allowed.
        """
        offset = self.begin if begin is None else begin
        while offset < self.end:
            data = self.read(offset, min(size, self.end - offset))
            cut = data.rfind(b"\n") + 1
            while not cut and offset + len(data) < self.end:
                more = self.read(offset + len(data), min(max(size, len(data)), self.end - offset - len(data)))
                cut = len(data) + more.find(b"\n") + 1 if b"\n" in more else 0
                data += more
                if (cut or len(data)) > self.max_line_bytes:
                    break
            self._check_lines(offset, data)
            data = data[:cut] if cut and offset + len(data) < self.end else data
            yield offset, data
            offset += len(data)

    def _check_lines(self, offset: int, data: bytes) -> None:
        """Raise DataError if a line in a piece of the text is too long."""
        if len(data) <= self.max_line_bytes:
            return
        text = np.frombuffer(data, dtype=np.uint8)
        begins = line_starts(text)
        lengths = np.diff(np.append(begins, len(text) + (not data.endswith(b"\n")))) - 1
        long = np.flatnonzero(lengths > self.max_line_bytes)
        if len(long):
            raise line_too_long(self.name, self._lines_before(offset) + int(long[0]) + 1, self.max_line_bytes)

    def _lines_before(self, offset: int) -> int:
        """Return how many lines end before a byte of the file."""
        return sum(self.read(at, min(_BLOCK, offset - at)).count(b"\n") for at in range(self.begin, offset, _BLOCK))

    def close(self) -> None:
        """Close the file. May be called more than once."""
        self._file.close()


class IdTooLargeError(Exception):
    """A sequence id that cannot be told from others: ``line`` counts from 0 in the text."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


def line_starts(text: Bytes) -> IntArray:
    """Return where the lines of a text begin."""
    starts = np.flatnonzero(text == ord("\n")) + 1
    if not len(starts) or starts[-1] != len(text):
        starts = np.append(starts, len(text))
    return np.concatenate([[0], starts[:-1]])


def line_ids(text: Bytes, starts: IntArray) -> tuple[IdArray, NDArray[np.bool_]]:
    """Return the sequence ids at the starts of lines (0 where there is none), and which lines have one.

    Raises:
        IdTooLargeError: an id is no number of 64 bits, or has so many digits that it need not be one.
    """
    ids = np.zeros(len(starts), dtype=np.uint64)
    having = np.zeros(len(starts), dtype=bool)
    active = np.arange(len(starts))
    for k in itertools.count():
        places = starts[active] + k
        active, places = active[places < len(text)], places[places < len(text)]
        values = text[places] - np.uint8(ord("0"))
        active, values = active[values <= 9], values[values <= 9]
        if not len(active):
            break
        before = ids[active]
        if k >= _SURE_DIGITS:
            # Unsigned numbers run over without a word.
            large = (before > LARGEST_ID // 10) | ((before == LARGEST_ID // 10) & (values > LARGEST_ID % 10))
            if k == _MOST_DIGITS or large.any():
                raise IdTooLargeError(int(active[0 if k == _MOST_DIGITS else np.flatnonzero(large)[0]]))
        ids[active] = before * np.uint64(10) + values
        having[active] = True
    return ids, having
