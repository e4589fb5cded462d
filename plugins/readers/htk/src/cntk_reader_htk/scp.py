"""Lists of feature files (scp): ``path``, ``name=path`` or ``name=archive[first,last]``, one to a line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import attrs

from cntk_core.api import CntkError, DataError, Location
from cntk_core.api.readers import LINE_BYTES, bounded_lines

_RANGE = re.compile(r"(.*)\[([^\[\]]*)\]")
_FRAMES = re.compile(r"\s*([0-9]{1,18})\s*,\s*([0-9]{1,18})\s*")


_TEXT = "Save it as UTF-8 text; or the recipe names a file of another kind."


@attrs.frozen
class Entry:
    """One utterance of a list.

    Attributes:
        key: its name, without extension.
        path: the file.
        first, last: its frames in the file, both included; ``last`` is None for all.
        line: where it stands in the list, from 1.
    """

    key: str
    path: str
    first: int
    last: int | None
    line: int

    @property
    def frames(self) -> int | None:
        """How many frames it has, None if only the file knows."""
        return None if self.last is None else self.last + 1 - self.first


@attrs.frozen
class Script:
    """What a list holds.

    Attributes:
        entries: the utterances.
        errors: the malformed lines.
        duplicates: keys that occur more than once; none of their lines is in ``entries``.
    """

    entries: tuple[Entry, ...]
    errors: tuple[CntkError, ...]
    duplicates: tuple[str, ...]


def sequence_key(name: str) -> str:
    """Return a name without its extension."""
    folder, slash, file = name.rpartition("/")
    stem, dot, _ = file.rpartition(".")
    return f"{folder}{slash}{stem if dot else file}"


def read_script(
    path: Path, prefix: str = "", where: Location | None = None, max_line_bytes: int = LINE_BYTES
) -> Script:
    """Read a list.

    Args:
        path: the file.
        prefix: folder that is put in front of each path; without one, ``...`` in a line is the folder of the list.
        where: where the recipe names the file, for the error that it cannot be read.
        max_line_bytes: a longer line is refused.

    Raises:
        DataError: the file cannot be read, or is no text.
    """
    entries: list[Entry] = []
    errors: list[CntkError] = []
    for number, line in read_lines(path, where, "list of feature files", max_line_bytes):
        try:
            entries.append(
                _parse(line, prefix.replace("\\", "/").rstrip("/"), path.parent, Location(str(path), number))
            )
        except DataError as error:
            errors.append(error)
    known: dict[str, int] = {}
    for entry in entries:
        known[entry.key] = known.get(entry.key, 0) + 1
    twice = tuple(key for key, count in known.items() if count > 1)
    single = entries if not twice else [entry for entry in entries if known[entry.key] == 1]
    return Script(tuple(single), tuple(errors), twice)


def read_lines(
    path: Path, where: Location | None, what: str, max_line_bytes: int = LINE_BYTES, skip: tuple[int, int] = (0, 0)
) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text file that are not empty, stripped, with their numbers from 1.

    ``skip`` is how many bytes, and lines, at its beginning are left out.

    Raises:
        DataError: the file cannot be read, is not in UTF-8, or has a zero byte or too long a line.
    """
    try:
        with path.open("rb") as file:
            file.seek(skip[0])
            for number, raw in enumerate(bounded_lines(file, max_line_bytes, str(path), skip[1]), skip[1] + 1):
                try:
                    line = raw.decode("utf-8").strip("\ufeff \t\r\n")
                except UnicodeDecodeError as error:
                    text = f"byte {error.start + 1} of the line is not UTF-8, so this is no {what}"
                    raise DataError(text, where=Location(str(path), number), hint=_TEXT) from None
                if "\0" in line:
                    text = f"byte {raw.index(0) + 1} of the line is zero, so this is no {what}"
                    raise DataError(text, where=Location(str(path), number), hint=_TEXT)
                if line:
                    yield number, line
    except OSError as error:
        hint = None if path.exists() else "A relative name starts at the directory in which the command runs."
        reason = (error.strerror or str(error)).lower()
        raise DataError(f"cannot open the {what} '{path}': {reason}", where=where, hint=hint) from None


def _parse(line: str, prefix: str, folder: Path, where: Location) -> Entry:
    name, equals, path = (part.strip() for part in line.partition("="))
    if not equals:
        name, path = line, line
    if not name:
        raise DataError("the name before '=' is missing", where=where, hint=FORMS)
    first, last = 0, None
    found = _RANGE.fullmatch(path)
    if found is not None:
        if not equals:
            text = f"'{line}' has a range of frames, but no name"
            raise DataError(text, where=where, hint=f"Write name={line}; the name is the key of the labels.")
        path = found.group(1).strip()
        first, last = _frames(found.group(2), where)
    elif equals and path.endswith("]"):
        raise DataError(f"the range of frames at the end of '{path}' has no '['", where=where, hint=FORMS)
    elif equals and "[" in path:
        raise DataError(f"the range of frames in '{path}' has no ']' at the end", where=where, hint=FORMS)
    if not path:
        raise DataError("the path after '=' is missing", where=where, hint=FORMS)
    if prefix:
        path = f"{prefix}/{path}"
    else:
        path = path.replace("...", str(folder), 1)
        name = name.replace("...", str(folder), 1) if not equals else name
    return Entry(sequence_key(name), path, first, last, where.line)


def _frames(text: str, where: Location) -> tuple[int, int]:
    found = _FRAMES.fullmatch(text)
    if found is None:
        raise DataError(f"the range of frames '[{text}]' is not [first,last]", where=where, hint=FORMS)
    first, last = int(found.group(1)), int(found.group(2))
    if first > last:
        text = f"the first frame {first} of the range is behind the last, {last}"
        raise DataError(text, where=where, hint="Both are counted from 0, and the last is part of the utterance.")
    if last >= 2**31:
        raise DataError(f"frame {last} is more than a file can have", where=where, hint=FORMS)
    return first, last


FORMS = "A line is path, name=path, or name=archive[first,last]."
"""How a list is written, for messages."""
