"""Text that knows where it was written; comments."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cntk_core.config.source import SourceText, read_file, strip_comment, strip_comments
from cntk_core.errors import ConfigError, Location


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("a=1", "a=1"),
        ("a=1 # why", "a=1"),
        ("a=1\t#why", "a=1"),
        ("   # all of it", ""),
        ("# all of it", ""),
        (" \t ", ""),
        ("a=b#c", "a=b#c"),
        ("a=b#c # why", "a=b#c"),
        ("a=1#INF", "a=1#INF"),
        ('a="x # y"', 'a="x # y"'),
        ('a="x" # a "quoted" word', 'a="x"'),
        ('a="x # y', 'a="x'),
        ('a="x" b="y # z"', 'a="x" b="y # z"'),
        ("  a=1  ", "  a=1"),
    ],
)
def test_comment(line: str, left: str) -> None:
    assert strip_comment(line) == left


def test_line_numbers_survive_comment_stripping() -> None:
    source = strip_comments("# title\r\n\r\na=1 # one\r\n  b=2\n", "r.cntk")
    assert source.text == "a=1\n  b=2"
    assert source.locate(0) == Location("r.cntk", 3, 1)
    assert source.locate(source.text.index("b")) == Location("r.cntk", 4, 3)


def test_slice_strip_and_join_keep_places() -> None:
    source = SourceText.of("first  \n  second", "f")
    part = source.slice(9, 16).strip()
    assert part.text == "second"
    assert part.where == Location("f", 2, 3)
    joined = SourceText.join([part, SourceText.of("third", "g", 7, 5)], " ")
    assert joined.text == "second third"
    assert joined.locate(3) == Location("f", 2, 6)
    assert joined.locate(8) == Location("g", 7, 6)


def test_locate_is_clamped() -> None:
    source = SourceText.of("ab", "f")
    assert source.locate(-5) == Location("f", 1, 1)
    assert source.locate(99) == Location("f", 1, 3)
    assert SourceText.join([]).where == Location()


@given(st.text(alphabet="ab\n #\t", max_size=60), st.data())
def test_each_character_is_found_again(text: str, data: st.DataObject) -> None:
    source = SourceText.of(text, "f")
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    part = source.slice(start, end)
    lines = text.split("\n")
    assert part.text == text[start:end]
    for offset, character in enumerate(part.text):
        place = part.locate(offset)
        assert (lines[place.line - 1] + "\n")[place.column - 1] == character


def test_missing_file(tmp_path) -> None:
    (tmp_path / "train.cntk").write_text("a=1")
    with pytest.raises(ConfigError) as caught:
        read_file(tmp_path / "trian.cntk")
    assert str(caught.value) == (
        f"cannot read the config file '{tmp_path}/trian.cntk': No such file or directory; did you mean 'train.cntk'?\n"
        "    Relative paths count from currentDirectory, or from where the command was started."
    )


def test_encodings(tmp_path) -> None:
    path = tmp_path / "r.cntk"
    path.write_bytes(b"\xef\xbb\xbfa=caf\xc3\xa9\n")
    assert read_file(path).text == "a=café"
    path.write_bytes(b"a=caf\xe9\n")
    assert read_file(path).text == "a=café"


@pytest.mark.parametrize(
    ("data", "hint"),
    [
        ("x=1".encode("utf-16"), "\n    Is it a text in UTF-16? Save it in UTF-8."),
        (b"\xfe\xff\0x\0=", "\n    Is it a text in UTF-16? Save it in UTF-8."),
        (b"x=\0", ""),
    ],
)
def test_files_that_are_no_text(tmp_path: Path, data: bytes, hint: str) -> None:
    (tmp_path / "a.cntk").write_bytes(data)
    with pytest.raises(ConfigError) as caught:
        read_file(tmp_path / "a.cntk")
    assert str(caught.value) == f"the config file '{tmp_path}/a.cntk' is no text: it has bytes that are 0{hint}"
