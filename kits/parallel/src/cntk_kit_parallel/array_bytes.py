"""Arrays as bytes that say their type and shape."""

from __future__ import annotations

import math
import re
import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_KIND = struct.Struct("<8sq")
_LENGTH = struct.Struct("<q")

_MOST_DIMENSIONS = 32

_TYPE = re.compile(rb"[<>|=][biufcV][0-9]{1,6}\0*")
"""Types of numbers; V is what NumPy makes of those that it does not know."""

HEAD_BYTES = _KIND.size + _LENGTH.size * _MOST_DIMENSIONS
"""The most that comes before the values."""


def pack(array: Array) -> bytes:
    """Return an array's type and shape, and its values."""
    shape = b"".join(_LENGTH.pack(size) for size in array.shape)
    values = memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8)) if array.size else b""  # type: ignore[arg-type]
    return b"".join((_KIND.pack(array.dtype.str.encode(), array.ndim), shape, values))


def unpack(packed: bytes | memoryview) -> Array:
    """Return the array; it may be changed. Nothing that the bytes say of themselves is believed.

    Raises:
        ValueError: they are no array; says why.
    """
    if len(packed) < _KIND.size:
        raise ValueError(f"{len(packed)} bytes are no array")
    kind, dimensions = _KIND.unpack_from(packed)
    begin = _KIND.size + _LENGTH.size * dimensions
    if not _TYPE.fullmatch(kind) or not 0 <= dimensions <= _MOST_DIMENSIONS or len(packed) < begin:
        raise ValueError(f"{len(packed)} bytes are no array of a type that is known")
    try:
        dtype = np.dtype(kind.rstrip(b"\0").decode())
    except TypeError:
        raise ValueError(f"there is no type {kind!r}") from None
    shape = [_LENGTH.unpack_from(packed, _KIND.size + _LENGTH.size * axis)[0] for axis in range(dimensions)]
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != len(packed) - begin:
        raise ValueError(f"an array of {dtype} of the shape {shape} has not {len(packed) - begin} bytes")
    if not math.prod(shape):
        return np.empty(shape, dtype)
    values = np.frombuffer(packed, dtype, offset=begin).reshape(shape)
    return values if values.flags.writeable else values.copy()
