"""Tables: frames of pandas and polars, tables of Arrow, Parquet files, data sets of Hugging Face. Columns by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cntk_core.api import CntkError, DataError, Input, UnsupportedError, did_you_mean, elements, raise_problems
from cntk_fit.encoding import Encoding, distinct, numbers

if TYPE_CHECKING:
    import narwhals as nw


def as_table(value: Any) -> nw.DataFrame[Any] | None:
    """Return a table as all kinds of them can be read; None if it is none.

    Raises:
        DataError: it is a file that cannot be read, or several tables.
        UnsupportedError: Arrow is not installed.
    """
    if isinstance(value, str | Path):
        value = _read_parquet(Path(value))
    elif hasattr(value, "with_format") and hasattr(value, "column_names"):  # a data set of Hugging Face
        if isinstance(value, Mapping):
            raise DataError(
                f"these are several data sets: {', '.join(value)}", hint="Give one of them, such as data['train']."
            )
        if not hasattr(value, "__len__"):
            return None
        value = value.with_format("arrow")[:]
    elif hasattr(value, "to_table") and hasattr(value, "schema"):  # a data set of Arrow
        value = value.to_table()
    import narwhals as nw

    if type(value).__module__.partition(".")[0] == "pyarrow" and type(value).__name__ == "RecordBatch":
        import pyarrow as pa

        value = pa.table(value)
    return nw.from_native(value, eager_only=True) if nw.dependencies.is_into_dataframe(value) else None


def _read_parquet(path: Path) -> Any:
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise UnsupportedError(
            f"'{path}' cannot be read without Arrow", hint="pip install 'cntk-fit[tables]'"
        ) from None
    try:
        return parquet.read_table(path)
    except (OSError, ValueError) as error:
        raise DataError(f"'{path}' cannot be read as a Parquet file: {error}") from None


class TableReader:
    """Reads the columns of a table for inputs.

    An input has the columns that ``chosen`` or an earlier table says, or that of its name; of those for which there is
    none, a single one has all columns that are left.

    Args:
        table: the table.
        encoding: knows columns and names of classes, or learns them.
        chosen: columns by input.
    """

    def __init__(self, table: nw.DataFrame[Any], encoding: Encoding, chosen: Mapping[str, str | Sequence[str]]) -> None:
        self.table, self.encoding = table, encoding
        self._names = {str(name): name for name in table.columns}
        self._chosen = {
            name.lower(): (each,) if isinstance(each, str) else tuple(each) for name, each in chosen.items()
        }

    def read(self, inputs: Sequence[Input], *, others: Sequence[Input] = ()) -> dict[str, Any]:
        """Return what the inputs are given, by name.

        Args:
            inputs: those that this table has to have.
            others: whose columns are not among those that are left, if they are there.

        Raises:
            Problems, DataError: columns that are missing or cannot be learned.
        """
        problems: list[CntkError] = []
        columns = self._assign(inputs, others, problems)
        found = {}
        for node in inputs:
            try:
                if node in columns:
                    found[node.name] = self._values(node, columns[node])
            except DataError as error:
                problems.append(error)
        raise_problems(problems)
        return found

    def _assign(
        self, inputs: Sequence[Input], others: Sequence[Input], problems: list[CntkError]
    ) -> dict[Input, tuple[str, ...]]:
        by_lower = {name.lower(): name for name in self._names}
        found: dict[Input, tuple[str, ...]] = {}
        open_ones = []
        for node in inputs:
            key = node.name.lower()
            wanted = self._chosen.get(key) or self.encoding.columns.get(key)
            if wanted is None and key in by_lower:
                wanted = (by_lower[key],)
            if wanted is None:
                open_ones.append(node)
                continue
            missing = [name for name in wanted if name not in self._names]
            for name in missing:
                problems.append(
                    DataError(
                        f"the table has no column '{name}' for the input '{node.name}'"
                        f"{did_you_mean(name, self._names)}",
                        hint=f"Columns: {', '.join(self._names)}",
                    )
                )
            if not missing:
                found[node] = wanted
        used = {name for each in found.values() for name in each}
        for other in others:
            used.update(self._chosen.get(other.name.lower(), (by_lower.get(other.name.lower(), ""),)))
        rest = tuple(name for name in self._names if name not in used)
        if len(open_ones) == 1 and rest:
            found[open_ones[0]] = rest
            open_ones = []
        for node in open_ones:
            problems.append(
                DataError(
                    f"the table has no column '{node.name}', and it is not clear which columns the input has",
                    hint=f"Say so: columns={{'{node.name}': [...]}}. Columns: {', '.join(self._names)}",
                )
            )
        self.encoding.columns.update({node.name.lower(): each for node, each in found.items()})
        return found

    def _values(self, node: Input, columns: tuple[str, ...]) -> Any:
        if len(columns) == 1:
            return self._single(node, columns[0])
        parts = [self._part(name) for name in columns]
        width, wanted = sum(each.shape[1] for each in parts), elements(node.known_shape)
        if width != wanted:
            said = ", ".join(
                name if each.shape[1] == 1 else f"{name} ({each.shape[1]} classes)"
                for name, each in zip(columns, parts, strict=True)
            )
            raise DataError(
                f"the input '{node.name}' takes {wanted} numbers, and its columns give {width}: {said}",
                hint=f"Say which columns it has: columns={{'{node.name}': [...]}}.",
            )
        return np.concatenate(parts, axis=1)

    def _single(self, node: Input, name: str) -> Any:
        """A column as it is: numbers, names of classes, samples or sequences."""
        series = self.table[self._names[name]]
        self._check_there(name, series)
        values = series.to_numpy()
        return values.astype(object) if not _is_number(series) and values.dtype != object else values

    def _part(self, name: str) -> NDArray[Any]:
        """A column beside others: one number, or one for each of its classes."""
        import narwhals as nw

        series = self.table[self._names[name]]
        self._check_there(name, series)
        if _is_number(series):
            return series.to_numpy().astype(np.float32)[:, None]
        if not isinstance(series.dtype, nw.String | nw.Categorical | nw.Enum | nw.Object):
            raise DataError(
                f"the column '{name}' has values of the type {series.dtype}; numbers and classes can be learned",
                hint="Make numbers of it, or say which columns are meant with columns=.",
            )
        values = np.asarray(series.to_list(), object)
        known = self.encoding.labels.setdefault(f"column {name}", distinct(values))
        return np.eye(len(known), dtype=np.float32)[numbers(values, known, f"the column '{name}'")]

    def _check_there(self, name: str, series: nw.Series[Any]) -> None:
        bad = series.is_null()
        count = int(bad.sum())
        if count:
            raise DataError(
                f"the column '{name}' has no value in {count} of {len(series)} rows; "
                f"the first is row {int(np.flatnonzero(bad.to_numpy())[0])}",
                hint="Leave these rows out, or fill them in.",
            )


def _is_number(series: nw.Series[Any]) -> bool:
    import narwhals as nw

    return bool(series.dtype.is_numeric()) or series.dtype == nw.Boolean
