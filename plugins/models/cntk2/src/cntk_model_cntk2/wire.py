"""The dictionaries of CNTK 2 as bytes: a few Protobuf messages, each checked against the end of what it lies in.

The messages are ``Dictionary``, ``DictionaryValue``, ``Vector``, ``NDShape``, ``Axis`` and ``NDArrayView``. Arrays
are not copied: they are views of the file's content. How many values a file may have depends on its size, so that what
is read needs little more memory than the file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import attrs
import numpy as np

from cntk_core.api import ModelFormatError
from cntk_model_cntk2.values import FLOATS, Array, Axis, Float, NDShape, SizeT

DEEPEST = 32
"""So many dictionaries and vectors may lie inside each other; the original's files have seven."""

FREE_VALUES = 20_000
"""So many values may any file have, and one more for each of :data:`BYTES_A_VALUE` bytes."""

BYTES_A_VALUE = 16

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_ALL = 2**64
_HALF = 2**63
_LONGEST_VARINT = 10
_NONE, _BOOL, _INT, _SIZE, _FLOAT, _DOUBLE, _STRING, _SHAPE, _AXIS, _VECTOR, _DICTIONARY, _ARRAY = range(12)


@attrs.frozen
class Field:
    """One field of a message: its number, how it is written, and its number or the place of its bytes."""

    number: int
    kind: int
    begin: int
    end: int
    value: int = 0


class Decoder:
    """Reads the content of a file.

    Args:
        content: all of it.
        path: its name, for messages.

    Every method raises ModelFormatError where the file ends too early or makes no sense.
    """

    def __init__(self, content: bytes, path: Path) -> None:
        self.content = content
        self.path = path
        self.left = FREE_VALUES + len(content) // BYTES_A_VALUE

    def fail(self, message: str, at: int) -> NoReturn:
        """Raise ModelFormatError for a byte."""
        raise ModelFormatError(f"'{self.path}' is damaged at byte {at}: {message}")

    def file(self) -> dict[str, Any]:
        """Return the dictionary that the file is."""
        return self._dictionary(0, len(self.content), 0)

    # -- messages -----------------------------------------------------------------------------------------

    def _varint(self, at: int, end: int) -> tuple[int, int]:
        found, begin = 0, at
        while True:
            if at >= end:
                self.fail("it ends inside a number", begin)
            if at - begin == _LONGEST_VARINT:
                self.fail("a number has more than ten bytes", begin)
            byte = self.content[at]
            found |= (byte & 127) << (7 * (at - begin))
            at += 1
            if byte < 128:
                return found % _ALL, at

    def _fields(self, at: int, end: int) -> Iterator[Field]:
        while at < end:
            begin = at
            key, at = self._varint(at, end)
            number, kind, value, size = key >> 3, key & 7, 0, 0
            if kind == VARINT:
                value, at = self._varint(at, end)
            elif kind == BYTES:
                size, at = self._varint(at, end)
            elif kind in (FIXED64, FIXED32):
                size = 8 if kind == FIXED64 else 4
            else:
                self.fail(f"a field is written in the unknown way {kind}", begin)
            if size > end - at:
                self.fail(f"{size} bytes must follow, but only {end - at} do", begin)
            yield Field(number, kind, at, at + size, value)
            at += size

    def _expect(self, field: Field, kind: int) -> Field:
        if field.kind != kind:
            self.fail(f"the field {field.number} is written as {field.kind}, not as {kind}", field.begin)
        return field

    def _text(self, field: Field) -> str:
        self._expect(field, BYTES)
        try:
            return self.content[field.begin : field.end].decode("utf-8")
        except UnicodeDecodeError:
            self.fail("a text is not UTF-8", field.begin)

    # -- values -------------------------------------------------------------------------------------------

    def _dictionary(self, begin: int, end: int, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for field in self._fields(begin, end):
            if field.number != 2:
                continue
            self._expect(field, BYTES)
            key, value = "", None
            for part in self._fields(field.begin, field.end):
                if part.number == 1:
                    key = self._text(part)
                elif part.number == 2:
                    value = self._value(self._expect(part, BYTES), depth)
            found[key] = value
        return found

    def _value(self, field: Field, depth: int) -> Any:
        self.left -= 1
        if self.left < 0:
            self.fail("there are more values than a file of this size can have", field.begin)
        if depth > DEEPEST:
            self.fail(f"more than {DEEPEST} values lie inside each other", field.begin)
        kind, value = _NONE, None
        for part in self._fields(field.begin, field.end):
            if part.number == 2:
                kind = part.value
            elif part.number > 2:
                value = self._content(part, depth + 1)
        return _empty(kind) if value is None else value

    def _content(self, field: Field, depth: int) -> Any:
        kind = field.number - 2
        if kind in (_BOOL, _INT, _SIZE):
            number = self._expect(field, VARINT).value
            return bool(number) if kind == _BOOL else _signed32(number) if kind == _INT else SizeT(number)
        if kind == _FLOAT:
            return Float(struct.unpack_from("<f", self.content, self._expect(field, FIXED32).begin)[0])
        if kind == _DOUBLE:
            return float(struct.unpack_from("<d", self.content, self._expect(field, FIXED64).begin)[0])
        if kind == _STRING:
            return self._text(field)
        self._expect(field, BYTES)
        if kind == _SHAPE:
            return NDShape(self._dims(field.begin, field.end))
        if kind == _AXIS:
            return self._axis(field)
        if kind == _VECTOR:
            parts = self._fields(field.begin, field.end)
            return [self._value(self._expect(part, BYTES), depth) for part in parts if part.number == 1]
        if kind == _DICTIONARY:
            return self._dictionary(field.begin, field.end, depth)
        if kind == _ARRAY:
            return self._array(field)
        return None

    def _dims(self, begin: int, end: int) -> tuple[int, ...]:
        dims: list[int] = []
        for field in self._fields(begin, end):
            if field.number != 1:
                continue
            at = self._expect(field, BYTES).begin
            while at < field.end:
                number, at = self._varint(at, field.end)
                dims.append(number - _ALL if number >= _HALF else number)
                self.left -= 1
                if self.left < 0:
                    self.fail("there are more values than a file of this size can have", at)
        return tuple(dims)

    def _axis(self, field: Field) -> Axis:
        index, name, ordered = 0, "", False
        for part in self._fields(field.begin, field.end):
            if part.number == 1:
                index = _signed32(part.value)
            elif part.number == 2:
                name = self._text(part)
            elif part.number == 3:
                ordered = bool(part.value)
        return Axis(index, name, ordered)

    def _array(self, field: Field) -> Array:
        storage, values = 0, None
        dims: tuple[int, ...] = ()
        for part in self._fields(field.begin, field.end):
            if part.number == 2:
                storage = part.value
            elif part.number == 3:
                dims = self._dims(part.begin, part.end)
            elif part.number in FLOATS:
                values = self._numbers(part, np.dtype(FLOATS[part.number]))
        if storage:
            self.fail("an array is sparse, which cannot be read", field.begin)
        if values is None:
            self.fail("an array has no values in single or double precision", field.begin)
        count = 1
        for dim in dims:
            count *= max(dim, 0)
        if count != values.size:
            sizes = " x ".join(map(str, dims)) or "1"
            self.fail(f"an array of {sizes} has {values.size} values", field.begin)
        return Array(dims, values)

    def _numbers(self, field: Field, dtype: np.dtype[Any]) -> Any:
        """The values of an array: bytes of this file."""
        found = np.frombuffer(b"", dtype)
        for part in self._fields(field.begin, field.end):
            if part.number != 1:
                continue
            size = self._expect(part, BYTES).end - part.begin
            if size % dtype.itemsize or found.size:
                self.fail("the values of an array are not written as one row of numbers", part.begin)
            found = np.frombuffer(self.content, dtype, size // dtype.itemsize, part.begin)
        return found


def _signed32(number: int) -> int:
    number %= 2**32
    return number - 2**32 if number >= 2**31 else number


def _empty(kind: int) -> Any:
    """The value of a kind of which nothing is written."""
    makers: dict[int, Any] = {
        _BOOL: False,
        _INT: 0,
        _SIZE: SizeT(0),
        _FLOAT: Float(0),
        _DOUBLE: 0.0,
        _STRING: "",
        _SHAPE: NDShape(()),
        _AXIS: Axis(0, "", False),
    }
    return [] if kind == _VECTOR else {} if kind == _DICTIONARY else makers.get(kind)
