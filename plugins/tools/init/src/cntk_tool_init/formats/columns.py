"""Columns of numbers and names: what a table has, whatever file it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_tool_init.found import several, some

MISSING = {"", "na", "n/a", "nan", "null", "none", "?"}
MOST_NAMES = 50
"""A column with more different names than this is no category."""

MOST_CLASSES = 100
_FEW = 20


@attrs.frozen(eq=False)
class Column:
    """A column.

    Attributes:
        name: of the column.
        values: numbers, with ``nan`` where there is none; or an array of texts, with the empty one there.
    """

    name: str
    values: NDArray[Any]

    @classmethod
    def of_texts(cls, name: str, texts: Sequence[str]) -> Column:
        """Read a column of a text file: of numbers, if all that is there are numbers."""
        known = ["" if text.strip().lower() in MISSING else text.strip() for text in texts]
        try:
            return cls(name, np.array([float(text) if text else np.nan for text in known]))
        except ValueError:
            return cls(name, np.array(known, dtype=object))

    @property
    def is_number(self) -> bool:
        """Whether it has numbers."""
        return bool(self.values.dtype.kind in "fiub")

    @property
    def missing(self) -> int:
        """In how many rows there is none."""
        return int(np.isnan(self.values).sum()) if self.is_number else int((self.values == "").sum())

    @property
    def names(self) -> list[Any]:
        """What occurs, in order."""
        here = self.values[~np.isnan(self.values)] if self.is_number else self.values[self.values != ""]
        return sorted(set(here.tolist()))

    @property
    def is_classes(self) -> bool:
        """Whether it looks like classes: names, or few whole numbers."""
        if not self.is_number:
            return True
        found = self.names
        whole = all(float(value).is_integer() for value in found)
        return whole and 2 <= len(found) <= min(_FEW, max(2, len(self.values) // 5))

    @property
    def why_not(self) -> str:
        """Why nothing can be learned from it; empty where something can."""
        found = self.names
        if len(found) < 2:
            return "has one value"
        if not self.is_number and len(found) > MOST_NAMES:
            return f"has {len(found):,} different texts"
        if self.is_number and any(np.array_equal(self.values, np.arange(len(self.values)) + first) for first in (0, 1)):
            return "counts the rows"
        return ""

    def numbers(self) -> NDArray[Any]:
        """Return ``(rows, n)``: the numbers, the mean where there is none; or a one for each name that occurs."""
        if self.is_number:
            filled: NDArray[Any] = np.where(np.isnan(self.values), np.nanmean(self.values), self.values)
            return filled[:, None]
        ones: NDArray[Any] = self.values[:, None] == np.array(self.names, dtype=object)
        return ones.astype(float)

    def headings(self) -> list[str]:
        """Return a name for each of the numbers."""
        return [self.name] if self.is_number else [f"{self.name}={name}" for name in self.names]

    def told(self) -> str:
        """Say what it has."""
        found = self.names
        lacking = f", {several(self.missing, 'row')} without a value" if self.missing else ""
        if self.is_number:
            least, most = (f"{found[0]:g}", f"{found[-1]:g}") if found else ("?", "?")
            return f"numbers {least} to {most}, {several(len(found), 'different one')}{lacking}"
        return f"{several(len(found), 'name')}: {some(found)}{lacking}"


def shown_class(value: Any) -> str:
    """Return a class as a name: ``3`` of 3.0."""
    return f"{value:g}" if isinstance(value, float) else str(value)
