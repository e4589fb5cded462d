"""The handwritten digits of the UCI repository, as CNTK text files.

They are the test set of "Optical Recognition of Handwritten Digits" (E. Alpaydin and C. Kaynak, 1998,
https://doi.org/10.24432/C50P49), under the licence CC BY 4.0. ``digits.xz`` has a row of bytes for each, in another
order: 64 pixels of 0 to 16, and the digit.
"""

from __future__ import annotations

import lzma
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

TRAINING = 1347
"""How many of the rows are learned from. The quarter after them, with the same share of each digit, is held out."""

_PIXELS = 64


def write_digits(folder: Path) -> tuple[int, int]:
    """Write ``train.ctf`` and ``test.ctf``; return how many digits each has."""
    data = lzma.decompress(files(__package__).joinpath("digits.xz").read_bytes())
    rows = [_row(data[first : first + _PIXELS + 1]) for first in range(0, len(data), _PIXELS + 1)]
    train, test = rows[:TRAINING], rows[TRAINING:]
    for name, part in (("train.ctf", train), ("test.ctf", test)):
        (folder / name).write_text("".join(part), encoding="utf-8")
    return len(train), len(test)


def _row(digit: bytes) -> str:
    """One line: pixels are 0 to 16 in the data set; sixteenths are exact in decimal."""
    values = " ".join(f"{value / 16:g}" for value in digit[:_PIXELS])
    return f"|labels {digit[_PIXELS]}:1 |features {values}\n"


def labels_of(path: Path) -> list[int]:
    """Return the digits of a file that :func:`write_digits` wrote."""
    return list(_labels(path.read_text(encoding="utf-8")))


def _labels(text: str) -> Iterator[int]:
    for line in text.splitlines():
        yield int(line.partition("|labels ")[2].partition(":")[0])
