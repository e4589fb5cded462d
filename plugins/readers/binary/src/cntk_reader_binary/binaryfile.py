"""The file: its header, its chunk table, and the bytes of a chunk. Nothing is believed before it is checked.

All numbers are little-endian. A file begins with a magic number (8 bytes) and a version (4). The chunks follow, and
then the header: the magic number again, the number of chunks (4) and of streams (4); for each stream its encoding (1),
the length of its name (4), the name, the type of its values (1) and their number in a sample (4); for each chunk its
offset (8), sequences (4) and samples (4). The last 8 bytes of the file are the offset of the header.
"""

from __future__ import annotations

import struct
import threading
from pathlib import Path
from typing import Any, BinaryIO

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import DataError, Location

IntArray = NDArray[np.int64]

MAGIC = 0x636E746B5F62696E
VERSION = 1
DENSE, SPARSE = 0, 1
VALUE_TYPES = (np.dtype("<f4"), np.dtype("<f8"))
"""Types of values by their number in the header."""
PREAMBLE = 12
"""Bytes in front of the first chunk."""

_TAIL = 8
_COUNTS = 16
_STREAM = 10
"""Bytes of a stream's description without its name."""
_TABLE = np.dtype([("offset", "<i8"), ("sequences", "<u4"), ("samples", "<u4")])
_LARGEST_DIM = 2**31 - 1
_LONGEST_NAME = 65535
_CUT = "The file is damaged, or was not written to its end."


@attrs.frozen
class StoredStream:
    """A stream as the header describes it.

    Attributes:
        name: in the file.
        sparse: whether samples are stored as index and value.
        stored: type of the values.
        dim: values of a sample.
    """

    name: str
    sparse: bool
    stored: np.dtype[Any]
    dim: int


@attrs.frozen(eq=False)
class StoredChunk:
    """A chunk as the table describes it.

    Attributes:
        begin, end: its bytes.
        sequences, samples: how many it has.
        first: number of its first sequence in the file.
    """

    begin: int
    end: int
    sequences: int
    samples: int
    first: int


class BinaryFile:
    """An open file; its header and table are read.

    Attributes:
        name: the file as the recipe names it, for messages.
        streams: what it holds.
        chunks: where it holds it; chunks without sequences are left out.

    Raises DataError if it cannot be opened or its header is wrong.
    """

    def __init__(self, path: Path, where: Location | None = None) -> None:
        self.name = str(path)
        self._lock = threading.Lock()
        try:
            self._file: BinaryIO = path.open("rb")
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            hint = "A relative name starts at the directory in which the command runs." if not path.exists() else None
            raise DataError(f"CNTKBinaryReader: cannot open file '{path}': {reason}", where=where, hint=hint) from None
        try:
            self._size = self._file.seek(0, 2)
            self.streams, self.chunks = self._read_header()
        except BaseException:
            self.close()
            raise

    def wrong(self, offset: int, message: str, hint: str | None = None) -> DataError:
        """Return the error that something is wrong at a byte of the file."""
        return DataError(f"byte {offset}: {message}", where=Location(self.name), hint=hint)

    def read(self, offset: int, size: int) -> bytes:
        """Return some bytes, all of them. Raises DataError if the file cannot be read or has become shorter."""
        with self._lock:
            try:
                self._file.seek(offset)
                data = self._file.read(size)
            except (OSError, ValueError) as error:
                raise DataError(f"cannot read the file: {error}", where=Location(self.name)) from None
        if len(data) < size:
            raise self.wrong(offset + len(data), "the file has become shorter while it was read")
        return data

    def lengths(self, number: int) -> IntArray:
        """Return the samples of each sequence of a chunk, as they stand at its beginning."""
        chunk = self.chunks[number]
        lengths = np.frombuffer(self.read(chunk.begin, 4 * chunk.sequences), dtype="<u4").astype(np.int64)
        if int(lengths.sum()) != chunk.samples:
            raise self.wrong(
                chunk.begin,
                f"the sequences of chunk {number} have {int(lengths.sum())} samples, but the table of chunks says "
                f"{chunk.samples}",
                _CUT,
            )
        return lengths

    def close(self) -> None:
        """Close the file. May be called more than once."""
        self._file.close()

    # -- header -------------------------------------------------------------------------------------------

    def _read_header(self) -> tuple[tuple[StoredStream, ...], tuple[StoredChunk, ...]]:
        self._check_preamble()
        tail = self._size - _TAIL
        (begin,) = struct.unpack("<q", self.read(tail, _TAIL))
        if not PREAMBLE <= begin <= tail - _COUNTS:
            text = f"the header should be at byte {begin}, and the file has no room for one there"
            raise self.wrong(tail, text, _CUT)
        magic, chunks, streams = struct.unpack("<QII", self.read(begin, _COUNTS))
        if magic != MAGIC:
            raise self.wrong(begin, "there is no header, although the end of the file says so", _CUT)
        if not streams:
            raise self.wrong(begin + 12, "the header says that the file has no streams")
        if begin + _COUNTS + streams * _STREAM + chunks * _TABLE.itemsize > tail:
            text = f"the header promises {streams} streams and {chunks} chunks, more than there is room for"
            raise self.wrong(begin + 8, text, _CUT)
        if tail - begin > _COUNTS + streams * (_STREAM + _LONGEST_NAME) + chunks * _TABLE.itemsize:
            text = f"the header promises {streams} streams and {chunks} chunks, and is too long for that"
            raise self.wrong(begin + 8, text, _CUT)
        head = self.read(begin, tail - begin)
        found: list[StoredStream] = []
        at = _COUNTS
        for _ in range(streams):
            stream, end = self._read_stream(head, at, begin)
            if stream.name.lower() in {known.name.lower() for known in found}:
                raise self.wrong(begin + at, f"two streams of the file have the name '{stream.name}'")
            found.append(stream)
            at = end
        if at + chunks * _TABLE.itemsize != len(head):
            text = (
                f"the table of {chunks} chunks should end at byte {begin + at + chunks * _TABLE.itemsize}, not {tail}"
            )
            raise self.wrong(begin + at, text, _CUT)
        return tuple(found), self._read_table(np.frombuffer(head, dtype=_TABLE, offset=at), begin, begin + at)

    def _check_preamble(self) -> None:
        start = self.read(0, min(self._size, PREAMBLE))
        if start[:8] != struct.pack("<Q", MAGIC)[: len(start)]:
            hint = "`cntk convert-data` writes one, from text or from anything else that can be read."
            if start[:1] in b"|0123456789":
                hint = "If it is a text file, it has readerType=CNTKTextFormatReader.\n" + hint
            raise self.wrong(0, "this is no file in CNTK's binary format", hint)
        if self._size < PREAMBLE + _COUNTS + _STREAM + _TAIL:
            raise self.wrong(self._size, "the file ends before its header", _CUT)
        (version,) = struct.unpack_from("<I", start, 8)
        if version != VERSION:
            raise self.wrong(8, f"the file has version {version} of the binary format, not {VERSION}")

    def _read_stream(self, head: bytes, at: int, begin: int) -> tuple[StoredStream, int]:
        """Read a stream's description; return it and where the next one begins."""
        if at + _STREAM > len(head):
            raise self.wrong(begin + at, "the header ends inside the description of a stream", _CUT)
        encoding, size = struct.unpack_from("<BI", head, at)
        if encoding not in (DENSE, SPARSE):
            raise self.wrong(begin + at, f"encoding {encoding} of a stream is neither dense (0) nor sparse (1)")
        name_at = at + 5
        if not 0 < size <= _LONGEST_NAME or name_at + size + 5 > len(head):
            raise self.wrong(begin + at + 1, f"the name of a stream cannot have {size} bytes", _CUT)
        try:
            name = head[name_at : name_at + size].decode("utf-8")
        except UnicodeDecodeError:
            raise self.wrong(begin + name_at, "the name of a stream is not UTF-8", _CUT) from None
        kind, dim = struct.unpack_from("<BI", head, name_at + size)
        if kind >= len(VALUE_TYPES):
            text = f"type {kind} of the values of stream '{name}' is neither float (0) nor double (1)"
            raise self.wrong(begin + name_at + size, text)
        if not 0 < dim <= _LARGEST_DIM:
            raise self.wrong(begin + name_at + size + 1, f"stream '{name}' cannot have {dim} values in a sample")
        return StoredStream(name, encoding == SPARSE, VALUE_TYPES[kind], dim), name_at + size + 5

    def _read_table(self, table: NDArray[Any], header: int, at: int) -> tuple[StoredChunk, ...]:
        """Return the chunks. Each ends where the next one begins, the last one at the header."""
        begins = table["offset"].astype(np.int64)
        ends = np.append(begins, header)[1:]
        sequences = table["sequences"].astype(np.int64)
        bad = (begins < PREAMBLE) | (ends > header) | (ends - begins < 4 * sequences)
        if bad.any():
            number = int(np.flatnonzero(bad)[0])
            raise self.wrong(
                at + number * _TABLE.itemsize,
                f"chunk {number} cannot lie at the bytes {int(begins[number])} to {int(ends[number])} "
                f"with {int(sequences[number])} sequences",
                _CUT,
            )
        firsts = (np.cumsum(sequences) - sequences).tolist()
        rows = zip(begins.tolist(), ends.tolist(), sequences.tolist(), table["samples"].tolist(), firsts, strict=True)
        return tuple(StoredChunk(*row) for row in rows if row[2])
