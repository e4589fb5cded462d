"""The readers keep the contract of readers, but that an epoch is at most one sweep."""

from __future__ import annotations

import pytest

from cntk_core.api import DataReader, EpochSpec
from cntk_testing import PackagingContract, ReaderContract


class SentenceContract(ReaderContract):
    sequences = True

    @pytest.mark.xfail(reason="an epoch ends with the text, as in the original")
    def test_large_epochs_go_through_several_sweeps(self, reader: DataReader) -> None:
        super().test_large_epochs_go_through_several_sweeps(reader)

    def test_large_epochs_end_with_the_text(self, reader: DataReader) -> None:
        """An epoch is at most one sweep."""
        assert self.count(reader, EpochSpec(epoch_size=2 * self.samples, minibatch_size=4)) == self.samples


class TestLM(SentenceContract):
    samples = 14

    @pytest.fixture(params=["0", "1", "2"])
    def reader_factory(self, lm, request):
        return lambda: lm(keys=f"; cacheBlockSize = 10 ; nbruttsineachrecurrentiter = {request.param}")


class TestLU(SentenceContract):
    samples = 9

    @pytest.fixture(params=["none", "auto"])
    def reader_factory(self, lu, request):
        keys = f"; randomize = {request.param} ; nbruttsineachrecurrentiter = 2 ; equalLength = false"
        return lambda: lu(keys=keys)


class TestPackaging(PackagingContract):
    distribution = "cntk-reader-language"
    kind = "reader"
