"""Arrays as bytes that say their type and shape."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_KIND = struct.Struct("<8sq")
_LENGTH = struct.Struct("<q")


def pack(array: Array) -> bytes:
    """Return an array's type and shape, and its values."""
    shape = b"".join(_LENGTH.pack(size) for size in array.shape)
    return _KIND.pack(array.dtype.str.encode(), array.ndim) + shape + array.tobytes()


def unpack(packed: bytes) -> Array:
    """Return the array; it may be changed."""
    kind, dimensions = _KIND.unpack_from(packed)
    shape = [_LENGTH.unpack_from(packed, _KIND.size + _LENGTH.size * axis)[0] for axis in range(dimensions)]
    values = np.frombuffer(packed, np.dtype(kind.rstrip(b"\0").decode()), offset=_KIND.size + _LENGTH.size * dimensions)
    return values.reshape(shape).copy()
