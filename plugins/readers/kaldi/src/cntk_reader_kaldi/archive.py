"""One object of a Kaldi archive: where it begins it is read, after its sizes were compared with those of the file.

An object in binary form begins with a zero byte and ``B``. A matrix follows as a token (``FM``, ``DM``: float, double,
row by row; ``CM``, ``CM2``, ``CM3``: compressed; ``FV``, ``DV``: a vector, read as one row), its sizes and its values.
An alignment follows as the number of frames, and their classes; a posterior as the number of frames, and for each the
number of its classes, and classes with weights: all of them with a byte 4 in front, the size of the number.
An object in text form is ``[ ... ]`` with a row to a line, or numbers up to the end of the line.
"""

from __future__ import annotations

import os
import re
import struct
from collections import OrderedDict
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import DataError, local_path
from cntk_core.api.readers import LINE_BYTES, in_precision
from cntk_reader_kaldi.commands import Spool
from cntk_reader_kaldi.lattice_file import KaldiLattice, NoLattice, read_lattice
from cntk_reader_kaldi.posteriors import NUMBER, Posterior, read_alignment, read_binary, read_text

IntArray = NDArray[np.int64]

_BINARY = b"\0B"
_PLAIN: dict[bytes, np.dtype[Any]] = {
    b"FM ": np.dtype("<f4"),
    b"DM ": np.dtype("<f8"),
    b"FV ": np.dtype("<f4"),
    b"DV ": np.dtype("<f8"),
}
_COMPRESSED = {b"CM ": 1, b"CM2": 2, b"CM3": 1}
_OPEN_FILES = 8
_CUT = "The file is damaged or was not copied to its end."
_OTHER = "Features are matrices (FM, DM, CM) or vectors (FV, DV); or the offset in the list is wrong."
_CLASSES = "Each number of an alignment follows a byte 4, as ali-to-pdf and copy-int-vector write it."
_BLOCK = 1 << 14
_LONGEST_KEY = 1000
_KEY = re.compile(rb"([^ \t\r\n]+)[ \t]")
_SHOWN = 40


@attrs.frozen(eq=False)
class Header:
    """A matrix of a file.

    Attributes:
        rows, dim: its sizes.
        token: its form; empty for text.
        data: offset of what follows the sizes, for text that of the object.
        end: offset after the object.
    """

    rows: int
    dim: int
    token: bytes
    data: int
    end: int


class ArchiveFile:
    """An open archive. Raises DataError if it cannot be opened.

    Attributes:
        name: what messages call it.
        size: its bytes.
        max_line_bytes: a longer line of text is refused.
    """

    def __init__(self, path: str, max_line_bytes: int = LINE_BYTES, name: str | None = None) -> None:
        self.name = path if name is None else name
        self.max_line_bytes = max_line_bytes
        try:
            self._file = open(local_path(path), "rb")  # noqa: SIM115 - closed by close()
            self.size = os.fstat(self._file.fileno()).st_size
        except (OSError, ValueError) as error:
            reason = (getattr(error, "strerror", None) or str(error)).lower()
            missing = isinstance(error, OSError) and not os.path.exists(path)
            hint = "A relative name starts at the directory in which the command runs." if missing else None
            raise DataError(f"cannot open archive '{self.name}': {reason}", hint=hint) from None

    def close(self) -> None:
        """Close the file. May be called more than once."""
        self._file.close()

    def wrong(self, offset: int, message: str, hint: str = _CUT) -> DataError:
        """Return the error that something is wrong at a byte of the file."""
        return DataError(f"'{self.name}', byte {offset}: {message}", hint=hint)

    # -- matrices -----------------------------------------------------------------------------------------

    def header(self, at: int) -> Header:
        """Return the sizes of the matrix at an offset."""
        self._check_offset(at)
        if self._bytes(at, 2) != _BINARY:
            return self._text_header(at)
        token = self._bytes(at + 2, 3)
        data = at + 5
        if token in _COMPRESSED:
            data += token != b"CM "
            rows, dim = struct.unpack("<ii", self._take(data + 8, 8, "the sizes of a matrix"))
            data += 16
            size = (8 * dim if token == b"CM " else 0) + rows * dim * _COMPRESSED[token]
        elif token in _PLAIN:
            if token[1:2] == b"V":
                rows, dim, data = 1, self._number(data, "the size of a vector"), data + 5
            else:
                rows, dim = (
                    self._number(data, "the rows of a matrix"),
                    self._number(data + 5, "the columns of a matrix"),
                )
                data += 10
            size = rows * dim * _PLAIN[token].itemsize
        else:
            raise self.wrong(at + 2, f"'{_show(token)}' is no matrix", _OTHER)
        if rows <= 0 or dim <= 0:
            raise self.wrong(
                at, f"the matrix is {rows} x {dim}: it has no frames", "Leave the utterance out of the list."
            )
        if data + size > self.size:
            text = f"a matrix of {rows} x {dim} ends at byte {data + size}, and the file at byte {self.size}"
            raise self.wrong(at, text)
        return Header(rows, dim, token, data, data + size)

    def read(self, header: Header, first: int, target: NDArray[Any]) -> None:
        """Read rows from ``first`` on into an array ``(rows, dim)``. Raises DataError."""
        try:
            target[:] = in_precision(self._rows(header, first, first + len(target)), target.dtype)
        except OverflowError as error:
            raise self.wrong(header.data, f"in the matrix that begins here, {error}", "Set precision=double.") from None

    def _rows(self, header: Header, first: int, last: int) -> NDArray[Any]:
        if header.token in _PLAIN:
            kind = _PLAIN[header.token]
            row = header.dim * kind.itemsize
            raw = self._take(header.data + first * row, (last - first) * row, "the rows of a matrix")
            return np.frombuffer(raw, dtype=kind).reshape(-1, header.dim)
        if not header.token:
            return self._text_rows(header.data, header.end)[first:last]
        with np.errstate(all="ignore"):  # the range may be anything; what comes of it is like NaN in a file
            return self._decompress(header)[first:last]

    def _decompress(self, header: Header) -> NDArray[np.float64]:
        least, extent = struct.unpack("<ff", self._take(header.data - 16, 8, "the range of a matrix"))
        raw = self._take(header.data, header.end - header.data, "a compressed matrix")
        if header.token != b"CM ":
            kind = np.dtype("<u2" if header.token == b"CM2" else "u1")
            stored = np.frombuffer(raw, dtype=kind).reshape(header.rows, header.dim)
            values: NDArray[np.float64] = least + extent * (stored / float(np.iinfo(kind).max))
            return values
        heads = np.frombuffer(raw, dtype="<u2", count=4 * header.dim).reshape(-1, 4)
        start, low, high, stop = (least + extent * (heads / 65535.0)).T
        codes = np.frombuffer(raw, dtype="u1", offset=8 * header.dim)
        code = codes.reshape(header.dim, header.rows).T.astype(np.float64)
        lower = start + (low - start) * (code / 64)
        middle = low + (high - low) * ((code - 64) / 128)
        upper = high + (stop - high) * ((code - 192) / 63)
        found: NDArray[np.float64] = np.where(code <= 64, lower, np.where(code <= 192, middle, upper))
        return found

    def _text_header(self, at: int) -> Header:
        begin = self._skip_blank(at)
        if self._bytes(begin, 1) != b"[":
            raise self.wrong(begin, f"'{_show(self._bytes(begin, 10))}' is no matrix", _OTHER)
        close = self._find(b"]", begin)
        if close < 0:
            raise self.wrong(begin, "the matrix does not end: there is no ']'")
        rows = self._text_rows(begin, close)
        if not rows.size:
            raise self.wrong(begin, "the matrix has no frames", "Leave the utterance out of the list.")
        return Header(len(rows), rows.shape[1], b"", begin, self._line_end(close))

    def _text_rows(self, begin: int, end: int) -> NDArray[np.float64]:
        rows: list[NDArray[np.float64]] = []
        text = self._bytes(begin, end - begin).lstrip(b"[").partition(b"]")[0]
        for line in text.split(b"\n"):
            if len(line) > self.max_line_bytes:
                raise self._too_long(begin, f"row {len(rows)} of the matrix")
            words = line.split()
            if not words:
                continue
            if not all(map(NUMBER.fullmatch, words)):
                raise self.wrong(begin, f"row {len(rows)} of the matrix is no row of numbers")
            # Not a list of numbers for each row: they take four times the memory.
            rows.append(np.array([float(word) for word in words]))
            if len(rows[-1]) != len(rows[0]):
                text_ = f"row {len(rows) - 1} of the matrix has {len(rows[-1])} values, and the first {len(rows[0])}"
                raise self.wrong(begin, text_)
        return np.array(rows, dtype=np.float64)

    # -- classes ------------------------------------------------------------------------------------------

    def posterior(self, at: int) -> tuple[Posterior, int]:
        """Return the classes of the frames of an alignment or posterior, and the offset after it. Raises DataError."""
        self._check_offset(at)
        if self._bytes(at, 2) != _BINARY:
            return self._text_posterior(at)
        frames = self._number(at + 2, "the number of frames")
        if not 0 <= frames <= self.size:
            raise self.wrong(at + 2, f"an alignment cannot have {frames} frames")
        data = at + 7
        found = read_alignment(self._bytes, data, frames) or read_binary(self._bytes, data, self.size, frames)
        if found is None:
            self._take(data, 5 * frames, f"an alignment of {frames} frames")
            raise self.wrong(data, "here are neither the classes of an alignment nor a posterior", _CLASSES)
        return found

    def _text_posterior(self, at: int) -> tuple[Posterior, int]:
        end = self._line_end(at)
        if end - at > self.max_line_bytes:
            raise self._too_long(at, "the line")
        line = self._bytes(at, end - at)
        try:
            return read_text(line), end
        except (ValueError, OverflowError):
            text = f"'{_show(line.strip())}' is neither an alignment nor a posterior"
            raise self.wrong(
                at, text, "An alignment is the classes of the frames; a posterior [ class weight ... ]."
            ) from None

    def lattice(self, at: int) -> tuple[KaldiLattice, int]:
        """Return the lattice at an offset, and the offset after it. Raises DataError."""
        self._check_offset(at)
        try:
            return read_lattice(self._bytes, at, self.size)
        except NoLattice as error:
            raise self.wrong(error.at, error.text) from None

    # -- tables -------------------------------------------------------------------------------------------

    def next_key(self, at: int) -> tuple[str, int] | None:
        """Return the key of the entry at an offset and where its object begins; None at the end of the file."""
        at = self._skip_blank(at)
        if at >= self.size:
            return None
        raw = self._bytes(at, _LONGEST_KEY)
        found = _KEY.match(raw)
        key = found[1].decode("utf-8", "replace") if found else ""
        if found is None or not key.isprintable() or "\ufffd" in key:
            raise self.wrong(at, "the key of an utterance was expected", "Is this a Kaldi archive, and whole?")
        return key, at + found.end()

    def _skip_blank(self, at: int) -> int:
        while at < self.size:
            block = self._bytes(at, _BLOCK)
            rest = block.lstrip(b" \t\r\n")
            at += len(block) - len(rest)
            if rest:
                break
        return at

    def _line_end(self, at: int) -> int:
        end = self._find(b"\n", at)
        return self.size if end < 0 else end + 1

    def _find(self, byte: bytes, at: int) -> int:
        """Return where a byte stands from an offset on, -1 if nowhere."""
        while at < self.size:
            block = self._bytes(at, _BLOCK)
            place = block.find(byte)
            if place >= 0 or not block:
                return at + place if place >= 0 else -1
            at += len(block)
        return -1

    def _too_long(self, at: int, what: str) -> DataError:
        limit = self.max_line_bytes
        hint = "Is it the right file? If it is, give the reader a larger maxLineBytes."
        return self.wrong(at, f"{what} has more than {limit} bytes, maxLineBytes={limit}", hint)

    def _check_offset(self, at: int) -> None:
        if at >= self.size:
            raise self.wrong(
                at, f"there is nothing: the file has {self.size} bytes", "The list belongs to another archive."
            )

    def _number(self, at: int, what: str) -> int:
        raw = self._take(at, 5, what)
        if raw[0] != 4:
            raise self.wrong(at, f"here should be {what}", _OTHER)
        return int(struct.unpack_from("<i", raw, 1)[0])

    def _take(self, at: int, count: int, what: str) -> bytes:
        data = self._bytes(at, count)
        if len(data) < count:
            raise self.wrong(at + len(data), f"the file ends inside {what}")
        return data

    def _bytes(self, at: int, count: int) -> bytes:
        """Return the bytes from an offset on, fewer at the end of the file."""
        try:
            self._file.seek(at)
            return self._file.read(max(min(count, self.size - at), 0))
        except (OSError, ValueError) as error:
            raise self.wrong(at, f"cannot be read: {error}") from None


class ArchiveFiles:
    """Opens archives and keeps the last few open.

    Args:
        max_line_bytes: longer lines of text are refused.
        spool: runs commands; without it there may be none.

    Attributes:
        names: what messages call some of the files, by path.
    """

    def __init__(self, max_line_bytes: int = LINE_BYTES, spool: Spool | None = None) -> None:
        self.max_line_bytes = max_line_bytes
        self.spool = Spool(allowed=False, tell=_say_nothing) if spool is None else spool
        self.names: dict[str, str] = {}
        self._open: OrderedDict[str, ArchiveFile] = OrderedDict()

    def get(self, path: str) -> ArchiveFile:
        """Return an open archive. Raises DataError."""
        file = self._open.get(path)
        if file is None:
            file = self._open[path] = ArchiveFile(path, self.max_line_bytes, self.names.get(path))
            while len(self._open) > _OPEN_FILES:
                self._open.popitem(last=False)[1].close()
        self._open.move_to_end(path)
        return file

    def close(self) -> None:
        """Close all archives, and remove what commands gave."""
        for file in self._open.values():
            file.close()
        self._open.clear()
        self.spool.close()


def _say_nothing(line: str) -> None:
    """Where lines go of commands that are not run."""


def _show(data: bytes) -> str:
    text = "".join(chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}" for byte in data[:_SHOWN])
    return text + "..." if len(data) > _SHOWN else text
