"""The reader keeps the contract of readers: samples and sequences, in file order and in random order."""

from __future__ import annotations

import numpy as np
import pytest
from cbf_bytes import Stream, binary_file

from cntk_testing import PackagingContract, ReaderContract

A, L = Stream(b"a", 2), Stream(b"l", 3, sparse=True, double=True)
LENGTHS = (3, 1, 4, 2, 5, 1, 2)


def sequence(number: int, length: int) -> dict[bytes, np.ndarray]:
    frames = np.array([[number + 0.5, t] for t in range(length)]).reshape(length, 2)
    return {b"a": frames, b"l": np.eye(3)[[(number + t) % 3 for t in range(length)]]}


SAMPLES = binary_file([A, L], [[sequence(i, 1) for i in range(first, first + 5)] for first in (0, 5, 10)])
SEQUENCES = [sequence(number, length) for number, length in enumerate(LENGTHS)]
JAGGED = binary_file([A, L], [SEQUENCES[:3], SEQUENCES[3:]])


class TestSamples(ReaderContract):
    samples = 15
    ranks_in_step = False

    @pytest.fixture
    def reader_factory(self, make):
        return lambda: make(SAMPLES)


class TestShuffledSamples(ReaderContract):
    samples = 15

    @pytest.fixture
    def reader_factory(self, make):
        return lambda: make(SAMPLES, "randomizationWindow=2", dtype="float32")


class TestSequences(ReaderContract):
    samples = sum(LENGTHS)
    sequences = True
    ranks_in_step = False

    @pytest.fixture
    def reader_factory(self, make):
        return lambda: make(JAGGED)


class TestShuffledSequences(ReaderContract):
    samples = sum(LENGTHS)
    sequences = True

    @pytest.fixture
    def reader_factory(self, make):
        return lambda: make(JAGGED, "randomize=auto")


class TestPackaging(PackagingContract):
    distribution = "cntk-reader-binary"
    kind = "reader"
