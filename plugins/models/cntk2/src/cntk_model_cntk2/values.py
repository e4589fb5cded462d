"""What a dictionary of CNTK 2 can hold beside truth values, numbers, texts, lists and dictionaries."""

from __future__ import annotations

from typing import Any

import attrs
from numpy.typing import NDArray

INFERRED, FREE, UNKNOWN = -1, -3, -2
"""Dimensions that are no sizes: to be found out; brought by each minibatch; a shape of which nothing is known."""

NOT_STATIC = 2**31 - 1
ALL_STATIC = NOT_STATIC - 1
ALL = NOT_STATIC - 4
"""Indices of axes that are no static axis."""

SEQUENCE_AXIS, BATCH_AXIS = "defaultDynamicAxis", "defaultBatchAxis"

FLOATS = {4: "<f4", 5: "<f8"}
"""Field of an array to the type of its numbers."""


class SizeT(int):
    """An unsigned number of 8 bytes; other whole numbers have 4."""


class Float(float):
    """A number in single precision; others are in double."""


@attrs.frozen
class NDShape:
    """Dimensions in CNTK's order."""

    dims: tuple[int, ...]


@attrs.frozen
class Axis:
    """An axis.

    Attributes:
        index: of a static axis, from 0, in CNTK's order; negative ones count from the end.
        name: of a dynamic axis.
        ordered: it is one along which there are steps.
    """

    index: int
    name: str
    ordered: bool

    @property
    def is_static(self) -> bool:
        """Whether it is one axis of a sample."""
        return abs(self.index) < ALL


@attrs.frozen(eq=False)
class Array:
    """Numbers: dimensions in CNTK's order, and the values with the first dimension fastest."""

    dims: tuple[int, ...]
    values: NDArray[Any]
