"""What ranks tell each other before arrays travel: types and shapes, and small arrays themselves."""

from __future__ import annotations

import json
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@attrs.frozen(eq=False)
class Head:
    """An array that one rank has for another.

    Attributes:
        dtype, shape: of the array.
        bytes: the array, if it is small enough to come with this; else None.
        some_large: the rank has arrays for others that do not, so that all ranks go on to NCCL.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    bytes: bytes | None
    some_large: bool

    @classmethod
    def of(cls, array: Any, *, comes_along: bool, some_large: bool) -> Head:
        """Describe an array; one of a GPU comes along only if it is empty."""
        dtype, shape = np.dtype(array.dtype), tuple(array.shape)
        return cls(dtype, shape, (b"" if not array.nbytes else array.tobytes()) if comes_along else None, some_large)

    @property
    def size(self) -> int:
        """Bytes of the array."""
        return int(self.dtype.itemsize * np.prod(self.shape, dtype=np.int64))

    def array(self) -> Array:
        """Return the array that came along; it may be changed."""
        assert self.bytes is not None
        return np.frombuffer(self.bytes, self.dtype).reshape(self.shape).copy()

    def packed(self) -> Array:
        """Return it as bytes."""
        line = json.dumps([self.dtype.str, self.shape, self.bytes is not None, self.some_large])
        return np.frombuffer(line.encode() + b"\n" + (self.bytes or b""), np.uint8)

    @classmethod
    def unpack(cls, packed: Array) -> Head:
        """Take apart what :meth:`packed` made."""
        line, _, rest = packed.tobytes().partition(b"\n")
        dtype, shape, comes_along, some_large = json.loads(line)
        return cls(np.dtype(dtype), tuple(shape), rest if comes_along else None, some_large)
