"""Tables, CSV and Parquet: columns as inputs, and values as columns. By Apache Arrow."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cntk_core.api import DataError, Input, Location, UnsupportedError, did_you_mean, elements, show
from cntk_tool_predict.evaluating import Batch
from cntk_tool_predict.sources import Source, Wanted

_LONGEST_LINE = 1 << 24

if TYPE_CHECKING:
    from pyarrow import RecordBatch, Schema


def arrow() -> Any:
    """Return the library.

    Raises:
        UnsupportedError: it is not installed.
    """
    try:
        import pyarrow
    except ImportError:
        raise UnsupportedError(
            "tables (.csv, .parquet) need Apache Arrow", hint='pip install "cntk-tool-predict[tables]"'
        ) from None
    return pyarrow


def open_table(path: Path, wanted: Wanted) -> Source:
    """Open a table, which has a row for each sample.

    Raises:
        UnsupportedError: Arrow is not installed.
        DataError: it cannot be read, or has not the columns of the inputs.
    """
    pyarrow = arrow()
    try:
        source = _open_parquet(path, wanted) if path.suffix.lower() == ".parquet" else _open_csv(path, wanted)
    except pyarrow.ArrowException as error:
        raise DataError(str(error), where=Location(str(path))) from None
    return source


def _open_parquet(path: Path, wanted: Wanted) -> Source:
    from pyarrow.parquet import ParquetFile

    file = ParquetFile(path)
    picked = _picked(file.schema_arrow, path, wanted)
    names = sorted({name for columns in picked.values() for name in columns})
    records = file.iter_batches(batch_size=wanted.batch, columns=names)
    return Source(_batches(records, picked, path, wanted), file.metadata.num_rows)


def _open_csv(path: Path, wanted: Wanted) -> Source:
    from pyarrow.csv import ConvertOptions, ParseOptions, ReadOptions, open_csv

    delimiter, names = _first_line(path)
    settings = {"parse_options": ParseOptions(delimiter=delimiter), "read_options": ReadOptions(column_names=names)}
    with open_csv(path, **settings) as file:
        schema = file.schema
    picked = _picked(schema, path, wanted)
    # The first lines do not tell whether whole numbers go on.
    used = {name for columns in picked.values() for name in columns}
    types = {field.name: "float64" for field in schema if field.name in used and str(field.type) == "int64"}
    convert = ConvertOptions(column_types=types, include_columns=sorted(used))
    file = open_csv(path, **settings, convert_options=convert)
    cut = (record.slice(first, wanted.batch) for record in file for first in range(0, record.num_rows, wanted.batch))
    return Source(_batches(cut, picked, path, wanted))


def _first_line(path: Path) -> tuple[str, list[str] | None]:
    """Return what stands between columns, and names for them if the first line has numbers instead.

    Numbers from 0 or from 1 on are names, as pandas writes them.
    """
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        line = file.readline(_LONGEST_LINE)
    delimiter = next((one for one in ",;\t" if one in line), ",")
    fields = next(csv.reader([line], delimiter=delimiter), [])
    counted = ([str(index + first) for index in range(len(fields))] for first in (0, 1))
    if not fields or not all(map(_reads_as_number, fields)) or fields in counted:
        return delimiter, None
    return delimiter, [str(index + 1) for index in range(len(fields))]


def _reads_as_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _batches(
    records: Iterator[RecordBatch], picked: dict[Input, list[str]], path: Path, wanted: Wanted
) -> Iterator[Batch]:
    pyarrow = arrow()
    first = 1
    try:
        for record in records:
            yield {node.name: _values(record, node, names, path, first, wanted) for node, names in picked.items()}
            first += record.num_rows
    except pyarrow.ArrowException as error:
        raise DataError(str(error), where=Location(str(path))) from None


def _picked(schema: Schema, path: Path, wanted: Wanted) -> dict[Input, list[str]]:
    """Return the columns of each input.

    Those that are asked for; or the one of its name, or those called ``NAME[0]``, ``NAME[1]``, ...; or, where there is
    one input, all columns of numbers, if there are as many as it has elements.
    """
    where = Location(str(path))
    asked = {name.lower(): list(columns) for name, columns in wanted.columns.items()}
    unknown = set(asked) - {node.name.lower() for node in wanted.inputs}
    if unknown:
        raise DataError(f"--columns: there is no input '{min(unknown)}'", where=where)
    picked: dict[Input, list[str]] = {}
    for node in wanted.inputs:
        names = asked.get(node.name.lower()) or _by_name(schema, node) or _all(schema, node, wanted)
        missing = [name for name in names if name not in schema.names]
        if missing:
            raise DataError(f"there is no column '{missing[0]}'{did_you_mean(missing[0], schema.names)}", where=where)
        if not names:
            count = elements(node.known_shape)
            raise DataError(
                f"no columns are called as the input '{node.name}' of {count} element{'' if count == 1 else 's'}",
                where=where,
                hint=f"Say --columns {node.name}=A,B,C. The columns are {', '.join(schema.names)}.",
            )
        picked[node] = names
    return picked


def _by_name(schema: Schema, node: Input) -> list[str]:
    if node.name in schema.names:
        return [node.name]
    numbered = [f"{node.name}[{index}]" for index in range(elements(node.known_shape))]
    return numbered if numbered[0] in schema.names else []


def _all(schema: Schema, node: Input, wanted: Wanted) -> list[str]:
    names = [field.name for field in schema if _is_number(field.type)]
    return names if len(wanted.inputs) == 1 and len(names) == elements(node.known_shape) else []


def _is_number(kind: Any) -> bool:
    """Whether a column has numbers, or nothing that says what it has."""
    from pyarrow import types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_null(kind))


def _is_list(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _values(record: RecordBatch, node: Input, names: Sequence[str], path: Path, first: int, wanted: Wanted) -> Any:
    """Return what a batch has for an input: samples, or sequences where it wants them."""
    column = record.column(names[0])
    if len(names) == 1 and _is_list(column.type) and (node.sparse or node.name in wanted.sequences):
        return [_sequence(value, node, names[0], path, row) for row, value in enumerate(column.to_pylist(), first)]
    return _array(record, node, names, path, first)


def _sequence(value: Any, node: Input, name: str, path: Path, row: int) -> NDArray[Any]:
    """Return a list as a sequence: of samples, or of whole numbers that are places of ones."""
    shape, size = node.known_shape, elements(node.known_shape)
    try:
        array = np.array(value)
    except ValueError:  # lists of several lengths
        array = np.array(None)
    if not array.size and array.ndim:
        return np.zeros((0, *shape))
    if node.sparse and array.ndim == 1 and array.dtype.kind in "iu":
        return array
    if array.dtype.kind not in "fiub" or not ((array.ndim == 2 and array.shape[1] == size) or array.ndim == size == 1):
        raise DataError(f"the column '{name}' has no sequence of {show(shape)} in row {row}", where=Location(str(path)))
    return array.reshape(-1, *shape)


def _array(record: RecordBatch, node: Input, names: Sequence[str], path: Path, first: int) -> NDArray[Any]:
    """Return ``(rows, *shape)``: of columns side by side, or of one column of lists."""
    parts = [_numbers(record.column(name), name, path, first) for name in names]
    rows = np.concatenate(parts, axis=1)
    count = elements(node.known_shape)
    if rows.shape[1] != count:
        raise DataError(
            f"the columns {', '.join(names)} have {rows.shape[1]} numbers, the input '{node.name}' needs {count}",
            where=Location(str(path)),
        )
    return rows.reshape(len(rows), *node.known_shape)


def _numbers(column: Any, name: str, path: Path, first: int) -> NDArray[Any]:
    """Return a column as ``(rows, numbers)``."""
    where = Location(str(path))
    is_list = _is_list(column.type)
    inner = column.type.value_type if is_list else column.type
    if not _is_number(inner):
        raise DataError(f"the column '{name}' has values of type {column.type}, no numbers", where=where)
    flat = column.flatten() if is_list else column
    if column.null_count or flat.null_count:
        row = next(index for index, value in enumerate(column) if not value.is_valid or None in _listed(value.as_py()))
        raise DataError(f"the column '{name}' has no value in row {first + row}", where=where)
    if is_list and len({len(value) for value in column}) > 1:
        raise DataError(f"the lists of the column '{name}' have different lengths", where=where)
    values: NDArray[Any] = flat.to_numpy(zero_copy_only=False).astype(np.float64)
    return values.reshape(len(column), -1)


def _listed(value: Any) -> Any:
    return value if isinstance(value, list) else (value,)
