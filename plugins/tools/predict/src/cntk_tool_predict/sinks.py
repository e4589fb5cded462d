"""Values as files: npy and npz at the end, tables batch by batch; a file is there when it is whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import DataError, Node, UsageError
from cntk_tool_predict.evaluating import Values


class Sink(Protocol):
    """Takes the values of all batches, in their order."""

    def write(self, values: Sequence[Values]) -> None:
        """Take a batch: what each node has."""

    def finish(self) -> None:
        """Make the file."""

    def discard(self) -> None:
        """Leave no file behind."""


def open_sink(path: Path, nodes: Sequence[Node], labels: Sequence[str]) -> Sink:
    """Return what writes a file by its suffix.

    Args:
        path: the file; an old one is there until the new one is whole.
        nodes: whose values come.
        labels: texts instead of whole numbers, in tables.

    Raises:
        UsageError: the suffix is not known, or the file cannot hold this.
    """
    suffix = path.suffix.lower()
    makers: Mapping[str, Callable[[], Sink]] = {
        ".npy": lambda: ArraySink(path, nodes),
        ".npz": lambda: ArraySink(path, nodes),
        ".csv": lambda: _table(path, nodes, labels),
        ".parquet": lambda: _table(path, nodes, labels),
    }
    if suffix not in makers:
        raise UsageError(f"'{path}' cannot be written: its suffix says what it is", hint=f"Known: {', '.join(makers)}")
    if suffix == ".npy" and len(nodes) != 1:
        names = ", ".join(node.name for node in nodes)
        raise UsageError(f"'{path}' holds one array, and there are {names}", hint="Write .npz, or say --node NAME.")
    if labels and suffix in (".npy", ".npz"):
        raise UsageError("--labels gives texts, which tables hold (.csv, .parquet)")
    return makers[suffix]()


def _table(path: Path, nodes: Sequence[Node], labels: Sequence[str]) -> Sink:
    return TableSink(path, nodes, labels)


class ArraySink:
    """NumPy's files: ``(frames, *shape)`` by the name of the node; of sequences also how long each is."""

    def __init__(self, path: Path, nodes: Sequence[Node]) -> None:
        self._path = path
        self._names = [node.name for node in nodes]
        self._rows: list[list[NDArray[Any]]] = [[] for _ in nodes]
        self._lengths: list[int] = []
        self._keys: list[str] = []

    def write(self, values: Sequence[Values]) -> None:
        """Keep a batch."""
        for kept, one in zip(self._rows, values, strict=True):
            kept.append(one.rows)
        self._lengths += values[0].lengths or ()
        self._keys += values[0].keys

    def finish(self) -> None:
        """Write all."""
        arrays = {name: np.concatenate(rows) for name, rows in zip(self._names, self._rows, strict=True) if rows}
        with _Whole(self._path) as part, part.open("wb") as file:
            if self._path.suffix.lower() == ".npy":
                if self._lengths:
                    raise DataError(
                        f"'{self._path}' holds an array, not sequences", hint="Write .npz, .csv or .parquet."
                    )
                np.save(file, next(iter(arrays.values())))
                return
            if self._lengths:
                arrays["lengths"] = np.array(self._lengths)
            if self._keys:
                arrays["keys"] = np.array(self._keys)
            np.savez(file, **arrays)  # type: ignore[arg-type]

    def discard(self) -> None:
        """Nothing is there yet."""


class TableSink:
    """A row for each sample: a column ``NAME``, or ``NAME[0]``, ``NAME[1]``, ... where it has several elements."""

    def __init__(self, path: Path, nodes: Sequence[Node], labels: Sequence[str]) -> None:
        from cntk_tool_predict.tables import arrow

        self._arrow = arrow()
        self._path, self._nodes, self._labels = path, nodes, labels
        self._stack = ExitStack()
        self._writer: Any = None
        self._sequences = 0

    def write(self, values: Sequence[Values]) -> None:
        """Write a batch."""
        columns: dict[str, Any] = {}
        lengths, keys = values[0].lengths, values[0].keys
        if lengths is not None:
            numbers = np.arange(self._sequences, self._sequences + len(lengths))
            columns["sequence"] = np.repeat(np.array(keys) if keys else numbers, lengths)
            self._sequences += len(lengths)
        for node, one in zip(self._nodes, values, strict=True):
            columns |= self._columns(node.name, one.rows)
        table = self._arrow.table(columns)
        if self._writer is None:
            self._writer = self._open(table.schema)
        self._writer.write_table(table)

    def _columns(self, name: str, rows: NDArray[Any]) -> dict[str, Any]:
        flat = rows.reshape(len(rows), -1)
        if self._labels:
            return {name: [self._labels[place] for place in flat[:, 0].tolist()]}
        if flat.shape[1] == 1:
            return {name: flat[:, 0]}
        return {f"{name}[{index}]": flat[:, index] for index in range(flat.shape[1])}

    def _open(self, schema: Any) -> Any:
        part = self._stack.enter_context(_Whole(self._path))
        if self._path.suffix.lower() == ".csv":
            from pyarrow.csv import CSVWriter

            return self._stack.enter_context(CSVWriter(part, schema))
        from pyarrow.parquet import ParquetWriter

        return self._stack.enter_context(ParquetWriter(part, schema))

    def finish(self) -> None:
        """End the file."""
        if self._writer is None:
            raise DataError("there is no sample, so that there is nothing to write")
        self._stack.close()

    def discard(self) -> None:
        """Remove what is there of it."""
        stop = RuntimeError()
        self._stack.__exit__(type(stop), stop, None)


@attrs.define
class _Whole:
    """A temporary name beside a file, which becomes the file when all went well."""

    path: Path

    @property
    def _part(self) -> Path:
        return self.path.with_name(f".{self.path.name}.part")

    def __enter__(self) -> Path:
        return self._part

    def __exit__(self, kind: Any, *rest: object) -> None:
        if kind is None:
            self._part.replace(self.path)
        else:
            self._part.unlink(missing_ok=True)
