"""The parser of tables."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest
from cntk_reader_uci.regular import read_regular
from cntk_reader_uci.table import Columns, LineProblem, Marks, Table, parse_lines, parse_table
from hypothesis import given
from hypothesis import strategies as st

DOUBLE = np.dtype(np.float64)
FINITE = st.floats(allow_nan=False, allow_infinity=False)


def parse(text: str, start: int = 0, count: int = 1, marks: Marks = Marks(), dtype: np.dtype = DOUBLE) -> Table:  # noqa: B008
    return parse_table(text.encode(), [Columns("x", start, count)], marks, dtype)


@given(st.lists(st.tuples(FINITE, st.sampled_from("abc"), FINITE), min_size=1), st.sampled_from([" ", "\t", "  \t"]))
def test_what_is_written_is_read(rows: list[tuple[float, str, float]], gap: str) -> None:
    text = "".join(f"{a!r}{gap}{label}{gap}{b!r}\r\n" for a, label, b in rows).encode()
    streams = [Columns("a", 0, 1), Columns("l", 1, 1, {b"a": 0, b"b": 1, b"c": 2}), Columns("b", 2, 1)]
    table = parse_table(text, streams, Marks(), DOUBLE)
    assert table.problems == []
    assert table.values[0][:, 0].tolist() == [row[0] for row in rows]
    assert table.values[1].tolist() == ["abc".index(row[1]) for row in rows]
    assert table.values[2][:, 0].tolist() == [row[2] for row in rows]


@given(st.lists(FINITE, min_size=1))
def test_other_marks(numbers: list[float]) -> None:
    text = ";".join(repr(number).replace(".", ",") for number in numbers)
    table = parse(text, 0, len(numbers), Marks(b";", b","))
    assert table.problems == []
    assert table.values[0].tolist() == [numbers]


@given(st.lists(st.text(alphabet="0123456789+-.eE,nanif_x \t\n", max_size=12), max_size=5))
def test_any_text_is_read_or_reported(lines: list[str]) -> None:
    text = "\n".join(lines)
    table = parse(text)
    samples = [line for line in text.split("\n") if line.split()]
    assert len(table.values[0]) + len({problem.line for problem in table.problems}) == len(samples)
    assert np.isfinite(table.values[0]).all()


@given(st.lists(st.text(alphabet="0123456789+-.eE", min_size=1, max_size=6), min_size=1, max_size=4))
def test_both_ways_to_read_numbers_agree(cells: list[str]) -> None:
    for dtype in (DOUBLE, np.dtype(np.float32)):
        alone = [parse(cell, dtype=dtype) for cell in cells]
        together = parse("\n".join(cells), dtype=dtype)
        assert together.values[0].tolist() == [row for one in alone for row in one.values[0].tolist()]
        assert [p.message for p in together.problems] == [p.message for one in alone for p in one.problems]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("abc", "column 0 (stream 'x'): 'abc' is no number"),
        ("nan", "column 0 (stream 'x'): 'nan' is no number"),
        ("1_0", "column 0 (stream 'x'): '1_0' is no number"),
        ("1e", "column 0 (stream 'x'): '1e' is no number"),
        ("1e999", "column 0 (stream 'x'): '1e999' is too large"),
        (
            "1,5",
            "column 0 (stream 'x'): '1,5' is no number "
            '(customDecimalPoint="," or customDelimiter="," says what a comma is)',
        ),
        ("a,b", "column 0 (stream 'x'): 'a,b' is no number"),
        ("\x01", "column 0 (stream 'x'): '\\x01' is no number"),
    ],
)
def test_bad_numbers(text: str, message: str) -> None:
    table = parse(f"1\n\n{text}\n2")
    assert table.problems == [LineProblem(2, message)]
    assert table.values[0].tolist() == [[1], [2]]


def test_too_few_columns() -> None:
    message = "the line has {} (start=1, dim=2) needs 3"
    found = parse("1 2 3\n1\n1 2\n", 1, 2).problems
    assert [p.message for p in found] == [message.format(f"{n} stream 'x'") for n in ("1 column;", "2 columns;")]


def test_too_few_columns_for_the_stream_that_ends_last() -> None:
    streams = [Columns("x", 0, 4), Columns("y", 2, 1)]
    found = parse_table(b"1 2\n", streams, Marks(), DOUBLE).problems
    assert found == [LineProblem(0, "the line has 2 columns; stream 'x' (start=0, dim=4) needs 4")]


def test_single_precision_has_a_limit() -> None:
    assert parse("1e39").problems == []
    assert parse("1e39", dtype=np.dtype(np.float32)).problems[0].message.endswith("'1e39' is too large")


MARKS = st.sampled_from([" ", ",", "\t ", " , ", ";"])
CELL = st.one_of(
    st.sampled_from(
        ["0", "-1.5", "+.5", "7.", "1e3", "2E-30", "12345678901234567", "nan", "x", "1e", "", "1e999", "é"]
    ),
    FINITE.map(repr),
    st.sampled_from("abc"),
)
LINE = st.builds(
    lambda cells, gap, end: gap.join(cells) + end, st.lists(CELL, max_size=5), MARKS, st.sampled_from(["", "\r", " "])
)
LAYOUTS = (
    [Columns("x", 0, 3)],
    [Columns("x", 1, 2), Columns("y", 0, 1, {b"a": 0, b"b": 1, b"c": 2})],
    [Columns("x", 1, 2), Columns("z", 2, 1), Columns("y", 3, 1, {b"a": 1, b"0": 0})],
)


@given(st.lists(LINE, max_size=4), st.sampled_from(LAYOUTS), st.sampled_from(["", ",", ";"]), st.sampled_from([8, 4]))
def test_the_compiled_loop_reads_what_lines_are(lines: list[str], layout: list[Columns], mark: str, size: int) -> None:
    text, marks, dtype = "\n".join(lines).encode(), Marks(mark.encode()), np.dtype(f"f{size}")
    fast, slow = read_regular(text, layout, marks, dtype), parse_lines(text, layout, marks, dtype)
    if fast is not None:
        assert slow.problems == []
        assert [one.tolist() for one in fast] == [one.tolist() for one in slow.values]
        assert [one.dtype for one in fast] == [one.dtype for one in slow.values]


@pytest.mark.skipif(find_spec("llvmlite") is None, reason="needs llvmlite")
def test_regular_tables_are_read_by_the_loop() -> None:
    text = b"".join(b"%d,%d.25,a,-3e-%d,rest of it\r\n\n" % (i, i, i) for i in range(50))
    layout = [Columns("x", 0, 2), Columns("y", 2, 1, {b"a": 7}), Columns("z", 3, 1)]
    for data, marks in ((text, Marks(b",")), (text.replace(b",", b" "), Marks())):
        fast, slow = read_regular(data, layout, marks, DOUBLE), parse_lines(data, layout, marks, DOUBLE)
        assert fast is not None
        assert [one.tolist() for one in fast] == [one.tolist() for one in slow.values]


def test_a_comma_that_is_both_marks_separates_columns() -> None:
    assert parse("1,5,3 7", 0, 3, Marks(b",", b",")).values[0].tolist() == [[1, 5, 3]]
    assert parse("1,5;3 7", 0, 3, Marks(b";", b",")).values[0].tolist() == [[1.5, 3, 7]]


@pytest.mark.parametrize("delimiter", ["e", "5"])
def test_delimiters_that_belong_to_numbers(delimiter: str) -> None:
    assert parse(f"1{delimiter}2", 0, 2, Marks(delimiter.encode())).values[0].tolist() == [[1, 2]]
    assert parse(f"1{delimiter}2{delimiter}3", 0, 1, Marks(delimiter.encode())).values[0].tolist() == [[1]]
