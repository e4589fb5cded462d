"""Files of sections, the binary caches of CNTK's older readers. Nothing is believed before it is checked.

All numbers are little-endian. A section begins with a header: magic number (2 bytes: 0xACE9 for the whole file, 0x4ACE
inside of it), version (2), bytes of the header (2), sections in it (2), its kind (2), the kind of its values (2), bytes
of a value (2), a custom structure (2), values of a record (2), flags (2), a mark of the run (2), 10 bytes for later,
the number of all values (8), kind of labels (2), number of classes (2); at byte 128 its name, a colon and a description
(128), then the bytes of the section (8), those with what is in it (8), and where each section in it begins in the file
(8 each). The values follow the header.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import DataError, Location

FILE_MAGIC, SECTION_MAGIC, UNFINISHED = 0xACE9, 0x4ACE, 0xBAD1
VERSION = 0x0100
FILE, DATA, LABELS, LABEL_MAPPING, STATISTICS, CATEGORY_LABELS = 1, 2, 3, 4, 5, 6
"""Kinds of sections."""
FLOATS, INTEGERS = 1, 3
"""Kinds of values."""
CATEGORY, REGRESSION = 1, 2
"""Kinds of labels."""
HEADER_BYTES, LARGEST_HEADER = 320, 576
NAME_AT, NAME_BYTES, SIZES_AT, PLACES_AT = 128, 128, 256, 272
ALIGNMENT = 65536
"""Sections begin at multiples of it: the system that the format was made for maps files in such pieces."""
HEADER = struct.Struct("<11H10xQ2H")

_MOST_SECTIONS = 100
_CUT = "The file is damaged, or was not written to its end."


@attrs.frozen
class Section:
    """A section as its header describes it.

    Attributes:
        name: of the stream that it feeds.
        kind: of the section.
        values: kind of its values.
        width: bytes of a value.
        dim: values of a record.
        records: how many it has.
        classes: of labels that are numbers of classes; 0: they are none.
        begin: the byte in the file at which its values begin.
        inside: sections in it.
    """

    name: str
    kind: int
    values: int
    width: int
    dim: int
    records: int
    classes: int
    begin: int
    inside: tuple[Section, ...]

    @property
    def stored(self) -> np.dtype[Any] | None:
        """Type of the values; None if they are no numbers of a size that is known."""
        code = {(FLOATS, 4): "<f4", (FLOATS, 8): "<f8", (INTEGERS, 4): "<u4"}.get((self.values, self.width))
        return None if code is None else np.dtype(code)


class SectionFile:
    """An open file of sections; all headers are read.

    Args:
        path: the file as the recipe names it.
        where: the place in the recipe.

    Attributes:
        name: the file, for messages.
        sections: those in it, and those in them, in the order of the file.

    Raises:
        DataError: it cannot be opened, or a header is wrong.
    """

    def __init__(self, path: Path, where: Location | None) -> None:
        self.name = str(path)
        try:
            self._file: BinaryIO = path.open("rb")
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            hint = "A relative name starts at the directory in which the command runs." if not path.exists() else None
            raise DataError(f"BinaryReader: cannot open file '{path}': {reason}", where=where, hint=hint) from None
        try:
            self._size = self._file.seek(0, 2)
            self._known: list[Section] = []
            self._seen: set[int] = set()
            self._read_section(0)
        except BaseException:
            self.close()
            raise
        self.sections = tuple(self._known[:-1])  # the last one is the whole file

    def wrong(self, offset: int, message: str, hint: str | None = _CUT) -> DataError:
        """Return the error that something is wrong at a byte of the file."""
        return DataError(f"byte {offset}: {message}", where=Location(self.name), hint=hint)

    def read(self, offset: int, size: int) -> bytes:
        """Return some bytes, all of them. Raises DataError if the file cannot be read or has become shorter."""
        try:
            self._file.seek(offset)
            data = self._file.read(size)
        except (OSError, ValueError) as error:
            raise DataError(f"cannot read the file: {error}", where=Location(self.name)) from None
        if len(data) < size:
            raise self.wrong(offset + len(data), "the file has become shorter while it was read", None)
        return data

    def records(self, section: Section, first: int, last: int) -> NDArray[Any]:
        """Return records of a section, ``(records, dim)`` in the type in which they are stored."""
        assert section.stored is not None
        size = section.dim * section.width
        data = self.read(section.begin + first * size, (last - first) * size)
        return np.frombuffer(data, dtype=section.stored).reshape(-1, section.dim)

    def close(self) -> None:
        """Close the file. May be called more than once."""
        self._file.close()

    def _read_section(self, at: int) -> Section:
        """Read the section that begins at a byte, and those in it. Raises DataError."""
        if not 0 <= at <= self._size - HEADER_BYTES or at in self._seen or len(self._seen) > _MOST_SECTIONS:
            hint = "Is it a cache of BinaryWriter?" if at == 0 else _CUT
            raise self.wrong(min(at, self._size), "there is no section here", hint)
        self._seen.add(at)
        head = self.read(at, HEADER_BYTES)
        (
            *(magic, version, header, count, kind, values, width, _, dim, _, _),
            elements,
            label_kind,
            label_dim,
        ) = HEADER.unpack_from(head)
        self._check_magic(at, magic)
        if version < VERSION or not HEADER_BYTES <= header < 2 * HEADER_BYTES or count >= (header - PLACES_AT) // 8:
            text = f"the header of a section is wrong: version {version}, {header} bytes, {count} sections in it"
            raise self.wrong(at, text)
        if at + header + elements * max(width, 1) > self._size:
            text = f"the section promises {elements} values of {width} bytes, and the file has no room for them"
            raise self.wrong(at, text)
        if dim and elements % dim:
            raise self.wrong(at, f"the section has {elements} values, and {dim} in each record")
        name = head[NAME_AT : NAME_AT + NAME_BYTES].split(b"\0")[0].decode("utf-8", "replace").partition(":")[0]
        inside = struct.unpack(f"<{count}q", self.read(at + PLACES_AT, 8 * count))
        found = Section(
            name,
            kind,
            values,
            width,
            max(dim, 1),
            elements // max(dim, 1),
            label_dim if kind == LABELS and label_kind == CATEGORY else 0,
            at + header,
            tuple(self._read_section(place) for place in inside),
        )
        self._known.append(found)
        return found

    def _check_magic(self, at: int, magic: int) -> None:
        wanted = SECTION_MAGIC if at else FILE_MAGIC
        if magic == wanted:
            return
        if magic == UNFINISHED:
            raise self.wrong(at, "the cache was not written to its end", "Make it again.")
        hint = "`cntk convert-data` writes the format of CNTKBinaryReader, which is another one." if at == 0 else _CUT
        raise self.wrong(at, f"a section begins with {magic:04x}, and should with {wanted:04x}", hint)


def section_header(
    name: str, kind: int, width: int, dim: int, elements: int, inside: Sequence[int] = (), everything: int = 0
) -> bytes:
    """Return the header of a section of floating-point numbers, or of a whole file.

    Args:
        name: of the section.
        kind: of the section.
        width: bytes of a value; 0: it has none.
        dim: values of a record.
        elements: how many values there are.
        inside: where the sections in it begin.
        everything: bytes with those in it; 0: it has none in it.
    """
    size = header_bytes(len(inside))
    magic = FILE_MAGIC if kind == FILE else SECTION_MAGIC
    values = FLOATS if width else 0
    head = HEADER.pack(magic, VERSION, size, len(inside), kind, values, width, 0, dim, 0, 0, elements, 0, 0)
    own = size + elements * width
    title = name.encode()[: NAME_BYTES - 1].ljust(NAME_BYTES, b"\0")
    tail = struct.pack(f"<QQ{len(inside)}q", own, everything or own, *inside)
    return (head.ljust(NAME_AT, b"\0") + title + tail).ljust(size, b"\0")


def header_bytes(inside: int) -> int:
    """Return the size of the header of a section with so many in it."""
    return HEADER_BYTES if inside < (HEADER_BYTES - PLACES_AT) // 8 else LARGEST_HEADER
