"""What tensors of a graph are while it is read.

A network leaves the samples of a minibatch out of its shapes. So a tensor has one axis more than the node that has its
value, at whatever place; the axis may also be several times as long as there are samples, as where a graph makes one
axis of samples and heads. What does not depend on the inputs is a constant, sizes of tensors included.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import Node

Array = NDArray[Any]

WHOLE = -1
"""The place of the samples' axis of a tensor that has none: one value for the whole minibatch."""


class Unreadable(Exception):
    """A node of the graph cannot be read: why. The walk over the graph says which it is."""


@attrs.frozen
class Multiple:
    """As many as there are samples, times a number."""

    factor: int = 1

    def __mul__(self, other: Any) -> Multiple:
        if isinstance(other, Multiple) or other != int(other) or other < 1:
            raise Unreadable("it computes with the number of samples")
        return Multiple(self.factor * int(other))

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Multiple:
        if isinstance(other, Multiple) or other < 1 or self.factor % int(other):
            raise Unreadable("it computes with the number of samples")
        return Multiple(self.factor // int(other))

    __truediv__ = __floordiv__

    def _refused(self, *_: Any) -> Any:
        raise Unreadable("it computes with the number of samples")

    __add__ = __radd__ = __sub__ = __rsub__ = __rfloordiv__ = __rtruediv__ = __lt__ = __gt__ = __neg__ = _refused


@attrs.frozen
class Constant:
    """A tensor that does not depend on the data; sizes of tensors are arrays of objects, some of them ``Multiple``.

    Attributes:
        array: the values. An axis for the samples, along which all are equal, has length 1.
        name: of the tensor in the file, for the names of parameters; empty for what was computed.
    """

    array: Array
    name: str = ""

    @property
    def rank(self) -> int:
        """How many axes it has."""
        return self.array.ndim


@attrs.frozen
class Tensor:
    """The value of a node.

    Attributes:
        node: has it; its shape lacks the samples.
        batch: which axis is that of the samples; :data:`WHOLE` if there is none.
        fold: that axis is so many times as long; the sample has an axis of this length at the same place then, which
            stands within the samples (the number is positive) or around them (negative).
    """

    node: Node
    batch: int = 0
    fold: int = 1

    @property
    def shape(self) -> tuple[int, ...]:
        """Of a sample."""
        return tuple(self.node.known_shape)

    @property
    def rank(self) -> int:
        """How many axes it has in the graph."""
        return len(self.shape) + (self.fold == 1 and self.batch != WHOLE)

    def sizes(self, samples: int) -> list[Any]:
        """The sizes of all axes.

        Args:
            samples: how many there are in this file; 0 if it does not say.
        """
        if self.batch == WHOLE:
            return list(self.shape)
        times = abs(self.fold)
        count: Any = samples * times if samples else Multiple(times)
        after = self.shape[self.batch + (self.fold != 1) :]
        return [*self.shape[: self.batch], count, *after]

    def around(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The sizes before the samples and after them, as if the axis were not folded."""
        split = self.batch + (self.fold < 0)
        return self.shape[:split], self.shape[split:]

    def place(self, axis: int) -> int:
        """Return which axis of a sample an axis of the tensor is; negative ones count from the end.

        Raises:
            Unreadable: it is that of the samples, or there is none.
        """
        rank = self.rank
        if not -rank <= axis < rank:
            raise Unreadable(f"its input has no axis {axis}")
        if axis % rank == self.batch:
            raise Unreadable("it works along the samples of a minibatch")
        own = [each for each in range(rank) if each != self.batch or self.fold != 1]
        return own.index(axis % rank)

    def batch_of(self, rank: int) -> int:
        """Where the samples' axis is if the tensor is combined with one of so many axes."""
        return WHOLE if self.batch == WHOLE else self.batch + rank - self.rank


Value = Constant | Tensor


def numbers(value: Value | None, what: str) -> Array:
    """Return a constant.

    Raises:
        Unreadable: it is none.
    """
    if not isinstance(value, Constant):
        raise Unreadable(f"its {what} must be constant")
    return value.array


def whole(value: Value | None, what: str) -> list[int]:
    """Return constant whole numbers.

    Raises:
        Unreadable: they are no such.
    """
    array = numbers(value, what)
    if array.size > 64 or any(isinstance(each, Multiple) for each in array.reshape(-1).tolist()):
        raise Unreadable(f"its {what} must be constant")
    return [int(each) for each in array.reshape(-1).tolist()]


def operand(inputs: Sequence[Value | None], place: int) -> Value | None:
    """Return an input of a node; None if it is left out."""
    return inputs[place] if place < len(inputs) else None


def is_zero(array: Array) -> bool:
    """Whether all elements are 0."""
    return not np.any(array)
