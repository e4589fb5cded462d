"""The readers keep the contract of readers: frames, utterances, truncated pieces; in order and in random order."""

from __future__ import annotations

import pytest

from cntk_testing import PackagingContract, ReaderContract

SAMPLES = 27
FEATURES = "features=[ dim=2 ; contextWindow=2:1 ; scpFile=archive.scp ]\n"
LABELS = "labels=[ labelDim=3 ; mlfFile=ali.mlf ; labelMappingFile=states.list ]\n"


class TestFrames(ReaderContract):
    samples = SAMPLES

    @pytest.fixture
    def reader_factory(self, make):
        return lambda: make(FEATURES + LABELS + "readMethod=none")


class TestShuffledFrames(ReaderContract):
    samples = SAMPLES

    @pytest.fixture
    def reader_factory(self, make):
        return lambda: make(FEATURES + LABELS + "randomize=auto", dtype="float64")


class TestUtterances(ReaderContract):
    samples = SAMPLES
    sequences = True
    ranks_in_step = False

    @pytest.fixture
    def reader_factory(self, make):
        return lambda: make(FEATURES + LABELS + "frameMode=false ; randomize=none", old=False)


class TestShuffledUtterances(ReaderContract):
    samples = SAMPLES
    sequences = True

    @pytest.fixture
    def reader_factory(self, make):
        return lambda: make(FEATURES + LABELS + "frameMode=false", old=False)


class TestTruncated(ReaderContract):
    samples = SAMPLES
    sequences = True

    @pytest.fixture
    def reader_factory(self, make):
        return lambda: make(FEATURES + LABELS + "frameMode=false ; truncated=true ; truncationLength=2")


class TestPackaging(PackagingContract):
    distribution = "cntk-reader-htk"
    kind = "reader"
