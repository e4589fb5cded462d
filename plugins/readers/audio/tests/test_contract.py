"""The reader keeps the contract of readers: frames, utterances, copies, noise; its recipe resumes."""

from __future__ import annotations

from pathlib import Path

import pytest
from sounds import FRAMES, F, L, write_corpus

from cntk_testing import README, PackagingContract, ReaderContract, ReaderRecipe

SAMPLES = sum(FRAMES.values())


class TestFrames(ReaderContract):
    samples = SAMPLES

    @pytest.fixture
    def reader_factory(self, make):
        return lambda: make()


class TestUtterances(ReaderContract):
    """With three copies of each, with noise and windows."""

    samples = 3 * SAMPLES
    sequences = True

    @pytest.fixture
    def reader_factory(self, make):
        extra = "; speed=1:1:1 ; noiseSnr=0:20 ; contextWindow=3 ; deltas=1 ; normalize=mean ]"
        return lambda: make(f"frameMode=false\n{F.replace(']', extra)}{L}", dtype="float64")


class TestInOrder(ReaderContract):
    samples = SAMPLES
    sequences = True
    ranks_in_step = False

    @pytest.fixture
    def reader_factory(self, make):
        return lambda: make(f"frameMode=false\nreadMethod=none\n{F}")


class TestReadme(ReaderRecipe):
    recipe = README

    def files(self, folder: Path) -> None:
        write_corpus(folder)

    def break_data(self, folder: Path) -> None:
        """Cut a file: other bytes in the middle of a wave are other sounds."""
        file = folder / "utt-c.wav"
        file.write_bytes(file.read_bytes()[:-9])


class TestPackaging(PackagingContract):
    distribution = "cntk-reader-audio"
    kind = "reader"
