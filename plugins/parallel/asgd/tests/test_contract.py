"""The strategy keeps its contract in each of its modes."""

from __future__ import annotations

import pytest
from cntk_parallel_asgd import AsynchronousOptions, AsynchronousSGD, SimulatedTime, WarmUp

from cntk_core.api import Schedule
from cntk_testing import PackagingContract, ParallelizerContract

PERIOD = Schedule.constant(3)


class TestAsynchronous(ParallelizerContract):
    reduces_gradients = False
    repeatable = False

    @pytest.fixture
    def parallelizer_factory(self):
        return lambda: AsynchronousSGD(AsynchronousOptions(sync_period_per_worker=PERIOD))


class TestOnePeriodForAnEpoch(ParallelizerContract):
    reduces_gradients = False
    repeatable = False
    parallelizer_class = AsynchronousSGD


class TestPipeline(ParallelizerContract):
    reduces_gradients = False
    repeatable = False

    @pytest.fixture
    def parallelizer_factory(self):
        return lambda: AsynchronousSGD(AsynchronousOptions(sync_period_per_worker=PERIOD, use_pipeline=True))


class TestSimulatedPipeline(ParallelizerContract):
    reduces_gradients = False

    @pytest.fixture
    def parallelizer_factory(self):
        return lambda: AsynchronousSGD(
            AsynchronousOptions(
                sync_period_per_worker=PERIOD, simulated_time=SimulatedTime(latency=0.01), use_pipeline=True
            )
        )


class TestSimulated(ParallelizerContract):
    reduces_gradients = False

    @pytest.fixture
    def parallelizer_factory(self):
        return lambda: AsynchronousSGD(
            AsynchronousOptions(
                sync_period_per_worker=PERIOD,
                simulated_time=SimulatedTime(jitter=1.0),
                delay_compensation="adaptive",
                adjust_learning_rate_at_beginning=WarmUp(adjust_per_minibatches=3),
                staleness=1,
            )
        )


class TestAveraging(ParallelizerContract):
    reduces_gradients = False

    @pytest.fixture
    def parallelizer_factory(self):
        return lambda: AsynchronousSGD(AsynchronousOptions(sync_period_per_worker=PERIOD, sim_model_average=True))


class TestPackaging(PackagingContract):
    distribution = "cntk-parallel-asgd"
    kind = "parallelizer"
