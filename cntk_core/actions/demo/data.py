"""The handwritten digits of the UCI repository, as CNTK text files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

HELD_OUT = 4
"""Every fourth digit is held out."""


def write_digits(folder: Path) -> tuple[int, int]:
    """Write ``train.ctf`` and ``test.ctf``; return how many digits each has."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    rows = [_row(pixels, int(label)) for pixels, label in zip(images.tolist(), labels.tolist(), strict=True)]
    test = rows[HELD_OUT - 1 :: HELD_OUT]
    train = [row for index, row in enumerate(rows) if (index + 1) % HELD_OUT]
    for name, part in (("train.ctf", train), ("test.ctf", test)):
        (folder / name).write_text("".join(part), encoding="utf-8")
    return len(train), len(test)


def _row(pixels: list[float], label: int) -> str:
    """One line: pixels are 0 to 16 in the data set; sixteenths are exact in decimal."""
    values = " ".join(f"{value / 16:g}" for value in pixels)
    return f"|labels {label}:1 |features {values}\n"


def labels_of(path: Path) -> list[int]:
    """Return the digits of a file that :func:`write_digits` wrote."""
    return list(_labels(path.read_text(encoding="utf-8")))


def _labels(text: str) -> Iterator[int]:
    for line in text.splitlines():
        yield int(line.partition("|labels ")[2].partition(":")[0])
