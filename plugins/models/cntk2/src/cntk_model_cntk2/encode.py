"""Dictionaries of CNTK 2 to bytes. Arrays are not copied: what is returned are pieces, to be written in turn."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any

import attrs
import numpy as np

from cntk_model_cntk2.values import Array, Axis, Float, NDShape, SizeT

_VERSION = 1
"""Of a dictionary and of a value, as CNTK 2.0 writes them."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

Pieces = list[Any]
"""Bytes and arrays."""


@attrs.frozen
class _Message:
    """Bytes in pieces, and how many they are."""

    pieces: Pieces
    size: int


def encode(values: Mapping[str, Any]) -> Iterable[Any]:
    """Return a file's bytes in pieces."""
    return _dictionary(values).pieces


def _varint(number: int) -> bytes:
    found = bytearray()
    number %= 2**64
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    found.append(number)
    return bytes(found)


def _number(field: int, number: int) -> bytes:
    return _varint(field << 3 | _VARINT) + _varint(number)


def _inside(field: int, message: _Message | bytes) -> _Message:
    """A message, or bytes, as a field of another."""
    inner = _Message([message], len(message)) if isinstance(message, bytes) else message
    head = _varint(field << 3 | _BYTES) + _varint(inner.size)
    return _Message([head, *inner.pieces], len(head) + inner.size)


def _joined(messages: Iterable[_Message | bytes]) -> _Message:
    pieces: Pieces = []
    size = 0
    for message in messages:
        if isinstance(message, bytes):
            pieces.append(message)
            size += len(message)
        else:
            pieces += message.pieces
            size += message.size
    return _Message(pieces, size)


def _dictionary(values: Mapping[str, Any]) -> _Message:
    entries = (
        _inside(2, _joined([_inside(1, key.encode()), _inside(2, _value(value))])) for key, value in values.items()
    )
    return _joined([_number(1, _VERSION), *entries])


def _value(value: Any) -> _Message:
    kind, content = _content(value)
    return _joined([_number(1, _VERSION), _number(2, kind), content])


def _content(value: Any) -> tuple[int, _Message | bytes]:
    """The number of a value's kind, and its field."""
    if value is None:
        return 0, b""
    if isinstance(value, bool):
        return 1, _number(3, value)
    if isinstance(value, SizeT):
        return 3, _number(5, value)
    if isinstance(value, int):
        return 2, _number(4, value)
    if isinstance(value, Float):
        return 4, _varint(6 << 3 | _FIXED32) + struct.pack("<f", value)
    if isinstance(value, float):
        return 5, _varint(7 << 3 | _FIXED64) + struct.pack("<d", value)
    if isinstance(value, str):
        return 6, _inside(8, value.encode())
    if isinstance(value, NDShape):
        return 7, _inside(9, _dims(value.dims))
    if isinstance(value, Axis):
        return 8, _inside(10, _number(1, value.index) + _inside_bytes(2, value.name) + _number(3, value.ordered))
    if isinstance(value, list):
        return 9, _inside(11, _joined(_inside(1, _value(each)) for each in value))
    if isinstance(value, Array):
        return 11, _inside(13, _array(value))
    return 10, _inside(12, _dictionary(value))


def _inside_bytes(field: int, text: str) -> bytes:
    return b"".join(_inside(field, text.encode()).pieces)


def _dims(dims: Iterable[int]) -> bytes:
    packed = b"".join(map(_varint, dims))
    return b"".join(_inside(1, packed).pieces) if packed else b""


def _array(array: Array) -> _Message:
    double = array.values.dtype == np.float64
    values: Any = np.ascontiguousarray(array.values, "<f8" if double else "<f4").reshape(-1)
    content = _inside(1, _Message([memoryview(values).cast("B")] if values.size else [], values.nbytes))
    shape = _inside(3, _dims(array.dims))
    return _joined([_number(1, 2 if double else 1), shape, _inside(5 if double else 4, content)])
