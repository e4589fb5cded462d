"""Limits and what is shown of long things: at the limit and one beyond it."""

from __future__ import annotations

import pytest
from cntk_builder_brainscript.delayed import bounded_path_text


def test_many_values_beside_each_other_are_not_deep(value):
    assert value("z = array[1..300] (i => (i * 2) + 1)", max_depth=40) == [2 * i + 1 for i in range(1, 301)]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("z = array[3..5] (i => i)", [3, 4, 5]),
        ("z = array[3..3] (i => i)", [3]),
        ("z = array[3..2] (i => i)", []),
        ("z = array[3..-5] (i => i)", []),
    ],
)
def test_how_many_elements_a_range_has(value, text, wanted):
    assert value(text) == wanted


@pytest.mark.parametrize(
    ("begin", "count", "wanted"),
    [(0, 2, "he"), (0, -1, "hello"), (0, 0, ""), (-2, 5, "lo"), (-9, 2, "he"), (5, 1, ""), (9, 1, ""), (4, 1, "o")],
)
def test_parts_of_texts(value, begin, count, wanted):
    assert (
        value(f"z = new StringFunction [ what = 'Substr' ; arg = 'hello' ; pos = {begin} ; chars = {count} ]") == wanted
    )


def test_numbers_of_characters(value, problem):
    assert value("z = Format (1114111, 'c')") == chr(0x10FFFF)
    assert value("z = Format (0, 'c')") == "\0"
    for number in (1114112, -1):
        assert f"{number} is not the number of a character" in problem(f"z = Format ({number}, 'c')")


def circle(count):
    names = [f"a{place}" for place in range(count)]
    return "\n".join(f"{one} = {other}" for one, other in zip(names, [*names[1:], names[0]], strict=True)), names


def test_ten_names_of_a_circle_are_shown(problem):
    text, names = circle(10)
    assert problem(f"{text}\nz = a0").splitlines()[1] == f"    {' -> '.join([*names, 'a0'])}"
    text, names = circle(11)
    shown = [*names[:8], "... 2 more ...", names[10], "a0"]
    assert problem(f"{text}\nz = a0").splitlines()[1] == f"    {' -> '.join(shown)}"


@pytest.mark.parametrize(("size", "shown"), [(30, "x" * 30), (31, "x" * 27 + "...")])
def test_thirty_characters_of_a_word_are_shown(problem, size, shown):
    assert problem(f"z = (1 {'x' * size})").splitlines()[0].endswith(f"not '{shown}'")


def test_as_many_segments_of_a_path_as_there_may_be():
    path = None
    for name in "abcd":
        path = (path, name)
    assert bounded_path_text(path, 4) == "a.b.c.d"
    with pytest.raises(OverflowError, match=r"^a\.b\.c\.d\.\.\.$"):
        bounded_path_text(path, 3)
