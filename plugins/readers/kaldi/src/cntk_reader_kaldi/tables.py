"""Tables: lists of places (scp) and archives (ark), and the specifiers that name them. Commands are never run."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import attrs

from cntk_core.api import CntkError, DataError, Location, UnsupportedError
from cntk_core.api.readers import LINE_BYTES, bounded_lines
from cntk_reader_kaldi.archive import ArchiveFile, ArchiveFiles

_RANGE = re.compile(r"(.*)\[\s*([0-9]{1,9})\s*:\s*([0-9]{1,9})\s*\]")
_OFFSET = re.compile(r"(.+):([0-9]{1,18})")
_FORMS = "A line is: key path, key path:offset, or with a range of rows behind it, path:offset[first:last]."
_COMMAND = "Run it yourself and write what it gives to a file: ... ark:features.ark"
_SHOWN = 60


@attrs.frozen
class Entry:
    """One utterance of a table.

    Attributes:
        key: its name.
        path, offset: where its object begins.
        where: where it is named, for messages.
        first, last: rows that are wanted, both included; ``last`` is None for all.
    """

    key: str
    path: str
    offset: int
    where: Location
    first: int = 0
    last: int | None = None


@attrs.frozen
class Table:
    """What a table holds.

    Attributes:
        path: the list or archive.
        entries: the utterances.
        errors: the malformed lines.
    """

    path: Path
    entries: tuple[Entry, ...]
    errors: tuple[CntkError, ...]


EndOf = Callable[[ArchiveFile, int], int]
"""Returns the offset after the object that begins at an offset."""


def read_table(text: str, where: Location, files: ArchiveFiles, end_of: EndOf) -> Table:
    """Read what a specifier names: ``scp:list``, ``ark:archive``, or a file name, a list if it ends in ``.scp``.

    Raises:
        DataError: the file cannot be read.
        UnsupportedError: it is a command.
    """
    kind, path = _split(text)
    if path.endswith("|") or path.startswith("|") or path in ("", "-"):
        what = f"the command '{path[:_SHOWN]}'" if path.strip("-|") else "the standard input"
        raise UnsupportedError(f"{what} cannot be read as a table", where=where, hint=_COMMAND)
    return (
        _read_list(Path(path), where, files.max_line_bytes)
        if kind == "scp"
        else _read_archive(path, where, files, end_of)
    )


def _split(text: str) -> tuple[str, str]:
    head, colon, path = text.strip().partition(":")
    words = head.split(",")
    if colon and words[0] in ("scp", "ark"):
        return words[0], path.strip()
    return ("scp" if text.strip().endswith(".scp") else "ark"), text.strip()


def read_lines(
    path: Path, where: Location, what: str, max_line_bytes: int = LINE_BYTES
) -> list[tuple[Location, list[str]]]:
    """Return the lines of a text file that are not empty, split at the first blank.

    Raises:
        DataError: it cannot be read, is no text, or has too long a line.
    """
    try:
        with path.open("rb") as file:
            lines = enumerate(bounded_lines(file, max_line_bytes, str(path)), 1)
            split = [(Location(str(path), number), _words(line, path, number, what)) for number, line in lines]
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        missing = isinstance(error, OSError) and not path.exists()
        hint = "A relative name starts at the directory in which the command runs." if missing else None
        raise DataError(f"cannot open the {what} '{path}': {reason}", where=where, hint=hint) from None
    return [(place, words) for place, words in split if words]


def _words(line: bytes, path: Path, number: int, what: str) -> list[str]:
    """Return what stands before the first blank of a line, and what stands behind it."""
    try:
        text = line.decode("utf-8")
        wrong = f"byte {line.index(0) + 1} of the line is zero" if b"\0" in line else ""
    except UnicodeDecodeError as error:
        wrong = f"byte {error.start + 1} of the line is not UTF-8"
    if wrong:
        hint = "An archive is named with ark: in front."
        raise DataError(f"{wrong}, so this is no {what}", where=Location(str(path), number), hint=hint)
    return [word.strip() for word in text.split(None, 1)]


def _read_list(path: Path, where: Location, max_line_bytes: int) -> Table:
    entries: list[Entry] = []
    errors: list[CntkError] = []
    known: dict[str, Location] = {}
    for place, words in read_lines(path, where, "list of a table", max_line_bytes):
        try:
            entry = _parse(words, place)
            if entry.key in known:
                text = f"the key '{entry.key}' stands in line {known[entry.key].line} already"
                raise DataError(text, where=place, hint="Each utterance has one line.")
            known[entry.key] = place
            entries.append(entry)
        except CntkError as error:
            errors.append(error)
    return Table(path, tuple(entries), tuple(errors))


def _parse(words: list[str], place: Location) -> Entry:
    if len(words) < 2:
        raise DataError(f"'{words[0]}' has no path", where=place, hint=_FORMS)
    key, path = words
    if path.endswith("|") or path.startswith("|") or path == "-":
        raise UnsupportedError(f"'{path[:_SHOWN]}' is a command, which is not run", where=place, hint=_COMMAND)
    first, last = 0, None
    if path.endswith("]"):
        found = _RANGE.fullmatch(path)
        if found is None:
            text = f"'{path[path.find('[') :]}' is no range of rows"
            raise DataError(text, where=place, hint=_FORMS)
        path, first, last = found.group(1).strip(), int(found.group(2)), int(found.group(3))
        if first > last:
            raise DataError(f"the range [{first}:{last}] ends before it begins", where=place, hint=_FORMS)
    offset = _OFFSET.fullmatch(path)
    if offset is not None:
        return Entry(key, offset.group(1), int(offset.group(2)), place, first, last)
    return Entry(key, path, 0, place, first, last)


def _read_archive(path: str, where: Location, files: ArchiveFiles, end_of: EndOf) -> Table:
    """Walk through an archive. An object that cannot be read ends it: nobody knows where the next one begins."""
    try:
        file = files.get(path)
    except DataError as error:
        raise DataError(error.message, where=where, hint=error.hint) from None
    entries: list[Entry] = []
    errors: list[CntkError] = []
    at, known = 0, set()
    while True:
        try:
            found = file.next_key(at)
            if found is None:
                break
            key, begin = found
            at = end_of(file, begin)
            if key in known:
                raise file.wrong(begin, f"the key '{key}' is there twice", "Each utterance has one entry.")
        except DataError as error:
            errors.append(DataError(error.message, where=where, hint=error.hint))
            break
        known.add(key)
        entries.append(Entry(key, path, begin, where))
    return Table(Path(path), tuple(entries), tuple(errors))
