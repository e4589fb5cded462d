"""Write the handwritten digits that scikit-learn has as CNTK text files: ``python make_data.py``.

With ``--idx`` they become files like those of MNIST: 28 by 28 pixels, each digit many times, moved and turned a little.
"""

from __future__ import annotations

import argparse
import gzip
import struct
from pathlib import Path
from typing import Any

HELD_OUT = 450
"""Digits of which the samples for testing are made, and none of the others."""


def write_text(folder: Path) -> None:
    """Write ``train.ctf`` (1347 digits) and ``test.ctf`` (450)."""
    from cntk_tool_demo.data import write_digits

    train, test = write_digits(folder)
    print(f"{train} digits to learn from, {test} held out")


def write_idx(folder: Path, sizes: dict[str, int]) -> None:
    """Write ``train-images-idx3-ubyte.gz`` and the three files beside it."""
    import numpy as np
    from sklearn.datasets import load_digits

    digits = load_digits()
    images, labels = digits.images, digits.target.astype(np.uint8)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(images))
    for name, places in (("train", order[HELD_OUT:]), ("t10k", order[:HELD_OUT])):
        chosen = rng.choice(places, sizes[name])
        pixels = np.stack([_drawn(images[place], rng) for place in chosen])
        _write(folder / f"{name}-images-idx3-ubyte.gz", pixels)
        _write(folder / f"{name}-labels-idx1-ubyte.gz", labels[chosen])
        print(f"{name}: {sizes[name]} images of {len(places)} digits")


def _drawn(image: Any, rng: Any) -> Any:
    """Return a digit with 28 by 28 pixels: enlarged, and drawn a little differently each time."""
    import numpy as np
    from scipy import ndimage

    angle, scale = rng.normal(scale=0.15), rng.uniform(0.34, 0.44)
    turned = scale * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    offset = 3.5 - turned @ (13.5 + rng.uniform(-2.0, 2.0, 2))
    drawn = ndimage.affine_transform(image, turned, offset, (28, 28), order=1)
    return np.clip(drawn * (255 / 16), 0, 255).astype(np.uint8)


def _write(path: Path, array: Any) -> None:
    head = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(head + array.tobytes())


def main(folder: Path = Path(), *, idx: bool = False, train: int = 60_000, t10k: int = 10_000) -> None:
    """Write what is asked for; ``train`` and ``t10k`` are the sizes of the files like those of MNIST."""
    if idx:
        write_idx(folder, {"train": train, "t10k": t10k})
    else:
        write_text(folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--idx", action="store_true", help="files like those of MNIST")
    main(idx=parser.parse_args().idx)
