"""The reader keeps the contract of readers."""

from __future__ import annotations

import pytest
from cntk_reader_uci import UCIFastReader

from cntk_core.api import ReaderContext
from cntk_core.api.builders import parse_text
from cntk_testing import PackagingContract, ReaderContract

SAMPLES = 13
RECIPE = """
reader = [
    readerType = UCIFastReader ; randomize = {randomize} ; file = "t.txt" ; chunkSizeInBytes = 20
    features = [ start = 1 ; dim = 2 ]
    labels = [ start = 0 ; labelDim = 3 ; labelMappingFile = "map.txt" ]
]
"""


@pytest.fixture
def reader_of(tmp_path, monkeypatch):
    """A function that makes a reader of a small table in some order."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.txt").write_text("".join(f"{'abc'[i % 3]} {i} {-i}.5\n" for i in range(SAMPLES)))
    (tmp_path / "map.txt").write_text("a\nb\nc\n")

    def make(randomize: str) -> UCIFastReader:
        block = parse_text(RECIPE.format(randomize=randomize), file="r.cntk").section("reader")
        return UCIFastReader(UCIFastReader.settings_from(block, "reader 'UCIFastReader'"), ReaderContext())

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


class TestShuffledInAWindow(ReaderContract):
    samples = SAMPLES

    @pytest.fixture
    def reader_factory(self, reader_of):
        return lambda: reader_of("6")


class TestPackaging(PackagingContract):
    distribution = "cntk-reader-uci"
    kind = "reader"
