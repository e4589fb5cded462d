"""The recipe of the README: run, stopped, resumed, with broken data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from cntk_testing import README, ReaderRecipe


class TestReadme(ReaderRecipe):
    recipe = README

    def files(self, folder: Path) -> None:
        numbers = np.random.default_rng(1)
        for number in range(20):
            pixels = numbers.integers(0, 256, size=(36, 40, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(folder / f"{number}.png")
        (folder / "train_map.txt").write_text("".join(f"{number}.png\t{number % 10}\n" for number in range(20)))
