"""The loop over usual entries of label files, run as the Python that it is."""

from __future__ import annotations

import numpy as np
import pytest
from cntk_reader_htk.entries import UNUSUAL, read_entries

Entry = tuple[str, int, list[tuple[str, int]]]


def read(text: str, longest: int = 40, most_frames: int = 1000) -> list[Entry] | int:
    """Return the name of each entry, its line, and its states with their frames."""
    names, name_ends, lines, offsets = (np.zeros(9, np.int64) for _ in range(4))
    states, state_ends, counts = (np.zeros(20, np.int64) for _ in range(3))
    arrays = (names, name_ends, lines, offsets, states, state_ends, counts)
    entries = read_entries(memoryview(text.encode()), longest, most_frames, *map(memoryview, arrays))
    found: list[Entry] = []
    for one in range(entries):
        first = int(offsets[one - 1]) if one else 0
        ranges = [(text[states[at] : state_ends[at]], int(counts[at])) for at in range(first, int(offsets[one]))]
        found.append((text[names[one] : name_ends[one]], int(lines[one]), ranges))
    return found if entries >= 0 else entries


def test_entries_are_read() -> None:
    text = '"*/a.lab"\n0 3 sil\n3 5 a_s2 -12.5 word\n.\n"b"\n0 1 x\n.\n'
    assert read(text) == [("*/a.lab", 0, [("sil", 3), ("a_s2", 2)]), ("b", 4, [("x", 1)])]
    assert read("") == []


def test_times_are_frames_or_units_of_100_nanoseconds() -> None:
    assert read('"a"\n0 300000 x\n300000 450001 y\n.\n') == [("a", 0, [("x", 3), ("y", 2)])]
    assert read('"a"\n0 99999 x\n.\n', most_frames=10**6) == [("a", 0, [("x", 1)])]
    assert read('"a"\n0 99998 x\n.\n', most_frames=10**6) == [("a", 0, [("x", 99998)])]
    assert read('"a"\n0 149999 x\n.\n') == [("a", 0, [("x", 1)])]
    assert read('"a"\n0 150000 x\n.\n') == [("a", 0, [("x", 2)])]
    assert read('"a"\n0 2 x\n2 2 y\n.\n') == [("a", 0, [("x", 2), ("y", 0)])]


def test_states_are_printed_characters() -> None:
    assert read('"a"\n0 1 !~\n.\n') == [("a", 0, [("!~", 1)])]
    assert read('"~ !"\n0 1 x\n.\n') == [("~ !", 0, [("x", 1)])]
    assert read('"a"\n0 1 .x\n.\n') == [("a", 0, [(".x", 1)])]
    for odd in ("\x7f", "\t", "\x1f", "\u00e9"):
        assert read(f'"a"\n0 1 x{odd}\n.\n') == UNUSUAL
        assert read(f'"a{odd}"\n0 1 x\n.\n') == UNUSUAL


def test_a_line_may_be_as_long_as_is_said() -> None:
    assert read('"123"\n0 1 x\n.\n', longest=5) == [("123", 0, [("x", 1)])]
    assert read('"1234"\n0 1 x\n.\n', longest=5) == UNUSUAL
    assert read('"1"\n0 1 xy\n.\n', longest=6) == [("1", 0, [("xy", 1)])]
    assert read('"1"\n0 1 xyz\n.\n', longest=6) == UNUSUAL


def test_an_entry_may_have_as_many_frames_as_is_said() -> None:
    assert read('"a"\n0 7 x\n.\n', most_frames=7) == [("a", 0, [("x", 7)])]
    assert read('"a"\n0 8 x\n.\n', most_frames=7) == UNUSUAL


def test_numbers_have_up_to_15_digits() -> None:
    most = 10**15
    assert read('"a"\n000000000000000 1 x\n.\n') == [("a", 0, [("x", 1)])]
    assert read('"a"\n0000000000000000 1 x\n.\n') == UNUSUAL
    assert read(f'"a"\n0 {most - 1} x\n.\n', most_frames=most) == [("a", 0, [("x", 10**10)])]


@pytest.mark.parametrize(
    "text",
    [
        '""\n0 1 x\n.\n', '"\n0 1 x\n.\n', 'a\n0 1 x\n.\n', '"a\n0 1 x\n.\n', 'a"\n0 1 x\n.\n', '"a"\n.\n',
        '"a"\n1 2 x\n.\n', '"a"\n0 1 x\n2 3 y\n.\n', '"a"\n0 2 x\n2 1 y\n.\n', '"a"\n0 1\n.\n', '"a"\n0 1 \n.\n',
        '"a"\n0 x\n.\n', '"a"\nx 1 y\n.\n', '"a"\n0  1 x\n.\n', '"a"\n-1 1 x\n.\n',
        '"a"\n0 1: x\n.\n', '"a"\n0 / x\n.\n',
    ],
)  # fmt: skip
def test_what_is_not_usual_is_left_to_others(text: str) -> None:
    assert read(text) == UNUSUAL
