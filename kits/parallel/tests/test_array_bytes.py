"""Arrays as bytes."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from cntk_kit_parallel.array_bytes import HEAD_BYTES, pack, unpack


@pytest.mark.parametrize("array", [np.arange(6.0).reshape(2, 3), np.array(3, np.int8), np.zeros((0, 4), np.float32)])
def test_an_array_comes_back(array):
    found = unpack(pack(array))
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(found, array)
    found[...] = 0  # it belongs to the receiver


def described(kind: bytes, *shape: int, values: int = 0, dimensions: int | None = None) -> bytes:
    """Bytes that say of themselves what they like."""
    head = struct.pack("<8sq", kind, len(shape) if dimensions is None else dimensions)
    return head + struct.pack(f"<{len(shape)}q", *shape) + bytes(values)


@pytest.mark.parametrize(
    ("packed", "message"),
    [
        (b"x" * 15, "15 bytes are no array"),
        (described(b"|O8", 1, values=8), "32 bytes are no array of a type that is known"),
        (described(b"<f4", dimensions=1, values=7), "23 bytes are no array of a type that is known"),
        (described(b"<f4", dimensions=-1, values=8), "24 bytes are no array of a type that is known"),
        (described(b"<f4", *[1] * 33, values=4), "284 bytes are no array of a type that is known"),
        (described(b"<f3", 1, values=3), "there is no type b'<f3\\x00\\x00\\x00\\x00\\x00'"),
        (described(b"<f4", 2, values=4), "an array of float32 of the shape [2] has not 4 bytes"),
        (described(b"<f4", -1, -1, values=4), "an array of float32 of the shape [-1, -1] has not 4 bytes"),
        (described(b"<f4", 0, values=1), "an array of float32 of the shape [0] has not 1 bytes"),
    ],
)
def test_what_is_no_array_is_refused(packed: bytes, message: str) -> None:
    with pytest.raises(ValueError, match="no") as caught:
        unpack(packed)
    assert str(caught.value) == message


def test_as_many_axes_as_numpy_had_for_long() -> None:
    array = np.arange(6.0).reshape(2, 3, *[1] * 30)
    packed = pack(array)
    assert len(packed) == HEAD_BYTES + array.nbytes
    np.testing.assert_array_equal(unpack(packed), array)


def test_an_array_lies_where_its_bytes_may_be_changed() -> None:
    packed = bytearray(pack(np.arange(3.0)))
    found = unpack(memoryview(packed))
    found[0] = 7.0
    assert unpack(bytes(packed)).tolist() == [7.0, 1.0, 2.0]
