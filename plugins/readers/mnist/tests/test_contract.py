"""The reader keeps the contract of readers."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from cntk_reader_mnist import MNISTReader

from cntk_core.api import ReaderContext
from cntk_core.api.builders import parse_text
from cntk_testing import PackagingContract, ReaderContract

SAMPLES = 13
RECIPE = """
reader = [
    readerType = MNISTReader ; randomize = {randomize}
    features = [ file = "images" ]
    labels = [ file = "labels" ]
]
"""


def idx(values: np.ndarray) -> bytes:
    return struct.pack(f">BBBB{values.ndim}I", 0, 0, 8, values.ndim, *values.shape) + values.tobytes()


@pytest.fixture
def reader_of(tmp_path, monkeypatch):
    """A function that makes a reader of small pictures in some order."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "images").write_bytes(idx(np.arange(SAMPLES * 6, dtype=np.uint8).reshape(SAMPLES, 2, 3)))
    (tmp_path / "labels").write_bytes(idx(np.arange(SAMPLES, dtype=np.uint8) % 10))

    def make(randomize: str) -> MNISTReader:
        block = parse_text(RECIPE.format(randomize=randomize), file="r.cntk").section("reader")
        return MNISTReader(MNISTReader.settings_from(block, "reader 'MNISTReader'"), ReaderContext())

    return make


class TestInFileOrder(ReaderContract):
    samples = SAMPLES

    @pytest.fixture
    def reader_factory(self, reader_of):
        return lambda: reader_of("none")


class TestShuffled(ReaderContract):
    samples = SAMPLES

    @pytest.fixture
    def reader_factory(self, reader_of):
        return lambda: reader_of("auto")


class TestPackaging(PackagingContract):
    distribution = "cntk-reader-mnist"
    kind = "reader"
