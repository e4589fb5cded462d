"""Text with white space between columns: ``UCIFastReader``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cntk_core.api import DataError, Location
from cntk_tool_init.formats.columns import Column, shown_class
from cntk_tool_init.found import CLASSIFY, REGRESS, Data, Prepared, Stream, Wishes, several, some, split_names
from cntk_tool_init.places import seen_from


class Columns(Data):
    """A table with white space between columns. The label stands first or last.

    Args:
        path: the file.
        wishes: what the user says.

    Raises:
        DataError: rows differ in length, or another column has names.
    """

    title = "a table of columns"

    def __init__(self, path: Path, wishes: Wishes) -> None:
        self.path = path
        self.lines = [line for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
        self._wishes = wishes.of(len(self.lines))
        rows = [line.split() for line in self.lines]
        width = len(rows[0])
        wrong = next((number for number, row in enumerate(rows, 1) if len(row) != width), 0)
        if wrong:
            raise DataError(
                f"it has {several(len(rows[wrong - 1]), 'column')}, and the first one {width}",
                where=Location(str(path), wrong),
            )
        self.columns = [Column.of_texts(str(at), [row[at] for row in rows]) for at in range(width)]
        self.at = self._label(wishes.target)
        names = [one.name for at, one in enumerate(self.columns) if at != self.at and not one.is_number]
        if names:
            raise DataError(
                f"the columns {some(names)} have names, not numbers",
                where=Location(str(path)),
                hint="Columns count from 0. Names can be told apart in a CSV table, with commas.",
            )

    def _label(self, wanted: str) -> int:
        last = len(self.columns) - 1
        if wanted:
            if wanted not in ("0", str(last)):
                raise DataError(
                    f"the label is in column 0 or {last}, not in '{wanted}'", where=Location(str(self.path))
                )
            return int(wanted)
        named = [at for at, one in enumerate(self.columns) if not one.is_number]
        return named[0] if named and named[0] in (0, last) else 0 if self.columns[0].is_classes else last

    @property
    def y(self) -> Column:
        """The column that is learned."""
        return self.columns[self.at]

    @property
    def tasks(self) -> Sequence[str]:
        """By the label."""
        if not self.y.is_number:
            return (CLASSIFY,)
        return (CLASSIFY, REGRESS) if self.y.is_classes else (REGRESS,)

    @property
    def targets(self) -> Sequence[str]:
        """The first and the last column."""
        return [str(self.at), str(len(self.columns) - 1 if self.at == 0 else 0)]

    def seen(self) -> Sequence[str]:
        """Rows and columns."""
        return [
            f"{several(len(self.lines), 'row')}, {several(len(self.columns), 'column')}",
            f"column {self.at}: {self.y.told()}  <- what it learns",
        ]

    @property
    def writes(self) -> Sequence[str]:
        """The parts, and the names of classes."""
        names = split_names(self._wishes, ".txt") if self._splits else []
        return [*names, "classes.txt"]

    @property
    def _splits(self) -> bool:
        return self._wishes.held_out is None and bool(self._wishes.every)

    def prepare(self, folder: Path, task: str) -> Prepared:
        """Split the rows, and write the names of classes."""
        wishes = self._wishes
        paths, files = [self.path], []
        kept = len(self.lines)
        if wishes.held_out is not None:
            paths.append(wishes.held_out)
        elif self._splits:
            parts: list[list[str]] = [[], []]
            for number, line in enumerate(self.lines):
                parts[int(wishes.holds_out(number))].append(f"{line}\n")
            paths = [folder / name for name in split_names(wishes, ".txt")]
            what = ("rows to learn from", "rows that are held out")
            for path, part, text in zip(paths, parts, what, strict=True):
                path.write_text("".join(part), encoding="utf-8")
                files.append((path.name, f"{len(part):,} {text}"))
            kept = len(parts[0])
        labels = Stream("labels", 1)
        if task == CLASSIFY:
            # Labels are compared as text, so they are listed as they are written.
            raw = dict.fromkeys(line.split()[self.at] for line in self.lines)
            classes = sorted(raw, key=lambda name: (float(name), name) if self.y.is_number else (0.0, name))
            (folder / "classes.txt").write_text("".join(f"{shown_class(one)}\n" for one in classes), encoding="utf-8")
            files.append(("classes.txt", "the classes, by number"))
            labels = Stream("labels", len(classes))
        features = Stream("features", len(self.columns) - 1)
        readers = [self._reader(seen_from(folder, path), features, labels, task) for path in paths]
        mean, spread = (self.y.values.mean(), self.y.values.std()) if task == REGRESS else (0.0, 1.0)
        return Prepared(
            features,
            labels,
            readers[0],
            readers[1] if len(readers) > 1 else (),
            samples=kept,
            centre=float(mean),
            spread=float(spread) or 1.0,
            files=files,
        )

    def _reader(self, file: str, x: Stream, y: Stream, task: str) -> list[str]:
        label = (
            f'labelDim = {y.dim} ; labelType = category ; labelMappingFile = "classes.txt"'
            if task == CLASSIFY
            else "dim = 1 ; labelType = regression"
        )
        return [
            "readerType = UCIFastReader",
            f'file = "{file}"',
            f"features = [ start = {0 if self.at else 1} ; dim = {x.dim} ]",
            f"labels = [ start = {self.at} ; {label} ]",
        ]
