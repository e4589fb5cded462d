"""Memory in which minibatches wait for XLA, used again once it has read them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_engine_xla.lowering import Array

ALIGNMENT = 64
"""XLA on a processor reads arrays at such addresses where they lie, and copies others first."""

FEWEST, MOST = 2, 32
"""Minibatches that wait at the same time. JAX lets 32 calls wait on a processor."""

ENOUGH = 4_000_000
"""Bytes of waiting minibatches from which on there are no more of them than the fewest."""


class Staging:
    """Places for minibatches, one after the other.

    XLA reads a minibatch some time after the call that is given it. When all places are taken, the program waits until
    XLA has done everything; then all are free. To wait once for several minibatches costs less than to wait for each.

    Attributes:
        place: of the present minibatch.
        marks: a result of each call since all places were free.
        size: bytes of all places.
    """

    def __init__(self) -> None:
        self.place = -1
        self.marks: list[Array] = []
        self.size = 0
        self._places = 0

    def begin(self) -> None:
        """Go on to the place of another minibatch."""
        self.place += 1
        if self.place < self._places:
            return
        if self._places < FEWEST or (self._places < MOST and self.size < ENOUGH):
            self._places += 1
            return
        self.wait()
        self.marks.clear()
        self.place = 0

    def wait(self) -> None:
        """Wait until XLA has done everything."""
        for mark in self.marks:
            # One that a later call has written over: that has begun after all of it was there, and has a mark itself.
            if not mark.is_deleted():
                mark.block_until_ready()


class Stage:
    """The arrays of one input, one in each place.

    Args:
        staging: says which is the present place.
        shape: of a sample.
        dtype: of the arrays.
    """

    def __init__(self, staging: Staging, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._staging = staging
        self._shape = shape
        self._dtype = dtype
        self._arrays: dict[int, NDArray[Any]] = {}

    def array(self, rows: int) -> NDArray[Any]:
        """Return the array ``(rows, *shape)`` of the present place, with any content."""
        place = self._staging.place
        found = self._arrays.get(place)
        if found is None or len(found) != rows:
            self._staging.size -= found.nbytes if found is not None else 0
            found = self._arrays[place] = aligned((rows, *self._shape), self._dtype)
            self._staging.size += found.nbytes
        return found


def aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return a new array with any content at a multiple of :data:`ALIGNMENT`."""
    size = math.prod(shape) * dtype.itemsize
    raw = np.empty(size + ALIGNMENT, np.uint8)
    first = -raw.ctypes.data % ALIGNMENT
    return raw[first : first + size].view(dtype).reshape(shape)
