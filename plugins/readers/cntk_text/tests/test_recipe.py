"""The recipe of the README: run, stopped, resumed, with broken data."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cntk_testing import README, ReaderRecipe


class TestReadme(ReaderRecipe):
    recipe = README

    def files(self, folder: Path) -> None:
        rows = np.random.default_rng(1).normal(size=(40, 64))
        shown = [f"|features {' '.join(f'{x:.3f}' for x in row)} |labels {n % 10}:1\n" for n, row in enumerate(rows)]
        (folder / "train.ctf").write_text("".join(shown))
