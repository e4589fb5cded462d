"""Archives of lattices, as CNTK's tools make them of HTK's.

Three files belong together: the archive, a concatenation of binary lattices; a table of contents (``.toc``) with lines
``key=archive[byte]``, where an empty name means the archive of the line before; and beside the archive a list of its
phones (``.symlist``), whose line number is the phone's number in the archive. All numbers are little-endian.

A lattice is ``LAT`` and its version, a header, and three vectors, each with a tag and a count before it: the frame of
each node (16 bits), the arcs (64 bits, in version 1 with two scores behind them), and the phones (32 bits). Version 2
has the phones of equal arcs once, with their scores before them, and leaves out a short pause at an arc's end.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import DataError, Location, local_path
from cntk_core.api.readers import LINE_BYTES
from cntk_reader_htk.scp import read_lines

IntArray = NDArray[np.int64]
PAUSE = "sp"
"""The phone that archives have behind those of their list."""

_HEADER = struct.Struct("<IIffdQ")
_NO_PHONE = 0x7FFFFFFF
_DAMAGED = "The archive is damaged or was not copied to its end; or the table of contents belongs to another one."
_TABLE = "A line is: key=archive[byte]; without a name it is the archive of the line before."


@attrs.frozen
class Place:
    """Where a lattice is: in which archive, and at which byte."""

    path: str
    offset: int


@attrs.frozen(eq=False)
class RawLattice:
    """A lattice of an archive.

    Attributes:
        times: frame of each node. Shape ``(nodes,)``.
        begins, ends: nodes of each arc. Shape ``(arcs,)``.
        language: score of the language model of each arc.
        counts: phones of each arc.
        phones: numbers of the phones, arc by arc.
        frames: of each phone.
    """

    times: IntArray
    begins: IntArray
    ends: IntArray
    language: NDArray[np.float32]
    counts: IntArray
    phones: IntArray
    frames: IntArray


def read_tables(
    paths: Sequence[Path], prefix: str, where: Location | None, max_line_bytes: int = LINE_BYTES
) -> dict[str, Place]:
    """Read tables of contents.

    Args:
        paths: the files.
        prefix: folder that is put in front of each archive.
        where: where the recipe names them.
        max_line_bytes: a longer line is refused.

    Raises:
        DataError: one cannot be read or has a line that is wrong, or a key occurs twice.
    """
    found: dict[str, Place] = {}
    for path in paths:
        archive = ""
        for number, line in read_lines(path, where, "table of lattices", max_line_bytes):
            key, equals, rest = line.partition("=")
            name, bracket, offset = rest.rpartition("[")
            digits = offset.removesuffix("]")
            place = Location(str(path), number)
            archive = name.strip().replace("\\", "/") or archive
            if not (equals and bracket and offset.endswith("]") and digits.isascii() and digits.isdigit() and archive):
                raise DataError(f"'{line[:60]}' is no lattice of an archive", where=place, hint=_TABLE)
            if key in found:
                raise DataError(f"the lattice '{key}' has a line already", where=place, hint="Each has one.")
            found[key] = Place(os.path.join(prefix, archive) if prefix else archive, int(digits))
    return found


class Archive:
    """An open archive, and the names of its phones.

    Attributes:
        path: its name.
        phones: the names of its phones, by number; the last one is the short pause.
    """

    def __init__(self, path: str, where: Location | None, max_line_bytes: int = LINE_BYTES) -> None:
        self.path = path
        phones = Path(local_path(f"{path}.symlist", where))
        self.phones = [
            line.split()[0]
            for _, line in read_lines(phones, where, "list of phones", max_line_bytes)
            if len(line.split()) == 1
        ]
        self.phones.append(PAUSE)
        try:
            self._file = open(local_path(path, where), "rb")  # noqa: SIM115 - closed by close()
        except (OSError, ValueError) as error:
            reason = (getattr(error, "strerror", None) or str(error)).lower()
            hint = "prefixPathInToc=... is put in front of the names in the table; relative ones start where cntk runs."
            raise DataError(f"cannot open the lattices '{path}': {reason}", where=where, hint=hint) from None
        self._size = os.fstat(self._file.fileno()).st_size

    def close(self) -> None:
        """Close the file. May be called more than once."""
        self._file.close()

    def wrong(self, offset: int, message: str) -> DataError:
        """Return the error that something is wrong at a byte."""
        return DataError(f"'{self.path}', byte {offset}: {message}", hint=_DAMAGED)

    def frames(self, offset: int) -> int:
        """Return how many frames the utterance of the lattice at a byte has. Raises DataError."""
        return self._head(offset)[3] & 0xFFFFFFFF

    def _head(self, offset: int) -> tuple[int, int, int, int]:
        """Return version, nodes, arcs, and the last number of the head of the lattice at a byte."""
        self._file.seek(offset)
        version = self._tag(b"LAT ")
        if version not in (1, 2):
            raise self.wrong(offset, f"the lattice has version {version}; there are 1 and 2")
        nodes, arcs, _, _, _, rest = _HEADER.unpack(self._take(_HEADER.size))
        return version, nodes, arcs, rest

    def read(self, offset: int) -> RawLattice:
        """Read the lattice at a byte. Raises DataError."""
        version, nodes, arcs, rest = self._head(offset)
        total, pause, scored = rest & 0xFFFFFFFF, rest >> 32 & _NO_PHONE, bool(rest >> 63)
        times = self._vector(b"NODE" if version == 1 else b"NODS", "<u2", nodes).astype(np.int64)
        if not nodes or not arcs or times[0] or times[-1] != total:
            raise self.wrong(offset, f"the lattice has {nodes} nodes, {arcs} arcs and {total} frames")
        if version == 1:
            records = self._vector(b"EDGE", np.dtype([("arc", "<u8"), ("a", "<f4"), ("l", "<f4")]), arcs)
            words, language = records["arc"], records["l"]
            tokens = self._vector(b"ALIG", "<u4", None)
            first = (words >> np.uint64(40)).astype(np.int64)
            last = np.append(first[1:], len(tokens))
        else:
            words = self._vector(b"EDGS", "<u8", arcs)
            tokens = self._vector(b"ALNS", "<u4", None)
            first = (words >> np.uint64(40)).astype(np.int64)
            if first.min() < 1 + scored or first.max() > len(tokens):
                raise self.wrong(offset, "an arc names phones that are not there")
            language = tokens.view("<f4")[first - 1]
            # Scores between the phones may look like ends, but behind an arc's first phone comes its own end first.
            ends = np.append(np.flatnonzero(tokens >> 31), len(tokens) - 1)
            last = np.where(first < len(tokens), ends[np.searchsorted(ends[:-1], first)] + 1, first)
        self._tag(b"END ", counted=False)
        begins = (words & np.uint64(0x7FFFF)).astype(np.int64)
        targets = (words >> np.uint64(20) & np.uint64(0x7FFFF)).astype(np.int64)
        if max(begins.max(), targets.max()) >= nodes or (targets <= begins).any() or (last < first).any():
            raise self.wrong(offset, "the arcs do not lead from node to node")
        implied = (words >> np.uint64(39) & np.uint64(1)).astype(bool) if version == 2 else np.zeros(arcs, bool)
        counts, phones, frames = _phones(tokens, first, last, implied, times[targets] - times[begins], pause)
        own = np.repeat(np.arange(arcs), counts)
        if (np.bincount(own, frames, arcs) != times[targets] - times[begins]).any() or (frames < 0).any():
            raise self.wrong(offset, "the phones of an arc have not as many frames as the arc")
        if len(phones) and phones.max() >= len(self.phones):
            raise self.wrong(offset, f"there is a phone {int(phones.max())}, and '{self.path}.symlist' has too few")
        return RawLattice(times, begins, targets, language.astype(np.float32), counts, phones, frames)

    def _tag(self, tag: bytes, *, counted: bool = True) -> int:
        at = self._file.tell()
        found = self._take(4)
        if found != tag:
            shown = found.decode("ascii", "replace")
            raise self.wrong(at, f"'{tag.decode().strip()}' should stand here, not '{shown}'")
        return int(struct.unpack("<i", self._take(4))[0]) if counted else 0

    def _vector(self, tag: bytes, kind: Any, wanted: int | None) -> NDArray[Any]:
        at, dtype = self._file.tell(), np.dtype(kind)
        count = self._tag(tag)
        if count < 0 or (wanted is not None and count != wanted):
            raise self.wrong(at, f"{count} numbers follow, and the head of the lattice says {wanted}")
        return np.frombuffer(self._take(count * dtype.itemsize), dtype)

    def _take(self, count: int) -> bytes:
        at = self._file.tell()
        found = self._file.read(count) if count <= self._size - at else b""
        if len(found) < count:
            raise self.wrong(at, "the file ends inside a lattice")
        return found


def _phones(
    tokens: NDArray[np.uint32], first: IntArray, last: IntArray, implied: NDArray[np.bool_], whole: IntArray, pause: int
) -> tuple[IntArray, IntArray, IntArray]:
    """Return how many phones each arc has, which, and their frames; the short pause that is left out takes the rest."""
    counts = last - first
    places = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts - first, counts)
    chosen = tokens[places]
    units, frames = (chosen & 0x7FFFF).astype(np.int64), (chosen >> 19 & 0x7FF).astype(np.int64)
    if implied.any():
        spent = np.bincount(np.repeat(np.arange(len(first)), counts), frames, len(first)).astype(np.int64)
        behind = np.cumsum(counts)[implied]
        units = np.insert(units, behind, pause)
        frames = np.insert(frames, behind, (whole - spent)[implied])
        counts = counts + implied
    return counts, units, frames
