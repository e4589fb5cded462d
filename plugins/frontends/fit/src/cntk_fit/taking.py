"""From what a program has to rows or minibatches by input."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import CntkError, DataError, Input, Minibatch, Problems, did_you_mean, raise_problems
from cntk_fit.encoding import Encoding
from cntk_fit.rows import Rows
from cntk_fit.tables import TableReader, as_table
from cntk_fit.values import ValueReader, plain, rows_of

WEIGHTS = "sample_weight"
"""By this name the weights of samples stand beside the data of inputs."""


@attrs.frozen(eq=False)
class Wanted:
    """What data have to bring.

    Attributes:
        features: inputs of the first thing that is given.
        labels: inputs of the second.
        columns: of tables, by input.
        encoding: knows what the first data have shown.
    """

    features: tuple[Input, ...]
    labels: tuple[Input, ...]
    columns: Mapping[str, str | Sequence[str]]
    encoding: Encoding

    @property
    def inputs(self) -> tuple[Input, ...]:
        """All of them."""
        return self.features + self.labels


def is_stream(data: Any) -> bool:
    """Whether data come minibatch by minibatch: iterators, loaders, functions that make them."""
    if hasattr(data, "read_next_batch"):  # of Arrow
        return True
    if isinstance(data, list) and data and (isinstance(data[0], Mapping | Minibatch) or hasattr(data[0], "schema")):
        return True  # minibatches, one after the other
    if isinstance(data, np.ndarray | list | tuple | str | Path | Mapping) or hasattr(data, "to_numpy"):
        return False
    if hasattr(data, "detach") or hasattr(data, "tocsr") or hasattr(data, "__array__"):
        return False
    if hasattr(data, "with_format") and hasattr(data, "__len__"):
        return False
    return (callable(data) or hasattr(data, "__iter__")) and not hasattr(data, "schema")


def take_rows(wanted: Wanted, x: Any, y: Any = None, weights: Any = None, *, exact: bool = True) -> Rows:
    """Return data as rows.

    Args:
        wanted: what they have to bring.
        x: for the features: a mapping by name, a tuple in their order, a table, or what the only one takes. A mapping
            or a table may have labels as well.
        y: for the labels, the same; or the names of their columns in the table ``x``.
        weights: of samples; None without.
        exact: look for numbers that are not finite.

    Raises:
        Problems, DataError: all that is wrong.
    """
    problems: list[CntkError] = []
    given = _named(wanted, x, y, problems)
    values: dict[str, Any] = {}
    counts: dict[str, int] = {}
    for node in wanted.inputs:
        if node.name not in given:
            continue
        try:
            values[node.name] = ValueReader(node, wanted.encoding, exact=exact).read(given[node.name])
            counts[node.name] = rows_of(values[node.name])
        except CntkError as error:
            problems.append(error)
            with suppress(TypeError):
                counts[node.name] = rows_of(given[node.name])
    if weights is not None:
        try:
            values[WEIGHTS] = _weights(weights)
            counts[WEIGHTS] = rows_of(values[WEIGHTS])
        except DataError as error:
            problems.append(error)
    if len(set(counts.values())) > 1:
        said = ", ".join(f"'{name}' has {count}" for name, count in counts.items())
        problems.append(DataError(f"the data differ in the number of rows: {said}"))
    elif counts and not next(iter(counts.values())):
        problems.append(DataError("there are no rows"))
    raise_problems(problems)
    return Rows(values, next(iter(counts.values()), 0))


def _weights(given: Any) -> Any:
    value = plain(given)
    arrays = value if isinstance(value, list) else [value]
    if any(not isinstance(one, np.ndarray) or one.dtype.kind not in "fiub" for one in arrays):
        raise DataError("sample_weight has to be numbers, one for each row")
    if not isinstance(value, list) and value.ndim != 1:
        raise DataError(f"sample_weight has the shape {value.shape}; it has to have one number for each row")
    if any(one.size and not (np.isfinite(one).all() and one.min() >= 0) for one in arrays):
        raise DataError("sample_weight has numbers that are negative or not finite")
    return [one.astype(np.float64) for one in value] if isinstance(value, list) else value.astype(np.float64)


def _named(wanted: Wanted, x: Any, y: Any, problems: list[CntkError]) -> dict[str, Any]:
    """Return what is given for each input."""
    found: dict[str, Any] = {}
    columns = _column_names(wanted, y)
    sides: list[tuple[Any, tuple[Input, ...], tuple[Input, ...]]] = []
    if columns is not None:
        wanted = attrs.evolve(wanted, columns={**wanted.columns, **columns})
        sides.append((x, wanted.inputs, ()))
    elif y is None:
        sides.append((x, wanted.inputs, ()))
    else:
        sides += [(x, wanted.features, wanted.labels), (y, wanted.labels, ())]
    for data, inputs, others in sides:
        try:
            found.update(_side(wanted, data, inputs, others, problems))
        except CntkError as error:
            problems.extend(getattr(error, "errors", [error]))
    return found


def _column_names(wanted: Wanted, y: Any) -> dict[str, Any] | None:
    """Return the columns of the labels if names are given for them."""
    if isinstance(y, str) and len(wanted.labels) == 1 and not y.endswith(".parquet"):
        return {wanted.labels[0].name: y}
    return None


def _side(
    wanted: Wanted, data: Any, inputs: tuple[Input, ...], others: tuple[Input, ...], problems: list[CntkError]
) -> dict[str, Any]:
    table = as_table(data)
    if table is not None:
        return TableReader(table, wanted.encoding, wanted.columns).read(inputs, others=others)
    if isinstance(data, Mapping):
        return _of_mapping(data, inputs, problems)
    several = data if isinstance(data, tuple) and len(inputs) > 1 else (data,)
    if len(several) != len(inputs):
        names = ", ".join(f"'{node.name}'" for node in inputs) or "none"
        raise DataError(
            f"data are given for {len(several)} {'input' if len(several) == 1 else 'inputs'}; there are {names}",
            hint="Give a dictionary by name, a tuple in this order, or labels as the second argument.",
        )
    return {node.name: each for node, each in zip(inputs, several, strict=True)}


def _of_mapping(data: Mapping[Any, Any], inputs: Sequence[Input], problems: list[CntkError]) -> dict[str, Any]:
    given = {str(name).lower(): value for name, value in data.items()}
    problems += [
        DataError(
            f"there are no data for the input '{node.name}'{did_you_mean(node.name, [str(name) for name in data])}",
            hint=f"Given: {', '.join(map(str, data)) or 'nothing'}",
        )
        for node in inputs
        if node.name.lower() not in given
    ]
    return {node.name: given[node.name.lower()] for node in inputs if node.name.lower() in given}


class Stream:
    """Data that come minibatch by minibatch.

    Args:
        wanted: what they have to bring.
        source: an iterable of minibatches, or a function without arguments that makes one. A minibatch is what ``fit``
            takes: ``(x, y)``, ``(x, y, weights)``, a mapping, a table; or a ``Minibatch``.
        size: rows of a minibatch, where the source gives single rows.

    Attributes:
        ready: makes of the rows of a minibatch what the trainer takes.
    """

    def __init__(self, wanted: Wanted, source: Iterable[Any] | Callable[[], Iterable[Any]], size: int) -> None:
        self._wanted, self._source, self._size = wanted, source, size
        self._seen: Iterator[Any] | None = None
        self._begun = False
        self.ready: Callable[[Rows], Rows] = lambda rows: rows

    @property
    def known_length(self) -> int | None:
        """Minibatches, if that is known."""
        try:
            return len(self._source)  # type: ignore[arg-type]
        except TypeError:
            return None

    @property
    def has_weights(self) -> bool:
        """Whether the first minibatch brings weights; it is kept for whoever reads it next."""
        each = self._each()
        first = list(islice(each, 1))
        self._seen = chain(first, each)
        return any(isinstance(one, tuple | list) and len(one) == 3 for one in first)

    def minibatches(self, size: int, order: NDArray[np.int64] | None = None, skip: int = 0) -> Iterator[Any]:
        """Yield the minibatches; their size and order are the source's own.

        Raises:
            DataError: the source is at its end already, or a minibatch is not what it has to be.
        """
        for number, one in enumerate(self._each()):
            if number >= skip:
                yield self._taken(one, number)

    def _each(self) -> Iterator[Any]:
        if self._seen is not None:
            seen, self._seen = self._seen, None
            return seen
        source: Any = self._source
        if callable(source) and not hasattr(source, "__iter__"):
            return iter(source())
        if hasattr(source, "iter") and hasattr(source, "with_format"):  # rows of Hugging Face that are streamed
            return iter(source.iter(batch_size=self._size))
        if iter(source) is source and self._begun:
            raise DataError(
                "the data can be read only once, and all of them were read",
                hint="Give a function that makes the iterator, a list or a loader; or ask for one epoch.",
            )
        self._begun = True
        return iter(source)

    def _taken(self, one: Any, number: int) -> Any:
        if isinstance(one, Minibatch):
            return one
        parts = one if isinstance(one, tuple | list) and len(one) in (2, 3) else (one,)
        if not self._wanted.labels:  # a loader may bring labels that nobody asks for
            parts = parts[:1]
        try:
            return self.ready(take_rows(self._wanted, *parts, exact=False)).take(slice(None))
        except Problems as error:
            said = "; ".join(each.message for each in error.errors)
            raise DataError(f"minibatch {number + 1} of the data: {said}") from None
        except CntkError as error:
            raise DataError(f"minibatch {number + 1} of the data: {error.message}", hint=error.hint) from None
