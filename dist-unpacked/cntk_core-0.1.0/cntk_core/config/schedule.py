"""Values that change from epoch to epoch, such as learning rates."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Generic, NoReturn, TypeVar

import attrs

T = TypeVar("T", bound=float)


@attrs.frozen(eq=False)
class Schedule(Generic[T]):
    """A value for each epoch, counted from 0; the last one holds for ever.

    ``0.8:3.2*14:0.08`` is 0.8 in epoch 0, 3.2 in epochs 1 to 14, and 0.08 from then on.

    Attributes:
        values: The run lengths: pairs of a value and the number of epochs for which it was written. Neighbours differ.
    """

    values: tuple[tuple[T, int], ...]

    @classmethod
    def of(cls, values: Iterable[T]) -> Schedule[T]:
        """Return the schedule that takes these values, one for each epoch."""
        return cls.runs((value, 1) for value in values)

    @classmethod
    def constant(cls, value: T) -> Schedule[T]:
        """Return the schedule with this value in all epochs."""
        return cls(((value, 1),))

    @classmethod
    def runs(cls, pairs: Iterable[tuple[T, int]]) -> Schedule[T]:
        """Return the schedule of pairs (value, number of epochs); equal neighbours are put together."""
        merged = tuple((value, sum(count for _, count in group)) for value, group in groupby(pairs, key=_first))
        if not merged:
            raise ValueError("a schedule has at least one value")
        return cls(merged)

    def __getitem__(self, epoch: int) -> T:
        """Return the value of an epoch (0 is the first)."""
        if epoch < 0:
            raise IndexError("epochs count from 0")
        for value, count in self.values:
            if epoch < count:
                return value
            epoch -= count
        return self.last

    def __len__(self) -> int:
        """Return the number of epochs that the schedule names."""
        return sum(count for _, count in self.values)

    @property
    def last(self) -> T:
        """The value that holds for ever."""
        return self.values[-1][0]

    def __eq__(self, other: object) -> bool:
        """Two schedules are equal if they agree in every epoch: ``0.1`` and ``0.1*3`` are."""
        if not isinstance(other, Schedule):
            return NotImplemented
        return self._meaning() == other._meaning()

    def __hash__(self) -> int:
        return hash(self._meaning())

    def _meaning(self) -> tuple[tuple[tuple[T, int], ...], T]:
        return self.values[:-1], self.last

    def __str__(self) -> str:
        """Return the schedule as a recipe writes it."""
        return ":".join(f"{_text(value)}*{count}" if count > 1 else _text(value) for value, count in self.values)

    def __iter__(self) -> NoReturn:
        raise TypeError("a schedule has no end; use .values")


def _first(pair: tuple[T, int]) -> T:
    return pair[0]


def _text(value: float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
