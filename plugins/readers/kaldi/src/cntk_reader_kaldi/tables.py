"""Tables: lists of places (scp) and archives (ark), and the specifiers that name them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import attrs

from cntk_core.api import CntkError, DataError, Location, UnsupportedError, local_path
from cntk_core.api.readers import LINE_BYTES, bounded_lines
from cntk_reader_kaldi.archive import ArchiveFile, ArchiveFiles
from cntk_reader_kaldi.commands import is_command, shown

_RANGE = re.compile(r"(.*)\[([^\[\]]*)\]")
_PART = re.compile(r"\s*([0-9]{1,9})\s*:\s*([0-9]{1,9})\s*")
_OFFSET = re.compile(r"(.+):([0-9]{1,18})")
_FORMS = "A line is: key path, key path:offset, or with ranges of rows and columns behind it, path:offset[0:49,3:5]."
_STANDARD_INPUT = "Write what it gives to a file: ... ark:features.ark"


@attrs.frozen
class Entry:
    """One utterance of a table.

    Attributes:
        key: its name.
        path, offset: where its object begins.
        where: where it is named, for messages.
        first, last: rows that are wanted, both included; ``last`` is None for all.
        columns: the first and last column that are wanted; None for all.
    """

    key: str
    path: str
    offset: int
    where: Location
    first: int = 0
    last: int | None = None
    columns: tuple[int, int] | None = None


@attrs.frozen
class Table:
    """What a table holds.

    Attributes:
        title: the list, archive or command, for messages.
        entries: the utterances.
        errors: the malformed lines.
    """

    title: str
    entries: tuple[Entry, ...]
    errors: tuple[CntkError, ...]


EndOf = Callable[[ArchiveFile, int], int]
"""Returns the offset after the object that begins at an offset."""


def end_of_matrix(file: ArchiveFile, at: int) -> int:
    """Return the offset after the matrix at an offset."""
    return file.header(at).end


def end_of_classes(file: ArchiveFile, at: int) -> int:
    """Return the offset after the classes of an utterance."""
    return file.posterior(at)[1]


def end_of_lattice(file: ArchiveFile, at: int) -> int:
    """Return the offset after the lattice at an offset."""
    return file.lattice(at)[1]


def split_specifier(text: str) -> tuple[str, str]:
    """Return ``scp`` or ``ark``, and the file or command that a specifier names; a bare name is one by its ending."""
    head, colon, path = text.strip().partition(":")
    words = head.split(",")
    if colon and words[0] in ("scp", "ark"):
        return words[0], path.strip()
    return ("scp" if text.strip().endswith(".scp") else "ark"), text.strip()


def read_table(text: str, where: Location, files: ArchiveFiles, end_of: EndOf) -> Table:
    """Read what a specifier names: ``scp:list``, ``ark:archive``, a command, or a file name.

    Raises:
        DataError: the file cannot be read, or the command fails.
        UnsupportedError: it is a command, and none may be run.
    """
    kind, path = split_specifier(text)
    if path in ("", "-"):
        raise UnsupportedError("the standard input cannot be read as a table", where=where, hint=_STANDARD_INPUT)
    title = path
    if is_command(path):
        files.spool.check(path, where, f"the command '{shown(path)}' cannot be read as a table")
        path = str(files.spool.run(path, where)[0])
        files.names[path] = title = shown(title)
    path = local_path(path, where)
    if kind == "scp":
        return _read_list(Path(path), where, files, title)
    return _read_archive(path, where, files, end_of, title)


def read_lines(
    path: Path, where: Location, what: str, max_line_bytes: int = LINE_BYTES, name: str | None = None
) -> list[tuple[Location, list[str]]]:
    """Return the lines of a text file that are not empty, split at the first blank; ``name`` stands in messages.

    Raises:
        DataError: it cannot be read, is no text, or has too long a line.
    """
    name = str(path) if name is None else name
    try:
        with path.open("rb") as file:
            lines = enumerate(bounded_lines(file, max_line_bytes, name), 1)
            split = [(Location(name, number), _words(line, Location(name, number), what)) for number, line in lines]
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        missing = isinstance(error, OSError) and not path.exists()
        hint = "A relative name starts at the directory in which the command runs." if missing else None
        raise DataError(f"cannot open the {what} '{name}': {reason}", where=where, hint=hint) from None
    return [(place, words) for place, words in split if words]


def _words(line: bytes, place: Location, what: str) -> list[str]:
    """Return what stands before the first blank of a line, and what stands behind it."""
    try:
        text = line.decode("utf-8")
        wrong = f"byte {line.index(0) + 1} of the line is zero" if b"\0" in line else ""
    except UnicodeDecodeError as error:
        wrong = f"byte {error.start + 1} of the line is not UTF-8"
    if wrong:
        hint = "An archive is named with ark: in front."
        raise DataError(f"{wrong}, so this is no {what}", where=place, hint=hint)
    return [word.strip() for word in text.split(None, 1)]


def _read_list(path: Path, where: Location, files: ArchiveFiles, title: str) -> Table:
    entries: list[Entry] = []
    errors: list[CntkError] = []
    known: dict[str, Location] = {}
    written: Path | None = None
    for place, words in read_lines(path, where, "list of a table", files.max_line_bytes, title):
        try:
            entry = _parse(words, place)
            if entry.key in known:
                text = f"the key '{entry.key}' stands in line {known[entry.key].line} already"
                raise DataError(text, where=place, hint="Each utterance has one line.")
            if is_command(entry.path):
                files.spool.check(entry.path, place, f"'{shown(entry.path)}' is a command, which is not run")
                written, begin = files.spool.run(entry.path, place, written)
                files.names[str(written)] = f"what the commands of {title} gave"
                entry = attrs.evolve(entry, path=str(written), offset=begin)
            known[entry.key] = place
            entries.append(entry)
        except (DataError, UnsupportedError) as error:
            errors.append(error)
    return Table(title, tuple(entries), tuple(errors))


def _parse(words: list[str], place: Location) -> Entry:
    if len(words) < 2:
        raise DataError(f"'{words[0]}' has no path", where=place, hint=_FORMS)
    key, path = words
    if path == "-":
        raise UnsupportedError("'-', the standard input, is not read", where=place, hint=_STANDARD_INPUT)
    if is_command(path):
        return Entry(key, path, 0, place)
    rows, columns = None, None
    if path.endswith("]"):
        path, rows, columns = _split_ranges(path, place)
    first, last = rows or (0, None)
    offset = _OFFSET.fullmatch(path)
    if offset is not None:
        return Entry(key, offset.group(1), int(offset.group(2)), place, first, last, columns)
    return Entry(key, path, 0, place, first, last, columns)


Range = tuple[int, int] | None


def _split_ranges(path: str, place: Location) -> tuple[str, Range, Range]:
    """Return a path without the ranges behind it, and these: of rows and of columns, None for all.

    A range is ``first:last``, or ``:`` for all, as in ``[0:49]``, ``[0:49,3:5]``, ``[:,3:5]``.
    """
    found = _RANGE.fullmatch(path)
    parts = found.group(2).split(",") if found is not None else []
    if found is None or not 1 <= len(parts) <= 2:
        raise _no_range(path, place)
    ranges: list[Range] = [None, None]
    for number, part in enumerate(parts):
        if part.strip() == ":":
            continue
        ends = _PART.fullmatch(part)
        if ends is None:
            raise _no_range(path, place)
        first, last = int(ends.group(1)), int(ends.group(2))
        if first > last:
            raise DataError(f"the range [{first}:{last}] ends before it begins", where=place, hint=_FORMS)
        ranges[number] = first, last
    return found.group(1).strip(), ranges[0], ranges[1]


def _no_range(path: str, place: Location) -> DataError:
    what = "range of rows" if "," not in path else "range of rows and range of columns"
    return DataError(f"'{path[max(path.find('['), 0) :]}' is no {what}", where=place, hint=_FORMS)


def _read_archive(path: str, where: Location, files: ArchiveFiles, end_of: EndOf, title: str) -> Table:
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
    return Table(title, tuple(entries), tuple(errors))
