"""CNTK's text format."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import attrs

from cntk_core.api import DataError, Location, did_you_mean
from cntk_tool_init.found import (
    CLASSIFY,
    LANGUAGE_MODEL,
    REGRESS,
    TAG,
    Data,
    Prepared,
    Stream,
    Wishes,
    several,
    split_names,
)
from cntk_tool_init.places import seen_from

ROW = re.compile(r"\s*(\d+\s+)?\|[A-Za-z_]")
LABEL = re.compile(r"(?i)(label|class|target|tag|next|out|y$)")
_SUFFIX = ".ctf"


@attrs.define
class Seen:
    """What was seen of a stream."""

    name: str
    width: int = 0
    sparse: bool = False
    one_hot: bool = True
    values: set[float] = attrs.Factory(set)
    count: int = 0
    longest: int = 0
    sum: float = 0.0
    squares: float = 0.0

    def add(self, text: str) -> None:
        """Look at a sample.

        Raises:
            ValueError: it has something that is no number.
        """
        parts = text.split()
        self.count += 1
        if any(":" in part for part in parts):
            self.sparse = True
            places = [part.partition(":") for part in parts]
            self.width = max(self.width, *(int(place) + 1 for place, _, _ in places))
            self.one_hot &= len(places) == 1 and float(places[0][2]) == 1
            return
        numbers = [float(part) for part in parts]
        self.width = max(self.width, len(numbers))
        if parts:
            self.one_hot &= sorted(numbers)[-2:] == [0.0, 1.0] and min(numbers) == 0
        self.sum += sum(numbers)
        self.squares += sum(number * number for number in numbers)

    @property
    def stream(self) -> Stream:
        """The stream as a reader gives it."""
        return Stream(self.name, self.width, self.sparse)


class Text(Data):
    """A file of CNTK's text format.

    Args:
        path: the file.
        wishes: what the user says.

    Raises:
        DataError: it has no two streams, or a value is no number.
    """

    title = "CNTK text"

    def __init__(self, path: Path, wishes: Wishes) -> None:
        self.path = path
        self.streams: dict[str, Seen] = {}
        self.sequences = self.rows = 0
        self._look()
        self._wishes = wishes.of(self.sequences)
        if len(self.streams) < 2:
            raise DataError(
                f"there is nothing to learn from but '{next(iter(self.streams), '')}'",
                where=Location(str(path)),
                hint="A row needs what the network is given and what it should say: |features 1 2 |labels 3:1",
            )
        self.y = self._label(wishes.target)
        self.x = max((one for one in self.streams.values() if one is not self.y), key=lambda one: one.width)

    def _look(self) -> None:
        for rows in sequences(self.path):
            self.sequences += 1
            steps: dict[str, int] = {}
            for number, line in rows:
                self.rows += 1
                for item in line.split("|")[1:]:
                    name, _, _ = item.strip().partition(" ")
                    if name.startswith("#"):
                        continue
                    name = name.partition("\t")[0]
                    self._add(name, item.strip()[len(name) :], number)
                    steps[name] = steps.get(name, 0) + 1
            for name, count in steps.items():
                self.streams[name].longest = max(self.streams[name].longest, count)

    def _add(self, name: str, values: str, number: int) -> None:
        try:
            self.streams.setdefault(name, Seen(name)).add(values)
        except ValueError:
            where = Location(str(self.path), number)
            raise DataError(
                f"the stream '{name}' has a value that is no number: {values.strip()[:60]}", where=where
            ) from None

    def _label(self, wanted: str) -> Seen:
        if wanted:
            if wanted not in self.streams:
                hint = did_you_mean(wanted, self.streams)
                raise DataError(f"there is no stream '{wanted}'{hint}", where=Location(str(self.path)))
            return self.streams[wanted]
        ranked = sorted(
            self.streams.values(), key=lambda one: (not LABEL.search(one.name), not one.one_hot, one.width, one.name)
        )
        return ranked[0]

    @property
    def sequential(self) -> bool:
        """Whether samples belong to sequences."""
        return self.x.longest > 1

    @property
    def whole(self) -> bool:
        """Whether a sequence has one label."""
        return self.sequential and self.y.longest == 1

    @property
    def tasks(self) -> Sequence[str]:
        """By the labels and the lengths of sequences."""
        if self.sequential and not self.whole:
            same = self.x.sparse and self.x.width == self.y.width
            return ((LANGUAGE_MODEL, TAG) if same else (TAG,)) if self.y.one_hot else (REGRESS,)
        return (CLASSIFY, REGRESS) if self.y.one_hot else (REGRESS,)

    @property
    def targets(self) -> Sequence[str]:
        """The streams, the one that looks like labels first."""
        return [self.y.name, *(name for name in self.streams if name != self.y.name)]

    def seen(self) -> Sequence[str]:
        """Streams, rows and sequences."""
        lines = [f"{several(self.rows, 'row')}, {several(self.sequences, 'sequence')}"]
        if self.sequential:
            lines[0] += f" of up to {self.x.longest} steps"
        for one in self.streams.values():
            kind = "sparse" if one.sparse else "dense"
            what = ", one-hot" if one.one_hot else ""
            role = {self.x.name: "  <- what the network is given", self.y.name: "  <- what it learns"}.get(one.name, "")
            lines.append(f"stream {one.name}: {several(one.width, 'value')}, {kind}{what}{role}")
        return lines

    @property
    def odd(self) -> Sequence[str]:
        """Streams that are left out, and sparse widths, which only the data tell."""
        rest = [name for name in self.streams if name not in (self.x.name, self.y.name)]
        lines = [f"not used: {', '.join(rest)}"] if rest else []
        lines += [
            f"{one.name} has {several(one.width, 'value')} because {one.width - 1} is the largest place in the file; "
            "change dim in the recipe if there are more"
            for one in (self.x, self.y)
            if one.sparse
        ]
        return lines

    @property
    def writes(self) -> Sequence[str]:
        """The two parts, where the data have to be split."""
        return split_names(self._wishes, _SUFFIX) if self._splits else ()

    @property
    def _splits(self) -> bool:
        return self._wishes.held_out is None and bool(self._wishes.every)

    def prepare(self, folder: Path, task: str) -> Prepared:
        """Split the file by sequences, if some are to be held out."""
        wishes = self._wishes
        named, files, kept = [self.path], [], self.y.count
        if wishes.held_out is not None:
            named.append(wishes.held_out)
        elif self._splits:
            names = split_names(wishes, _SUFFIX)
            counts = _split(self.path, [folder / name for name in names], wishes)
            named = [folder / name for name in names]
            kept = self.rows * counts[0] // max(1, sum(counts))
            what = ("sequences to learn from", "sequences that are held out")
            files = [(name, f"{count:,} {text}") for name, count, text in zip(names, counts, what, strict=True)]
        readers = [_reader(seen_from(folder, path), self.x.stream, self.y.stream) for path in named]
        mean, deviation = _moments(self.y)
        return Prepared(
            self.x.stream,
            self.y.stream,
            readers[0],
            readers[1] if len(readers) > 1 else (),
            samples=kept,
            sequential=self.sequential,
            whole=self.whole,
            centre=mean,
            spread=deviation,
            files=files,
        )


def _moments(seen: Seen) -> tuple[float, float]:
    """Mean and standard deviation of all values of a stream."""
    count = max(1, seen.count * seen.width)
    mean = seen.sum / count
    return mean, max(0.0, seen.squares / count - mean * mean) ** 0.5 or 1.0


def _reader(file: str, x: Stream, y: Stream) -> list[str]:
    return ctf_reader(file, (x, y))


def ctf_reader(file: str, streams: Sequence[Stream]) -> list[str]:
    """Return the lines of a reader's block for a text file."""
    width = max(len(stream.name) for stream in streams)
    return [
        "readerType = CNTKTextFormatReader",
        f'file = "{file}"',
        "input = [",
        *(
            f"    {one.name:{width}} = [ dim = {one.dim} ; format = {'sparse' if one.sparse else 'dense'} ]"
            for one in streams
        ),
        "]",
    ]


def sequences(path: Path) -> Iterator[list[tuple[int, str]]]:
    """Yield the rows of each sequence with their numbers: rows with the same id, or, without ids, each row."""

    def rows() -> Iterator[tuple[object, tuple[int, str]]]:
        with_ids: bool | None = None
        key: object = None
        with path.open(encoding="utf-8-sig", errors="replace") as file:
            for number, line in enumerate(file, 1):
                text = line.strip()
                if not text:
                    continue
                own = text.partition("|")[0].strip()
                with_ids = bool(own) if with_ids is None else with_ids
                key = number if not with_ids else own or key
                yield key, (number, text)

    for _, group in groupby(rows(), key=lambda row: row[0]):
        yield [row for _, row in group]


def _split(path: Path, targets: Sequence[Path], wishes: Wishes) -> list[int]:
    """Write each sequence into one of two files; return how many each has."""
    counts = [0, 0]
    with targets[0].open("w", encoding="utf-8") as train, targets[1].open("w", encoding="utf-8") as held_out:
        for number, rows in enumerate(sequences(path)):
            which = int(wishes.holds_out(number))
            counts[which] += 1
            (train, held_out)[which].writelines(f"{text}\n" for _, text in rows)
    return counts
