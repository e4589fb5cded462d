"""What a text file is taken for."""

from __future__ import annotations

from pathlib import Path

import pytest
from cntk_tool_init.places import first_lines
from cntk_tool_init.sniff import kind_of

CTF, TABLE, COLUMNS, ALIGNED, TAGGED, TEXT, MAP = (
    "CNTK text", "a table", "columns", "alignments of Kaldi", "words with tags", "sentences", "a map file",
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("a.txt", "|x 1 |y 2\n" * 3, CTF),
        ("a.txt", "7 |x 1\n", CTF),
        ("a.txt", "|x 1\n" * 20 + "no more\n", CTF),
        ("a.txt", "|x 1\n" * 19 + "no more\n", TEXT),
        ("a.txt", "1,2\n" * 3 + "1\n", TABLE),
        ("a.txt", "1,2\n" * 2 + "1\n", TEXT),
        ("a.txt", "yes, one\nno\n", TEXT),
        ("a.txt", "1 2\n3 4\n", COLUMNS),
        ("a.txt", "a 2\nb 4\n", COLUMNS),
        ("a.txt", "a b 2\nb a 4\n", TEXT),
        ("a.txt", "1\n2\n", TEXT),
        ("a.txt", "a 1 1\nb 2\n", ALIGNED),
        ("a.ali", "a 1 1\nb 2\n", ALIGNED),
        ("a.ali", "a 1 1\nb x\n", TEXT),
        ("a.ali", "a 1 1\nb\n", TEXT),
        ("a.txt", "a O\nb P\n\na O\nb O\n", TAGGED),
        ("a.txt", "a O\nb P\na O\nb O\n", TEXT),
        ("a.txt", "a O\nb P\n\n", TAGGED),
        ("a.txt", "a O\nb P\n\nc Q\n", TEXT),
        ("a.txt", "a O\nb P\n\nc Q\nd Q\na P\nb O\n", TAGGED),
        ("a.txt", "a O\nb P\n\nc Q\nd Q\na P\n", TEXT),
        ("a.txt", "a\nb\n\na\n", TEXT),
        ("a.txt", "a O\n\nb P Q\n", TEXT),
        ("a.txt", "a.png\t0\nb.png\t1\n", MAP),
        ("a.txt", "one\ta.PNG\t0\n", MAP),
        ("a.txt", "a.png\t0\nb.png\tone\n", TABLE),
        ("a.txt", "a.doc\t0\nb.doc\t1\n", TABLE),
        ("a.txt", "\n \n", "something else"),
        ("a.txt", "a\0b", "something else"),
        ("a.zip", "PK\3\4 no archive", "something else"),
    ],
)
def test_a_text(name: str, text: str, kind: str) -> None:
    Path(name).write_text(text, encoding="utf-8")
    assert kind_of(Path(name)) == kind


@pytest.mark.parametrize(
    ("size", "lines"), [(3, ["ab"]), (6, ["ab"]), (7, ["ab", "cd"]), (8, ["ab", "cd"]), (9, ["ab", "cd", "ef"])]
)
def test_the_first_whole_lines(size: int, lines: list[str]) -> None:
    Path("a.txt").write_text("ab\ncd\nef", encoding="utf-8")
    assert first_lines(Path("a.txt"), size=size) == lines


def test_the_first_lines_are_not_all() -> None:
    Path("a.txt").write_text("a\n" * 300, encoding="utf-8")
    assert len(first_lines(Path("a.txt"))) == 200
    assert len(first_lines(Path("a.txt"), 3)) == 3
