"""The recipe of the README: run, stopped, resumed, with broken data."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np

from cntk_testing import README, ReaderRecipe


def idx(values: np.ndarray) -> bytes:
    return struct.pack(f">BBBB{values.ndim}I", 0, 0, 8, values.ndim, *values.shape) + values.tobytes()


class TestReadme(ReaderRecipe):
    recipe = README

    def files(self, folder: Path) -> None:
        images = np.random.default_rng(1).integers(0, 256, size=(40, 28, 28)).astype(np.uint8)
        (folder / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images), mtime=0))
        labels = (np.arange(40) % 10).astype(np.uint8)
        (folder / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(labels), mtime=0))
