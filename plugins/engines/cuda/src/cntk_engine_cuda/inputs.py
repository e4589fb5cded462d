"""How minibatches come to the device: through pinned memory, on a stream of their own, while the last one computes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_core.api import Input, StreamData
from cntk_core.api.engines import check_size, elements_of
from cntk_engine_cuda.gpu import Array, Gpu

ROUNDS = 2
"""Minibatches whose copies may be under way at once."""

_FIRST = 1 << 10


class _Round:
    """Storage for one array under way: pinned, and on the device."""

    def __init__(self, gpu: Gpu) -> None:
        self.host: NDArray[Any] | None = None
        self.device: Array = None
        self.arrived = gpu.event()
        self.taken = gpu.event()
        self.used = False


class Staging:
    """Sends arrays to fixed places on the device without waiting for what the device does.

    An array goes to pinned memory, from there on the transfer stream to the device, and there to its place when
    everything that reads the one before is done.

    Args:
        gpu: the device.
        dtype: of the arrays.
    """

    def __init__(self, gpu: Gpu, dtype: np.dtype[Any]) -> None:
        self._gpu = gpu
        self._dtype = dtype
        self._rounds = [_Round(gpu) for _ in range(ROUNDS)]
        self._next = 0

    def room(self, count: int) -> NDArray[Any]:
        """Return pinned storage for an array, which :meth:`go` sends: it may be filled in place."""
        current = self._rounds[self._next]
        if current.used:
            current.arrived.synchronize()
        if current.host is None or len(current.host) < count:
            size = max(count, _FIRST)
            if current.used:
                current.taken.synchronize()
            current.host = self._gpu.pinned(size, self._dtype)
            current.device = self._gpu.empty(size, self._dtype)
        return current.host[:count]

    def go(self, count: int, target: Array) -> None:
        """Send what was put into :meth:`room` to a place on the device: flat, as many elements."""
        current = self._rounds[self._next]
        self._next = (self._next + 1) % ROUNDS
        assert current.host is not None
        if not count:
            return
        gpu = self._gpu
        if current.used:
            gpu.transfer.wait_event(current.taken)
        staged = current.device[:count]
        staged.set(current.host[:count], stream=gpu.transfer)
        current.arrived.record(gpu.transfer)
        gpu.stream.wait_event(current.arrived)
        with gpu.current():
            target[:count] = staged
        current.taken.record(gpu.stream)
        current.used = True

    def send(self, array: NDArray[Any], target: Array) -> None:
        """Send a flat array."""
        np.copyto(self.room(len(array)), array)
        self.go(len(array), target)

    @property
    def nbytes(self) -> int:
        """Bytes on the device."""
        return sum(int(each.device.nbytes) for each in self._rounds if each.device is not None)


class Inlet:
    """Takes in one stream.

    Args:
        gpu: the device.
        node: the input.
        dtype: precision of the program.
    """

    def __init__(self, gpu: Gpu, node: Input, dtype: np.dtype[Any]) -> None:
        self.node = node
        self._gpu = gpu
        self._dtype = dtype
        self._count = elements_of(node)
        self._staging = Staging(gpu, dtype)
        self._place: Array = None

    @property
    def nbytes(self) -> int:
        """Bytes on the device."""
        return self._staging.nbytes + (int(self._place.nbytes) if self._place is not None else 0)

    def reserve(self, rows: int) -> None:
        """Have a place for so many frames."""
        if self._place is None or self._place.size < rows * self._count:
            self._place = self._gpu.empty(rows * self._count, self._dtype)

    def view(self, rows: int) -> Array:
        """Where frames lie on the device: ``(frames, *shape)``."""
        return self._place[: rows * self._count].reshape(rows, *self.node.known_shape)

    def take(self, stream: StreamData) -> None:
        """Send a minibatch to its place.

        Raises:
            DataError: the samples have another size than the input.
        """
        check_size(self.node, stream)
        data: Any = stream.data
        rows = data.shape[0]
        room = self._staging.room(rows * self._count).reshape(rows, self._count)
        if stream.sparse:
            data.astype(self._dtype, copy=False).toarray(out=room)
        else:
            np.copyto(room, data.reshape(rows, self._count), casting="same_kind")
        self._staging.go(rows * self._count, self._place)
