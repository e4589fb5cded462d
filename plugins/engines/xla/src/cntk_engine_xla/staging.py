"""Arrays in which minibatches wait for XLA, used again once it has read them."""

from __future__ import annotations

import math
import sys
from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

ALIGNMENT = 64
"""XLA on a processor reads arrays at such addresses where they lie, and copies others first."""

MOST_SHAPES = 8
"""So many shapes have arrays that are kept; when another comes, the oldest goes."""


MOST_ARRAYS = 40
"""So many arrays of a shape are kept. XLA on a processor lets 32 calls wait."""


class Staging:
    """Arrays of one type that are written anew for each minibatch.

    XLA reads an array some time after the call that is given it. So do others who look at it or at a part of it: all of
    them refer to it until then. An array to which nobody refers any more is given out again; its memory is in the
    processor's caches, and the system need not fill it with zeros.

    Args:
        dtype: of the arrays.
    """

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._dtype = dtype
        self._arrays: dict[tuple[int, ...], deque[NDArray[Any]]] = {}

    def array(self, shape: tuple[int, ...]) -> NDArray[Any]:
        """Return an array with any content, to which nobody else refers."""
        arrays = self._arrays.get(shape)
        if arrays is None:
            while len(self._arrays) >= MOST_SHAPES:
                del self._arrays[next(iter(self._arrays))]
            arrays = self._arrays[shape] = deque()
        # They are given back in the order in which they were given out.
        if not arrays or _references(arrays) != _BY_ITSELF:
            if len(arrays) >= MOST_ARRAYS:
                arrays.popleft()
            arrays.appendleft(aligned(shape, self._dtype))
        array = arrays[0]
        arrays.rotate(-1)
        return array


def aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return a new array with any content at a multiple of :data:`ALIGNMENT`."""
    size = math.prod(shape) * dtype.itemsize
    raw = np.empty(size + ALIGNMENT, np.uint8)
    first = -raw.ctypes.data % ALIGNMENT
    return raw[first : first + size].view(dtype).reshape(shape)


def _references(arrays: deque[NDArray[Any]]) -> tuple[int, int]:
    """How often the first array is referred to, and what it is a view of: its own views refer to that."""
    array = arrays[0]
    return sys.getrefcount(array), sys.getrefcount(array.base)


_BY_ITSELF = _references(deque([aligned((1,), np.dtype(np.uint8))]))
"""References to an array that is in a queue only, with those of the function that counts."""
