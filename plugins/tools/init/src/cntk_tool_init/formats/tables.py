"""Tables and arrays: CSV, Parquet, npz. No reader reads them, so they are written as CNTK's text format."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_core.api import DataError, Location, UnsupportedError, did_you_mean
from cntk_tool_init.formats.columns import MOST_CLASSES, Column, shown_class
from cntk_tool_init.formats.ctf import ctf_reader
from cntk_tool_init.found import CLASSIFY, REGRESS, Data, Prepared, Stream, Wishes, several, some, split_names

_TARGET = re.compile(r"(?i)^(label|labels|class|target|y|outcome|species|category)$")
_LABELS = ("y", "labels", "label", "target", "targets", "classes")
_SUFFIX = ".ctf"


class Table(Data):
    """A table: a row for each sample, one column to be learned.

    Args:
        path: the file.
        wishes: what the user says.

    Raises:
        DataError: it cannot be read, or has nothing to learn from.
    """

    takes_second = False  # it would need the same columns in the same coding

    def __init__(self, path: Path, wishes: Wishes) -> None:
        self.path = path
        self.title, self.columns = read_table(path)
        self.rows = len(self.columns[0].values) if self.columns else 0
        self._wishes = wishes.of(self.rows)
        self.y = self._chosen(wishes.target)
        self.used = [one for one in self.columns if one is not self.y and not one.why_not]
        if self.rows < 2 or not self.used:
            useless = [f"{one.name} {one.why_not}" for one in self.columns if one is not self.y and one.why_not]
            raise DataError(
                "a table to learn from needs two rows and two columns" + "".join(f"; {why}" for why in useless[:3]),
                where=Location(str(path)),
            )

    def _chosen(self, wanted: str) -> Column:
        names = [one.name for one in self.columns]
        if wanted and wanted not in names:
            raise DataError(
                f"there is no column '{wanted}'{did_you_mean(wanted, names)}", where=Location(str(self.path))
            )
        if wanted:
            return self.columns[names.index(wanted)]
        return next((one for one in self.columns if _TARGET.search(one.name)), self.columns[-1])

    @property
    def tasks(self) -> Sequence[str]:
        """By the column that is learned."""
        if not self.y.is_number:
            return (CLASSIFY,)
        whole = len(self.y.names) <= MOST_CLASSES
        return (CLASSIFY, REGRESS) if self.y.is_classes else (REGRESS, *([CLASSIFY] if whole else []))

    @property
    def targets(self) -> Sequence[str]:
        """All columns, the one that looks like labels first."""
        return [self.y.name, *(one.name for one in self.columns if one is not self.y)]

    def seen(self) -> Sequence[str]:
        """Rows and columns."""
        lines = [f"{several(self.rows, 'row')}, {several(len(self.columns), 'column')}"]
        for one in self.columns[:20]:
            lines.append(f"column {one.name}: {one.told()}{'  <- what it learns' if one is self.y else ''}")
        if len(self.columns) > 20:
            lines.append(f"... and {len(self.columns) - 20} columns more; {self.y.name}: {self.y.told()}")
        return lines

    @property
    def odd(self) -> Sequence[str]:
        """Columns that are left out, values that are missing."""
        out = [one for one in self.columns if one is not self.y and one.why_not]
        lines = [f"the column {one.name} {one.why_not}, and is left out" for one in out[:5]]
        if len(out) > 5:
            lines.append(f"{len(out) - 5} more columns are left out, which say nothing")
        filled = [one.name for one in self.used if one.missing]
        if filled:
            lines.append(f"missing numbers become the mean, missing names none: {some(filled)}")
        if self.y.missing:
            lines.append(f"left out: {several(self.y.missing, 'row')} without {self.y.name}")
        return lines

    @property
    def writes(self) -> Sequence[str]:
        """The parts, the names of columns, and of classes."""
        return [*split_names(self._wishes, _SUFFIX), "features.txt", "classes.txt"]

    def prepare(self, folder: Path, task: str) -> Prepared:
        """Write the rows as text."""
        wishes = self._wishes
        x = np.concatenate([one.numbers() for one in self.used], axis=1)
        known = ~np.isnan(self.y.values) if self.y.is_number else self.y.values != ""
        parts = [np.flatnonzero(known)]
        if wishes.every:
            out = np.array([wishes.holds_out(number) for number in range(len(parts[0]))])
            parts = [parts[0][~out], parts[0][out]]
        headings = [name for one in self.used for name in one.headings()]
        (folder / "features.txt").write_text("".join(f"{name}\n" for name in headings), encoding="utf-8")
        files = [("features.txt", "what each of the features is")]
        if task == CLASSIFY:
            classes = self.y.names
            (folder / "classes.txt").write_text("".join(f"{shown_class(one)}\n" for one in classes), encoding="utf-8")
            files.append(("classes.txt", "the classes, by number"))
            number_of = {value: number for number, value in enumerate(classes)}
            said = [f"{number_of[value]}:1" if good else "" for value, good in zip(self.y.values, known, strict=True)]
            labels = Stream("labels", len(classes), sparse=True)
        else:
            said = [f"{value:.9g}" for value in self.y.values]
            labels = Stream("labels", 1)
        return _written(folder, x, said, parts, labels, wishes, files, self.y if task == REGRESS else None)


class Arrays(Data):
    """Arrays of an npz file: one row for each sample, of numbers and of what is learned.

    Args:
        path: the file.
        wishes: what the user says.

    Raises:
        DataError: there are no two arrays that belong together.
    """

    title = "NumPy arrays (npz)"
    takes_second = False

    def __init__(self, path: Path, wishes: Wishes) -> None:
        self.path = path
        try:
            with np.load(path, allow_pickle=False) as file:
                self.arrays = {name: file[name] for name in file.files}
        except (OSError, ValueError) as error:
            raise DataError(f"the arrays cannot be read: {error}", where=Location(str(path))) from None
        self.x, self.y = self._pair("", wishes.target)
        self.second = self._second()
        self._wishes = wishes.of(len(self.arrays[self.y]))

    def _pair(self, suffix: str, wanted: str) -> tuple[str, str]:
        names = [name for name in self.arrays if self.arrays[name].ndim and name.endswith(suffix)]
        firsts = [f"{name}{end}" for end in ("", "_train", "_tr") for name in _LABELS]
        y = wanted or next((name for name in firsts if name in names), "")
        if not y:
            flat = [name for name in names if self.arrays[name].ndim == 1]
            y = flat[0] if flat else ""
        if wanted and wanted not in names:
            raise DataError(
                f"there is no array '{wanted}'{did_you_mean(wanted, names)}", where=Location(str(self.path))
            )
        rows = len(self.arrays[y]) if y else -1
        fitting = [n for n in names if n != y and len(self.arrays[n]) == rows and self.arrays[n].dtype.kind in "fiub"]
        if not fitting:
            shapes = ", ".join(f"{name} {self.arrays[name].shape}" for name in self.arrays)
            raise DataError(
                f"no two arrays belong together: {shapes}",
                where=Location(str(self.path)),
                hint="Save what is given and what is learned with as many rows: np.savez(file, x=x, y=y)",
            )
        return max(fitting, key=lambda name: self.arrays[name].size), y

    def _second(self) -> tuple[str, str] | None:
        """Names of arrays that are held out: ``x_test`` beside ``x_train``."""
        pair = tuple(name.replace("_train", "_test") for name in (self.x, self.y))
        held = pair != (self.x, self.y) and all(name in self.arrays for name in pair)
        return (pair[0], pair[1]) if held else None

    @property
    def label(self) -> Column:
        """What is learned, of all parts."""
        names = [self.y, *([self.second[1]] if self.second else [])]
        values = np.concatenate([self._classes_of(name) for name in names])
        return Column(self.y, values.astype(float) if values.dtype.kind in "fiub" else values.astype(object))

    def _classes_of(self, name: str) -> NDArray[Any]:
        """An array of labels: of one-hot rows their numbers."""
        values = self.arrays[name]
        rows: NDArray[Any] = values.reshape(len(values), -1)
        if (
            rows.shape[1] > 1
            and np.array_equal(rows.sum(axis=1), np.ones(len(rows)))
            and set(np.unique(rows)) <= {0, 1}
        ):
            return np.asarray(rows.argmax(axis=1))
        if rows.shape[1] > 1:
            raise DataError(
                f"'{name}' has {rows.shape[1]} values in a row, and is not one-hot", where=Location(str(self.path))
            )
        return np.asarray(rows[:, 0])

    @property
    def tasks(self) -> Sequence[str]:
        """By what is learned."""
        return (CLASSIFY, REGRESS) if self.label.is_classes else (REGRESS,)

    @property
    def targets(self) -> Sequence[str]:
        """The array of labels; another one is chosen by its name."""
        return [self.y, *(name for name in self.arrays if name != self.y)]

    def seen(self) -> Sequence[str]:
        """Names and shapes."""
        roles = {self.x: "  <- what the network is given", self.y: "  <- what it learns"}
        if self.second:
            roles.update({self.second[0]: "  <- held out", self.second[1]: "  <- held out"})
        lines = [
            f"array {name}: {' x '.join(map(str, array.shape)) or 'a number'}, {array.dtype}{roles.get(name, '')}"
            for name, array in self.arrays.items()
        ]
        return [*lines, f"{self.y}: {self.label.told()}"]

    @property
    def writes(self) -> Sequence[str]:
        """The parts, and the names of classes."""
        names = [f"train{_SUFFIX}", f"heldout{_SUFFIX}"] if self.second else split_names(self._wishes, _SUFFIX)
        return [*names, "classes.txt"]

    def prepare(self, folder: Path, task: str) -> Prepared:
        """Write the rows as text."""
        wishes = self._wishes
        x = self.arrays[self.x].reshape(len(self.arrays[self.x]), -1).astype(float)
        parts = [np.arange(len(x))]
        if self.second:
            more = self.arrays[self.second[0]]
            x = np.concatenate([x, more.reshape(len(more), -1).astype(float)])
            parts.append(np.arange(len(parts[0]), len(x)))
        elif wishes.every:
            out = np.array([wishes.holds_out(number) for number in range(len(x))])
            parts = [parts[0][~out], parts[0][out]]
        files: list[tuple[str, str]] = []
        label = self.label
        if task == CLASSIFY:
            classes = label.names
            (folder / "classes.txt").write_text("".join(f"{shown_class(one)}\n" for one in classes), encoding="utf-8")
            files.append(("classes.txt", "the classes, by number"))
            number_of = {value: number for number, value in enumerate(classes)}
            said = [f"{number_of[value]}:1" for value in label.values.tolist()]
            labels = Stream("labels", len(classes), sparse=True)
        else:
            said = [f"{value:.9g}" for value in label.values]
            labels = Stream("labels", 1)
        return _written(folder, x, said, parts, labels, wishes, files, label if task == REGRESS else None)


def _written(
    folder: Path,
    x: NDArray[Any],
    said: Sequence[str],
    parts: Sequence[NDArray[Any]],
    labels: Stream,
    wishes: Wishes,
    files: list[tuple[str, str]],
    numbers: Column | None,
) -> Prepared:
    """Write the text files of all parts, and return what a recipe needs of them."""
    features = Stream("features", x.shape[1])
    names = [f"train{_SUFFIX}", f"heldout{_SUFFIX}"][: len(parts)]
    written: list[tuple[str, str]] = []
    what = ("rows to learn from", "rows that are held out")
    for name, rows, text in zip(names, parts, what, strict=False):
        with (folder / name).open("w", encoding="utf-8") as file:
            for row in rows:
                file.write(f"|labels {said[row]} |features {' '.join(f'{value:.9g}' for value in x[row])}\n")
        written.append((name, f"{len(rows):,} {text}"))
    readers = [ctf_reader(name, (features, labels)) for name in names]
    learned = numbers.values[parts[0]] if numbers is not None else np.zeros(1)
    return Prepared(
        features,
        labels,
        readers[0],
        readers[1] if len(readers) > 1 else (),
        samples=len(parts[0]),
        centre=float(learned.mean()),
        spread=float(learned.std()) or 1.0,
        files=[*written, *files],
    )


def read_table(path: Path) -> tuple[str, list[Column]]:
    """Read a table; return what it is, and its columns.

    Raises:
        DataError: it cannot be read.
        UnsupportedError: Apache Arrow is not installed.
    """
    with path.open("rb") as file:
        if file.read(4) == b"PAR1":
            return "a Parquet table", _parquet(path)
    return "a CSV table", _csv(path)


def _parquet(path: Path) -> list[Column]:
    try:
        import pyarrow
        from pyarrow import types
        from pyarrow.parquet import read_table as read
    except ImportError:
        raise UnsupportedError("Parquet needs Apache Arrow", hint='pip install "cntk-tool-init[tables]"') from None
    try:
        table = read(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"the table cannot be read: {error}", where=Location(str(path))) from None
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        values = column.to_pylist()
        if types.is_integer(column.type) or types.is_floating(column.type) or types.is_boolean(column.type):
            columns.append(Column(name, np.array([np.nan if one is None else float(one) for one in values])))
        else:
            columns.append(Column(name, np.array(["" if one is None else str(one) for one in values], dtype=object)))
    return columns


def delimiter_of(lines: Sequence[str]) -> str:
    """Return what stands between the columns of a CSV file, or nothing if it is none."""
    rows = [line for line in lines if line.strip()]
    for delimiter in ",;\t":
        widths = [len(row) for row in csv.reader(rows, delimiter=delimiter)]
        # Some rows may be wrong, which is said later; in a text hardly two lines have equally many commas.
        if widths[0] > 1 and 4 * widths.count(widths[0]) >= 3 * len(widths):
            return delimiter
    return ""


def _csv(path: Path) -> list[Column]:
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        first = file.readline()
        delimiter = next((one for one in ",;\t" if one in first), ",")
        file.seek(0)
        try:
            rows = [row for row in csv.reader(file, delimiter=delimiter) if row]
        except csv.Error as error:
            raise DataError(f"the table cannot be read: {error}", where=Location(str(path))) from None
    width = len(rows[0])
    wrong = next((number for number, row in enumerate(rows, 1) if len(row) != width), 0)
    if wrong:
        raise DataError(
            f"row {wrong} has {several(len(rows[wrong - 1]), 'column')}, and the first one {width}",
            where=Location(str(path)),
            hint="A text with the delimiter in it stands between quotes.",
        )
    named = not all(map(_is_number, rows[0])) and len(set(rows[0])) == width
    names = [name.strip() or f"column{at + 1}" for at, name in enumerate(rows[0])] if named else []
    names = names or [f"column{at + 1}" for at in range(width)]
    body = rows[1:] if named else rows
    return [Column.of_texts(name, [row[at] for row in body]) for at, name in enumerate(names)] if body else []


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
