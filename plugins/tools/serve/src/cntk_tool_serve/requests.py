"""What requests say: JSON or Arrow, as arrays for the inputs of a model."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cntk_core.api import DataError, Input, elements, show
from cntk_tool_serve.batching import Inputs, Outputs, as_lists

ARROW = "application/vnd.apache.arrow.stream"


def inputs_of(content: Any, nodes: Sequence[Input]) -> tuple[Inputs, int]:
    """Return the inputs of a request in JSON, and how many samples or sequences each has.

    Args:
        content: ``{"inputs": {name: values}}``, ``{name: values}``, or the values of the only input. Values are samples
            (lists as deep as the shape, in a list) or sequences of samples (one deeper); of a sparse input also
            sequences of whole numbers, each the place of a 1; of an input without samples its only value.
        nodes: the inputs that are needed.

    Raises:
        DataError: something does not fit; says all that does not.
    """
    if isinstance(content, dict):
        given = content.get("inputs", content)
    else:
        given = {nodes[0].name: content} if len(nodes) == 1 else content
    if not isinstance(given, dict):
        raise DataError("the inputs are no object of names and values", hint=_wanted(nodes))
    known = {name.lower(): value for name, value in given.items()}
    missing = [node.name for node in nodes if node.name.lower() not in known]
    if missing:
        raise DataError(f"there are no values for {', '.join(missing)}", hint=_wanted(nodes))
    found = {node.name: _values(node, known[node.name.lower()]) for node in nodes}
    counts = {node.name: len(found[node.name]) for node in nodes if node.framed}
    if len(set(counts.values())) > 1:
        said = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise DataError(f"the inputs have different numbers of samples: {said}")
    return found, next(iter(counts.values()), 1)


def _values(node: Input, value: Any) -> Any:
    rank, shape = len(node.known_shape), show(node.known_shape)
    depth = _depth(value)
    wrong = DataError(
        f"the values of '{node.name}' are no list of samples {shape}, nor of sequences of them"
        if node.framed
        else f"the value of '{node.name}' is not {shape}"
    )
    try:
        if not node.framed and depth == rank:
            return _array(value, node)
        if node.framed and depth == rank + 1 and not _are_places(value, node):
            return _array(value, node)
        if node.framed and (depth == rank + 2 or _are_places(value, node)):
            if not all(isinstance(sequence, list) and sequence for sequence in value):
                raise wrong
            if _are_places(value, node):
                return [[_place(number, node) for number in sequence] for sequence in value]
            return [_array(sequence, node) for sequence in value]
    except (ValueError, TypeError, OverflowError):
        raise wrong from None
    raise wrong


def _are_places(value: Any, node: Input) -> bool:
    """Whether these are sequences of places in a sparse input. Rows as long as a sample are samples."""
    if not node.sparse or _depth(value) != 2:
        return False
    return not all(isinstance(row, list) and len(row) == elements(node.known_shape) for row in value)


def _depth(value: Any) -> int:
    depth = 0
    while isinstance(value, list) and value:
        depth += 1
        value = value[0]
    return depth


def _array(value: Any, node: Input) -> Any:
    """Lists as an array; whether its samples fit the model says."""
    array = np.array(value, dtype=np.float64)  # raises ValueError where lists have different lengths
    if not np.isfinite(array).all():
        raise DataError(f"'{node.name}' has values that are no finite numbers")
    return array


def _place(number: Any, node: Input) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < elements(node.known_shape):
        size = elements(node.known_shape)
        raise DataError(f"{json.dumps(number)} is no place in '{node.name}', which has 0 to {size - 1}")
    return number


def _wanted(nodes: Sequence[Input]) -> str:
    return "The inputs are " + (", ".join(f"{node.name} {show(node.known_shape)}" for node in nodes) or "none") + "."


def parse_json(body: bytes) -> Any:
    """Read JSON; numbers that JSON has not (NaN, Infinity) are refused.

    Raises:
        DataError: it is none.
    """

    def refuse(word: str) -> Any:
        raise DataError(f"{word} is no number of JSON")

    try:
        return json.loads(body, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise DataError(f"the request is no JSON: {error}") from None


def json_of(outputs: Outputs) -> bytes:
    """Return the answer as JSON. What is no finite number is null."""
    lists = {name: as_lists(value) for name, value in outputs.items()}
    try:
        return json.dumps({"outputs": lists}, allow_nan=False).encode()
    except ValueError:
        return json.dumps({"outputs": _finite(lists)}).encode()


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return value if not isinstance(value, float) or math.isfinite(value) else None


# -- Arrow -----------------------------------------------------------------------------------------------------------


def parse_arrow(body: bytes, nodes: Sequence[Input]) -> Any:
    """Read a stream of Arrow: for each input a column of numbers, or of lists of them, a row for each sample.

    Raises:
        DataError: it is none, or Arrow is not installed.
    """
    pyarrow = _arrow()
    try:
        with pyarrow.ipc.open_stream(body) as reader:
            columns = {name.lower(): column.to_pylist() for name, column in _columns(reader.read_all())}
        return {node.name: _samples(columns[node.name.lower()], node) for node in nodes if node.name.lower() in columns}
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"the request is no stream of Arrow: {error}") from None


def _columns(table: Any) -> Any:
    return zip(table.column_names, table.columns, strict=True)


def _samples(rows: Sequence[Any], node: Input) -> Any:
    """Rows of numbers as samples of the input's shape; all else as it is."""
    if not all(isinstance(row, float | int) or (isinstance(row, list) and _depth([row]) == 2) for row in rows):
        return rows
    flat = [row if isinstance(row, list) else [row] for row in rows]
    if any(len(row) != elements(node.known_shape) for row in flat):
        return flat
    return np.array(flat, dtype=np.float64).reshape(len(flat), *node.known_shape).tolist()


def arrow_of(outputs: Outputs) -> bytes:
    """Return the answer as a stream of Arrow: a column of lists for each node."""
    pyarrow = _arrow()
    columns = {}
    for name, value in outputs.items():
        flat = as_lists(value) if isinstance(value, list) else value.reshape(len(np.atleast_1d(value)), -1).tolist()
        columns[name] = pyarrow.array(flat)
    table = pyarrow.table(columns)
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.ipc
    except ImportError:
        raise DataError("this server has no Arrow", hint='pip install "cntk-tool-serve[arrow]"') from None
    return pyarrow
