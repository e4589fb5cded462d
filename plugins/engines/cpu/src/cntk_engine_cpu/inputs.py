"""Where bound code finds a minibatch: in the reader's own arrays where they fit, in copies where they do not."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Mapping
from typing import Any, cast

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import Input, StreamData
from cntk_core.api.engines import check_size

Array = NDArray[Any]
Change = Callable[[Array, int], None]
"""Told of an input's new array and its address."""


def address_of(array: Array) -> int:
    """Address of an array's first element."""
    return int(array.__array_interface__["data"][0])


def _address_of_input(array: Array) -> int:
    """As :func:`address_of`, five times as fast, of an array in one piece that may be written to."""
    return ctypes.addressof(ctypes.c_char.from_buffer(array)) if array.size else address_of(array)  # type: ignore[arg-type]


def _with_offset(change: Callable[[Array, int, int], None], offset: int, array: Array, address: int) -> None:
    change(array, address, offset)


@attrs.define(eq=False)
class Port:
    """An input of bound code: the array that it reads now, and who has to know when another takes its place.

    Attributes:
        array: see there.
        places: where its address stands in blocks: the block, the place, bytes to add.
        changes: who else is told.
    """

    array: Array
    places: list[tuple[memoryview, int, int]] = attrs.field(factory=list)
    changes: list[Change] = attrs.field(factory=list)

    def move(self, array: Array) -> None:
        """Let the code read another array of the same shape."""
        self.array = array
        address = _address_of_input(array)
        for block, place, offset in self.places:
            block[place] = address + offset
        for change in self.changes:
            change(array, address)


class Ports:
    """The inputs of code that is bound for given numbers of frames.

    Args:
        arrays: contiguous arrays ``(frames, *shape)`` that do not overlap.
    """

    def __init__(self, arrays: Mapping[Input, Array]) -> None:
        self.ports = {node: Port(array) for node, array in arrays.items()}

    def follow(self, view: Array, change: Callable[[Array, int, int], None]) -> bool:
        """Have ``change(array, address, offset)`` called when the input that ``view`` lies in moves.

        ``offset`` is that of the view's first element, in bytes. A view of anything else never moves; the answer says
        whether it can.
        """
        port, offset = self._find(view)
        if port is not None:
            port.changes.append(functools.partial(_with_offset, change, offset))
        return port is not None

    def follow_in(self, view: Array, block: NDArray[np.int64], place: int) -> bool:
        """Have the address of ``view``, as in :meth:`follow`, written into a place of a block."""
        port, offset = self._find(view)
        if port is not None:
            port.places.append((memoryview(block), place, offset))  # type: ignore[arg-type]
        return port is not None

    def _find(self, view: Array) -> tuple[Port | None, int]:
        """The input that a view lies in, None if in none; and where in it, in bytes."""
        address = address_of(view)
        for port in self.ports.values():
            offset = address - address_of(port.array)
            if 0 <= offset < port.array.nbytes:
                return port, offset
        return None, 0

    def follow_view(self, view: Array, change: Callable[[Array], None]) -> None:
        """Have ``change`` called with the same view of the new array when the input that ``view`` lies in moves."""
        shape, dtype, strides, whole = view.shape, view.dtype, view.strides, view.flags.c_contiguous

        def moved(array: Array, _address: int, offset: int) -> None:
            if whole and view.size == array.size:
                change(array if array.shape == shape else array.reshape(shape))
            else:
                change(np.ndarray(shape, dtype, cast("Any", array), offset, strides))

        self.follow(view, moved)


class Inlet:
    """Takes in one stream.

    Args:
        node: the input.
        dtype: precision of the program.
        kept: the value is read after the run, when the reader's array may hold something else: always copy.
    """

    def __init__(self, node: Input, dtype: np.dtype[Any], *, kept: bool) -> None:
        self.node = node
        self._framed = bool(node.framed)
        self.nbytes = 0
        self._dtype = dtype
        self._kept = kept
        self._shape = node.known_shape
        self._count = int(np.prod(node.known_shape, dtype=np.int64))
        self._buffer: Array | None = None

    def take(self, stream: StreamData) -> Array:
        """Return the frames as ``(frames, *shape)``: the stream's array itself, or a copy in this object's buffer.

        An input without a dynamic axis has one frame, which is returned as ``shape``.

        Raises:
            DataError: the samples have another size than the input.
        """
        data: Any = stream.data
        if data.shape[1:] == self._shape and self._framed and self._fits(data):
            return data  # type: ignore[no-any-return]
        rows = data.shape[0]
        check_size(self.node, stream)
        if self._fits(data):
            return self._shaped(data)
        target = self._room(rows)
        if stream.sparse:
            data.astype(self._dtype, copy=False).toarray(out=target)
        else:
            np.copyto(target, data.reshape(rows, -1) if rows else target, casting="same_kind")
        return self._shaped(target)

    def _fits(self, data: Any) -> bool:
        if self._kept or not isinstance(data, np.ndarray) or data.dtype != self._dtype:
            return False
        # Compiled kernels take writeable arrays alone, though they do not write to inputs.
        return data.flags.carray

    def _shaped(self, data: Array) -> Array:
        return data.reshape(data.shape[0], *self._shape) if self._framed else data.reshape(self._shape)

    def _room(self, rows: int) -> Array:
        if self._buffer is None or self._buffer.shape[0] < rows:
            self._buffer = np.empty((rows, self._count), self._dtype)
            self.nbytes = self._buffer.nbytes
        return self._buffer[:rows]


def apart(arrays: Mapping[Input, Array]) -> dict[Input, Array]:
    """Copy arrays that lie in the same memory as one before: :class:`Ports` could not tell them apart."""
    found: dict[Input, Array] = {}
    for node, array in arrays.items():
        shared = any(np.may_share_memory(array, other) for other in found.values())
        found[node] = array.copy() if shared else array
    return found
