"""What dictionaries of CNTK 2 hold: each kind of value with its limits, and what records take of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cntk_model_cntk2.encode import encode
from cntk_model_cntk2.records import Entry, read_dictionary
from cntk_model_cntk2.values import Array, Axis, Float, NDShape, SizeT
from cntk_model_cntk2.wire import BYTES_A_VALUE, FREE_VALUES

from cntk_core.api import ModelFormatError

HEAD = b"\x08\x01"


def sized(content: bytes) -> bytes:
    size, head = len(content), b""
    while size > 127:
        head, size = head + bytes([size & 127 | 128]), size >> 7
    return head + bytes([size]) + content


def file_of(value: bytes) -> bytes:
    """A file with one entry, ``k``."""
    return HEAD + b"\x12" + sized(b"\x0a\x01k\x12" + sized(value))


def read(content: bytes, folder: Path) -> Any:
    path = folder / "x.model"
    path.write_bytes(content)
    return read_dictionary(path)["k"]


def refusal(content: bytes, folder: Path) -> str:
    with pytest.raises(ModelFormatError) as caught:
        read(content, folder)
    return str(caught.value).partition(": ")[2]


VALUES = [
    None, False, True, 0, 1, -1, 2**31 - 1, -(2**31), SizeT(0), SizeT(2**64 - 1), Float(0.1), 0.1, float("inf"), "",
    "für", NDShape(()), NDShape((0, -1, -3, 127, 128, 2**63 - 1, -(2**63))), Axis(0, "", False),
    Axis(-(2**31), "x", True),
    Axis(2**31 - 1, "defaultBatchAxis", False), [], [1, "a", [None]], {}, {"a": {"b": SizeT(7)}},
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_come_back(value: Any, tmp_path: Path) -> None:
    found = read(b"".join(map(bytes, encode({"k": value}))), tmp_path)
    expected = float(np.float32(value)) if isinstance(value, Float) else value
    assert (type(found), found) == (type(value), expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("dims", [(), (3,), (2, 3), (0, 4)])
def test_arrays_come_back(dims: tuple[int, ...], dtype: str, tmp_path: Path) -> None:
    values = np.arange(np.prod(dims, dtype=int), dtype=dtype)
    found = read(b"".join(map(bytes, encode({"k": Array(dims, values)}))), tmp_path)
    assert found.dims == dims
    assert found.values.dtype == dtype
    np.testing.assert_array_equal(found.values, values)


EMPTY = [None, False, 0, SizeT(0), Float(0), 0.0, "", NDShape(()), Axis(0, "", False), [], {}, None, None]


@pytest.mark.parametrize("kind", range(len(EMPTY)))
def test_of_what_is_empty_only_the_kind_is_written(kind: int, tmp_path: Path) -> None:
    found = read(file_of(bytes([0x10, kind])), tmp_path)
    assert (type(found), found) == (type(EMPTY[kind]), EMPTY[kind])


ONE = b"\x10\x0b\x6a"
"""A value that is an array."""


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"\x10\x02\x20" + b"\xff" * 9 + b"\x7f", -1),  # more than 64 bits: those above are cut off
        (b"\x10\x02\x20\x80\x80\x80\x80\x08", -(2**31)),
        (b"\x10\x07\x4a" + sized(b"\x10\x05\x0a\x01\x04"), NDShape((4,))),
        (b"\x10\x08\x52" + sized(b"\x20\x01\x08\x03\x12\x01a\x18\x02"), Axis(3, "a", True)),
        (b"\x10\x09\x5a" + sized(b"\x10\x05\x0a\x02\x10\x01"), [False]),
        (b"\x10\x0a\x62" + sized(b"\x08\x01\x18\x09\x12" + sized(b"\x18\x01\x0a\x01b\x12\x02\x10\x06")), {"b": ""}),
        (b"\x10\x0d\x7a\x00", None),  # of a kind that is not known
    ],
)
def test_fields_that_are_not_known_are_passed_over(value: bytes, expected: Any, tmp_path: Path) -> None:
    assert read(file_of(value), tmp_path) == expected


def test_fields_that_are_not_known_in_an_array(tmp_path: Path) -> None:
    values = b"\x22" + sized(b"\x10\x01\x0a\x08" + np.array([1, 2], "<f4").tobytes())
    found = read(file_of(ONE + sized(b"\x08\x01\x38\x07\x1a" + sized(b"\x10\x01\x0a\x01\x02") + values)), tmp_path)
    assert (found.dims, found.values.tolist()) == ((2,), [1, 2])


ROW = b"\x0a\x04" + bytes(4)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (b"\x1a\x04\x0a\x02\x01\x02\x22" + sized(ROW), "an array of 1 x 2 has 1 values"),
        (b"\x22" + sized(b"\x0a\x08" + bytes(8)), "an array of 1 has 2 values"),
        (
            b"\x1a" + sized(b"\x0a\x14" + (b"\xff" * 9 + b"\x01") * 2) + b"\x22" + sized(ROW),
            "an array of -1 x -1 has 1 values",
        ),
        (b"\x22" + sized(ROW + ROW), "the values of an array are not written as one row of numbers"),
        (b"\x2a" + sized(ROW), "the values of an array are not written as one row of numbers"),
        (b"\x10\x00\x08\x01", "an array has no values in single or double precision"),
    ],
)
def test_arrays_that_make_no_sense(array: bytes, message: str, tmp_path: Path) -> None:
    assert refusal(file_of(ONE + sized(array)), tmp_path) == message


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"\x10\x01\x1a\x00", "the field 3 is written as 2, not as 0"),
        (b"\x10\x04\x31" + bytes(8), "the field 6 is written as 1, not as 5"),
        (b"\x10\x05\x3d" + bytes(4), "the field 7 is written as 5, not as 1"),
        (b"\x10\x06\x40\x01", "the field 8 is written as 0, not as 2"),
        (b"\x10\x07\x48\x01", "the field 9 is written as 0, not as 2"),
        (b"\x10\x07\x4a\x02\x08\x01", "the field 1 is written as 0, not as 2"),
        (b"\x10\x09\x5a\x02\x08\x01", "the field 1 is written as 0, not as 2"),
        (ONE + sized(b"\x22\x02\x08\x01"), "the field 1 is written as 0, not as 2"),
    ],
)
def test_fields_that_are_written_in_another_way(value: bytes, message: str, tmp_path: Path) -> None:
    assert refusal(file_of(value), tmp_path) == message


def inside(depth: int) -> bytes:
    value = b"\x10\x01\x18\x01"
    for _ in range(depth):
        value = b"\x10\x09\x5a" + sized(b"\x0a" + sized(value))
    return file_of(value)


def test_how_deep_values_may_lie_inside_each_other(tmp_path: Path) -> None:
    found = read(inside(32), tmp_path)
    for _ in range(32):
        (found,) = found
    assert found is True
    assert refusal(inside(33), tmp_path) == "more than 32 values lie inside each other"


def rows(count: int) -> bytes:
    """As many values as said, and the one that has them."""
    return file_of(b"\x10\x09\x5a" + sized(b"\x0a\x00" * count))


def shape(count: int) -> bytes:
    """One value with as many dimensions as said."""
    return file_of(b"\x10\x07\x4a" + sized(b"\x0a" + sized(b"\x01" * count)))


@pytest.mark.parametrize(("made", "size"), [(rows, 2), (shape, 1)])
def test_how_many_values_a_file_may_have(made: Any, size: int, tmp_path: Path) -> None:
    """20,000, and one for each 16 bytes of it."""
    assert (FREE_VALUES, BYTES_A_VALUE) == (20_000, 16)
    most = 20_000 * 16 // (16 - size) - 100
    while most + 2 <= 20_000 + len(made(most + 1)) // 16:
        most += 1
    assert len(getattr(found := read(made(most), tmp_path), "dims", found)) == most
    assert refusal(made(most + 1), tmp_path) == "there are more values than a file of this size can have"


# -- records ------------------------------------------------------------------------------------------------

ENTRY = Entry(
    {
        "yes": True, "int": -3, "size": SizeT(4), "float": 0.5, "single": Float(1.5), "text": "a", "list": [1, 2],
        "dictionary": {"a": 1}, "shape": NDShape((2,)), "axis": Axis(1, "", True), "mixed": [1, "a"], "nothing": None,
    },
    "the function 'F'",
    Path("x.model"),
)  # fmt: skip

TAKEN: list[tuple[type, str, set[str]]] = [
    (bool, "a truth value", {"yes"}),
    (int, "a number", {"int", "size"}),
    (float, "a number", {"int", "size", "float", "single"}),
    (str, "a text", {"text"}),
    (list, "a list", {"list", "mixed"}),
    (dict, "a dictionary", {"dictionary"}),
    (NDShape, "a shape", {"shape"}),
    (Axis, "an axis", {"axis"}),
    (Array, "an array", set()),
]


@pytest.mark.parametrize(("kind", "called", "keys"), TAKEN, ids=[each[0].__name__ for each in TAKEN])
def test_what_is_taken_as_what(kind: type, called: str, keys: set[str]) -> None:
    for key, value in ENTRY.values.items():
        if key in keys:
            taken = ENTRY.take(key, kind)
            assert taken == value
            assert isinstance(taken, kind)
        else:
            with pytest.raises(ModelFormatError) as caught:
                ENTRY.take(key, kind)
            assert str(caught.value) == f"'x.model' is damaged: the function 'F' has a '{key}' that is not {called}"


def test_what_is_not_there() -> None:
    assert ENTRY.take("other", int, None) is None
    assert ENTRY.take("nothing", int, None) is None
    assert ENTRY.each("other", int, []) == []
    for take in (lambda: ENTRY.take("other", int), lambda: ENTRY.each("other", int), lambda: ENTRY.inner("other")):
        with pytest.raises(ModelFormatError) as caught:
            take()
        assert str(caught.value) == "'x.model' is damaged: the function 'F' has no 'other'"


def test_lists_of_one_kind() -> None:
    assert ENTRY.each("list", int) == [1, 2]
    assert ENTRY.inner("dictionary").take("a", int) == 1
    with pytest.raises(ModelFormatError) as caught:
        ENTRY.each("mixed", int)
    assert str(caught.value) == (
        "'x.model' is damaged: the function 'F' has something in its 'mixed' that is not a number"
    )
