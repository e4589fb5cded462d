"""The exact parser's rules, and that the fast parser agrees with it."""

from __future__ import annotations

import math
from importlib.util import find_spec

import numpy as np
import pytest
from cntk_reader_cntk_text.exact import parse_exact
from cntk_reader_cntk_text.fast import parse_fast
from cntk_reader_cntk_text.lines import read_lines
from cntk_reader_cntk_text.records import Parsed, StreamSpec
from hypothesis import example, given
from hypothesis import strategies as st

from cntk_core.api.engines import can_compile
from cntk_testing.examples import examples

DENSE = StreamSpec("a", b"a", 3)
SPARSE = StreamSpec("s", b"s", 9, True)
F64 = np.dtype(np.float64)
F32 = np.dtype(np.float32)


def as_it_is_written(*arrays: np.ndarray) -> int:
    """The loop that is compiled otherwise, in Python, which sees to it that indices are inside.

    What it is to write holds something else before.
    """
    for array in arrays[8:]:
        array.fill(77)
    return read_lines(*map(memoryview, arrays))


def both_ways(data: bytes, streams: tuple[StreamSpec, ...], dtype: np.dtype) -> Parsed | None:
    """Read with the loop as it is compiled and as it is written, which have to give up at the same places.

    Without a compiler, as it is written alone.
    """
    written = parse_fast(data, streams, dtype, as_it_is_written)
    if not can_compile():
        assert parse_fast(data, streams, dtype) is None
        return written
    compiled = parse_fast(data, streams, dtype)
    assert (compiled is None) == (written is None)
    if compiled is not None:
        assert (columns(compiled), compiled.lines) == (columns(written), written.lines)
        assert compiled.short == written.short
    return compiled


def columns(parsed: Parsed) -> list[tuple]:
    found = []
    for samples in parsed.samples:
        indices = None if samples.indices is None else samples.indices.tolist()
        counts = None if samples.counts is None else samples.counts.tolist()
        found.append((samples.lines.tolist(), samples.values.tolist(), indices, counts))
    return found


def exact(text: str, *streams: StreamSpec) -> Parsed:
    return parse_exact(text.encode(), streams or (DENSE, SPARSE), F64)


def dense(text: str) -> list[list[float]]:
    parsed = exact(text, DENSE)
    assert parsed.problems == []
    return parsed.samples[0].values.tolist()


def problem(text: str, dtype: np.dtype = F64) -> tuple[int, str]:
    (found,) = parse_exact(text.encode(), (DENSE, SPARSE), dtype).problems
    assert both_ways(text.encode(), (DENSE, SPARSE), dtype) is None
    return found.column, found.message


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("|a 1 2 3\n", [[1, 2, 3]]),
        ("|a 1\t+2 -3\r\n", [[1, 2, -3]]),
        ("17 |a 1. 2.5 -0\n", [[1, 2.5, 0]]),
        ("17|a 1e2 2.5E-1 3e+0|x 1\n", [[100, 0.25, 3]]),
        ("|# any |thing |a 1 2 3|#\n", [[1, 2, 3]]),
        ("|b 7 8 ... |a 1 2 3\n", [[1, 2, 3]]),
        ("|aa 7 |a 1 2 3 |a\t4 5 6\n", [[1, 2, 3], [4, 5, 6]]),
        ("|a 1 2\n|a 3\n|a\n", [[1, 2, 0], [3, 0, 0], [0, 0, 0]]),
        ("|a 123456789012345678 0.1234567890123456789 0.1\n", [[123456789012345678.0, 0.1234567890123456789, 0.1]]),
        ("|é 1 |a 1 2 3\n", [[1, 2, 3]]),
        ("|a 1 2 3\x01|b 1\n", [[1, 2, 3]]),
    ],
)
def test_dense_rows(text: str, values: list[list[float]]) -> None:
    assert dense(text) == values
    fast = both_ways(text.encode(), (DENSE,), F64)
    if "\x01" not in text:
        assert fast is not None
        assert columns(fast) == columns(exact(text, DENSE))


def test_sparse_rows() -> None:
    text = "|s 0:1 8:-2.5\n|s\n|s 3:1e1|a 1 2 3\n"
    expected = ([0, 1, 2], [1.0, -2.5, 10.0], [0, 8, 3], [2, 0, 1])
    assert columns(exact(text))[1] == expected
    fast = both_ways(text.encode(), (DENSE, SPARSE), F64)
    assert fast is not None
    assert columns(fast)[1] == expected


def test_lines_with_several_short_samples_are_noted_once() -> None:
    text = "|a 1 |a 2\n|a 1 2 3\n|a 1 |a 2 |a 3\n|a 1 |a 2\n"
    fast = both_ways(text.encode(), (DENSE,), F64)
    assert fast is not None
    assert fast.short == exact(text, DENSE).short == [0, 2, 3]


NAMES = ("a", "ab", "ba", "abc", "abd", "b")


@given(st.lists(st.tuples(st.sampled_from([*NAMES, "c", "aba", "abcd"]), st.integers(0, 9)), min_size=1, max_size=6))
def test_streams_are_found_by_their_whole_names(items: list[tuple[str, int]]) -> None:
    streams = tuple(StreamSpec(name, name.encode(), 1) for name in NAMES)
    text = " ".join(f"|{name} {value}" for name, value in items) + "\n"
    fast = both_ways(text.encode(), streams, F64)
    known = [(name, value) for name, value in items if name in NAMES]
    if not known:
        assert fast is None
        return
    for parsed in (fast, exact(text, *streams)):
        assert parsed is not None
        found = {name: samples.values[:, 0].tolist() for name, samples in zip(NAMES, parsed.samples, strict=True)}
        assert found == {name: [value for other, value in known if other == name] for name in NAMES}


@pytest.mark.parametrize("count", [1, 2, 3, 40, 41])
def test_pairs_without_a_blank_too_many(count: int) -> None:
    """No text has more of them, and there is room for all."""
    text = f"|s{' 1:1' * count}\n"
    fast = both_ways(text.encode(), (SPARSE,), F64)
    assert fast is not None
    assert columns(fast) == columns(exact(text, SPARSE)) == [([0], [1.0] * count, [1] * count, [count])]


@pytest.mark.parametrize(("dim", "rows"), [(1, 1), (1, 50), (3, 1), (3, 50), (50, 1), (50, 3)])
def test_whole_samples_are_read_at_the_first_try(dim: int, rows: int) -> None:
    tries: list[int] = []

    def counted(*arrays: np.ndarray) -> int:
        tries.append(len(arrays))
        return as_it_is_written(*arrays)

    text = f"|a{' 1' * dim}\n".encode() * rows
    assert parse_fast(text, (StreamSpec("a", b"a", dim),), F64, counted) is not None
    assert len(tries) == 1


@pytest.mark.parametrize(("digits", "fast"), [(15, True), (16, False)])
def test_indices_of_many_digits(digits: int, fast: bool) -> None:
    text = f"|s {'3'.zfill(digits)}:2\n"
    found = both_ways(text.encode(), (SPARSE,), F64)
    assert (found is not None) is fast
    assert columns(exact(text, SPARSE)) == [([0], [2.0], [3], [1])]


def test_short_samples_are_noted() -> None:
    text = "|a 1 2 3\n|a 1 2\n|a 1 2 3\n|a 1\n"
    fast = both_ways(text.encode(), (DENSE,), F64)
    assert fast is not None
    assert fast.short == exact(text, DENSE).short == [1, 3]


@pytest.mark.parametrize(
    ("row", "column", "message"),
    [
        ("|a 1 x 3", 6, "stream 'a': 'x' is no number"),
        ("|a 1 .5 3", 6, "stream 'a': '.5' is no number (a digit must stand before the point)"),
        ("|a 1 2,5 3", 6, "stream 'a': '2,5' is no number (the decimal point is '.')"),
        ("|a 1 2,x 3", 6, "stream 'a': '2,x' is no number"),
        ("|a nan 2 3", 4, "stream 'a': 'nan' is no number (the format has no infinite or missing values)"),
        ("|a -inf 2 3", 4, "stream 'a': '-inf' is no number (the format has no infinite or missing values)"),
        ("|a 1 2 1.e5", 8, "stream 'a': '1.e5' is no number"),
        ("|a 1 2 1-2", 8, "stream 'a': '1-2' is no number"),
        ("|a 1 2 3 4", 10, "stream 'a' has more than 3 values"),
        ("|a 1:2", 4, "stream 'a': '1:2' is no number (index:value is for streams with format=sparse)"),
        ("|s 9:1", 4, "stream 's': index 9 is not below dim=9 (the first is 0)"),
        ("|s 99999999999999999999999:1", 4,
         "stream 's': index 99999999999999999999999 is not below dim=9 (the first is 0)"),
        ("|s 1 2", 4, "stream 's': '1' is no pair index:value"),
        ("|s 1:", 6, "stream 's': '' is no number"),
        ("|s 1:2:3", 6, "stream 's': '2:3' is no number"),
        ("|s -1:2", 4, "stream 's': '-1:2' is no pair index:value"),
        ("a 1 2 3", 1, "'a' stands where '|' and the name of a stream should be"),
        (" 7 |a 1 2 3", 2, "'7' stands where '|' and the name of a stream should be"),
        ("|a 1 2\x013", 8, "'3' stands where '|' and the name of a stream should be"),
        ("| a 1 2 3", 1, "'|' is not followed by the name of a stream"),
        ("||a 1 2 3", 1, "'|' is not followed by the name of a stream"),
        ("", 1, "the row is empty"),
        ("  \t", 1, "the row is empty"),
        ("12", 1, "the row has no samples"),
        ("|b 1 |# x", 1, "the row has no samples"),
        ("|a 1 2 1e999", 8, "stream 'a': '1e999' is too large"),
        ("|a 1 2 \x1b[0m", 9, "'[0m' stands where '|' and the name of a stream should be"),
    ],
)  # fmt: skip
def test_bad_rows(row: str, column: int, message: str) -> None:
    assert problem(row + "\n") == (column, message)


def test_too_large_for_float() -> None:
    assert problem("|a 1 -1e39\n", F32) == (6, "stream 'a': '-1e39' is too large")
    assert dense("|a 1 -1e39\n") == [[1, -1e39, 0]]


@pytest.mark.parametrize(("dtype", "largest"), [(F32, 3.4028234663852886e38), (F64, 1.7976931348623157e308)])
def test_the_largest_number(dtype: np.dtype, largest: float) -> None:
    parsed = parse_exact(f"|a {largest!r} 1 -{largest!r}\n".encode(), (DENSE,), dtype)
    assert parsed.problems == []
    assert parsed.samples[0].values.tolist() == [[largest, 1, -largest]]


@pytest.mark.parametrize(("length", "shown"), [(40, "y" * 40), (41, "y" * 40 + "...")])
def test_long_words_are_cut_in_messages(length: int, shown: str) -> None:
    assert problem(f"|a {'y' * length}\n") == (4, f"stream 'a': '{shown}' is no number")


def test_a_bad_row_leaves_no_sample() -> None:
    parsed = exact("|a 1 2 3 |s 1:1\n|a 4 5 6 |s 1:x\n|a 7 8 9 |s 2:1\n")
    assert parsed.samples[0].lines.tolist() == parsed.samples[1].lines.tolist() == [0, 2]
    assert [(p.line, p.column) for p in parsed.problems] == [(1, 15)]


Word = st.one_of(
    st.sampled_from(["0", "1", "-1", "+0.5", "12.25", "1e3", "2.5E-3", "7.", ".5", "1.e5", "x", "nan", "--1", "1.2.3"]),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(-1000, 1000).map("{:.4f}".format),
    st.integers(-(10**20), 10**20).map(str),
)
Pair = st.tuples(st.integers(0, 12), Word).map(lambda pair: f"{pair[0]}:{pair[1]}")
Item = st.one_of(
    st.lists(Word, max_size=4).map(lambda words: "|a " + " ".join(words)),
    st.lists(Word, min_size=3, max_size=3).map(lambda words: "|a " + "\t".join(words)),
    st.lists(Pair, max_size=4).map(lambda words: "|s " + " ".join(words)),
    st.sampled_from(["|# remark", "|unknown 1 2 x", "|", "|a", "|s", " "]),
)
Row = st.builds(
    lambda key, items, sep, end: key + sep.join(items) + end,
    st.sampled_from(["", "", "0 ", "17\t", "5", " "]),
    st.lists(Item, min_size=1, max_size=4),
    st.sampled_from([" ", "", "\t"]),
    st.sampled_from(["", "", " ", "\r"]),
)


@examples(400)
@given(st.lists(Row, min_size=1, max_size=5), st.sampled_from([F32, F64]))
@example(["|a 1 2 3", "|a 9007199254740993 0.30000000000000004 1e-320"], F64)
def test_the_fast_parser_agrees(rows: list[str], dtype: np.dtype) -> None:
    text = "".join(row + "\n" for row in rows).encode()
    fast = both_ways(text, (DENSE, SPARSE), dtype)
    if fast is None:
        return
    slow = parse_exact(text, (DENSE, SPARSE), dtype)
    assert slow.problems == []
    assert (columns(fast), fast.lines, fast.short) == (columns(slow), slow.lines, slow.short)


@examples(200)
@given(st.lists(st.sampled_from(list("|as# 0159.-+e:\t\r\n\x00é")), max_size=60).map("".join))
def test_the_fast_parser_agrees_on_any_text(text: str) -> None:
    data = text.encode() + b"\n"
    fast = both_ways(data, (DENSE, SPARSE), F64)
    slow = parse_exact(data, (DENSE, SPARSE), F64)
    if fast is not None:
        assert slow.problems == []
        assert (columns(fast), fast.short) == (columns(slow), slow.short)


@pytest.mark.parametrize(("key", "fast"), [("109", True), ("1/0", False), ("1:9", False), ("0/", False), (":", False)])
def test_ids_of_the_fast_parser_are_of_digits(key: str, fast: bool) -> None:
    """The characters next to '0' and '9' are none."""
    assert (both_ways(f"{key} |a 1 2 3\n".encode(), (DENSE, SPARSE), F64) is not None) is fast


def test_regular_text_is_parsed_fast() -> None:
    rows = "".join(f"{i} |a {i} -0.{i} {i}.25 |# x |s {i % 9}:1 |l 0 1\n" for i in range(50))
    assert both_ways(rows.encode(), (DENSE, SPARSE), F32) is not None


@pytest.mark.skipif(find_spec("llvmlite") is None, reason="needs llvmlite")  # numbers have 64 bits there
@examples(200)
@given(st.lists(st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.floats(-9, 9)), min_size=1, max_size=8))
def test_numbers_are_rounded_correctly(numbers: list[float]) -> None:
    for style in ("{!r}", "{:.3f}", "{:.17e}", "{:.16f}", "{:.9g}"):
        words = [style.format(number) for number in numbers]
        found = parse_fast(f"|a {' '.join(words)}\n".encode(), (StreamSpec("a", b"a", len(words)),), F64)
        assert found is not None
        expected = [float(word) for word in words]
        values = found.samples[0].values[0].tolist()
        assert values == expected
        assert [math.copysign(1, x) for x in values] == [math.copysign(1, x) for x in expected]


def test_a_number_of_many_digits_between_two_others() -> None:
    """17 digits next to the middle between two numbers in double precision: rounded once, not twice."""
    for mantissa in (9007199254740993, 90071992547409935, 900719925474099350, 18014398509481985, 999999999999999999):
        for power in range(23):
            word = f"{mantissa}e-{power}"
            found = both_ways(f"|a {word}\n".encode(), (StreamSpec("a", b"a", 1),), F64)
            assert found is not None
            assert found.samples[0].values[0, 0] == float(word), word


@pytest.mark.parametrize(("dim", "fast"), [(100, True), (1000, False)])
def test_samples_that_are_filled_up_have_room(dim: int, fast: bool) -> None:
    """Where there would be many more zeros than bytes of text, the exact parser sees to them."""
    wide = StreamSpec("w", b"w", dim)
    text = b"|w 1 2\n" * 40
    found, slow = both_ways(text, (wide,), F32), parse_exact(text, (wide,), F32)
    assert (found is not None) is fast
    for parsed in (slow, found or slow):
        assert parsed.samples[0].values.sum(axis=1).tolist() == [3] * 40
        assert parsed.short == list(range(40))


def test_zeros_in_front_of_an_index() -> None:
    text = f"|s {'0' * 30}7:1\n"
    assert columns(exact(text, SPARSE)) == [([0], [1.0], [7], [1])]
    assert problem(f"|s {'9' * 30}:1\n") == (4, f"stream 's': index {'9' * 30} is not below dim=9 (the first is 0)")
