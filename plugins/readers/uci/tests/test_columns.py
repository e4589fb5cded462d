"""The loop over regular lines, run as the Python that it is: what it reads, and where it gives up."""

from __future__ import annotations

import numpy as np
import pytest
from cntk_reader_uci.columns import GIVE_UP, NAME, NUMBER, SKIPPED, read_columns

from cntk_core.api.readers import POWERS_OF_TEN

Read = tuple[list[float], list[str], list[list[int]]]


def read(text: str, kinds: list[int], delimiter: str = " ", point: str = ".", room: int = 3) -> Read | int:
    """Return numbers, names, and where odd numbers begin and end and which they are; or why not."""
    values, names = np.full(20, -1.0), np.zeros(20, np.int64)
    odd, used = np.zeros(3 * room, np.int64), np.zeros(1, np.int64)
    rows = read_columns(
        memoryview(text.encode()), memoryview(bytes(kinds)), ord(delimiter), ord(point), POWERS_OF_TEN,
        *map(memoryview, (values, names, odd, used)),
    )  # fmt: skip
    if rows < 0:
        return rows
    count = rows * kinds.count(NUMBER)
    places = names[: 2 * rows * kinds.count(NAME)].reshape(-1, 2).tolist()
    assert values[count:].tolist() == [-1.0] * (20 - count)
    noted = odd.reshape(-1, 3)[: used[0]].tolist()
    return values[:count].tolist(), [text[begin:end] for begin, end in places], noted


LINES: dict[str, tuple[str, list[int], Read]] = {
    "numbers": ("1 -2.5\n+3e2 .5\n", [NUMBER, NUMBER], ([1, -2.5, 300, 0.5], [], [])),
    "blanks": ("\t1  2 \r\n\n \n 3\t\t4\n", [NUMBER, NUMBER], ([1, 2, 3, 4], [], [])),
    "form feed": ("1\f2\v\n", [NUMBER, NUMBER], ([1, 2], [], [])),
    "names": ("a 1\nbc 2\n", [NAME, NUMBER], ([1, 2], ["a", "bc"], [])),
    "names behind": ("1 abc\n2 d\n", [NUMBER, NAME], ([1, 2], ["abc", "d"], [])),
    "skipped": ("x 1 y 2\n- 3 - 4\n", [SKIPPED, NUMBER, SKIPPED, NUMBER], ([1, 2, 3, 4], [], [])),
    "more columns": ("1 2 3 x\n4 5 6\n", [NUMBER], ([1, 4], [], [])),
    "exponents": ("1E2 1e-2 2e+1\n", [NUMBER] * 3, ([100, 0.01, 20], [], [])),
    "points": ("1. .25 -.5\n", [NUMBER] * 3, ([1, 0.25, -0.5], [], [])),
    "points and exponents": ("1.5e1 12.25e-1\n", [NUMBER] * 2, ([15, 1.225], [], [])),
    "no lines": ("\n\n", [NUMBER], ([], [], [])),
}


@pytest.mark.parametrize("name", LINES)
def test_lines_are_read(name: str) -> None:
    text, kinds, found = LINES[name]
    assert read(text, kinds) == found


def test_other_marks() -> None:
    assert read("1,5; -2;x\n;3,25;4\n", [NUMBER, NUMBER], ";", ",") == ([1.5, -2, 3.25, 4], [], [])


def test_odd_numbers_are_noted() -> None:
    found = read("1 2e99\n-3e99 4\n", [NUMBER, NUMBER])
    assert found[2] == [[2, 6, 1], [7, 12, 2]]
    assert (found[0][0], found[0][3]) == (1, 4)
    assert read("1e99\n" * 2, [NUMBER], room=2)[2] == [[0, 4, 0], [5, 9, 1]]
    assert read("1e99\n" * 3, [NUMBER], room=2) == GIVE_UP


@pytest.mark.parametrize(
    "text",
    [
        "1\n",
        "1 x\n",
        "1 2x\n",
        "1 2,3\n",
        "1 .\n",
        "1 -\n",
        "1 2e\n",
        "1 2e-\n",
        "x 1\n",
        "1 --2\n",
        "1 2\n3\n",
        "1 nan\n",
    ],
)
def test_it_gives_up_where_a_line_is_not_regular(text: str) -> None:
    assert read(f"{text}\n", [NUMBER, NUMBER]) == GIVE_UP
