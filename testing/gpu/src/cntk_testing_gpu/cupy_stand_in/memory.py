"""Memory of the stand-in's devices: every array lies between guards, and freed memory waits until streams are idle."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_testing_gpu.cupy_stand_in.streams import is_idle

GUARD_BYTES = 256
"""Before and behind every array."""

_GUARD = b"\xff" * GUARD_BYTES

broken: list[str] = []
"""What was found written beside arrays when they were freed; :func:`check_guards` tells it."""

_freed: list[Any] = []


class _Block(bytearray):
    """Memory of one array. When the array goes, streams may still use it."""

    def __del__(self) -> None:
        if self[:GUARD_BYTES] != _GUARD or self[-GUARD_BYTES:] != _GUARD:
            broken.append(f"an array of {len(self) - 2 * GUARD_BYTES} bytes was written beside")
        if not is_idle():
            _freed.append(self)
        elif _freed:
            _freed.clear()


def allocate(shape: Any, dtype: Any) -> NDArray[Any]:
    """Return an array that nobody takes for zeros: of what is no number, or no index."""
    sizes = (int(shape),) if isinstance(shape, int | np.integer) else tuple(int(size) for size in shape)
    count, kind = math.prod(sizes), np.dtype(dtype)
    inside = (b"\xff" if kind.kind == "f" else b"\x00" if kind.kind == "b" else b"\x7a") * (count * kind.itemsize)
    block = _Block(_GUARD + inside + _GUARD)
    found: NDArray[Any] = np.frombuffer(block, kind, count, GUARD_BYTES).reshape(sizes)
    return found


def held(array: Any) -> NDArray[Any]:
    """Return a copy of an array in such memory."""
    found = allocate(np.shape(array), np.asarray(array).dtype)
    found[...] = array
    return found


def check_guards() -> None:
    """Make sure that nothing was written beside arrays that were freed since the last call.

    Raises:
        AssertionError: something was.
    """
    found, broken[:] = list(broken), []
    assert not found, "; ".join(found)
