"""The reader keeps the contract of readers: frames and utterances, in the order of the table and in random order."""

from __future__ import annotations

import pytest

from cntk_testing import PackagingContract, ReaderContract


class TestFrames(ReaderContract):
    samples = 27

    @pytest.fixture
    def reader_factory(self, make):
        return lambda: make()


class TestUtterances(ReaderContract):
    samples = 27
    sequences = True

    @pytest.fixture
    def reader_factory(self, make):
        text = 'frameMode=false\nfeatures=[ dim=6 ; scpFile=feats.scp ]\nlabels=[ labelDim=3 ; mlfFile="ark:ali.ark" ]'
        return lambda: make(text, dtype="float64")


class TestInOrder(ReaderContract):
    samples = 27
    sequences = True
    ranks_in_step = False

    @pytest.fixture
    def reader_factory(self, make):
        return lambda: make("frameMode=false\nreadMethod=none\nfeatures=[ dim=2 ; scpFile=feats.ark ]")


class TestPackaging(PackagingContract):
    distribution = "cntk-reader-kaldi"
    kind = "reader"
