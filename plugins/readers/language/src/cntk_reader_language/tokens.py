"""Texts as arrays: where the words are, and which. For texts in which every word has a number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from cntk_reader_language import words
from cntk_reader_language.vocabulary import IntArray

_OTHER_BLANKS = (
    "\x85", "\xa0", "\u1680", *map(chr, range(0x2000, 0x200B)), "\u2028", "\u2029", "\u202f", "\u205f", "\u3000",
)  # fmt: skip
"""What separates words beside blanks in ASCII."""


@attrs.frozen(eq=False)
class Tokens:
    """The words of a text.

    Attributes:
        text: its bytes.
        starts, ends: where each word begins and ends.
        counts: the words of each line.
    """

    text: words.Bytes
    starts: IntArray
    ends: IntArray
    counts: IntArray

    def numbers(self, known: Mapping[str, int]) -> IntArray:
        """Return the number that each word has in ``known``, -1 for a word that is not there."""
        fill, look_up = _loop("fill_table", words.FILL), _loop("look_up", words.LOOK_UP)
        spelled = [_bytes(word) for word in known]
        ends = np.cumsum([len(word) for word in spelled], dtype=np.int64)
        starts = ends - np.array([len(word) for word in spelled], dtype=np.int64)
        text = np.frombuffer(b"".join(spelled), dtype=np.uint8)
        table = np.zeros(1 << (2 * len(spelled)).bit_length(), dtype=np.int64)
        fill(text, starts, ends, table)
        places = np.empty(len(self.starts), dtype=np.int64)
        look_up(self.text, self.starts, self.ends, text, starts, ends, table, places)
        return np.append(np.fromiter(known.values(), dtype=np.int64, count=len(known)), -1)[places]

    def are(self, word: str) -> Any:
        """Return which words are this one; none are where it is empty."""
        return self.numbers({word: 0}) == 0


def tokens(text: str) -> Tokens | None:
    """Return the words of a text; None if it has unusual blanks, or nothing can be compiled here."""
    from cntk_core.api.engines import can_compile

    if not can_compile() or any(blank in text for blank in _OTHER_BLANKS):
        return None
    data = _bytes(text) + b"\n"
    most = len(data) // 2 + 1
    starts, ends = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
    counts = np.empty(data.count(b"\n"), dtype=np.int64)
    given = np.frombuffer(data, dtype=np.uint8)
    count = _loop("split_lines", words.SPLIT)(given, starts, ends, counts)
    return Tokens(given, starts[:count], ends[:count], counts)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _loop(function: str, signature: str) -> Any:
    """Return a function of :mod:`.words`, compiled."""
    from cntk_core.api.engines import byte_loop

    return byte_loop(words.__file__, function, signature)
