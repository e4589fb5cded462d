"""Texts are read by compiled loops where they can be, and line by line: both give the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cntk_reader_language import words
from cntk_reader_language.tokens import tokens
from hypothesis import example, given
from hypothesis import strategies as st

from cntk_testing.examples import examples

WORDS = ["</s>", "a", "b", "c", "zebra", "</S>", "é", "EOS", "x", "y", "z", "O", "T"]
LINES = st.lists(st.lists(st.sampled_from(WORDS), max_size=6), max_size=6)
SEPARATORS = st.sampled_from([" ", "\t", "  ", "\x0b", "\x1c"])
KNOWN = ("_text", "_next", "_numbers", "_tokens", "offsets")


def state(reader) -> dict[str, list]:
    found = {name: getattr(reader, name) for name in KNOWN if hasattr(reader, name)}
    return {name: value if isinstance(value, list) else value.tolist() for name, value in found.items()}


@pytest.mark.parametrize("kind", ["lm", "lu", "lm that knows no unknown words"])
def test_both_ways_read_the_same(kind: str, lm, lu, monkeypatch: pytest.MonkeyPatch) -> None:
    make = lu if kind == "lu" else lm
    reader = make(keys="; unk = nothing") if kind.endswith("unknown words") else make()
    read_fast = []

    @examples(150)
    @given(LINES, SEPARATORS)
    @example([["</s>", "a", "b", "</s>"]], " ")
    @example([["</s>", "a", "</s>"], ["</s>", "zebra", "b", "</s>"]], " ")
    @example([["x", "y", "O"], ["EOS", "O"], [], ["z", "T"]], " ")
    def compare(lines: list[list[str]], separator: str) -> None:
        text = "\n".join(separator.join(line) for line in lines)
        reader._problems = []
        read_fast.append(reader._read_fast(text))
        if not read_fast[-1]:
            return
        fast = state(reader)
        reader._read_lines(text)
        assert fast == state(reader)
        assert reader._problems == []

    compare()
    assert any(read_fast)


@pytest.mark.parametrize("blank", ["\x85", "\xa0", "\u2003", "\u3000"])
def test_other_blanks_are_left_to_python(blank: str) -> None:
    assert tokens(f"a{blank}b\n") is None


def test_other_ends_of_sentences_are_left_to_python(lm) -> None:
    """An end of a sentence in other letters is one, too: the word that follows is that which the recipe says."""
    Path("lm.txt").write_text("</s> a b </S>\n")
    reader = lm()
    assert not reader._read_fast("</s> a b </S>\n")
    assert reader._next.tolist()[-1] == 0


@examples(100)
@given(st.text(st.sampled_from("ab \t\n\x0b\x1c\x1fé\U0001f600\udc80"), max_size=30))
def test_words_are_those_of_split(text: str) -> None:
    found = tokens(text)
    assert found is not None
    lines = text.split("\n")
    assert found.counts.tolist() == [len(line.split()) for line in lines]
    data = text.encode("utf-8", "surrogateescape")
    spelled = [data[a:b].decode("utf-8", "surrogateescape") for a, b in zip(found.starts, found.ends, strict=True)]
    assert spelled == [word for line in lines for word in line.split()]
    known = {word: 7 * number for number, word in enumerate(sorted(set(spelled))[::2])}
    assert found.numbers(known).tolist() == [known.get(word, -1) for word in spelled]


def test_the_loops_in_python_do_the_same() -> None:
    """As they are written, with indices that are looked at."""
    data = memoryview(b"one two  one\n\nthree\n")
    starts, ends, counts = (np.zeros(10, dtype=np.int64) for _ in range(3))
    assert words.split_lines(data, *map(memoryview, (starts, ends, counts))) == 4
    assert counts[:3].tolist() == [3, 0, 1]
    table, numbers = np.zeros(8, dtype=np.int64), np.zeros(4, dtype=np.int64)
    known = [memoryview(b"twoone"), memoryview(np.array([0, 3])), memoryview(np.array([3, 6]))]
    words.fill_table(*known, memoryview(table))
    given_words = [data, memoryview(starts[:4]), memoryview(ends[:4])]
    words.look_up(*given_words, *known, memoryview(table), memoryview(numbers))
    assert numbers.tolist() == [1, 0, 1, -1]
