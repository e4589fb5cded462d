"""The handwritten digits of the UCI repository, as CNTK text files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

HELD_OUT = 0.25
"""Share of the digits that is held out: drawn at random, always the same ones, with the same share of each digit."""


def write_digits(folder: Path) -> tuple[int, int]:
    """Write ``train.ctf`` and ``test.ctf``; return how many digits each has."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    images, labels = load_digits(return_X_y=True)
    rows = [_row(pixels, int(label)) for pixels, label in zip(images.tolist(), labels.tolist(), strict=True)]
    train, test = train_test_split(rows, test_size=HELD_OUT, random_state=0, stratify=labels)
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
