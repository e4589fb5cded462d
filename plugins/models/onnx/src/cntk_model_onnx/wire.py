"""Files of ONNX as they lie on the disk: read and written tensor by tensor, so that weights are in memory once.

A file is one message of Protocol Buffers: fields with a number and a kind, of which the kind 2 has a length and then so
many bytes ("Encoding" in their documentation). The constant tensors of the graph are a repeated field; what is in them
is left on the disk while the rest is read.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import attrs
import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper

from cntk_core.api import ModelFormatError
from cntk_core.api.builders import write_file

Array = NDArray[Any]

_BYTES = 2
_GRAPH, _INITIALIZER = 7, 5
_RAW = 9
_MOST_BYTES = 1 << 31
"""From this size on the constant tensors are in a file beside the graph: the format cannot have them in one."""

_MOST_GRAPH = 256 << 20
"""Largest graph without its constant tensors that is read."""

_CHUNK = 1 << 24


class Malformed(Exception):
    """The bytes are no message."""


# -- writing ----------------------------------------------------------------------------------------------


def _number(value: int) -> bytes:
    found = bytearray()
    while True:
        value, low = value >> 7, value & 127
        found.append(low | (128 if value else 0))
        if not value:
            return bytes(found)


def _field(number: int, size: int) -> bytes:
    return _number(number << 3 | _BYTES) + _number(size)


def write_model(path: Path, model: ModelProto, tensors: Mapping[str, Array], *, limit: int = _MOST_BYTES) -> None:
    """Write a graph with its constant tensors. Large ones go to ``NAME.data`` beside it.

    Args:
        path: the file.
        model: without the tensors.
        tensors: by name.
        limit: from this size of all tensors on they have a file of their own.

    Raises:
        OSError: a file cannot be written.
    """
    total = sum(array.nbytes for array in tensors.values())
    if total >= limit:
        data = path.with_name(f"{path.name}.data")
        write_file(data, (chunk for array in tensors.values() for chunk in _aligned(array)))
        heads = list(_external_heads(tensors, data.name))
        parts: list[tuple[bytes, Array | None]] = [(head, None) for head in heads]
    else:
        parts = [(_head(name, array), array) for name, array in tensors.items()]
    write_file(path, _file(model, parts))


def _file(model: ModelProto, parts: Iterable[tuple[bytes, Array | None]]) -> Iterator[bytes | memoryview]:
    """The chunks of a file: what is around the graph, the graph, its tensors."""
    parts = list(parts)
    graph = model.graph.SerializeToString()
    rest = ModelProto()
    rest.CopyFrom(model)
    rest.ClearField("graph")
    sizes = []
    for head, array in parts:
        raw = 0 if array is None else len(_field(_RAW, array.nbytes)) + array.nbytes
        sizes.append(len(head) + raw)
    total = len(graph) + sum(len(_field(_INITIALIZER, size)) + size for size in sizes)
    yield rest.SerializeToString()
    yield _field(_GRAPH, total)
    yield graph
    for (head, array), size in zip(parts, sizes, strict=True):
        yield _field(_INITIALIZER, size)
        yield head
        if array is not None:
            yield _field(_RAW, array.nbytes)
            yield from _content(array)


def _content(array: Array) -> Iterator[bytes | memoryview]:
    """The bytes of an array, little endian."""
    flat = np.ascontiguousarray(array).reshape(-1)
    little = flat.dtype.newbyteorder("<")
    if flat.dtype == little:
        yield memoryview(flat.view(np.uint8).data)
        return
    for begin in range(0, len(flat), _CHUNK):
        yield flat[begin : begin + _CHUNK].astype(little).tobytes()


_ALIGNMENT = 64


def _aligned(array: Array) -> Iterator[bytes | memoryview]:
    yield from _content(array)
    yield bytes(-array.nbytes % _ALIGNMENT)


def _head(name: str, array: Array) -> bytes:
    """A tensor without its content."""
    head = TensorProto(name=name, dims=array.shape, data_type=helper.np_dtype_to_tensor_dtype(array.dtype))
    return bytes(head.SerializeToString())


def _external_heads(tensors: Mapping[str, Array], location: str) -> Iterator[bytes]:
    offset = 0
    for name, array in tensors.items():
        head = TensorProto.FromString(_head(name, array))
        head.data_location = TensorProto.EXTERNAL
        for key, value in (("location", location), ("offset", str(offset)), ("length", str(array.nbytes))):
            head.external_data.add(key=key, value=value)
        offset += array.nbytes + -array.nbytes % _ALIGNMENT
        yield head.SerializeToString()


# -- reading ----------------------------------------------------------------------------------------------


@attrs.frozen
class Read:
    """What a file has.

    Attributes:
        model: without the constant tensors.
        tensors: these, by name.
    """

    model: ModelProto
    tensors: Mapping[str, Array]


@attrs.frozen
class _Part:
    """A field of a message: its number, where it begins, and where its content lies (a number has none)."""

    number: int
    begin: int
    start: int
    end: int
    length: bool


def _varint(content: mmap.mmap | bytes, place: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while place < end and shift < 70:
        byte = content[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
        shift += 7
    raise Malformed


def _parts(content: mmap.mmap | bytes, place: int, end: int) -> Iterator[_Part]:
    """The fields of a message that lies between two places."""
    while place < end:
        begin = place
        key, place = _varint(content, place, end)
        kind = key & 7
        start = place
        if kind == 0:
            _, place = _varint(content, place, end)
        elif kind == _BYTES:
            size, start = _varint(content, place, end)
            place = start + size
        elif kind in (1, 5):
            place += 8 if kind == 1 else 4
        else:
            raise Malformed
        if place > end or not key >> 3:
            raise Malformed
        yield _Part(key >> 3, begin, start, place, kind == _BYTES)


def read_model(path: Path) -> Read:
    """Read a graph and its constant tensors.

    Raises:
        ModelFormatError: the file cannot be read, or is damaged.
    """
    try:
        with path.open("rb") as file:
            if not file.seek(0, 2):
                raise Malformed
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                return _read(path, file, content)
    except OSError as error:
        raise ModelFormatError(f"the model '{path}' cannot be read: {error.strerror}") from None
    except (Malformed, DecodeError, ValueError, TypeError, OverflowError):
        raise damaged(path, "it is no message of ONNX, or ends too early") from None


def damaged(path: Path, why: str) -> ModelFormatError:
    """Return the error for a file that makes no sense."""
    return ModelFormatError(f"'{path}' is damaged: {why}")


def _read(path: Path, file: BinaryIO, content: mmap.mmap) -> Read:
    around: list[bytes] = []
    graph: list[bytes] = []
    heads: list[_Part] = []
    size = 0
    for part in _parts(content, 0, len(content)):
        inside = part.number == _GRAPH and part.length
        fields = _parts(content, part.start, part.end) if inside else iter([part])
        for field in fields:
            if inside and field.number == _INITIALIZER and field.length:
                heads.append(field)
                continue
            size += field.end - field.begin
            if size > _MOST_GRAPH:
                raise damaged(path, f"its graph has more than {_MOST_GRAPH >> 20} MB without the constants")
            (graph if inside else around).append(content[field.begin : field.end])
    model = ModelProto.FromString(b"".join(around))
    model.graph.MergeFromString(b"".join(graph))
    folder = path.resolve().parent
    tensors = dict(_tensor(path, folder, file, content, head) for head in heads)
    return Read(model, tensors)


def _tensor(path: Path, folder: Path, file: BinaryIO, content: mmap.mmap, field: _Part) -> tuple[str, Array]:
    """A constant tensor."""
    others, raw = [], None
    for part in _parts(content, field.start, field.end):
        if part.number == _RAW and part.length:
            raw = part
        else:
            others.append(content[part.begin : part.end])
    head = TensorProto.FromString(b"".join(others))
    name = head.name[:100]
    dims = tuple(head.dims)
    if head.data_type not in _READABLE:
        raise damaged(path, f"the elements of the tensor '{name}' are of the unknown type {head.data_type}")
    if any(dim < 0 for dim in dims) or len(dims) > 32:
        raise damaged(path, f"the dimensions of the tensor '{name}' make no sense")
    if raw is None and head.data_location != TensorProto.EXTERNAL:
        return head.name, _listed(path, head)
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(head.data_type))
    count = 1
    for dim in dims:
        count *= dim
    if raw is not None:
        if raw.end - raw.start != count * dtype.itemsize:
            raise damaged(path, f"the tensor '{name}' has {raw.end - raw.start} bytes, not those of its dimensions")
        return head.name, _array(file, raw.start, raw.end - raw.start, dtype).reshape(dims)
    return head.name, _outside(path, folder, head, count, dtype).reshape(dims)


def _array(file: BinaryIO, offset: int, size: int, dtype: np.dtype[Any]) -> Array:
    """Elements that are read from a file to where they stay."""
    file.seek(offset)
    found = np.empty(size // dtype.itemsize, dtype.newbyteorder("<"))
    if file.readinto(found.view(np.uint8).data) != size:  # type: ignore[attr-defined]
        raise Malformed
    return found.astype(dtype, copy=False)


_READABLE = {
    TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.INT64,
    TensorProto.INT32, TensorProto.INT16, TensorProto.INT8, TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32,
    TensorProto.UINT64, TensorProto.BOOL,
}  # fmt: skip


def _listed(path: Path, head: TensorProto) -> Array:
    """A tensor whose numbers are fields of the message."""
    try:
        return np.asarray(numpy_helper.to_array(head))
    except (ValueError, TypeError, RuntimeError):
        raise damaged(path, f"the tensor '{head.name[:100]}' does not have as many numbers as its dimensions") from None


def _outside(path: Path, folder: Path, head: TensorProto, count: int, dtype: np.dtype[Any]) -> Array:
    """The content of a tensor in a file beside the model.

    Raises:
        ModelFormatError: the file is elsewhere, missing or too short.
    """
    size = count * dtype.itemsize
    entries = {entry.key: entry.value for entry in head.external_data}
    location, offset = entries.get("location", ""), entries.get("offset", "0")
    target = folder / location
    name = head.name[:100]
    inside = location and not Path(location).is_absolute() and target.resolve().is_relative_to(folder)
    if not inside or not offset.isdecimal() or not target.is_file():
        raise damaged(path, f"the tensor '{name}' is in '{location[:100]}', which is no file beside the model")
    with target.open("rb") as file:
        if file.seek(0, 2) < int(offset) + size:
            raise damaged(path, f"the tensor '{name}' is not whole in '{location[:100]}'")
        return _array(file, int(offset), size, dtype)
