"""What an input takes: each form of a value, and the exact text where it is none."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from cntk_fit.encoding import Encoding, distinct
from cntk_fit.rows import Classes
from cntk_fit.values import ValueReader, rows_of
from scipy.sparse import coo_array, csr_array

from cntk_core.api import DataError, Input
from cntk_core.api.builders import BATCH

NAN = float("nan")
ONE, THREE, PICTURE = 1, 3, (2, 2)


def reader(dim: Any, *, sparse: bool = False, sequences: bool = True, exact: bool = True) -> ValueReader:
    node = Input.make(
        "x", dim if isinstance(dim, tuple) else (dim,), sparse=sparse, **({} if sequences else {"axis": BATCH})
    )
    return ValueReader(node, Encoding(), exact=exact)


def as_lists(value: Any) -> Any:
    """A value with what it is called, as lists."""
    if isinstance(value, Classes):
        return "classes", [np.asarray(one).tolist() for one in value.numbers], value.width, value.shape
    if isinstance(value, list):
        return [as_lists(one) for one in value]
    return value.toarray().tolist() if hasattr(value, "toarray") else value.tolist()


@pytest.mark.parametrize(
    ("dim", "sparse", "given", "expected"),
    [
        (ONE, False, [1, 2], [1, 2]),
        (ONE, False, [[1.0], [2.0]], [[1.0], [2.0]]),
        (ONE, False, [[1.0, 2.0], [3.0]], [[1.0, 2.0], [3.0]]),
        (ONE, False, [[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0], [3.0, 4.0]]),
        (ONE, False, [True, False], [True, False]),
        (THREE, False, [[1.0, 2.0, 3.0]], [[1.0, 2.0, 3.0]]),
        (THREE, False, [0, 2, 1], ("classes", [0, 2, 1], 3, (3,))),
        (THREE, True, [0, 2, 1], [0, 2, 1]),
        (THREE, False, ["b", "a", "b"], ("classes", [1, 0, 1], 3, (3,))),
        (THREE, False, [True, False, True], ("classes", [1, 0, 1], 3, (3,))),
        (THREE, False, np.array(["b", 3, "b"], object), ("classes", [1, 0, 1], 3, (3,))),
        (THREE, False, [[0, 1], [2]], ("classes", [[0, 1], [2]], 3, (3,))),
        (THREE, True, [[0, 1], [2]], [[0, 1], [2]]),
        (THREE, True, [[0, 1, 2], [2, 1, 0]], [[0, 1, 2], [2, 1, 0]]),
        (THREE, False, [["a", "b"], ["b"]], ("classes", [[0, 1], [1]], 3, (3,))),
        (THREE, False, [np.ones((2, 3)), np.zeros((1, 3))], [[[1.0] * 3] * 2, [[0.0] * 3]]),
        (THREE, False, np.zeros((2, 4, 3)), np.zeros((2, 4, 3)).tolist()),
        (THREE, False, csr_array(np.eye(3)), np.eye(3).tolist()),
        (THREE, True, coo_array(np.eye(3)), np.eye(3).tolist()),
        (THREE, True, [csr_array(np.eye(3)), csr_array(np.ones((1, 3)))], [np.eye(3).tolist(), [[1.0] * 3]]),
        (PICTURE, False, [[[1, 2], [3, 4]]], [[[1, 2], [3, 4]]]),
        (PICTURE, False, [[[1, 2], [3, 4]], [[1, 1], [2, 2]]], [[[1, 2], [3, 4]], [[1, 1], [2, 2]]]),
        (THREE, False, [[[1.0, 2, 3], [4, 5, 6]], [[7.0, 8, 9]]], [[[1.0, 2, 3], [4, 5, 6]], [[7.0, 8, 9]]]),
        (PICTURE, False, [[1.0, 2, 3, 4]], [[1.0, 2, 3, 4]]),
        (PICTURE, False, [np.ones((3, 2, 2)), np.ones((1, 2, 2))], [np.ones((3, 2, 2)).tolist(), [[[1.0, 1], [1, 1]]]]),
    ],
)  # fmt: skip
def test_what_is_taken(dim: Any, sparse: bool, given: Any, expected: Any) -> None:
    found = reader(dim, sparse=sparse).read(given)
    assert as_lists(found) == expected
    assert rows_of(found) == (given.shape[0] if hasattr(given, "shape") else len(given))


SEQUENCES = ", or for sequences a list of arrays"
CLASSES = "or numbers of classes below 3"


@pytest.mark.parametrize(
    ("dim", "given", "message"),
    [
        (ONE, np.zeros((2, 2, 2)),
         "takes samples of the shape (1,), and is given an array of the shape (2, 2, 2)\n"
         f"    Give an array (rows){SEQUENCES} (steps)."),
        (ONE, np.float64(3), "takes samples of the shape (1,), and is given an array of the shape ()\n"
         f"    Give an array (rows){SEQUENCES} (steps)."),
        (THREE, [[1.0, 2.0]],
         "takes samples of the shape (3,), and is given in row 0 of 1 a sequence of the shape (2,)\n"
         f"    Give an array (rows, 3), {CLASSES}{SEQUENCES} (steps, 3)."),
        (THREE, [1.0, 2.0],
         "takes samples of the shape (3,), and is given an array of the shape (2,)\n"
         f"    Give an array (rows, 3), {CLASSES}{SEQUENCES} (steps, 3)."),
        (THREE, csr_array(np.ones((2, 2))),
         "takes samples of the shape (3,), and is given a sparse matrix of the shape (2, 2)\n"
         f"    Give an array (rows, 3), {CLASSES}{SEQUENCES} (steps, 3)."),
        (THREE, [np.ones((2, 3)), np.ones((2, 4))],
         "takes samples of the shape (3,), and is given in row 1 of 2 a sequence of the shape (2, 4)\n"
         f"    Give an array (rows, 3), {CLASSES}{SEQUENCES} (steps, 3)."),
        (THREE, [1, [2]], "is given a list of numbers and arrays"),
        (THREE, [0, 3], "has 3 classes, and is given numbers of classes from 0 to 3\n"
         "    Classes are numbered from 0 to 2; or give their names."),
        (THREE, [0, -1], "has 3 classes, and is given numbers of classes from -1 to 0\n"
         "    Classes are numbered from 0 to 2; or give their names."),
        (THREE, [[0, 1], [3]], "has 3 classes, and is given numbers of classes from 0 to 3\n"
         "    Classes are numbered from 0 to 2; or give their names."),
        (THREE, ["a", None, "b", None], "has no value in 2 of 4 rows; the first is row 1\n"
         "    Leave these rows out, or fill them in."),
        (THREE, np.array([["a"], ["b"]]),
         "is given values of the type <U1, which are no numbers"),
        (ONE, np.array([1 + 2j]), "is given values of the type complex128, which are no numbers"),
        (ONE, [1.0, NAN, 2.0, float("inf")], "is not finite (NaN or infinite) in 2 of 4 rows; the first is row 1\n"
         "    Leave these rows out, or fill them in."),
        (THREE, [[1.0, 2, 3], [NAN, NAN, 3], [NAN, 2, 3]],
         "is not finite (NaN or infinite) in 2 of 3 rows; the first is row 1\n"
         "    Leave these rows out, or fill them in."),
        (THREE, [np.ones((2, 3)), np.full((1, 3), NAN)],
         "is not finite (NaN or infinite) in 1 of 2 rows; the first is row 1\n"
         "    Leave these rows out, or fill them in."),
        (THREE, csr_array(np.array([[1, 0, NAN]])),
         "is given a sparse matrix with numbers that are not finite (NaN or infinite)\n"
         "    Leave these rows out, or fill them in."),
    ],
)  # fmt: skip
def test_what_is_refused(dim: Any, given: Any, message: str) -> None:
    with pytest.raises(DataError) as caught:
        reader(dim).read(given)
    assert str(caught.value) == f"the input 'x' {message}"


def test_without_sequences() -> None:
    alone = reader(THREE, sequences=False)
    with pytest.raises(DataError) as caught:
        alone.read(np.zeros((2, 4, 3)))
    assert str(caught.value).endswith("Give an array (rows, 3), or numbers of classes below 3.")
    with pytest.raises(DataError, match=r"a list of arrays of the shapes \(2, 3\), \(1, 3\)"):
        alone.read([np.ones((2, 3)), np.ones((1, 3)), np.ones((2, 3))])
    assert as_lists(alone.read([np.ones(3), np.zeros(3)])) == [[1.0] * 3, [0.0] * 3]


def test_numbers_are_looked_at_only_where_that_is_wanted() -> None:
    assert np.isnan(reader(ONE, exact=False).read([NAN])).all()
    assert np.isnan(reader(THREE, exact=False).read([np.full((1, 3), NAN)])[0]).all()


def test_all_of_a_large_array_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cntk_fit.values._BLOCK", 6)
    rows = np.zeros((7, 3))
    rows[[3, 4, 6], 1] = NAN
    with pytest.raises(DataError, match="in 3 of 7 rows; the first is row 3"):
        reader(THREE).read(rows)


def test_names_that_were_learned_are_kept_and_others_refused() -> None:
    known = reader(THREE)
    assert as_lists(known.read(["b", "a"]))[1] == [1, 0]
    assert as_lists(known.read(["b", "b"]))[1] == [1, 1]
    with pytest.raises(DataError):
        known.read(["c"])
    numbers = reader(THREE)
    assert as_lists(numbers.read(np.array([5, 7], object)))[1] == [0, 1]
    assert as_lists(numbers.read([7.0, 5.0]))[1] == [1, 0]


def test_an_encoding_survives_json() -> None:
    known = reader(THREE)
    known.read(["b", "a"])
    known.encoding.columns["x"] = ("p", "q")
    again = Encoding.of(json.loads(json.dumps(known.encoding.entries())))
    assert again.entries() == known.encoding.entries() == {"labels": {"x": ["a", "b"]}, "columns": {"x": ["p", "q"]}}
    assert again.columns == {"x": ("p", "q")}


def test_values_that_cannot_be_compared_are_sorted_by_what_they_are_called() -> None:
    assert distinct(np.array([3, "b", 10], object)) == [10, 3, "b"]
    assert distinct(np.array([3, 10, 3])) == [3, 10]
