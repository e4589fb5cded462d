"""First lines of tables, lists that are sequences, and files that are taken piece by piece."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cntk_tool_predict.sinks import _Pieces
from cntk_tool_predict.tables import _first_line, _sequence

from cntk_core.api import DataError, Input


@pytest.mark.parametrize(
    ("line", "delimiter", "names"),
    [
        ("a,b", ",", None),
        ("a;b", ";", None),
        ("a\tb", "\t", None),
        ("0,1,2", ",", None),
        ("1,2,3", ",", None),
        ("2,3,4", ",", ["1", "2", "3"]),
        ("0,1,3", ",", ["1", "2", "3"]),
        ("0.5;1e3", ";", ["1", "2"]),
        ("7", ",", ["1"]),
        ("1", ",", None),
        ("1,x", ",", None),
        ("", ",", None),
    ],
)
def test_a_first_line(line: str, delimiter: str, names: list[str] | None, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f"\ufeff{line}\n3,4,5\n", encoding="utf-8")
    assert _first_line(tmp_path / "t.csv") == (delimiter, names)


@pytest.mark.parametrize(
    ("shape", "sparse", "value", "expected"),
    [
        ((1,), False, [1.5, 2.5], [[1.5], [2.5]]),
        ((1,), False, [[1.5], [2.5]], [[1.5], [2.5]]),
        ((2,), False, [[1, 2], [3, 4]], [[1, 2], [3, 4]]),
        ((2, 2), False, [[1, 2, 3, 4]], [[[1, 2], [3, 4]]]),
        ((3,), True, [2, 0], [2, 0]),
        ((3,), True, [[0, 1, 0]], [[0, 1, 0]]),
        ((3,), False, [], []),
    ],
)
def test_a_list_is_a_sequence(shape: Any, sparse: bool, value: Any, expected: Any) -> None:
    found = _sequence(value, Input.make("x", shape, sparse=sparse), "x", Path("t"), 4)
    assert found.tolist() == expected
    assert len(value) or found.shape == (0, *shape)


@pytest.mark.parametrize(
    ("shape", "value"), [((2,), [1, 2]), ((2,), [[1, 2], [3]]), ((2,), [[1, 2, 3]]), ((1,), ["a"]), ((2,), None)]
)
def test_a_list_that_is_none(shape: Any, value: Any) -> None:
    with pytest.raises(DataError) as caught:
        _sequence(value, Input.make("x", shape), "x", Path("t"), 4)
    assert str(caught.value) == f"t: the column 'x' has no sequence of [{shape[0]}] in row 4"


def test_a_file_in_pieces_knows_its_place() -> None:
    pieces = _Pieces()
    assert (pieces.write(b"abc"), pieces.write(memoryview(b"de")), pieces.tell()) == (3, 2, 5)
    assert (pieces.take(), pieces.take()) == (b"abcde", b"")
    assert (pieces.write(b"f"), pieces.tell(), pieces.take()) == (1, 6, b"f")


def test_an_archive_in_pieces_can_be_read(tmp_path: Path) -> None:
    pieces, taken = _Pieces(), []
    with zipfile.ZipFile(pieces, "w") as archive:  # type: ignore[arg-type]
        for name in ("a", "b"):
            with archive.open(f"{name}.npy", "w") as file:
                np.save(file, np.arange(5))
            taken.append(pieces.take())
    (tmp_path / "x.npz").write_bytes(b"".join([*taken, pieces.take()]))
    with np.load(tmp_path / "x.npz") as found:
        assert found["b"].tolist() == [0, 1, 2, 3, 4]
