"""The recipe of the README: run, stopped, resumed, with broken data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from kaldi_bytes import alignment, archive, matrix

from cntk_testing import README, ReaderRecipe


def write_corpus(folder: Path) -> None:
    """Write the features and alignments that the recipe of the README names."""
    numbers = np.random.default_rng(1)
    names = [f"utt{number}" for number in range(5)]
    frames = {name: numbers.normal(size=(6 + number, 40)) for number, name in enumerate(names)}
    data, offsets = archive({name: matrix(found) for name, found in frames.items()})
    (folder / "feats.ark").write_bytes(data)
    (folder / "feats.scp").write_text("".join(f"{name} feats.ark:{at}\n" for name, at in offsets.items()))
    classes = {name: alignment([t % 7 for t in range(len(found))]) for name, found in frames.items()}
    (folder / "ali.ark").write_bytes(archive(classes)[0])


class TestReadme(ReaderRecipe):
    recipe = README

    def files(self, folder: Path) -> None:
        write_corpus(folder)
