"""The strategy and the aggregation keep their contracts."""

from __future__ import annotations

import pytest
from cntk_parallel_data_parallel import DataParallel, DataParallelOptions, FullPrecision

from cntk_testing import AggregationContract, PackagingContract, ParallelizerContract


class TestFullPrecision(AggregationContract):
    aggregation_class = FullPrecision


class TestDataParallel(ParallelizerContract):
    parallelizer_class = DataParallel


class TestBuffered(ParallelizerContract):
    delay = 1

    @pytest.fixture
    def parallelizer_factory(self):
        return lambda: DataParallel(DataParallelOptions(use_buffered_async_gradient_aggregation=True))


class TestPackaging(PackagingContract):
    distribution = "cntk-parallel-data-parallel"
    kind = "parallelizer"
