"""Arrays as bytes that say their type and shape, so that a receiver need not know them."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_KIND = struct.Struct("<8sq")
_LENGTH = struct.Struct("<q")
_HEAD = _KIND.size + 64 * _LENGTH.size
"""NumPy's arrays have at most 64 dimensions."""


def pack(array: Array) -> Array:
    """Return the bytes of an array behind those that describe it."""
    contiguous = np.ascontiguousarray(array).reshape(array.shape)
    head = _KIND.pack(array.dtype.str.encode(), array.ndim) + b"".join(_LENGTH.pack(size) for size in array.shape)
    packed = np.empty(len(head) + contiguous.nbytes, np.uint8)
    packed[: len(head)] = np.frombuffer(head, np.uint8)
    packed[len(head) :] = contiguous.reshape(-1).view(np.uint8)
    return packed


def unpack(packed: Array) -> Array:
    """Return the array; it may be changed."""
    data = packed[:_HEAD].tobytes()
    kind, dimensions = _KIND.unpack_from(data)
    at = _KIND.size
    shape = [_LENGTH.unpack_from(data, at + _LENGTH.size * axis)[0] for axis in range(dimensions)]
    at += _LENGTH.size * dimensions
    values: Array = packed[at:].copy().view(np.dtype(kind.rstrip(b"\0").decode()))
    return values.reshape(shape)
