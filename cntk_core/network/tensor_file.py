"""Files of named arrays in the safetensors format, written byte for byte the same and read with suspicion.

Layout: 8 bytes (length of the header, little endian), the header (JSON: array name to ``dtype``, ``shape`` and
``data_offsets``; texts by name under ``__metadata__``), the arrays one after the other. The metadata hold a SHA-256 of
everything else, which the format itself lacks. Why not by the format's own library: ``docs/decisions``, 8.
"""

from __future__ import annotations

import hashlib
import json
import math
import stat
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.errors import CntkError, ModelFormatError
from cntk_core.network.files import replace_file

MAX_HEADER = 100_000_000
"""Longest header in bytes, the limit of the format's own library."""

MAX_RANK = 32
"""Most dimensions of an array."""

_CHECKSUM = "sha256"
_CHUNK = 1 << 20
_METADATA = "__metadata__"
_ALIGNMENT = 8
_TYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "U64": np.dtype("<u8"),
    "U8": np.dtype("u1"),
}
_NAMES = {dtype: name for name, dtype in _TYPES.items()}


@attrs.frozen(eq=False)
class TensorFile:
    """What a file holds."""

    arrays: Mapping[str, NDArray[Any]]
    metadata: Mapping[str, str]


def write_tensors(
    path: Path,
    arrays: Mapping[str, NDArray[Any]],
    metadata: Mapping[str, str],
    *,
    scratch: Path | None = None,
    seen: Callable[[bytes | memoryview], None] = lambda chunk: None,
) -> None:
    """Write arrays and texts in one step, as seen from outside.

    ``scratch`` and ``seen`` are those of :func:`replace_file`.

    Raises:
        OSError: the file could not be written; an old one is untouched.
    """
    replace_file(path, tensor_chunks(arrays, metadata), scratch=scratch, seen=seen)


def tensor_chunks(arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> list[bytes | memoryview]:
    """Return the bytes of a file, piece by piece."""
    ordered = {name: np.asarray(arrays[name], order="C") for name in sorted(arrays)}
    entries: dict[str, Any] = {}
    offset = 0
    for name, array in ordered.items():
        kind = _NAMES[array.dtype.newbyteorder("<")]
        entries[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    payload = [array.reshape(-1).view(np.uint8).data for array in ordered.values() if array.size]
    texts = {**metadata, _CHECKSUM: _checksum(entries, metadata, payload)}
    header = json.dumps({_METADATA: texts, **entries}, separators=(",", ":"), sort_keys=True).encode()
    header += b" " * (-len(header) % _ALIGNMENT)
    return [len(header).to_bytes(8, "little"), header, *payload]


def _checksum(entries: Mapping[str, Any], metadata: Mapping[str, str], payload: Iterable[bytes | memoryview]) -> str:
    digest = hashlib.sha256(json.dumps([entries, dict(metadata)], separators=(",", ":"), sort_keys=True).encode())
    for chunk in payload:
        digest.update(chunk)
    return digest.hexdigest()


def check_is_file(path: Path, what: str, error: type[CntkError] = ModelFormatError) -> None:
    """Refuse what is no ordinary file before it is opened: a device or a pipe may never end.

    Raises:
        error: it is something else. A file that is not there is left to whoever opens it.
    """
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    except ValueError:
        raise error(f"the {what} {str(path)!r} cannot be read: the name has a zero character") from None
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise error(f"the {what} '{path}' cannot be read: it is no file")


def read_tensors(path: Path, *, error: type[CntkError] = ModelFormatError) -> TensorFile:
    """Read a file and verify its checksum. The arrays can be written to.

    Raises:
        error: the file is missing, damaged or not of this format; says what is wrong.
    """
    check_is_file(path, "file", error)
    try:
        with path.open("rb") as file:
            content = bytearray(file.seek(0, 2))
            file.seek(0)
            del content[file.readinto(content) :]
    except OSError as reason:
        raise error(f"'{path}' cannot be read: {reason.strerror}") from None
    return parse_tensors(content, path, error=error)


def parse_tensors(content: bytes | bytearray, path: Path, *, error: type[CntkError] = ModelFormatError) -> TensorFile:
    """Read the bytes of a file, which messages call by a path; as :func:`read_tensors`.

    Of a ``bytearray`` the arrays are parts, so that large models are in memory once; bytes are copied.
    """
    header, start = _header(content, path, error)
    metadata = _metadata(header, path, error)
    arrays = _arrays(header, memoryview(content)[start:], path, error)
    if _CHECKSUM not in metadata:
        hint = f"If it holds weights alone, 'cntk weights NETWORK --from {path} -o NEW' gives them to a network."
        raise error(f"'{path}' is not a model or checkpoint file of this program", hint=hint)
    entries = {name: entry for name, entry in header.items() if name != _METADATA}
    texts = {name: text for name, text in metadata.items() if name != _CHECKSUM}
    if _checksum(entries, texts, [memoryview(content)[start:]]) != metadata[_CHECKSUM]:
        raise error(f"'{path}' is damaged: its SHA-256 checksum does not match its contents")
    return TensorFile({name: np.require(array, requirements=["W", "A"]) for name, array in arrays.items()}, texts)


def verify_tensors(path: Path) -> None:
    """Compare a file with its checksum; it is read once, and little memory is needed.

    Raises:
        ModelFormatError: the file is missing, damaged or not of this format; says what is wrong.
    """
    check_is_file(path, "file")
    try:
        with path.open("rb") as file:
            length = min(int.from_bytes(file.read(8), "little"), MAX_HEADER)
            file.seek(0)
            header, _ = _header(file.read(8 + length), path, ModelFormatError)
            metadata = _metadata(header, path, ModelFormatError)
            entries = {name: entry for name, entry in header.items() if name != _METADATA}
            texts = {name: text for name, text in metadata.items() if name != _CHECKSUM}
            found = _checksum(entries, texts, iter(lambda: file.read(_CHUNK), b""))
    except OSError as reason:
        raise ModelFormatError(f"'{path}' cannot be read: {reason.strerror}") from None
    if found != metadata.get(_CHECKSUM):
        raise ModelFormatError(f"'{path}' is damaged: its SHA-256 checksum does not match its contents")


def read_metadata(path: Path) -> Mapping[str, str]:
    """Read the texts of a file, without the arrays and without verification.

    Raises:
        ModelFormatError: the header cannot be read.
    """
    check_is_file(path, "file")
    try:
        with path.open("rb") as file:
            length = min(int.from_bytes(file.read(8), "little"), MAX_HEADER)
            file.seek(0)
            content = file.read(8 + length)
    except OSError as reason:
        raise ModelFormatError(f"'{path}' cannot be read: {reason.strerror}") from None
    header, _ = _header(content, path, ModelFormatError)
    return _metadata(header, path, ModelFormatError)


def _header(content: bytes | bytearray, path: Path, error: type[CntkError]) -> tuple[dict[str, Any], int]:
    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 or length > MAX_HEADER or content[8:9] != b"{":
        raise error(f"'{path}' is not a model or checkpoint file of this program")
    if 8 + length > len(content):
        raise error(f"'{path}' is truncated: its header has {length} bytes, {len(content) - 8} are there")
    try:
        header = json.loads(content[8 : 8 + length], object_pairs_hook=_once)
    except (ValueError, RecursionError):
        raise error(f"'{path}' is damaged: its header is not valid JSON") from None
    return header, 8 + length


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object of JSON; a name that stands there twice would hide what the checksum is about."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is used twice")
    return found


def _metadata(header: Mapping[str, Any], path: Path, error: type[CntkError]) -> Mapping[str, str]:
    found = header.get(_METADATA, {})
    if not isinstance(found, dict) or not all(isinstance(text, str) for text in found.values()):
        raise error(f"'{path}' is damaged: its metadata are not texts by name")
    return found


def _arrays(
    header: Mapping[str, Any], payload: memoryview, path: Path, error: type[CntkError]
) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {}
    end = 0
    spans = []
    for name, entry in header.items():
        if name == _METADATA:
            continue
        span = _span(entry)
        if span is None:
            raise error(f"'{path}' is damaged: the entry of the array '{name}' makes no sense")
        dtype, shape, first, last = span
        if last > len(payload):
            raise error(f"'{path}' is truncated: the array '{name}' ends at byte {last}, {len(payload)} are there")
        spans.append((first, last, name))
        arrays[name] = np.frombuffer(payload[first:last], dtype).reshape(shape)
    for first, last, name in sorted(spans):
        if first != end:
            raise error(f"'{path}' is damaged: the array '{name}' overlaps another one, or bytes belong to none")
        end = last
    if end != len(payload):
        raise error(f"'{path}' is damaged: {len(payload) - end} bytes at its end belong to no array")
    return arrays


def _span(entry: Any) -> tuple[np.dtype[Any], tuple[int, ...], int, int] | None:
    """Type, shape, first and past-the-end byte of an array; None if the entry makes no sense."""
    if not isinstance(entry, dict):
        return None
    dtype = _TYPES.get(str(entry.get("dtype")))
    shape, offsets = whole_numbers(entry.get("shape")), whole_numbers(entry.get("data_offsets"))
    if dtype is None or shape is None or offsets is None or len(offsets) != 2 or len(shape) > MAX_RANK:
        return None
    first, last = offsets
    if last - first != math.prod(shape) * dtype.itemsize:
        return None
    return dtype, shape, first, last


def whole_numbers(values: Any) -> tuple[int, ...] | None:
    """Return the values as a tuple if they are a list of whole numbers that are not negative, else None."""
    if not isinstance(values, list):
        return None
    good = all(isinstance(v, int) and not isinstance(v, bool) and 0 <= v < 2**62 for v in values)
    return tuple(values) if good else None
