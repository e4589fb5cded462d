"""The reader keeps the contract of readers: frames and sequences, in file order and in random order."""

from __future__ import annotations

import pytest
from cntk_reader_cntk_text import StreamOptions

from cntk_testing import PackagingContract, ReaderContract

STREAMS = (StreamOptions(name="a", dim=2, format="dense"), StreamOptions(name="l", dim=3, format="sparse"))
FRAMES = "".join(f"|a {i} {i}.5 |l {i % 3}:1\n" for i in range(17))
LENGTHS = (3, 1, 4, 2, 5, 1, 2)
SEQUENCES = "".join(f"{s} |a {s} {t} |l {t % 3}:1\n" for s, n in enumerate(LENGTHS) for t in range(n))


class TestFrames(ReaderContract):
    samples = 17

    @pytest.fixture
    def reader_factory(self, make):
        return lambda: make(FRAMES, STREAMS)


class TestShuffledFrames(ReaderContract):
    samples = 17

    @pytest.fixture
    def reader_factory(self, make):
        return lambda: make(FRAMES, STREAMS, "float32", randomize="auto")


class TestSequences(ReaderContract):
    samples = sum(LENGTHS)
    sequences = True
    ranks_in_step = False

    @pytest.fixture
    def reader_factory(self, make):
        return lambda: make(SEQUENCES, STREAMS)


class TestShuffledSequences(ReaderContract):
    samples = sum(LENGTHS)
    sequences = True

    @pytest.fixture
    def reader_factory(self, make):
        return lambda: make(SEQUENCES, STREAMS, randomize="auto")


class TestPackaging(PackagingContract):
    distribution = "cntk-reader-cntk-text"
    kind = "reader"
