"""Text that knows where each of its characters was written.

A recipe is put together from files, includes and command-line arguments, loses its comments and gets variables
filled in. Through all of that a :class:`SourceText` keeps, for each run of characters, the file, line and column
that they came from, so that an error can always point at the place that a person has to mend.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from pathlib import Path

import attrs

from cntk_core.errors import ConfigError, Location, did_you_mean

COMMAND_LINE = "<command line>"
"""The file name in locations of text that was given on the command line (the line is the argument's number)."""

_COMMENT = re.compile(r"(?<=[ \t])#")


@attrs.frozen
class SourceText:
    """A text and its origin table.

    ``places[i]`` is the location of the character at offset ``starts[i]``; the characters up to ``starts[i + 1]``
    follow it on the same line.
    """

    text: str
    starts: tuple[int, ...] = (0,)
    places: tuple[Location, ...] = (Location(),)

    @classmethod
    def of(cls, text: str, file: str = "<text>", line: int = 1, column: int = 1) -> SourceText:
        """Return ``text`` as it stands in ``file`` from the given line and column on."""
        starts = [0]
        places = [Location(file, line, column)]
        for number, newline in enumerate(re.finditer("\n", text), start=1):
            starts.append(newline.end())
            places.append(Location(file, line + number, 1))
        return cls(text, tuple(starts), tuple(places))

    @classmethod
    def join(cls, parts: Iterable[SourceText], separator: str = "") -> SourceText:
        """Return the parts in order; a separator counts as the end of the part before it."""
        texts: list[str] = []
        starts: list[int] = []
        places: list[Location] = []
        nothing = Location()
        offset = 0
        for part in parts:
            nothing = nothing if texts else part.where
            texts.append(part.text)
            if part.text or separator:
                starts.extend(start + offset for start in part.starts)
                places.extend(part.places)
            offset += len(part.text) + len(separator)
        return cls(separator.join(texts), tuple(starts) or (0,), tuple(places) or (nothing,))

    def locate(self, offset: int) -> Location:
        """Return the place of the character at ``offset`` (clamped to the text)."""
        offset = min(max(offset, 0), len(self.text))
        index = max(bisect_right(self.starts, offset) - 1, 0)
        place = self.places[index]
        return Location(place.file, place.line, place.column and place.column + offset - self.starts[index])

    def slice(self, start: int, end: int) -> SourceText:
        """Return the part from ``start`` up to, not including, ``end``."""
        end = max(start, end)
        first = bisect_right(self.starts, start)
        last = bisect_left(self.starts, end)
        starts = (0, *(offset - start for offset in self.starts[first:last]))
        places = (self.locate(start), *self.places[first:last])
        return SourceText(self.text[start:end], starts, places)

    def strip(self, characters: str = " \t") -> SourceText:
        """Return the text without these characters at both ends."""
        start = len(self.text) - len(self.text.lstrip(characters))
        return self.slice(start, len(self.text.rstrip(characters)))

    @property
    def where(self) -> Location:
        """The place of the first character."""
        return self.places[0]


def strip_comment(line: str) -> str:
    """Return a line without its comment and trailing blanks, ``""`` if nothing is left.

    A comment starts with a ``#`` that is the first thing in the line or follows a blank. A ``#`` between two
    quotation marks of the same line is text.
    """
    if line.lstrip(" \t").startswith("#"):
        return ""
    for found in _COMMENT.finditer(line):
        quoted = line.count('"', 0, found.start()) % 2 == 1 and '"' in line[found.end() :]
        if not quoted:
            return line[: found.start()].rstrip(" \t")
    return line.rstrip(" \t")


def strip_comments(text: str, file: str = "<text>") -> SourceText:
    """Return the lines of ``text`` that say something, without comments, each with its own line number."""
    kept: list[str] = []
    starts: list[int] = []
    places: list[Location] = []
    offset = 0
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), start=1):
        line = strip_comment(line)
        if not line:
            continue
        kept.append(line)
        starts.append(offset)
        places.append(Location(file, number, 1))
        offset += len(line) + 1
    if not kept:
        return SourceText("", (0,), (Location(file),))
    return SourceText("\n".join(kept), tuple(starts), tuple(places))


def read_file(path: Path, *, what: str = "config file", where: Location | None = None) -> SourceText:
    """Read a file and strip its comments.

    Raises:
        ConfigError: It cannot be read; the message has the reason and a file of nearly the same name, if there is one.
    """
    try:
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(
            f"cannot read the {what} '{path}': {reason}{did_you_mean(path.name, _files_beside(path))}",
            where=where,
            hint="Relative paths count from currentDirectory, or from where the command was started.",
        ) from None
    if b"\0" in data:
        raise ConfigError(
            f"the {what} '{path}' is no text: it has bytes that are 0",
            where=where,
            hint="Is it a text in UTF-16? Save it in UTF-8." if data[:2] in (b"\xff\xfe", b"\xfe\xff") else None,
        )
    return strip_comments(_decode(data), str(path))


def _files_beside(path: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in path.parent.iterdir() if entry.is_file())
    except (OSError, ValueError):
        return []


def _decode(data: bytes) -> str:
    # Recipes of the time were often written in a Windows code page; only comments and paths ever show it.
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")
