"""Memory through which arrays of the processor go to the GPU and come back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_parallel_nccl.link import Place

Array = NDArray[Any]

ALIGNMENT = 256
"""Each array begins at a multiple of so many bytes, as memory that CUDA gives does."""


class Staging:
    """A piece of pinned memory, and one as large on the GPU. Both grow as needed.

    Args:
        cupy: the module.
        stream: on which copies are made.
    """

    def __init__(self, cupy: Any, stream: Any) -> None:
        self._cupy, self._stream = cupy, stream
        self._pinned: Array = np.empty(0, np.uint8)
        self._device: Any = None

    def make_room(self, sizes: Sequence[int]) -> list[Place]:
        """Return places on the GPU for arrays of so many bytes. What was there before is lost."""
        starts, end = [], 0
        for size in sizes:
            starts.append(end)
            end += -(-size // ALIGNMENT) * ALIGNMENT
        if end > self._pinned.size:
            self._device = None
            self._pinned = np.frombuffer(self._cupy.cuda.alloc_pinned_memory(end), np.uint8, end)
            self._device = self._cupy.empty(end, np.uint8)
        first = self._device.data.ptr if self._device is not None else 0
        return [Place(first + start, size) for start, size in zip(starts, sizes, strict=True)]

    def up(self, place: Place, array: Array) -> None:
        """Begin to copy an array to the GPU; it may be changed at once."""
        pinned = self._pinned_of(place)
        pinned[...] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        runtime = self._cupy.cuda.runtime
        kind = runtime.memcpyHostToDevice
        runtime.memcpyAsync(place.pointer, pinned.ctypes.data, place.size, kind, self._stream.ptr)

    def down(self, place: Place) -> None:
        """Begin to copy what is on the GPU back."""
        runtime = self._cupy.cuda.runtime
        kind = runtime.memcpyDeviceToHost
        runtime.memcpyAsync(self._pinned_of(place).ctypes.data, place.pointer, place.size, kind, self._stream.ptr)

    def array(self, place: Place, dtype: Any, shape: Sequence[int]) -> Array:
        """Return what came back, when it has: a view that lasts until there is new room."""
        found: Array = self._pinned_of(place).view(dtype).reshape(shape)
        return found

    def on_device(self, place: Place, dtype: Any) -> Any:
        """Return a place as an array of CuPy with one axis."""
        start = place.pointer - self._device.data.ptr
        return self._device[start : start + place.size].view(dtype)

    def _pinned_of(self, place: Place) -> Array:
        start = place.pointer - self._device.data.ptr
        return self._pinned[start : start + place.size]
