"""The aggregation keeps its contract, with every number of bits and both thresholds."""

from __future__ import annotations

import pytest
from cntk_parallel_onebit import OneBit, OneBitOptions

from cntk_core.api import Schedule
from cntk_testing import AggregationContract, PackagingContract


class TestOneBit(AggregationContract):
    aggregation_class = OneBit
    exact = False


class TestMeanThreshold(AggregationContract):
    exact = False

    @pytest.fixture
    def aggregation_factory(self):
        return lambda: OneBit(OneBitOptions(use_zero_threshold_for_1_bit_quantization=False))


class TestTwoBits(AggregationContract):
    exact = False
    # In columns as short as these, bins of two thirds of the range leave out more than they say.
    drift = 0.2

    @pytest.fixture
    def aggregation_factory(self):
        return lambda: OneBit(OneBitOptions(gradient_bits=Schedule.constant(2)))


class TestMoreBits(AggregationContract):
    exact = False
    repeats = 100
    drift = 0.05

    @pytest.fixture(params=[4, 8, 16])
    def aggregation_factory(self, request: pytest.FixtureRequest):
        return lambda: OneBit(OneBitOptions(gradient_bits=Schedule.constant(request.param)))


class TestPackaging(PackagingContract):
    distribution = "cntk-parallel-onebit"
    kind = "aggregation"
