"""Where data are too many, too few, or no data at all."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from cntk_tool_init.formats import tables, text
from cntk_tool_init.formats.columns import Column
from cntk_tool_init.formats.speech import htk_dim, kaldi_dim
from cntk_tool_init.found import Wishes, several, some


@pytest.mark.parametrize(("most", "said"), [(2, ["the rarest 1 words become <unk>"]), (3, [])])
def test_words_beyond_the_most_frequent(most: int, said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "MOST_WORDS", most)
    Path("t.txt").write_text("a b c\n" * 30, encoding="utf-8")
    assert text.Sentences(Path("t.txt"), Wishes()).odd == said


@pytest.mark.parametrize(("rows", "tasks"), [(100, ("regress", "classify")), (101, ("regress",))])
def test_a_hundred_different_numbers_may_be_classes(rows: int, tasks: tuple[str, ...]) -> None:
    Path("t.csv").write_text("x,y\n" + "".join(f"{n * n},{n / 2}\n" for n in range(rows)), encoding="utf-8")
    assert tables.Table(Path("t.csv"), Wishes()).tasks == tasks


def column(*values: object) -> Column:
    return Column.of_texts("c", [str(value) for value in values])


@pytest.mark.parametrize(
    ("found", "classes"),
    [
        (column("a", "b"), True),
        (column(*[0, 1] * 2), True),
        (column(*[0, 0.5] * 9), False),
        (column(*range(21), *range(21), *range(21), *range(21), *range(21)), False),
        (column(*range(20), *range(20), *range(20), *range(20), *range(20)), True),
        (column(*range(20), *range(20), *range(20), *range(20), *range(19)), False),
        (column(3, 3, 3), False),
    ],
)
def test_columns_that_look_like_classes(found: Column, classes: bool) -> None:
    assert found.is_classes is classes


def test_numbers_that_are_missing_become_the_mean() -> None:
    found = column(1, "NA", 6, " ? ", 2)
    assert (found.missing, found.names) == (2, [1.0, 2.0, 6.0])
    np.testing.assert_array_equal(found.numbers(), [[1], [3], [6], [3], [2]])
    named = column("b", "", "a")
    assert (named.missing, named.headings()) == (1, ["c=a", "c=b"])
    np.testing.assert_array_equal(named.numbers(), [[0, 1], [0, 0], [1, 0]])


@pytest.mark.parametrize(
    ("head", "data", "found"),
    [
        ((2, 1, 8, 9), 16, (2, 2)),
        ((1, 1, 4, 0), 4, (1, 1)),
        ((2, 1, 8, 9), 15, (0, 0)),
        ((0, 1, 8, 9), 16, (0, 0)),
        ((2, 0, 8, 9), 16, (0, 0)),
        ((2, 1, 0, 9), 16, (0, 0)),
        ((2, 1, 8, 12), 16, (0, 0)),
        ((2, 1, 8, 11), 16, (2, 2)),
        ((2, 1, 8, 9 | 0o2000), 16, (2, 4)),
    ],
)
def test_heads_of_htk(head: tuple[int, ...], data: int, found: tuple[int, int]) -> None:
    for order in "><":
        Path("a.mfc").write_bytes(struct.pack(f"{order}iihH", *head) + bytes(data))
        assert htk_dim(Path("a.mfc")) == found


def test_files_that_are_not_there_or_too_short() -> None:
    assert htk_dim(Path("none.mfc")) == (0, 0)
    assert kaldi_dim(Path("none.ark"), 0) == 0
    Path("a.mfc").write_bytes(b"short")
    assert htk_dim(Path("a.mfc")) == (0, 0)
    Path("a.ark").write_bytes(b"\0BXX ....")
    assert kaldi_dim(Path("a.ark"), 0) == 0


def test_words_about_numbers() -> None:
    assert [several(count, "row") for count in (0, 1, 2, 1347)] == ["0 rows", "1 row", "2 rows", "1,347 rows"]
    assert several(2, "class", "classes") == "2 classes"
    assert some("abcdef") == "a, b, c, d, e, f"
    assert some("abcdefg") == "a, b, c, d, e, f, ... (7)"
