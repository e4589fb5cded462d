"""CNTK's text format against a scanner that goes from character to character, as docs/data.md tells the rules.

The first byte of an input says how the rest of it is read.
"""

from __future__ import annotations

import random
import re
from itertools import groupby
from typing import Any

import attrs
import numpy as np
from cntk_reader_cntk_text.records import StreamSpec
from cntk_reader_cntk_text.source import TextRules, TextSource
from cntk_reader_cntk_text.textfile import TextFile

from cntk_core.api import CntkError
from fuzzing.engine import Finding, mutated, same
from fuzzing.files import plain, rows_of, write

_STREAMS = (StreamSpec("x", b"a", 3), StreamSpec("s", b"s", 9, True))
_NUMBER = re.compile(r"[+-]?[0-9]+(\.|\.[0-9]+|\.[0-9]+[eE][+-]?[0-9]+|[eE][+-]?[0-9]+)?")
_SIZES = (1, 24, 1 << 20, 1 << 20)


@attrs.frozen
class _How:
    """How an input is read."""

    by_line: bool
    errors: int
    main: int | None
    chunk: int
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, byte: int) -> _How:
        return cls(
            by_line=bool(byte & 1),
            errors=2 if byte & 2 else 0,
            main=(None, None, 0, 1)[byte >> 2 & 3],
            chunk=_SIZES[byte >> 4 & 3],
            dtype=np.dtype(np.float32 if byte & 64 else np.float64),
        )


Sequence = tuple[int | None, list[list[str]], list[list[str]]]
"""A sequence: its id, and the rows of both streams."""


def make(pick: random.Random) -> bytes:
    lines = []
    key = 0
    ids = pick.random() < 0.6
    for _ in range(pick.choice((1, 2, 3, 5, 9))):
        key = pick.choice((key, key + 1, key, pick.choice((0, 2**63, 2**64 - 1, 2**64, 10**19, 9))))
        head = str(key) if ids and pick.random() < 0.9 else ""
        items = [_dense(pick), _sparse(pick)]
        if pick.random() < 0.2:
            items.append(pick.choice(("|# a remark", "|other 1 2", "|a 7", "|s", "|b x")))
        if pick.random() < 0.1:
            items.pop(pick.randrange(len(items)))
        pick.shuffle(items)
        lines.append(head + pick.choice((" ", "", "\t")) + pick.choice((" ", "  ", "")).join(items))
    text = pick.choice(("\n", "\n", "\n", "\r\n")).join(lines) + pick.choice(("\n", "\n", "", " \n\n"))
    data = text.encode()
    if pick.random() < 0.5:
        data = mutated(data, pick)
    return pick.randbytes(1) + data


def _number(pick: random.Random) -> str:
    return pick.choice(
        ("0", "1", "-2", "+3.5", "0.25", "1e3", "2.5E-3", "7.", "1234567890123456", "0.1234567890123456789", "1e-320",
         "3.4028235e38", "3.4028236e38", "1e39", "-1e308", "00012", "9007199254740993")
    )  # fmt: skip


def _dense(pick: random.Random) -> str:
    return " ".join(["|a", *(_number(pick) for _ in range(pick.choice((3, 3, 3, 3, 2, 0))))])


def _sparse(pick: random.Random) -> str:
    pairs = [f"{pick.randrange(9)}:{_number(pick)}" for _ in range(pick.choice((0, 1, 2, 3)))]
    return " ".join(["|s", *pairs])


def check(data: bytes) -> None:
    how, text = _How.of(data[0] if data else 0), data[1:]
    try:
        expected: list[Sequence] | None = _judge(text, how)
    except ValueError:
        expected = None
    try:
        found = _read(text, how)
    except CntkError as error:
        if expected is not None:
            raise Finding(f"refused what is right: {error}") from None
        raise
    if expected is None:
        raise Finding(f"accepted what is wrong: {found!r}")
    same("sequences", found, expected)


def _read(text: bytes, how: _How) -> list[Sequence]:
    rules = TextRules(_STREAMS, how.main, how.by_line, how.errors, how.chunk, how.dtype)
    source = TextSource(TextFile(write("t.ctf", text)), rules, lambda line: None)
    found: list[Sequence] = []
    try:
        problems = list(source.check())
        for number, info in enumerate(source.index()):
            chunk = source.load(number)
            every = np.arange(info.sequences)
            columns = [chunk.columns[stream.name] for stream in _STREAMS]
            rows = [rows_of(column.data) for column in columns]
            extents = [(column.first_rows(every), column.lengths(every)) for column in columns]
            parts = [
                [own[first : first + count] for first, count in zip(starts, counts, strict=True)]
                for own, (starts, counts) in zip(rows, extents, strict=True)
            ]
            keys: list[Any] = list(chunk.keys)
            found += [(keys[i] if keys else None, parts[0][i], parts[1][i]) for i in range(info.sequences)]
            _check_index(info, columns, every, how)
            if keys and list(source.keys(number)) != keys:
                raise Finding(f"keys: {list(source.keys(number))} without loading, {keys} loaded")
        if problems and not how.errors:
            raise Finding(f"check-data finds what reading does not: {problems[0]}")
    finally:
        source.close()
    return found


def _check_index(info: object, columns: object, every: object, how: _How) -> None:
    lengths = [column.lengths(every) for column in columns]  # type: ignore[attr-defined]
    sizes = lengths[how.main] if how.main is not None else np.max(lengths, axis=0)
    same("the sizes that the index says", info.sample_counts().tolist(), sizes.tolist())  # type: ignore[attr-defined]


# -- the judge --------------------------------------------------------------------------------------------


def _judge(text: bytes, how: _How) -> list[Sequence]:
    """Return the sequences. Raises ValueError if the text is to be refused."""
    if text[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise ValueError("UTF-16")
    text = text.removeprefix(b"\xef\xbb\xbf")
    by_line = how.by_line or text[:1] == b"|"
    text = text.rstrip(b" \t\r\n")
    if not text:
        raise ValueError("empty")
    rows: list[tuple[object, dict[str, list[list[str]]] | None]] = []
    key: int | None = None
    for number, line in enumerate(text.decode("latin-1").split("\n")):
        digits = re.match("[0-9]*", line)[0]  # type: ignore[index]
        if by_line:
            key = number
        elif digits:
            if len(digits) > 20 or int(digits) >= 2**64:
                raise ValueError("id")
            key = int(digits)
        elif key is None:
            raise ValueError("no id")
        rows.append((key, _row(line[len(digits) :], how)))
    return _group(rows, how, by_line)


def _group(rows: list[tuple[object, dict[str, list[list[str]]] | None]], how: _How, by_line: bool) -> list[Sequence]:
    found: list[Sequence] = []
    bad = sum(row is None for _, row in rows)
    for key, group in groupby(rows, lambda row: row[0]):
        good = [row for _, row in group if row is not None]
        if not good:
            continue
        streams = {name: [sample for row in good for sample in row[name]] for name in "as"}
        counts = [len(streams["a"]), len(streams["s"])]
        if not min(counts) or ((by_line or how.main is None) and max(counts) != len(good)):
            bad += 1
            continue
        found.append((None if by_line else key, streams["a"], streams["s"]))
    if bad > how.errors:
        raise ValueError(f"{bad} errors")
    return found


def _row(line: str, how: _How) -> dict[str, list[list[str]]] | None:
    """Return the samples of a row, None if it is malformed."""
    found: dict[str, list[list[str]]] = {"a": [], "s": []}
    at = 0
    while True:
        while at < len(line) and line[at] <= " ":
            at += 1
        if at == len(line):
            return found if found["a"] or found["s"] else None
        if line[at] != "|":
            return None
        if line[at + 1 : at + 2] == "#":
            at = (line + "|").find("|", at + 1)
            continue
        words, end = _words(line, at + 1)
        if not words or not words[0]:
            return None
        if words[0] not in found:
            at = (line + "|").find("|", at + 1)
            continue
        sample = _sample(words[0], words[1:], how)
        if sample is None:
            return None
        found[words[0]].append(sample)
        at = end


def _words(line: str, at: int) -> tuple[list[str], int]:
    """Return the name and the words behind it, up to a bar, the end, or a control character."""
    words: list[str] = []
    word = ""
    while at < len(line) and line[at] != "|" and (line[at] > " " or line[at] in " \t"):
        if line[at] in " \t":
            if not words and not word:
                return [], at
            words += [word] if word else []
            word = ""
        else:
            word += line[at]
        at += 1
    return words + ([word] if word else []), at


def _sample(name: str, words: list[str], how: _How) -> list[str] | None:
    values = [0.0] * (3 if name == "a" else 9)
    if name == "a" and len(words) > 3:
        return None
    for place, word in enumerate(words):
        index = str(place)
        if name == "s":
            index, colon, word = word.partition(":")
            if not colon or not re.fullmatch("[0-9]+", index) or len(index.lstrip("0")) > 1 or int(index or "0") > 8:
                return None
        if not _NUMBER.fullmatch(word) or abs(float(word)) > float(np.finfo(how.dtype).max):
            return None
        # Values of the same index are added.
        if name == "a":
            values[place] = float(word)
            continue
        with np.errstate(over="ignore"):
            values[int(index)] = float(how.dtype.type(values[int(index)]) + how.dtype.type(float(word)))
    return plain(np.array(values, how.dtype))
