"""Arrays in which minibatches wait for XLA, used again once it has read them."""

from __future__ import annotations

import math
from collections import deque
from sys import getrefcount
from typing import Any

import numpy as np
from numpy.typing import NDArray

ALIGNMENT = 64
"""XLA on a processor reads arrays at such addresses where they lie, and copies others first."""

MOST_ARRAYS = 40
"""So many arrays are kept. XLA on a processor lets 32 calls wait."""


class Staging:
    """Arrays of one shape that are written anew for each minibatch.

    XLA reads an array some time after the call that is given it. So do others who look at it or at a part of it: all of
    them refer to it until then. An array to which nobody refers any more is given out again; its memory is in the
    processor's caches, and the system need not fill it with zeros.

    Args:
        shape: of the arrays.
        dtype: of the arrays.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._shape = shape
        self._dtype = dtype
        self._arrays = deque([aligned(shape, dtype)])

    def array(self) -> NDArray[Any]:
        """Return an array with any content, to which nobody else refers."""
        arrays = self._arrays
        # They become free in the order in which they were given out.
        if (getrefcount(arrays[0]), getrefcount(arrays[0].base)) != _BY_ITSELF:
            if len(arrays) >= MOST_ARRAYS:
                arrays.popleft()
            arrays.appendleft(aligned(self._shape, self._dtype))
        arrays.rotate(-1)
        return arrays[-1]


def aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return a new array with any content at a multiple of :data:`ALIGNMENT`."""
    size = math.prod(shape) * dtype.itemsize
    raw = np.empty(size + ALIGNMENT, np.uint8)
    first = -raw.ctypes.data % ALIGNMENT
    return raw[first : first + size].view(dtype).reshape(shape)


def _count(arrays: deque[NDArray[Any]]) -> tuple[int, int]:
    """How often the first array is referred to, and what it is a view of: its own views refer to that."""
    return getrefcount(arrays[0]), getrefcount(arrays[0].base)


_BY_ITSELF = _count(deque([aligned((1,), np.dtype(np.uint8))]))
"""References to an array that is in a queue only, with those of counting."""
