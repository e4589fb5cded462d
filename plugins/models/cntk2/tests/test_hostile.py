"""Damaged and hostile files: errors with the place, never anything else, and no more memory than a file deserves."""

from __future__ import annotations

import random
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cntk_model_cntk2.checkpoint import read_checkpoint
from cntk_model_cntk2.encode import encode
from cntk_model_cntk2.load import load_model
from cntk_model_cntk2.records import read_dictionary
from cntk_model_cntk2.values import Array, NDShape, SizeT
from golden_files import index, write
from mutations import altered, damaged

from cntk_core.api import CntkError, ModelFormatError, UnsupportedError, core_ops

SOURCES = ("net-lstm", "block-simple", "pooling-max", "sequence-slice", "checkpoint-adam")

find_op = core_ops().find


def check(path: Path) -> str:
    """Load a file that may be wrong; return the kind of the error, which names the file."""
    error: CntkError | None = None
    try:
        load_model(path, find_op)
    except CntkError as caught:
        error = caught
    assert error is None or path.name in str(error)
    assert "makes no sense" not in str(error), repr(error and error.__cause__)
    return type(error).__name__


@pytest.mark.parametrize("name", SOURCES)
def test_damaged_bytes(name: str, tmp_path: Path) -> None:
    content, chance = write(name, tmp_path).read_bytes(), random.Random(name)
    path = tmp_path / "damaged.model"
    kinds = []
    for _ in range(30):
        path.write_bytes(damaged(content, chance))
        kinds.append(check(path))
    assert kinds.count("ModelFormatError") > 15


@pytest.mark.parametrize("name", SOURCES)
def test_sound_dictionaries_that_say_something_else(name: str, tmp_path: Path) -> None:
    source, chance = write(name, tmp_path), random.Random(name)
    path = tmp_path / "altered.model"
    for _ in range(20):
        values = read_dictionary(source)
        for _ in range(chance.choice((1, 2, 4))):
            altered(values, chance)
        path.write_bytes(b"".join(map(bytes, encode(values))))
        check(path)


def test_every_dictionary_is_written_as_it_was_read(tmp_path: Path) -> None:
    for name in list(index())[::20]:
        values = read_dictionary(write(name, tmp_path))
        path = tmp_path / "again.model"
        path.write_bytes(b"".join(map(bytes, encode(values))))
        assert _plain(read_dictionary(path)) == _plain(values)


def _plain(values: Any) -> Any:
    if isinstance(values, dict):
        return {key: _plain(value) for key, value in values.items()}
    if isinstance(values, list):
        return [_plain(value) for value in values]
    if isinstance(values, Array):
        return values.dims, values.values.dtype.str, values.values.tobytes()
    return type(values), values


# -- the wire -----------------------------------------------------------------------------------------------

HEAD = b"\x08\x01"


def value_entry(value: bytes, key: bytes = b"k") -> bytes:
    entry = b"\x0a" + bytes([len(key)]) + key + b"\x12" + bytes([len(value)]) + value
    return b"\x12" + bytes([len(entry)]) + entry


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (HEAD + b"\x12", "byte 3: it ends inside a number"),
        (HEAD + b"\x12\x05\x0a", "byte 2: 5 bytes must follow, but only 1 do"),
        (HEAD + b"\xff" * 12, "byte 2: a number has more than ten bytes"),
        (HEAD + b"\x13", "byte 2: a field is written in the unknown way 3"),
        (HEAD + b"\x10\x01", "byte 4: the field 2 is written as 0, not as 2"),
        (HEAD + value_entry(b"\x10\x06\x42\x01\xff"), "byte 13: a text is not UTF-8"),
        (HEAD + value_entry(b"\x10\x01\x1d\0\0\0\0"), "byte 12: the field 3 is written as 5, not as 0"),
        (HEAD + value_entry(b"\x10\x0b\x6a\x02\x10\x01"), "byte 13: an array is sparse, which cannot be read"),
        (
            HEAD + value_entry(b"\x10\x0b\x6a\x02\x08\x01"),
            "byte 13: an array has no values in single or double precision",
        ),
        (
            HEAD + value_entry(b"\x10\x0b\x6a\x0d\x1a\x03\x0a\x01\x02\x22\x06\x0a\x04" + bytes(4)),
            "byte 13: an array of 2 has 1 values",
        ),
        (
            HEAD + value_entry(b"\x10\x0b\x6a\x07\x22\x05\x0a\x03" + bytes(3)),
            "byte 17: the values of an array are not written as one row of numbers",
        ),
    ],
)
def test_bytes_that_make_no_sense(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.model"
    path.write_bytes(content)
    with pytest.raises(ModelFormatError) as caught:
        read_dictionary(path)
    assert str(caught.value) == f"'{path}' is damaged at {message}"


def nested(depth: int) -> bytes:
    inner = b"\x10\x01\x18\x01"
    for _ in range(depth):
        inner = b"\x10\x09\x5a" + _sized(b"\x0a" + _sized(inner))
    return HEAD + b"\x12" + _sized(b"\x0a\x01k\x12" + _sized(inner))


def _sized(content: bytes) -> bytes:
    size, head = len(content), b""
    while size > 127:
        head, size = head + bytes([size & 127 | 128]), size >> 7
    return head + bytes([size]) + content


def test_values_inside_each_other(tmp_path: Path) -> None:
    path = tmp_path / "x.model"
    path.write_bytes(nested(8))
    assert len(read_dictionary(path)) == 1
    path.write_bytes(nested(1000))
    with pytest.raises(ModelFormatError, match="more than 32 values lie inside each other"):
        read_dictionary(path)


def test_many_small_values_take_no_more_memory_than_their_share(tmp_path: Path) -> None:
    path = tmp_path / "x.model"
    path.write_bytes(HEAD + b"\x12" + _sized(b"\x0a\x01k\x12" + _sized(b"\x10\x09\x5a" + _sized(b"\x0a\x00" * 50_000))))
    tracemalloc.start()
    with pytest.raises(ModelFormatError, match="there are more values than a file of this size can have"):
        read_dictionary(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * path.stat().st_size


def test_a_large_model_is_read_in_twice_its_size(tmp_path: Path) -> None:
    path = write("net-mlp", tmp_path)
    values = read_dictionary(path)
    for variable in values["inputs"]:
        if "value" in variable and len(variable["value"].dims) == 2:
            break
    rows, columns = variable["value"].dims[0], 300_000
    variable["value"] = Array((rows, columns), np.zeros(rows * columns, np.float32))
    variable["shape"] = NDShape((rows, columns))
    source = next(each for each in values["inputs"] if each["kind"] == 0)
    source["shape"] = NDShape((columns,))
    path.write_bytes(b"".join(map(bytes, encode(values))))
    del values, variable, source
    tracemalloc.start()
    with pytest.raises(CntkError):  # the sizes of its layers do not fit any more
        load_model(path, find_op)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2.1 * path.stat().st_size


# -- what files say -----------------------------------------------------------------------------------------


def refused(name: str, tmp_path: Path, change: Any, kind: type[CntkError] = ModelFormatError) -> str:
    path = write(name, tmp_path)
    values = read_dictionary(path)
    change(values)
    path.write_bytes(b"".join(map(bytes, encode(values))))
    with pytest.raises(kind) as caught:
        load_model(path, find_op)
    return str(caught.value).replace(str(path), path.name)


def test_a_later_version(tmp_path: Path) -> None:
    def change(values: dict[str, Any]) -> None:
        values["primitive_functions"][0].update(version=SizeT(25), uid="F")

    assert refused("net-mlp", tmp_path, change) == (
        "'net-mlp.model' is a model of a later CNTK: the function 'F' is of version 25; versions up to 24 can be read"
    )


@pytest.mark.parametrize(
    ("native", "kept", "told"),
    [
        (False, {"class": "MyOp", "module": "my.module", "op_name": "my.module.MyOp", "state": {}}, "my.module.MyOp"),
        (True, {"op": "MyOp", "module": "MyLibrary"}, "MyOp, in C++ in MyLibrary"),
    ],
)
def test_functions_of_users(native: bool, kept: dict[str, Any], told: str, tmp_path: Path) -> None:
    def change(values: dict[str, Any]) -> None:
        values["primitive_functions"][0].update(
            type="UserDefinedFunction", native=native, user_defined_state=kept, uid="F"
        )

    assert refused("block-simple", tmp_path, change, UnsupportedError).splitlines() == [
        f"'block-simple.model': the function 'F' was written by its user ({told}); what it computes is not in the file",
        "    Take it out, or put an operation in its place, before the model is saved.",
    ]


def test_functions_of_a_kind_that_is_not_known(tmp_path: Path) -> None:
    def change(values: dict[str, Any]) -> None:
        values["primitive_functions"][0].update(type="Oracle", uid="F")

    assert refused("block-simple", tmp_path, change, UnsupportedError) == (
        "'block-simple.model': the function 'F' is a 'Oracle', which is not known"
    )


def test_unknown_operations(tmp_path: Path) -> None:
    def change(number: int) -> Any:
        return lambda values: values["primitive_functions"][0].update(op=SizeT(number))

    assert refused("old-op-pass", tmp_path, change(200), UnsupportedError).endswith(
        "is of the operation number 200, which is not there"
    )
    assert refused("old-op-pass", tmp_path, change(93), UnsupportedError).endswith(
        "is of the operation CustomProxyOp, which is not there"
    )


def test_a_checkpoint_is_no_model(tmp_path: Path) -> None:
    path = write("checkpoint-adam", tmp_path, "ckp")
    with pytest.raises(ModelFormatError) as caught:
        load_model(path, find_op)
    assert str(caught.value) == (
        f"'{path}' holds the learners of a training, not a model\n"
        "    The model is in the file of the same name without '.ckp'."
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda values: values.pop("root"), "'x' is damaged: the file has no 'root'"),
        (lambda values: values.update(root=1), "'x' is damaged: the file has a 'root' that is not a text"),
        (
            lambda values: values.update(root="Nobody"),
            "'x' is damaged: the file has no function 'Nobody', which should be its root",
        ),
        (lambda values: values.update(type="Other"), "'x' is a dictionary of CNTK 2, but no model"),
        (
            lambda values: values["inputs"].append(dict(values["inputs"][0])),
            "'x' is damaged: the variable 'Input9541' has a uid that another one has",
        ),
        (
            lambda values: values["inputs"][0].update(kind=SizeT(9)),
            "'x' is damaged: the variable 'Input9541' is of the unknown kind 9",
        ),
    ],
)
def test_what_is_missing(change: Any, message: str, tmp_path: Path) -> None:
    found = refused("old-op-pass", tmp_path, change)
    first = read_dictionary(write("old-op-pass", tmp_path))["inputs"][0]["uid"]
    assert found.replace("old-op-pass.model", "x") == message.replace("Input9541", first)


@pytest.mark.parametrize("name", ["checkpoint-adam", "checkpoint-lstm-momentum"])
def test_damaged_checkpoints(name: str, tmp_path: Path) -> None:
    content, chance = write(name, tmp_path, "ckp").read_bytes(), random.Random(name)
    path = tmp_path / "damaged.ckp"
    refused = 0
    for _ in range(100):
        path.write_bytes(damaged(content, chance))
        with suppress(CntkError):
            read_checkpoint(path)
            continue
        refused += 1
    assert refused > 50
