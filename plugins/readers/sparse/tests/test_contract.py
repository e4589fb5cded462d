"""The readers keep the contract of readers, in the order of the file and in random order."""

from __future__ import annotations

import pytest
from sparse_bytes import batch, corpus_file, dssm_file, libsvm_file

from cntk_testing import PackagingContract, ReaderContract

ROWS = 14
QUERIES = [{n % 5: n + 0.5, 5 + n % 3: -1.0} for n in range(ROWS)]
DOCUMENTS = [{} if n == 3 else {n % 7: n + 0.25} for n in range(ROWS)]
PAIRS = {"q.bin": dssm_file(8, QUERIES, "d"), "d.bin": dssm_file(7, DOCUMENTS, "d")}
DSSM = "q=[ file=q.bin; dim=8 ]\nd=[ file=d.bin; dim=7 ]\nl=[ labelDim=3 ]\nchunkSizeInRows=4\n"
CORPUS = {
    "c.bin": corpus_file(
        [((q, d), number) for number, (q, d) in enumerate(zip(QUERIES, DOCUMENTS, strict=True))], "d", check=77
    )
}
SPARSE_PC = "file=c.bin\nq=[ dim=8 ]\nd=[ dim=7 ]\nl=[ labelDim=1 ]\nverificationCode=77\nchunkSizeInBytes=100\n"
SIZES = ((0, 5), (5, 10), (10, ROWS))
BATCHES = {
    "b.bin": libsvm_file(
        [("q", 8), ("d", 7)],
        [("l", 2)],
        [batch([QUERIES[i:j], DOCUMENTS[i:j]], [[(n, -n) for n in range(i, j)]], "d") for i, j in SIZES],
    )
}


@pytest.mark.thorough
class TestDSSM(ReaderContract):
    samples = ROWS
    ranks_in_step = False

    @pytest.fixture
    def reader_factory(self, make):
        return lambda: make("DSSMReader", DSSM, PAIRS)


@pytest.mark.thorough
class TestShuffledDSSM(ReaderContract):
    samples = ROWS

    @pytest.fixture
    def reader_factory(self, make):
        return lambda: make("DSSMReader", DSSM + "randomize=auto", PAIRS, dtype="float64")


@pytest.mark.thorough
class TestSparsePC(ReaderContract):
    samples = ROWS
    ranks_in_step = False

    @pytest.fixture
    def reader_factory(self, make):
        return lambda: make("SparsePCReader", SPARSE_PC, CORPUS)


class TestSparsePCOfSequences(ReaderContract):
    samples = ROWS
    sequences = True

    @pytest.fixture
    def reader_factory(self, make):
        return lambda: make("SparsePCReader", SPARSE_PC + "microbatchSize=2\nrandomize=auto", CORPUS)


@pytest.mark.thorough
class TestLibSVM(ReaderContract):
    samples = ROWS
    ranks_in_step = False

    @pytest.fixture
    def reader_factory(self, make):
        return lambda: make("LibSVMBinaryReader", "file=b.bin", BATCHES)


@pytest.mark.thorough
class TestShuffledLibSVM(ReaderContract):
    samples = ROWS

    @pytest.fixture
    def reader_factory(self, make):
        return lambda: make("LibSVMBinaryReader", "file=b.bin\nrandomize=auto", BATCHES)


class TestPackaging(PackagingContract):
    distribution = "cntk-reader-sparse"
    kind = "reader"
