"""Features of utterances with labels of their frames: HTK's lists and label files, Kaldi's tables."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from pathlib import Path

import attrs

from cntk_core.api import DataError, Location
from cntk_tool_init.formats.images import resolved
from cntk_tool_init.found import CLASSIFY, Data, Prepared, Stream, Wishes, several, some
from cntk_tool_init.places import first_lines, from_list, seen_from

CONTEXT = 11
"""Frames that the network sees at once: five on each side."""

_HTK_KINDS = range(12)
_PART = re.compile(r"\[(\d+),(\d+)\]$")


def htk_dim(path: Path) -> tuple[int, int]:
    """Return the frames of an HTK feature file and the values of each; zeros if it is none.

    The header (HTK book, 5.10.1): frames, period, bytes of a frame, kind; usually big-endian.
    """
    try:
        with path.open("rb") as file:
            head = file.read(12)
            size = file.seek(0, 2)
    except OSError:
        return 0, 0
    for order in "><" if len(head) == 12 else "":
        frames, period, width, kind = struct.unpack(f"{order}iihH", head)
        compressed = bool(kind & 0o2000)
        if frames > 0 and period > 0 and width > 0 and kind & 0o77 in _HTK_KINDS and size >= 12 + frames * width:
            return frames, width // (2 if compressed else 4)
    return 0, 0


def kaldi_dim(path: Path, offset: int) -> int:
    """Return the values of a frame of a Kaldi matrix; 0 if there is none."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            head = file.read(1 << 16)
    except OSError:
        return 0
    if head[:2] == b"\0B":
        if head[2:5] in (b"FM ", b"DM "):
            return int(struct.unpack_from("<i", head, 11)[0])
        if head[2:4] == b"CM":
            return int(struct.unpack_from("<i", head, head.index(b" ", 2) + 13)[0])
        return 0
    match = re.match(rb"\s*\[\s*([^\]\n]+?)\s*(\n|\])", head)
    return len(match[1].split()) if match else 0


@attrs.frozen
class Entry:
    """A line of a list.

    Attributes:
        name: in front of the path, with what stands between; empty if there is none.
        path: of the file.
        rest: behind it: a range of frames, a place in an archive.
    """

    name: str
    path: Path
    rest: str


def htk_entries(listing: Path, lines: Sequence[str]) -> list[Entry]:
    """Read lines of HTK's list: ``path``, ``name=path``, ``name=path[first,last]``."""
    found = []
    for line in filter(str.strip, lines):
        name, equals, path = line.strip().rpartition("=")
        part = _PART.search(path)
        rest = part[0] if part else ""
        bare = path.strip().removesuffix(rest)
        found.append(Entry(f"{name.strip()}=" if equals else f"{Path(bare).name}=", resolved(listing, bare), rest))
    return found


def kaldi_entries(listing: Path, lines: Sequence[str]) -> list[Entry]:
    """Read lines of Kaldi's list: ``key path:place``."""
    found = []
    for line in filter(str.strip, lines):
        key, _, place = line.strip().partition(" ")
        match = re.match(r"(.+?)(:\d+)?(\[[\d:,]*\])?$", place.strip())
        if match:
            found.append(Entry(f"{key} ", resolved(listing, match[1]), f"{match[2] or ''}{match[3] or ''}"))
    return found


class Speech(Data):
    """Utterances with a label for each frame. A subclass says in which files."""

    tasks = (CLASSIFY,)
    takes_second = False
    suffix = ".scp"

    def __init__(self, listing: Path, labels: Path, wishes: Wishes) -> None:
        self.listing = listing
        self.labels = labels
        self._wishes = wishes
        self.entries: list[Entry] = []
        self.dim = self.frames = self.classes = 0

    @property
    def writes(self) -> Sequence[str]:
        """The parts of the list."""
        return ["train.scp", *(["heldout.scp"] if self._wishes.every else [])]

    def _parts(self, folder: Path, wishes: Wishes, named: bool) -> tuple[list[str], list[tuple[str, str]]]:
        """Write the parts of the list."""
        parts: list[list[str]] = [[], []]
        for number, one in enumerate(self.entries):
            place = from_list(folder, one.path) if named else seen_from(folder, one.path)
            parts[int(wishes.holds_out(number))].append(f"{one.name}{place}{one.rest}\n")
        names = [name for name, part in zip(("train.scp", "heldout.scp"), parts, strict=True) if part]
        files = []
        for name, part, text in zip(names, parts, ("to learn from", "that are held out"), strict=False):
            (folder / name).write_text("".join(part), encoding="utf-8")
            files.append((name, f"{several(len(part), 'utterance')} {text}"))
        return names, files


class Htk(Speech):
    """HTK's list of feature files and master label file.

    Args:
        listing: the list.
        labels: the label file.
        wishes: what the user says.

    Raises:
        DataError: a file of the list is none of HTK's.
    """

    title = "HTK features and labels"

    def __init__(self, listing: Path, labels: Path, wishes: Wishes) -> None:
        super().__init__(listing, labels, wishes)
        self.entries = htk_entries(listing, listing.read_text(encoding="utf-8-sig").splitlines())
        for number, one in enumerate(self.entries, 1):
            frames, dim = htk_dim(one.path)
            if not dim:
                raise DataError(f"'{one.path}' is no feature file of HTK", where=Location(str(listing), number))
            if self.dim and dim != self.dim:
                what = f"'{one.path}' has {dim} values in a frame, those before {self.dim}"
                raise DataError(what, where=Location(str(listing), number))
            self.dim = dim
            self.frames += frames
        self._wishes = wishes.of(len(self.entries))
        self.states, self.labelled = _states(labels)
        self.classes = len(self.states)

    def seen(self) -> Sequence[str]:
        """Utterances, frames, states."""
        return [
            f"{several(len(self.entries), 'utterance')}, {several(self.frames, 'frame')} of {self.dim} values",
            f"{several(self.labelled, 'utterance')} with labels, {several(self.classes, 'state')}: {some(self.states)}",
        ]

    @property
    def odd(self) -> Sequence[str]:
        """Lists of different length."""
        more = len(self.entries) - self.labelled
        return [f"{several(abs(more), 'utterance')} without {'labels' if more > 0 else 'features'}"] if more else ()

    @property
    def writes(self) -> Sequence[str]:
        """The parts of the list, and the states."""
        return [*super().writes, "states.list"]

    def prepare(self, folder: Path, task: str) -> Prepared:
        """Write lists."""
        wishes = self._wishes
        names, files = self._parts(folder, wishes, named=True)
        (folder / "states.list").write_text("".join(f"{name}\n" for name in self.states), encoding="utf-8")
        files.append(("states.list", "the states, by number"))
        labels = seen_from(folder, self.labels)
        readers = [
            [
                "readerType = HTKMLFReader",
                f'features = [ dim = {self.dim} ; contextWindow = {CONTEXT} ; scpFile = "{name}" ]',
                f'labels = [ labelDim = {self.classes} ; mlfFile = "{labels}" ; labelMappingFile = "states.list" ]',
            ]
            for name in names
        ]
        return _prepared(self, readers, files, wishes)


class Kaldi(Speech):
    """Kaldi's list of features and alignments as text.

    Args:
        listing: the list.
        labels: the alignments.
        wishes: what the user says.

    Raises:
        DataError: the list names no matrix.
    """

    title = "Kaldi features and alignments"

    def __init__(self, listing: Path, labels: Path, wishes: Wishes) -> None:
        super().__init__(listing, labels, wishes)
        self.entries = kaldi_entries(listing, listing.read_text(encoding="utf-8-sig").splitlines())
        self._wishes = wishes.of(len(self.entries))
        first = self.entries[0]
        self.dim = kaldi_dim(first.path, int(first.rest.partition("[")[0].lstrip(":") or 0))
        if not self.dim:
            raise DataError(f"'{first.path}' has no matrix of Kaldi there", where=Location(str(listing), 1))
        aligned = set()
        for number, line in enumerate(labels.read_text(encoding="utf-8-sig").splitlines(), 1):
            key, *states = line.split() or [""]
            if not all(map(str.isdigit, states)):
                raise DataError("an alignment is: key number number ...", where=Location(str(labels), number))
            aligned.add(key)
            self.frames += len(states)
            self.classes = max(self.classes, *(int(state) + 1 for state in states), 0)
        self.lacking = [one.name.strip() for one in self.entries if one.name.strip() not in aligned]

    def seen(self) -> Sequence[str]:
        """Utterances, frames, classes."""
        return [
            f"{several(len(self.entries), 'utterance')}, frames of {self.dim} values",
            f"{several(self.frames, 'aligned frame')}, {self.classes} classes (the largest number and one)",
        ]

    @property
    def odd(self) -> Sequence[str]:
        """Utterances without alignment."""
        return [f"no alignment of {some(self.lacking)}: left out"] if self.lacking else ()

    def prepare(self, folder: Path, task: str) -> Prepared:
        """Write lists."""
        wishes = self._wishes
        names, files = self._parts(folder, wishes, named=False)
        labels = seen_from(folder, self.labels)
        readers = [
            [
                "readerType = Kaldi2Reader",
                f'features = [ dim = {self.dim} ; contextWindow = {CONTEXT} ; scpFile = "{name}" ]',
                f'labels = [ labelDim = {self.classes} ; mlfFile = "ark:{labels}" ]',
            ]
            for name in names
        ]
        return _prepared(self, readers, files, wishes)


def _prepared(
    data: Speech, readers: Sequence[Sequence[str]], files: Sequence[tuple[str, str]], wishes: Wishes
) -> Prepared:
    share = 1 - (1 / wishes.every if wishes.every else 0)
    return Prepared(
        Stream("features", CONTEXT * data.dim),
        Stream("labels", data.classes, sparse=True),
        readers[0],
        readers[1] if len(readers) > 1 else (),
        samples=int(data.frames * share),
        files=files,
    )


def _states(path: Path) -> tuple[list[str], int]:
    """Return the states of a label file, in order, and how many utterances it has."""
    states: dict[str, None] = {}
    utterances = 0
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        for line in file:
            parts = line.split()
            if line.startswith('"'):
                utterances += 1
            elif len(parts) >= 3 and parts[0].isdigit():
                states[parts[2]] = None
    return sorted(states), utterances


def is_htk_list(path: Path) -> bool:
    """Whether the first lines name feature files of HTK."""
    lines = first_lines(path, 3)
    return bool(lines) and all(htk_dim(one.path)[1] for one in htk_entries(path, lines))


def is_kaldi_list(path: Path) -> bool:
    """Whether the first lines name matrices of Kaldi."""
    lines = [line for line in first_lines(path, 3) if " " in line.strip()]
    entries = kaldi_entries(path, lines)
    return bool(entries) and all(
        kaldi_dim(one.path, int(one.rest.partition("[")[0].lstrip(":") or 0)) for one in entries
    )


def is_alignment(path: Path) -> bool:
    """Whether a text has a key and numbers in each line."""
    rows = [line.split() for line in first_lines(path, 20) if line.strip()]
    return bool(rows) and all(len(row) > 1 and all(map(str.isdigit, row[1:])) for row in rows)
