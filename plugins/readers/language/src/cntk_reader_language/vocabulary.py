"""Words and their numbers, classes of words, and how often words occur."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import DataError, Location, raise_problems

IntArray = NDArray[np.int64]

_LARGEST_CLASS = 2**31 - 1


@attrs.frozen(eq=False)
class WordClasses:
    """Words in classes; the words of a class have consecutive numbers.

    Attributes:
        words: word to number.
        counts: how often each word occurs.
        rows: ``(words, 4)``: number, class, first word of the class, word after its last.
    """

    words: Mapping[str, int]
    counts: NDArray[np.float64]
    rows: NDArray[np.float64]


def open_text(path: Path, what: str, where: Location | None) -> str:
    """Return a text in UTF-8, whose lines end with newlines. Raises DataError."""
    try:
        return path.read_text(encoding="utf-8-sig", errors="surrogateescape")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        hint = "A relative name starts at the directory in which the command runs." if not path.exists() else None
        raise DataError(f"{what} '{path}' cannot be read: {reason}", where=where, hint=hint) from None


def _fields(path: Path, what: str, where: Location | None) -> Iterator[tuple[Location, list[str]]]:
    for number, line in enumerate(open_text(path, what, where).split("\n"), start=1):
        if fields := line.split():
            yield Location(str(path), number), fields


def read_words(path: Path, what: str, where: Location | None) -> dict[str, int]:
    """Read a list of words, one to a line; the first has the number 0. Raises DataError or Problems."""
    words: dict[str, int] = {}
    errors: list[DataError] = []
    for place, fields in _fields(path, what, where):
        word = " ".join(fields)
        if word in words:
            errors.append(DataError(f"the word '{word}' is there twice", where=place))
        words.setdefault(word, len(words))
    raise_problems(errors)
    if not words:
        raise DataError(f"{what} is empty", where=Location(str(path)))
    return words


def read_pairs(path: Path, what: str, where: Location | None) -> dict[str, str]:
    """Read pairs of words, one to a line. Raises DataError or Problems."""
    pairs: dict[str, str] = {}
    errors: list[DataError] = []
    for place, fields in _fields(path, what, where):
        if len(fields) < 2:
            errors.append(DataError(f"the line has 1 column; {what} needs a word and another", where=place))
        else:
            pairs[fields[0]] = fields[1]
    raise_problems(errors)
    return pairs


def read_word_classes(path: Path, where: Location | None) -> WordClasses:
    """Read lines ``number count word class``, in the order of numbers and classes. Raises DataError or Problems."""
    words: dict[str, int] = {}
    counts: list[float] = []
    classes: list[int] = []
    errors: list[DataError] = []
    for place, fields in _fields(path, "the class file", where):
        try:
            number, count, word, group = int(fields[0]), float(fields[1]), fields[2], int(fields[3])
            if not 0 <= count < math.inf or abs(group) > _LARGEST_CLASS:
                raise ValueError("a count or a class that is none")
        except (ValueError, IndexError):
            errors.append(DataError("the line is not 'number count word class'", where=place))
            continue
        if number != len(counts):
            errors.append(DataError(f"word number {number} stands where {len(counts)} should be", where=place))
        elif word in words:
            errors.append(DataError(f"the word '{word}' is there twice", where=place))
        elif group < (classes[-1] if classes else 0):
            errors.append(DataError(f"class {group} comes after class {classes[-1] if classes else 0}", where=place))
        words.setdefault(word, len(counts))
        counts.append(count)
        classes.append(group)
    raise_problems(errors)
    if not words:
        raise DataError("the class file is empty", where=Location(str(path)))
    if not 0 < sum(counts) < math.inf:
        raise DataError("the counts of the class file must have a sum above zero", where=Location(str(path)))
    return WordClasses(words, np.array(counts), class_rows(np.array(classes)))


def class_rows(classes: IntArray) -> NDArray[np.float64]:
    """Return ``(words, 4)``: number, class, first word of the class, word after its last; classes do not decrease."""
    first = np.searchsorted(classes, classes, side="left")
    last = np.searchsorted(classes, classes, side="right")
    return np.stack([np.arange(len(classes)), classes, first, last], axis=1).astype(np.float64)


def one_hot(numbers: IntArray, dim: int, dtype: np.dtype[Any]) -> Any:
    """Return a sparse matrix ``(frames, dim)``; ``numbers`` is ``(frames, ones)`` columns, -1 for none."""
    from scipy.sparse import csr_array

    there = numbers >= 0
    pointers = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
    indices = numbers[there].astype(np.int32)
    return csr_array((np.ones(len(indices), dtype=dtype), indices, pointers), shape=(len(numbers), dim))
