"""The recipe of the README: run, stopped, resumed, with broken data."""

from __future__ import annotations

from pathlib import Path

from cntk_testing import README, ReaderRecipe


class TestReadme(ReaderRecipe):
    recipe = README

    def files(self, folder: Path) -> None:
        rows = [f"{n % 3} {n % 5} {-n % 7}.5 {n / 10} {'abc'[n % 3]}\n" for n in range(30)]
        (folder / "train.txt").write_text("".join(rows))
        (folder / "labels.txt").write_text("a\nb\nc\n")
