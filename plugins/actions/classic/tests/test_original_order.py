"""The order of words that occur equally often, as a program of GCC 12 has it that uses the same containers."""

from __future__ import annotations

from collections import Counter

import pytest
from cntk_action_classic.original_order import Heap, hash_of, table_order
from hypothesis import given
from hypothesis import strategies as st

WORDS = Counter(b"word%d" % (number * number % 97) for number in range(60))
TABLE = (
    "73 79 18 32 48 66 6 86 11 35 89 22 54 27 65 4 61 49 75 85 64 33 95 36 88 2 12 25 93 62 81 9 91 1 43 0 72 31 70 53 "
    "24 96 44 16 94 50 3 47 8"
)
QUEUE = (
    "93 6 18 73 66 85 48 79 75 32 86 81 65 47 50 35 31 49 0 96 1 4 62 9 36 25 89 2 22 8 53 94 64 24 33 72 61 27 91 54 "
    "88 16 44 11 12 43 95 3 70"
)


@pytest.mark.parametrize(
    ("word", "number"),
    [
        (b"", 6142509188972423790),
        (b"a", 4993892634952068459),
        (b"abcdefgh", 8664279048047335611),
        (b"<unk>", 1660418084208502967),
        (b"longer than eight", 6741739171840133008),
    ],
)
def test_hashes(word: bytes, number: int) -> None:
    assert hash_of(word) == number


def test_order_of_the_table_and_of_the_queue() -> None:
    words = table_order(WORDS)
    assert words == [b"word" + number.encode() for number in TABLE.split()]
    heap = Heap((word, WORDS[word]) for word in words)
    found = [heap.pop() for _ in range(len(heap))]
    assert [word for word, _ in found] == [b"word" + number.encode() for number in QUEUE.split()]
    assert [count for _, count in found] == sorted(WORDS.values(), reverse=True)


@given(st.sets(st.binary(max_size=12), max_size=70))
def test_all_words_come_once(words: set[bytes]) -> None:
    assert sorted(table_order(words)) == sorted(words)


@given(st.lists(st.integers(0, 5), max_size=40))
def test_most_frequent_first(counts: list[int]) -> None:
    heap = Heap((b"w%d" % place, count) for place, count in enumerate(counts))
    found = [heap.pop() for _ in range(len(heap))]
    assert [count for _, count in found] == sorted(counts, reverse=True)
    assert len(set(found)) == len(counts)
    with pytest.raises(IndexError):
        heap.pop()
