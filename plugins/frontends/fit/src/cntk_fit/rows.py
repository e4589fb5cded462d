"""Rows: data of which any can be taken. Nothing of it is copied but the minibatch that is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

Places = NDArray[Any] | slice


@attrs.frozen(eq=False)
class Classes:
    """One number of a class for each row, for an input that takes one-hot samples and is not sparse.

    Attributes:
        numbers: from 0, one for each row; or an array of them for each row, which is a sequence.
        width: how many classes there are.
        shape: of a sample.
    """

    numbers: Any
    width: int
    shape: tuple[int, ...]

    def take(self, places: Places) -> Any:
        """Return one-hot samples, or sequences of them."""
        chosen = taken(self.numbers, places)
        return [self._hot(each) for each in chosen] if isinstance(chosen, list) else self._hot(chosen)

    def _hot(self, numbers: NDArray[Any]) -> NDArray[np.float32]:
        made = np.zeros((len(numbers), self.width), np.float32)
        made[np.arange(len(numbers)), numbers] = 1.0
        return made.reshape(len(numbers), *self.shape)


@attrs.frozen(eq=False)
class Repeated:
    """A number of each row at each step of its sequence.

    Attributes:
        numbers: one for each row.
        lengths: of the sequences.
    """

    numbers: NDArray[Any]
    lengths: NDArray[np.int64]

    def take(self, places: Places) -> list[NDArray[Any]]:
        """Return a sequence for each row."""
        pairs = zip(self.numbers[places], self.lengths[places], strict=True)
        return [np.full(length, number) for number, length in pairs]


def taken(value: Any, places: Places) -> Any:
    """Return some rows of a value."""
    if isinstance(value, Classes | Repeated):
        return value.take(places)
    if isinstance(value, list):
        return value[places] if isinstance(places, slice) else [value[place] for place in places]
    return value[places]


@attrs.frozen(eq=False)
class Rows:
    """Data by input.

    Attributes:
        values: for each input arrays ``(rows, ...)``, sparse matrices, lists of sequences, or classes.
        count: how many rows there are.
        places: if these are only some of the rows, which ones.
    """

    values: Mapping[str, Any]
    count: int
    places: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return self.count if self.places is None else len(self.places)

    def take(self, places: Places) -> dict[str, Any]:
        """Return some rows, as a trainer takes them."""
        if self.places is not None:
            places = self.places[places]
        return {name: taken(value, places) for name, value in self.values.items()}

    def part(self, places: NDArray[np.int64]) -> Rows:
        """Return some of the rows, without copying them."""
        return attrs.evolve(self, places=places if self.places is None else self.places[places])

    def minibatches(self, size: int, order: NDArray[np.int64] | None = None, skip: int = 0) -> Iterator[dict[str, Any]]:
        """Yield minibatches of so many rows, the last one of what is left.

        Args:
            size: rows of a minibatch.
            order: of the rows; None is as they are.
            skip: leave so many minibatches out.
        """
        for first in range(skip * size, len(self), size):
            yield self.take(slice(first, first + size) if order is None else order[first : first + size])
