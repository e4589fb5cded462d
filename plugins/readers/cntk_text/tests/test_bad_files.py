"""Warnings and errors of text files: rows and sequences that are left out, numbers of lines, files that are none."""

from __future__ import annotations

import os
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from cntk_reader_cntk_text import StreamOptions
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from text_reading import LINES, SEQUENCES, A, L, error_of, read

from cntk_core.api import ConfigError, DataError, EpochSpec
from cntk_testing.examples import examples

# Warnings


def test_missing_newline_is_a_warning(make) -> None:
    assert make("|a 1 2").told == ["WARNING: t.ctf: the last line does not end with a newline"]


def test_too_few_values_is_a_warning(make) -> None:
    reader = make("|a 1 2\n|a 3\n|a 4\n")
    assert read(reader) == [{"a": [[1, 2], [3, 0], [4, 0]]}]
    read(reader)
    text = "WARNING: t.ctf:2: a dense sample has too few values and is filled up with zeros (and 1 more rows)"
    assert reader.told == [text]


def test_one_row_with_too_few_values(make) -> None:
    reader = make("|a 1 2\n|a 3\n")
    read(reader)
    assert reader.told == ["WARNING: t.ctf:2: a dense sample has too few values and is filled up with zeros"]


def test_no_warnings_at_trace_level_0(make) -> None:
    reader = make("|a 1", trace_level=0)
    read(reader)
    assert reader.told == []


# Errors

HINT = "    `cntk check-data` lists them all; maxErrors=n leaves out up to n rows."


def test_bad_row(make) -> None:
    assert error_of(lambda: read(make("|a 1 2\n|a 1 x\n|a 3 4\n"))) == (
        f"t.ctf: CNTKTextFormatReader: at least 1 malformed row, maxErrors=0\n"
        f"    t.ctf:2:6: stream 'a': 'x' is no number\n{HINT}"
    )


def test_many_bad_rows(make) -> None:
    text = error_of(lambda: read(make("|a x\n" * 9)))
    assert text.splitlines()[0] == "t.ctf: CNTKTextFormatReader: at least 9 malformed rows, maxErrors=0"
    assert text.splitlines()[5:] == ["    t.ctf:5:4: stream 'a': 'x' is no number", "    ...", HINT]


def test_max_errors(make) -> None:
    reader = make("|a 1 2\n|a 1 x\n|a 3 4\n\n|a 5 6\n", max_errors=2)
    assert read(reader) == read(reader) == [{"a": [[1, 2], [3, 4], [5, 6]]}]
    assert reader.told == [
        "WARNING: left out: t.ctf:2:6: stream 'a': 'x' is no number",
        "WARNING: left out: t.ctf:4:1: the row is empty",
    ]


@pytest.mark.parametrize("bad", [4, 5, 6, 9])
def test_the_first_rows_that_are_left_out_are_told(make, bad: int) -> None:
    reader = make("|a 1 2\n" + "|a x\n" * bad, max_errors=9)
    assert read(reader) == [{"a": [[1, 2]]}]
    rows = [f"WARNING: left out: t.ctf:{line}:4: stream 'a': 'x' is no number" for line in range(2, 2 + min(bad, 5))]
    more = [f"WARNING: t.ctf: {bad} malformed rows left out in all"] if bad > 5 else []
    assert reader.told == rows + more


def test_sequences_between_bad_ones_have_their_own_samples(make) -> None:
    text = "1 |a x\n2 |a 2 2 |l 0:2 2:3\n3 |l 0:9\n4 |a 4 4 |l 1:4\n5 |a 5 5 |l\n6 |a 6 6 |l 0:6 1:7 2:8\n"
    reader = make(text, (A, L), max_errors=3)
    assert read(reader) == [{"a": [[2, 2], [4, 4], [5, 5], [6, 6]], "l": [[2, 0, 3], [0, 4, 0], [0, 0, 0], [6, 7, 8]]}]
    assert list(reader.source.keys(0)) == [2, 4, 5, 6]


def test_what_follows_an_id_is_none_of_its_digits(make) -> None:
    reader = make("5 |a 1 1\n5: |a 2 2\n5/ |a 2 2\n5 |a 3 3\n", max_errors=2)
    (minibatch,) = reader.minibatches(EpochSpec())
    assert minibatch.streams["a"].layout.keys == (5,)
    assert minibatch.streams["a"].layout.lengths.tolist() == [2]


@pytest.mark.parametrize("max_errors", [0, 2])
@pytest.mark.parametrize("text", [LINES, SEQUENCES, "7 |a 1 1 |l 0:1\n|a 2 2 |l 1:1\n7 |a 3 3 |l\n9 |a 4 4 |l\n"])
@pytest.mark.parametrize("chunk", [1, 30, 70, 10**6])
def test_chunks_hold_what_the_index_says(make, text: str, chunk: int, max_errors: int) -> None:
    source = make(text, (A, L), chunk_size_in_bytes=chunk, max_errors=max_errors).source
    keys: list[int] = []
    for number, info in enumerate(source.index()):
        loaded = source.load(number)
        every = np.arange(info.sequences)
        for column in loaded.columns.values():
            assert column.lengths(every).tolist() == info.sample_counts().tolist()
        assert int(info.sample_counts().sum()) == info.samples
        own = np.asarray(source.keys(number)).tolist()
        assert len(own) == info.sequences
        assert len(loaded.keys) in (0, info.sequences)
        keys += own
    assert keys == {LINES: list(range(10)), SEQUENCES: list(range(5))}.get(text, [7, 9])


@pytest.mark.parametrize("counted", [False, True])
def test_whether_one_stream_is_counted(make, counted: bool) -> None:
    main = StreamOptions(name="l", dim=3, format="sparse", defines_mb_size=counted)
    assert make(LINES, (A, main)).counts is counted


def test_max_errors_exceeded(make) -> None:
    text = error_of(lambda: read(make("|a 1 2\n|a 1 x\n|a y 4\n|a 5 6\n", max_errors=1)))
    assert text.splitlines()[0] == "t.ctf: CNTKTextFormatReader: 2 malformed rows, maxErrors=1"


def test_max_errors_in_sequences(make) -> None:
    text = "1 |a 1 1 |l 0:1\n1 |a 2 x |l 0:1\n1 |a 3 3 |l 0:1\n2 |a 4 4\n3 |a 5 5 |l 1:1\n"
    reader = make(text, (A, L), max_errors=2, chunk_size_in_bytes=30)
    assert [mb.samples for mb in reader.minibatches(EpochSpec())] == [3]
    assert reader.told[1] == "WARNING: left out: t.ctf:4: sequence 2 has no sample of stream 'l'"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("|a 1 2\n", "t.ctf:1: the row has no sample of stream 'l'"),
        ("|a 1 2 |a 3 4 |l 1:1\n", "t.ctf:1: the row has 2 samples of stream 'a'"),
        ("4 |a 1 2 |l 0:1\n4 |a 3 4 |a 5 6\n", "t.ctf:1: sequence 4 has 3 samples of stream 'a' in 2 rows"),
        ("4 |a 1 2\n4 |l 0:1\n", "t.ctf:1: sequence 4 has 2 rows, but no stream has more than 1 samples"),
        ("4 |x 1\n", "t.ctf:1:1: the row has no samples"),
    ],
)
def test_bad_sequences(make, text: str, message: str) -> None:
    assert error_of(lambda: read(make(text, (A, L)))).splitlines()[1].strip() == message
    assert [str(error) for error in make(text, (A, L)).check()] == [message]


def test_check_lists_everything(make) -> None:
    text = LINES + "|a 1 x\n\n|a 1 2 3 |l 0:1\n" + LINES + "|l 7:1\n|l 0:1"
    assert [str(error) for error in make(text, (A, L)).check()] == [
        "t.ctf:11:6: stream 'a': 'x' is no number",
        "t.ctf:12:1: the row is empty",
        "t.ctf:13:8: stream 'a' has more than 2 values",
        "t.ctf:24:4: stream 'l': index 7 is not below dim=3 (the first is 0)",
        "t.ctf:25: the row has no sample of stream 'a'",
    ]
    assert list(make(LINES, (A, L)).check()) == []


@pytest.mark.parametrize("end", ["", "\n", "\n\n \n"])
@pytest.mark.parametrize("key", ["", "3 "])
def test_lines_are_numbered_whatever_the_chunks(make, key: str, end: str) -> None:
    """Empty lines count, those at the end of the file do not."""
    text = f"{key}|a 1 2\n\n{key}|a x\n\n\n{key}|a 1 {'2' * 30}\n{key}|a 1 2 3{end}"
    wrong = len(key) + 4
    expected = [
        "t.ctf:2:1: the row is empty",
        f"t.ctf:3:{wrong}: stream 'a': 'x' is no number",
        "t.ctf:4:1: the row is empty",
        "t.ctf:5:1: the row is empty",
        f"t.ctf:7:{wrong + 4}: stream 'a' has more than 2 values",
    ]
    for chunk in (1, 2, 5, 7, 8, 9, 13, 16, 23, 31, 50, 100):
        assert [str(error) for error in make(text, chunk_size_in_bytes=chunk).check()] == expected


def test_columns_count_over_blocks(make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cntk_reader_cntk_text.source._BLOCK", 16)
    text = LINES + "|a 1 x |l 0:1\n" + LINES
    assert [str(e) for e in make(text, (A, L)).check()] == ["t.ctf:11:6: stream 'a': 'x' is no number"]
    assert "t.ctf:11:6: stream 'a': 'x' is no number" in error_of(lambda: read(make(text, (A, L))))


def test_threads_that_parse_are_no_more_than_computing_has(make, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def pool(workers: int, name: str) -> ThreadPoolExecutor:
        made.append(workers)
        return ThreadPoolExecutor(workers, name)

    monkeypatch.setattr("cntk_reader_cntk_text.source.ThreadPoolExecutor", pool)
    monkeypatch.setattr("cntk_reader_cntk_text.source._BLOCK", 16)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)
    found = []
    for threads in ("1", "2", "", "7"):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        found.append(read(make(LINES, (A, L))))
    assert set(made) == {2, 4}  # one needs no pool
    assert found == [found[0]] * 4
    monkeypatch.setattr("cntk_reader_cntk_text.source._BLOCK", len(LINES) + 1)
    del made[:]
    assert read(make(LINES, (A, L))) == found[0]
    assert made == []  # neither does one block


TOO_LARGE = (
    "the sequence id is above 18446744073709551615 (2^64 - 1), or has too many digits\n"
    "    Number the sequences anew; skipSequenceIds=true takes each line for a sequence."
)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "t.ctf: the file is empty"),
        (b" \n\n", "t.ctf: the file is empty"),
        (
            "|a 1 2\n".encode("utf-16"),
            "t.ctf: the file is in UTF-16; the text format is UTF-8\n"
            "    Convert it: iconv -f UTF-16 -t UTF-8 't.ctf' > new.ctf",
        ),
        (
            b"x |a 1 2\n",
            "t.ctf:1:1: a sequence id was expected at the start of the file\n"
            "    Begin each line with '|', or each with a number; skipSequenceIds=true ignores ids.",
        ),
        (b"1 |a 1 2\n000000000000000000001 |a 1 2\n", f"t.ctf:2:1: {TOO_LARGE}"),
        (b"1 |a 1 2\n18446744073709551616 |a 1 2\n", f"t.ctf:2:1: {TOO_LARGE}"),
        (b"1 |a 1 2\n|a 1 2\n18446744073709551616 |a 1 2\n", f"t.ctf:3:1: {TOO_LARGE}"),
    ],
)
@pytest.mark.parametrize("piece", [9, 1 << 22])
def test_bad_files(make, monkeypatch: pytest.MonkeyPatch, data: bytes, message: str, piece: int) -> None:
    monkeypatch.setattr("cntk_reader_cntk_text.source._INDEX_PIECE", piece)
    assert error_of(lambda: read(make(data))) == message


def test_a_file_that_ends_in_an_id(make) -> None:
    assert error_of(lambda: read(make("0 |a 1 2\n15"))).splitlines()[1] == "    t.ctf:2:1: the row has no samples"


LARGE = [1, 2**63 - 1, 2**63, 2**63 + 1, 9999999999999999998, 2**64 - 1, 0, 18446744073709551609]


@pytest.mark.parametrize("piece", [16, 1 << 22])
@pytest.mark.parametrize("max_errors", [0, 1])
def test_ids_are_exact_in_all_64_bits(make, monkeypatch: pytest.MonkeyPatch, piece: int, max_errors: int) -> None:
    monkeypatch.setattr("cntk_reader_cntk_text.source._INDEX_PIECE", piece)
    text = "".join(f"{key} |a {row} 0\n|a {row} 1\n" for row, key in enumerate(LARGE))
    reader = make(text, max_errors=max_errors, chunk_size_in_bytes=piece)
    found = [minibatch.streams["a"].layout for minibatch in reader.minibatches(EpochSpec(minibatch_size=1))]
    assert [layout.keys for layout in found] == [(key,) for key in LARGE]
    assert [minibatch.samples for minibatch in reader.minibatches(EpochSpec(minibatch_size=1))] == [2] * len(LARGE)


def test_ids_are_joined_over_pieces(make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cntk_reader_cntk_text.source._INDEX_PIECE", 8)
    reader = make("0 |a 1 2\n0 |a 3 4\n|a 5 6\n9223372036854775808 |a 1 2\n9223372036854775808 |a 3 4\n")
    assert [minibatch.samples for minibatch in reader.minibatches(EpochSpec(minibatch_size=1))] == [3, 2]


@pytest.mark.parametrize("chunk", [1, 10, 1 << 20])
@pytest.mark.parametrize("key", ["", "7 "])
@pytest.mark.parametrize("end", ["\n", "", "\n|a 1 2\n"])
def test_lines_that_are_too_long(make, chunk: int, key: str, end: str) -> None:
    good, long = f"{key}|a 1 2\n" * 3, f"{key}|a 1 {'2' * 30}"
    text = good + long + end
    message = (
        f"t.ctf:4: the line has more than {len(long) - 1} bytes, maxLineBytes={len(long) - 1}\n"
        "    Is it the right file? If it is, give the reader a larger maxLineBytes."
    )
    reader = make(text, max_line_bytes=len(long) - 1, chunk_size_in_bytes=chunk)
    assert error_of(lambda: read(reader)) == message
    assert [str(error) for error in reader.check()] == [message]
    assert read(make(text, max_line_bytes=len(long), chunk_size_in_bytes=chunk))


def test_a_line_that_is_too_long_behind_an_empty_one(make) -> None:
    reader = make(f"\n|a 1 {'2' * 30}\n", max_line_bytes=20, skip_sequence_ids=True)
    assert error_of(lambda: read(reader)).startswith("t.ctf:2: the line has more than 20 bytes")


def test_a_long_line_is_not_collected(make) -> None:
    reader = make("|a " + "1 " * (8 << 20), max_line_bytes=1 << 20, chunk_size_in_bytes=1 << 16)
    tracemalloc.start()
    assert error_of(lambda: read(reader)).startswith("t.ctf:1: the line has more than 1048576 bytes")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20


def test_a_long_line_with_too_many_values_is_not_parsed_as_a_whole(make) -> None:
    reader = make("|a " + "1 " * (4 << 20), prefetch=False)
    tracemalloc.start()
    assert "t.ctf:1:8: stream 'a' has more than 2 values" in error_of(lambda: read(reader))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 48 << 20


def test_a_long_line_of_many_values(make) -> None:
    values = list(range(600_000))
    wide = StreamOptions(name="a", dim=len(values), format="dense")
    text = "|a " + " ".join(map(str, values)) + "|other " + "9 " * 9 + "\n"
    (minibatch,) = read(make(text, (wide,)))
    assert minibatch["a"] == [values]


def test_a_row_that_is_a_sequence_has_one_sample(make) -> None:
    counted = StreamOptions(name="l", dim=3, format="sparse", defines_mb_size=True)
    message = "t.ctf:2: the row has 2 samples of stream 'l'"
    assert message in error_of(lambda: read(make("|a 1 2 |l 0:1\n|a 1 2 |l 0:1 |l 1:1\n", (A, counted))))


def test_dim_differs_from_the_network(make) -> None:
    with pytest.raises(ConfigError) as caught:
        make(LINES, inputs={"a": (4, 3)})
    assert str(caught.value) == (
        "stream 'a' has dim=2, but the network's input 'a' is [3 x 4]\n    Set dim=12, or change the input."
    )


def test_truncated_changes_nothing_and_says_so(make) -> None:
    reader = make(LINES, truncated=True)
    assert reader.told == ["CNTKTextFormatReader reads whole sequences, truncated=true does not change that."]
    assert sum(minibatch.samples for minibatch in reader.minibatches(EpochSpec(minibatch_size=1))) > 0


Noise = st.lists(
    st.sampled_from([b"|a 1 2", b"|l 0:1", b"\n", b"\n", b"1 ", b"2 ", b"|", b"#", b" ", b"x", b"\r", b"9" * 30, b"\0"])
    | st.binary(max_size=4),
    max_size=30,
).map(b"".join)


@examples(150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(Noise, st.integers(0, 3), st.integers(1, 60), st.booleans())
def test_any_bytes_give_minibatches_or_one_typed_error(
    make, data: bytes, max_errors: int, chunk: int, shuffled: bool
) -> None:
    try:
        reader = make(
            data, (A, L), max_errors=max_errors, chunk_size_in_bytes=chunk, randomize="auto" if shuffled else "none"
        )
    except DataError:
        return
    problems = list(reader.check())
    assert all(isinstance(problem, DataError) for problem in problems)
    try:
        samples = sum(mb.samples for mb in reader.minibatches(EpochSpec(minibatch_size=3)))
    except DataError:
        return
    assert samples > 0
    assert len(problems) <= max_errors
