"""Write the handwritten digits that scikit-learn has as pictures and as CNTK text files: ``python make_data.py``.

1347 digits to learn from and 450 held out, 8 x 8 pixels each; needs scikit-learn. The files:

- ``train.ctf``, ``test.ctf``: 64 pixels (0 to 255) and the digit;
- ``train/00000.png``, ..., and ``train_map.txt``, which names picture and digit; the same for ``test``;
- ``few.ctf``: the first five of each digit of ``train.ctf``;
- ``train_turned.ctf``, ``test_turned.ctf``: pixels of digits that were turned, and by how much.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from cntk_tool_data.png import encode_png
from numpy.typing import NDArray

SIZE = 8
HELD_OUT = 450
FEW = 5
LARGEST = 45.0
"""Digits are turned by at most so many degrees."""

Images = NDArray[np.uint8]


def digits() -> tuple[Images, NDArray[np.int64]]:
    """Return all digits in an order that is mixed, but always the same: ``(1797, 8, 8)`` and which digits they are."""
    from sklearn.datasets import load_digits

    found = load_digits()
    order = np.random.default_rng(0).permutation(len(found.target))
    return np.rint(found.images[order] * (255 / 16)).astype(np.uint8), found.target[order]


def turned(image: Images, degrees: float) -> Images:
    """Return a picture turned about its middle, by bilinear interpolation; black comes in from outside."""
    middle = (SIZE - 1) / 2
    angle = np.deg2rad(degrees)
    rows, columns = np.mgrid[:SIZE, :SIZE] - middle
    row = np.cos(angle) * rows - np.sin(angle) * columns + middle
    column = np.sin(angle) * rows + np.cos(angle) * columns + middle
    padded = np.pad(image.astype(float), 1)
    row, column = (np.clip(place + 1, 0, SIZE + 0.999) for place in (row, column))
    above, left = row.astype(int), column.astype(int)
    down, right = row - above, column - left
    result = (
        padded[above, left] * (1 - down) * (1 - right)
        + padded[above, left + 1] * (1 - down) * right
        + padded[above + 1, left] * down * (1 - right)
        + padded[above + 1, left + 1] * down * right
    )
    return np.rint(result).astype(np.uint8)


def write_text(path: Path, images: Images, label: str, values: list[str]) -> None:
    """Write pictures with one label each in CNTK's text format."""
    rows = (" ".join(map(str, image.ravel().tolist())) for image in images)
    lines = [f"|{label} {value} |features {row}\n" for value, row in zip(values, rows, strict=True)]
    path.write_text("".join(lines), encoding="utf-8")


def write_pictures(folder: Path, name: str, images: Images, labels: NDArray[np.int64]) -> None:
    """Write a picture of each digit and the map file; ``...`` is the map file's own folder for the image reader."""
    (folder / name).mkdir(exist_ok=True)
    lines = []
    for number, (image, label) in enumerate(zip(images, labels.tolist(), strict=True)):
        (folder / name / f"{number:05d}.png").write_bytes(encode_png(image))
        lines.append(f".../{name}/{number:05d}.png\t{label}\n")
    (folder / f"{name}_map.txt").write_text("".join(lines), encoding="utf-8")


def write_turned(path: Path, images: Images, seed: int) -> None:
    """Write each picture turned by an angle of its own; the label is the angle over the largest one."""
    parts = np.random.default_rng(seed).uniform(-1, 1, len(images))
    tilted = np.array([turned(image, LARGEST * part) for image, part in zip(images, parts, strict=True)])
    write_text(path, tilted, "angle", [f"{part:.4f}" for part in parts])


def main(folder: Path = Path(), train_digits: int = 0) -> None:
    """Write all files; with so many digits to learn from, or all that are not held out."""
    images, labels = digits()
    if train_digits:
        images, labels = images[: HELD_OUT + train_digits], labels[: HELD_OUT + train_digits]
    train, test = slice(HELD_OUT, None), slice(HELD_OUT)
    for name, part in (("train", train), ("test", test)):
        write_text(folder / f"{name}.ctf", images[part], "labels", [f"{label}:1" for label in labels[part].tolist()])
        write_pictures(folder, name, images[part], labels[part])
    few = np.concatenate([np.flatnonzero(labels[train] == digit)[:FEW] for digit in range(10)])
    chosen = labels[train][few].tolist()
    write_text(folder / "few.ctf", images[train][few], "labels", [f"{label}:1" for label in chosen])
    # Each digit to learn from in six positions.
    write_turned(folder / "train_turned.ctf", np.tile(images[train], (6, 1, 1)), seed=1)
    write_turned(folder / "test_turned.ctf", images[test], seed=2)
    print(f"{len(images) - HELD_OUT} digits to learn from, {HELD_OUT} held out")


if __name__ == "__main__":
    main()
