"""Values as the bytes of a file: npy and npz at the end, tables batch by batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO, RawIOBase
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cntk_core.api import DataError, Node, UsageError
from cntk_core.api.builders import npz_chunks
from cntk_tool_predict.evaluating import Values

Batches = Iterable[Sequence[Values]]
"""For each batch, of which there is one at least, what each node has."""

_OF_SEQUENCES = ("lengths", "keys")
"""Arrays beside those of nodes."""


class Write(Protocol):
    """Makes a file of values."""

    def __call__(self, batches: Batches, path: Path, nodes: Sequence[Node], labels: Sequence[str]) -> Iterator[Any]:
        """Yield its bytes."""


def writer_of(path: Path, nodes: Sequence[Node], labels: Sequence[str]) -> Write:
    """Return what writes a file by its suffix.

    Args:
        path: the file.
        nodes: whose values come.
        labels: texts instead of whole numbers, in tables.

    Raises:
        UsageError: the suffix is not known, or the file cannot hold this.
        UnsupportedError: it is a table, and Arrow is not installed.
    """
    suffix = path.suffix.lower()
    writers: Mapping[str, Write] = {".npy": _npy, ".npz": _npz, ".csv": _table, ".parquet": _table}
    if suffix not in writers:
        raise UsageError(f"'{path}' cannot be written: its suffix says what it is", hint=f"Known: {', '.join(writers)}")
    names = [node.name for node in nodes]
    if suffix == ".npy" and len(nodes) != 1:
        raise UsageError(
            f"'{path}' holds one array, and there are {', '.join(names)}", hint="Write .npz, or say --node NAME."
        )
    if suffix == ".npz" and not set(names).isdisjoint(_OF_SEQUENCES):
        taken = " and ".join(name for name in _OF_SEQUENCES if name in names)
        raise UsageError(f"a file of arrays has other things called {taken}", hint="Write a table, or .npy.")
    if writers[suffix] is _table:
        from cntk_tool_predict.tables import arrow

        arrow()
    elif labels:
        raise UsageError("--labels gives texts, which tables hold (.csv, .parquet)")
    return writers[suffix]


def _npy(batches: Batches, path: Path, nodes: Sequence[Node], labels: Sequence[str]) -> Iterator[Any]:
    """Write one array, ``(samples, *shape)``; of sequences that are equally long ``(sequences, frames, *shape)``."""
    kept: list[NDArray[Any]] = []
    frames: set[int | None] = set()
    for (values,) in batches:
        frames |= {None} if values.lengths is None else set(values.lengths)
        if len(frames) > 1:
            raise DataError(
                f"'{path}' holds an array, not sequences of several lengths", hint="Write .npz, .csv or .parquet."
            )
        kept.append(values.rows)
    count, shape = sum(map(len, kept)), kept[0].shape[1:]
    (length,) = frames
    whole = (count, *shape) if length is None else (count // length, length, *shape)
    header = BytesIO()
    told = {"descr": np.lib.format.dtype_to_descr(kept[0].dtype), "fortran_order": False, "shape": whole}
    np.lib.format.write_array_header_1_0(header, told)
    yield header.getvalue()
    for rows in kept:
        yield np.ascontiguousarray(rows).data


def _npz(batches: Batches, path: Path, nodes: Sequence[Node], labels: Sequence[str]) -> Iterator[Any]:
    """Write ``(frames, *shape)`` by the name of the node; of sequences also how long each is, and its name."""
    kept = list(batches)
    arrays = {node.name: np.concatenate([one[place].rows for one in kept]) for place, node in enumerate(nodes)}
    lengths = [length for one in kept for length in one[0].lengths or ()]
    keys = [key for one in kept for key in one[0].keys]
    arrays |= {"lengths": np.array(lengths)} if lengths else {}
    arrays |= {"keys": np.array(keys)} if keys else {}
    yield from npz_chunks(arrays)


def _table(batches: Batches, path: Path, nodes: Sequence[Node], labels: Sequence[str]) -> Iterator[Any]:
    """Write a row for each sample: a column ``NAME``, or ``NAME[0]``, ``NAME[1]``, ... for several elements."""
    import pyarrow

    is_csv = path.suffix.lower() == ".csv"
    sink = _Pieces()
    writer: Any = None
    sequences = 0
    for values in batches:
        columns: dict[str, Any] = {}
        lengths, keys = values[0].lengths, values[0].keys
        if lengths is not None:
            numbers = np.arange(sequences, sequences + len(lengths))
            columns["sequence"] = np.repeat(np.array(keys) if keys else numbers, lengths)
            sequences += len(lengths)
        for node, one in zip(nodes, values, strict=True):
            columns |= _columns(node.name, one.rows, labels)
        table = pyarrow.table(columns)
        if writer is None:
            writer = _table_writer(sink, table.schema, is_csv=is_csv)
        writer.write_table(table)
        yield sink.take()
    writer.close()
    yield sink.take()


class _Pieces(RawIOBase):
    """A file of which what was written is taken piece by piece; it knows its place from the beginning."""

    def __init__(self) -> None:
        self._kept: list[bytes] = []
        self._place = 0

    def writable(self) -> bool:
        """Yes."""
        return True

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self._place

    def write(self, piece: Any) -> int:
        """Keep a piece until it is taken."""
        content = bytes(piece)
        self._kept.append(content)
        self._place += len(content)
        return len(content)

    def take(self) -> bytes:
        """Return what was written since the last time."""
        found = b"".join(self._kept)
        self._kept.clear()
        return found


def _table_writer(sink: _Pieces, schema: Any, *, is_csv: bool) -> Any:
    if is_csv:
        from pyarrow.csv import CSVWriter

        return CSVWriter(sink, schema)
    from pyarrow.parquet import ParquetWriter

    return ParquetWriter(sink, schema)


def _columns(name: str, rows: NDArray[Any], labels: Sequence[str]) -> dict[str, Any]:
    flat = rows.reshape(len(rows), -1)
    if labels:
        return {name: [labels[place] for place in flat[:, 0].tolist()]}
    if flat.shape[1] == 1:
        return {name: flat[:, 0]}
    return {f"{name}[{index}]": flat[:, index] for index in range(flat.shape[1])}
