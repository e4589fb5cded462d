"""What is learned of the data before training: names of classes, and which columns of a table an input has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import DataError, Input


@attrs.define(eq=False)
class Encoding:
    """How names become numbers. What the first data show is kept for all that come after.

    Attributes:
        labels: for inputs (in lower case) and columns, the names of the classes in the order of their numbers.
        columns: for each input (in lower case), its columns of a table.
    """

    labels: dict[str, list[Any]] = attrs.field(factory=dict)
    columns: dict[str, tuple[str, ...]] = attrs.field(factory=dict)

    def copy(self) -> Self:
        """Return another one that knows the same."""
        return type(self)(dict(self.labels), dict(self.columns))

    def classes_of(self, node: Input, values: NDArray[Any], width: int) -> list[Any]:
        """Return the names of an input's classes; the first time those of the values, sorted.

        Raises:
            DataError: there are more names than classes.
        """
        key = node.name.lower()
        if key not in self.labels:
            found = distinct(values)
            if len(found) > width:
                raise DataError(f"the input '{node.name}' has {width} classes, and is given {len(found)} names")
            self.labels[key] = found
        return self.labels[key]

    def numbers_of(self, node: Input, values: NDArray[Any], known: Sequence[Any]) -> NDArray[np.int64]:
        """Return the numbers of names.

        Raises:
            DataError: some are not known.
        """
        return numbers(values, known, f"the input '{node.name}'")

    def entries(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return {"labels": self.labels, "columns": {name: list(each) for name, each in self.columns.items()}}

    @classmethod
    def of(cls, entries: Mapping[str, Any]) -> Self:
        """Make it again of its :meth:`entries`."""
        columns = {name: tuple(each) for name, each in entries["columns"].items()}
        return cls(dict(entries["labels"]), columns)


def distinct(values: NDArray[Any]) -> list[Any]:
    """Return different values, sorted; those that cannot be compared by what they are called."""
    found = set(values.tolist())
    try:
        return sorted(found)
    except TypeError:
        return sorted(found, key=str)


def numbers(values: NDArray[Any], known: Sequence[Any], what: str) -> NDArray[np.int64]:
    """Return the places of values among those that are known.

    Raises:
        DataError: some are not.
    """
    places = {name: place for place, name in enumerate(known)}
    strange = [name for name in dict.fromkeys(values.tolist()) if name not in places]
    if strange:
        shown = ", ".join(repr(name) for name in strange[:5]) + (", ..." if len(strange) > 5 else "")
        raise DataError(
            f"{what} has classes that the first data did not have: {shown}",
            hint=f"Known are {', '.join(repr(name) for name in known[:20])}{', ...' if len(known) > 20 else ''}.",
        )
    return np.fromiter((places[name] for name in values.tolist()), np.int64, len(values))
