"""The strategies keep their contracts, alone and with gradients summed inside workers."""

from __future__ import annotations

import pytest
from cntk_parallel_bmuf import BlockMomentum, BlockMomentumOptions, ModelAveraging, ModelAveragingOptions

from cntk_testing import PackagingContract, ParallelizerContract


class TestModelAveraging(ParallelizerContract):
    reduces_gradients = False

    @pytest.fixture
    def parallelizer_factory(self):
        return lambda: ModelAveraging(ModelAveragingOptions(block_size_per_worker=4))


class TestBlockMomentum(ParallelizerContract):
    reduces_gradients = False

    @pytest.fixture
    def parallelizer_factory(self):
        return lambda: BlockMomentum(BlockMomentumOptions(block_size_per_worker=4))


class TestPaper(ParallelizerContract):
    reduces_gradients = False

    @pytest.fixture
    def parallelizer_factory(self):
        return lambda: BlockMomentum(BlockMomentumOptions(block_size_per_worker=3, variant="paper"))


class TestOneBlockForAnEpoch(ParallelizerContract):
    parallelizer_class = BlockMomentum
    reduces_gradients = False


class TestPackaging(PackagingContract):
    distribution = "cntk-parallel-bmuf"
    kind = "parallelizer"
