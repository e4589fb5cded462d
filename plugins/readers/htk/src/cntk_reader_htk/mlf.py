"""Master label files (MLF) and state lists: the class of every frame of every utterance.

An MLF begins with ``#!MLF!#``. Each entry has a line with the name in quotation marks, lines ``start end state ...``
(or ``start end name id`` without a state list), and a line with a dot. Times are frames, or units of 100 ns where the
entry is at least 10 ms long. The ranges follow each other from 0 on without gaps.
"""

from __future__ import annotations

import functools
import re
from array import array
from collections.abc import Callable, Mapping
from pathlib import Path

import attrs
import numpy as np

from cntk_core.api import CntkError, DataError, Location, did_you_mean
from cntk_core.api.readers import LINE_BYTES
from cntk_reader_htk import entries
from cntk_reader_htk.scp import read_lines, sequence_key

HEADER = "#!MLF!#"
FRAME_TIME = 100_000.0
"""A frame of 10 ms in units of 100 ns."""
MOST_FRAMES = 2**26
"""Frames of an utterance: a week of 10 ms each. They are counted in a few bytes of text, and take many in memory."""
_SUGGESTED = 10
"""So many unknown states are compared with those that there are."""
_PIECE = 1 << 22
"""Bytes of a label file that are read at a time."""
_END = b"\n.\n"
"""What ends an entry."""
_TIME = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


_RANGES = "A label is: start end state, in frames or in units of 100 ns; ranges follow each other from 0 on."
_COLUMNS = "Give labelMappingFile=..., the list of states; without it a label is: start end name class."
_STATES = "labelMappingFile has one state to a line, written as in the label file."


@attrs.frozen(eq=False)
class Labels:
    """The label files of a stream.

    Attributes:
        keys: the utterances.
        offsets: utterance ``i`` has the ranges ``offsets[i]`` to ``offsets[i + 1]``.
        classes: the class of each range.
        counts: frames of each range.
        errors: one for each malformed entry; such entries have no key.
    """

    keys: list[str]
    offsets: np.ndarray[tuple[int], np.dtype[np.int64]]
    classes: np.ndarray[tuple[int], np.dtype[np.int32]]
    counts: np.ndarray[tuple[int], np.dtype[np.int32]]
    errors: tuple[CntkError, ...]


def read_states(path: Path, where: Location | None = None, max_line_bytes: int = LINE_BYTES) -> dict[str, int]:
    """Read a state list: one name to a line; the first one is class 0.

    Raises:
        DataError: it cannot be read, is empty, or has a name twice.
    """
    states: dict[str, int] = {}
    lines: dict[str, int] = {}
    for number, line in read_lines(path, where, "state list", max_line_bytes):
        if line in states:
            raise DataError(
                f"state '{line}' stands in line {lines[line]} already",
                where=Location(str(path), number),
                hint="Each state has one line; its place is the number of its class.",
            )
        states[line] = len(states)
        lines[line] = number
    if not states:
        raise DataError("the state list is empty", where=Location(str(path)), hint="One state name to a line.")
    return states


class LabelParser:
    """Reads label files one after the other.

    Args:
        states: name to class; None if the class stands in the fourth column.
        classes: number of classes.
        max_line_bytes: a longer line is refused.
    """

    def __init__(self, states: Mapping[str, int] | None, classes: int, max_line_bytes: int = LINE_BYTES) -> None:
        self._max_line_bytes = max_line_bytes
        self._suggested = 0
        self._states = states
        self._spelled = {state.encode(): number for state, number in (states or {}).items()}
        self._limit = classes
        self._places: dict[str, Location] = {}
        self._offsets = array("q", [0])
        self._classes = array("i")
        self._counts = array("i")
        self._errors: list[CntkError] = []

    def read(self, path: Path, where: Location | None = None) -> None:
        """Read a file.

        Raises:
            DataError: it cannot be read, or is no label file.
        """
        name = str(path)
        usual = self._read_usual(path)
        lines = read_lines(path, where, "label file", self._max_line_bytes, usual)
        number, line = (1, HEADER) if usual[0] else next(lines, (1, ""))
        if line != HEADER:
            shown = "the file is empty" if not line else f"the file begins with '{line[:40]}'"
            text = f"{shown}, not with {HEADER}"
            raise DataError(text, where=Location(name, number), hint="mlfFile= wants a master label file of HTK.")
        entry: _Entry | None = None
        for number, line in lines:
            if entry is None:
                if line != HEADER:
                    entry = _Entry(self._key(line, Location(name, number)), Location(name, number))
            elif line == ".":
                self._finish(entry)
                entry = None
            elif entry.error is None:
                try:
                    self._add_range(entry, line, name, number)
                except DataError as error:
                    entry.error = error
        if entry is not None:
            entry.error = DataError(
                f"the entry '{entry.key}' does not end",
                where=entry.where,
                hint="An entry ends with a line that has only a dot; the file may be cut off.",
            )
            self._finish(entry)

    def _read_usual(self, path: Path) -> tuple[int, int]:
        """Read the entries at the beginning of a file by a loop over bytes. Returns how many bytes and lines they are.

        It ends before the first piece of the file that has anything unusual.
        """
        loop = _loop() if self._spelled else None
        if loop is None or not path.is_file():
            return 0, 0
        with path.open("rb") as file:
            header = file.readline(len(HEADER) + 1)
            if header != HEADER.encode() + b"\n":
                return 0, 0
            done, lines, rest = len(header), 1, b""
            while data := file.read(_PIECE):
                text, end, rest = (rest + data).rpartition(_END)
                if not end or not self._take(text + end, Location(str(path), lines), loop):
                    break
                done, lines = done + len(text) + len(end), lines + (text + end).count(b"\n")
        return done, lines

    def _take(self, text: bytes, before: Location, loop: Callable[..., int]) -> bool:
        """Take the entries of a piece of a file, behind a line; False if there is anything unusual."""
        most, ranges = text.count(_END), text.count(b"\n")
        names, name_ends, lines, offsets = np.empty((4, most), np.int64)
        states, state_ends, counts = np.empty((3, ranges), np.int64)
        given = np.frombuffer(text, np.uint8)
        found = loop(
            given, self._max_line_bytes, MOST_FRAMES, names, name_ends, lines, offsets, states, state_ends, counts
        )
        if found < 0:
            return False
        used, known = int(offsets[found - 1]), self._spelled
        spans = zip(states[:used].tolist(), state_ends[:used].tolist(), strict=True)
        classes = [known.get(text[first:last], self._limit) for first, last in spans]
        spans = zip(names[:found].tolist(), name_ends[:found].tolist(), strict=True)
        keys = [sequence_key(text[first:last].decode().removeprefix("*/")) for first, last in spans]
        if max(classes) >= self._limit or len(set(keys)) < found or not self._places.keys().isdisjoint(keys):
            return False
        for key, line in zip(keys, lines[:found].tolist(), strict=True):
            self._places[key] = Location(before.file, before.line + line + 1)
        self._offsets.extend((offsets[:found] + len(self._classes)).tolist())
        self._classes.extend(classes)
        self._counts.extend(counts[:used].tolist())
        return True

    def labels(self) -> Labels:
        """Return what was read."""
        return Labels(
            list(self._places),
            np.array(self._offsets, dtype=np.int64),
            np.array(self._classes, dtype=np.int32),
            np.array(self._counts, dtype=np.int32),
            tuple(self._errors),
        )

    def _key(self, line: str, where: Location) -> str | DataError:
        if len(line) < 3 or line[0] != '"' or line[-1] != '"':
            return DataError(
                f"the name of an utterance in quotation marks was expected, not '{line[:40]}'",
                where=where,
                hint='An entry is "name", lines of labels, and a line with only a dot.',
            )
        return sequence_key(line[1:-1].removeprefix("*/"))

    def _finish(self, entry: _Entry) -> None:
        """Keep an entry, or note what is wrong with it."""
        if entry.error is None and entry.end == 0:
            entry.error = DataError(f"the entry '{entry.key}' has no labels", where=entry.where, hint=_RANGES)
        if entry.error is None and entry.key in self._places:
            before = self._places[str(entry.key)]
            text = f"the utterance '{entry.key}' has labels at {before} already"
            entry.error = DataError(text, where=entry.where, hint="The first entry counts; remove the other.")
        if entry.error is not None:
            self._errors.append(entry.error)
            return
        self._places[str(entry.key)] = entry.where
        self._classes.extend(entry.classes)
        self._counts.extend(entry.counts)
        self._offsets.append(len(self._classes))

    def _add_range(self, entry: _Entry, line: str, name: str, number: int) -> None:
        tokens = line.split()
        where = Location(name, number)
        if len(tokens) < 3:
            hint = "A label is: start end state. An entry ends with a line that has only a dot."
            raise DataError(f"a label has at least three columns, not '{line[:40]}'", where=where, hint=hint)
        span = frame_range(tokens[0], tokens[1])
        if span is None:
            raise DataError(f"'{tokens[0]} {tokens[1]}' is not a start and an end", where=where, hint=_RANGES)
        first, last = span
        if last < first:
            raise DataError(f"the end {tokens[1]} is before the start {tokens[0]}", where=where, hint=_RANGES)
        if first != entry.end:
            raise DataError(
                f"the label begins at frame {first}, but the one before it ends at {entry.end}"
                if entry.classes
                else f"the first label of '{entry.key}' begins at frame {first}, not at 0",
                where=where,
                hint="Labels follow each other from 0 on without gaps.",
            )
        if last > MOST_FRAMES:
            text = f"the end {tokens[1]} is more than an utterance can have: {MOST_FRAMES} frames"
            raise DataError(text, where=where, hint=_RANGES)
        entry.classes.append(self._class(tokens, where))
        entry.counts.append(last - first)
        entry.end = last

    def _class(self, tokens: list[str], where: Location) -> int:
        if self._states is None:
            if len(tokens) != 4:
                raise DataError(
                    f"the label has {len(tokens)} columns; without labelMappingFile it has four, the last is the class",
                    where=where,
                    hint=_COLUMNS,
                )
            if not (tokens[3].isascii() and tokens[3].isdigit() and len(tokens[3]) < 19):
                raise DataError(f"'{tokens[3][:40]}' is not the number of a class", where=where, hint=_COLUMNS)
            number = int(tokens[3])
        else:
            known = self._states.get(tokens[2])
            if known is None:
                self._suggested += 1
                guess = did_you_mean(tokens[2], self._states) if self._suggested <= _SUGGESTED else ""
                text = f"state '{tokens[2]}' is not in the state list{guess}"
                raise DataError(text, where=where, hint=_STATES)
            number = known
        if number >= self._limit:
            raise DataError(
                f"'{tokens[2]}' is class {number}, but labelDim={self._limit}",
                where=where,
                hint="Classes are counted from 0; labelDim is how many there are.",
            )
        return number


@attrs.define(eq=False)
class _Entry:
    """An entry while it is read; a name that cannot be read is its first error."""

    key: str | DataError
    where: Location
    classes: list[int] = attrs.field(factory=list)
    counts: list[int] = attrs.field(factory=list)
    end: int = 0
    error: DataError | None = None

    def __attrs_post_init__(self) -> None:
        if isinstance(self.key, DataError):
            self.error = self.key


@functools.cache
def _loop() -> Callable[..., int] | None:
    """Return :func:`.entries.read_entries`, compiled; None where there is no compiler."""
    from cntk_core.api.engines import byte_loop, can_compile

    return byte_loop(entries.__file__, "read_entries", entries.SIGNATURE) if can_compile() else None


def frame_range(start: str, end: str) -> tuple[int, int] | None:
    """Return the first frame and the one after the last that two words say, in frames or units of 100 ns."""
    try:
        first, last = _time(start), _time(end)
        if last - first < FRAME_TIME - 1:
            return int(first), int(last)
        return int(first / FRAME_TIME + 0.5), int(last / FRAME_TIME + 0.5)
    except (ValueError, OverflowError):
        return None


def _time(word: str) -> float:
    """Return a time. Raises ValueError if it is none, as ``nan`` and ``1_000`` are none."""
    if _TIME.fullmatch(word) is None:
        raise ValueError(word)
    return float(word)
