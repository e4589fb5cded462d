"""Files of arrays: what is verified without reading them whole, in what order things lie, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from cntk_core.errors import CheckpointError, ModelFormatError
from cntk_core.network.tensor_file import (
    MAX_HEADER,
    check_is_file,
    parse_tensors,
    read_metadata,
    read_tensors,
    verify_tensors,
    whole_numbers,
    write_tensors,
)

ARRAYS = {"b": np.arange(6, dtype=np.float32).reshape(2, 3), "a": np.array([7, 8], np.int64), "none": np.zeros((0, 4))}
TEXTS = {"format": "x", "a word": "ü"}


@pytest.fixture
def path(tmp_path):
    write_tensors(tmp_path / "t", ARRAYS, TEXTS)
    return tmp_path / "t"


def parts(path):
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + length]), content[8 : 8 + length], content[8 + length :]


def said(call, *arguments, kind=ModelFormatError, **named) -> str:
    with pytest.raises(kind) as error:
        call(*arguments, **named)
    return str(error.value)


def test_there_and_back(path):
    found = read_tensors(path)
    assert found.metadata == TEXTS == {name: text for name, text in read_metadata(path).items() if name != "sha256"}
    assert sorted(found.arrays) == ["a", "b", "none"]
    for name, array in ARRAYS.items():
        assert found.arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(found.arrays[name], array)
        found.arrays[name][...] = 1
    verify_tensors(path)


def test_the_same_bytes_whatever_the_order(path, tmp_path):
    write_tensors(tmp_path / "other", dict(reversed(ARRAYS.items())), dict(reversed(TEXTS.items())))
    assert (tmp_path / "other").read_bytes() == path.read_bytes()
    header, text, payload = parts(path)
    assert list(header) == sorted(header) == ["__metadata__", "a", "b", "none"]
    assert header["a"] == {"dtype": "I64", "shape": [2], "data_offsets": [0, 16]}
    assert (
        header["b"]["data_offsets"] == [16, 40] == [header["a"]["data_offsets"][1], header["none"]["data_offsets"][0]]
    )
    assert len(text) % 8 == 0
    assert len(payload) == 40


@pytest.mark.parametrize("place", [9, 60, -1, -40])
def test_a_changed_byte_is_found_by_all_who_verify(path, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    assert said(read_tensors, path).startswith(f"'{path}' ")
    assert said(verify_tensors, path).startswith(f"'{path}' ")


def test_a_file_without_a_checksum(path):
    header, _, payload = parts(path)
    del header["__metadata__"]["sha256"]
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + payload)
    assert said(read_tensors, path).splitlines()[0] == f"'{path}' is not a model or checkpoint file of this program"
    assert said(verify_tensors, path) == f"'{path}' is damaged: its SHA-256 checksum does not match its contents"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is not a model or checkpoint file of this program"),
        (b"\2\0\0\0\0\0\0", "is not a model or checkpoint file of this program"),
        (b"\2\0\0\0\0\0\0\0[]", "is not a model or checkpoint file of this program"),
        ((MAX_HEADER + 1).to_bytes(8, "little") + b"{", "is not a model or checkpoint file of this program"),
        ((MAX_HEADER).to_bytes(8, "little") + b"{", f"is truncated: its header has {MAX_HEADER} bytes, 1 are there"),
        (b"\3\0\0\0\0\0\0\0{}", "is truncated: its header has 3 bytes, 2 are there"),
        (b"\2\0\0\0\0\0\0\0{!", "is damaged: its header is not valid JSON"),
        (b'\x0d\0\0\0\0\0\0\0{"a":1,"a":2}', "is damaged: its header is not valid JSON"),
        (b'\x13\0\0\0\0\0\0\0{"__metadata__":[]}', "is damaged: its metadata are not texts by name"),
        (b'\x18\0\0\0\0\0\0\0{"__metadata__":{"x":1}}', "is damaged: its metadata are not texts by name"),
    ],
)
def test_headers(tmp_path, content, words):
    path = tmp_path / "t"
    path.write_bytes(content)
    for read in (read_tensors, verify_tensors, read_metadata):
        assert said(read, path) == f"'{path}' {words}"


@pytest.mark.parametrize(
    ("entries", "payload", "words"),
    [
        ({"a": 1}, 0, "is damaged: the entry of the array 'a' makes no sense"),
        ({"a": {"dtype": "F9", "shape": [1], "data_offsets": [0, 4]}}, 4, "the entry of the array 'a' makes no sense"),
        ({"a": {"dtype": "F32", "shape": 1, "data_offsets": [0, 4]}}, 4, "the entry of the array 'a' makes no sense"),
        ({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0]}}, 4, "the entry of the array 'a' makes no sense"),
        ({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}, 4, "the entry of the array 'a' makes no sense"),
        ({"a": {"dtype": "U8", "shape": [1] * 33, "data_offsets": [0, 1]}}, 1, "the entry of the array 'a' makes no"),
        ({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, 3, "the array 'a' ends at byte 4, 3 are there"),
        ({"a": {"dtype": "U8", "shape": [1], "data_offsets": [1, 2]}}, 2, "the array 'a' overlaps another one, or"),
        ({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}, 3, "2 bytes at its end belong to no array"),
        ({"a": {"dtype": "U8", "shape": [1] * 32, "data_offsets": [0, 1]}}, 1, "is not a model or checkpoint file of"),
    ],
)
def test_entries(tmp_path, entries, payload, words):
    text = json.dumps(entries).encode()
    content = len(text).to_bytes(8, "little") + text + bytes(payload)
    assert words in said(parse_tensors, content, tmp_path / "t")
    assert words in said(parse_tensors, bytearray(content), tmp_path / "t", error=CheckpointError, kind=CheckpointError)


@pytest.mark.parametrize(
    ("values", "found"),
    [
        *(([], ()), ([0, 5], (0, 5)), ([2**62 - 1], (2**62 - 1,))),
        *(([value], None) for value in (2**62, -1, True, 1.0, "1")),
        *((value, None) for value in ((1, 2), None, 1)),
    ],
)
def test_whole_numbers(values, found):
    assert whole_numbers(values) == found


def test_what_is_no_file(tmp_path):
    for read in (read_tensors, verify_tensors, read_metadata):
        assert said(read, tmp_path / "t") == f"'{tmp_path}/t' cannot be read: No such file or directory"
        assert said(read, tmp_path) == f"'{tmp_path}' cannot be read: Is a directory"
    assert said(check_is_file, tmp_path / "a\0b", "model").endswith("cannot be read: the name has a zero character")
    assert said(check_is_file, Path("/dev/null"), "model") == "the model '/dev/null' cannot be read: it is no file"
    check_is_file(tmp_path, "model")
    check_is_file(tmp_path / "not there", "model")
