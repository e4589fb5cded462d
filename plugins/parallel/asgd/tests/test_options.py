"""Options, their mistakes, the warm-up, what is said and sent, and another number of ranks."""

from __future__ import annotations

import re

import numpy as np
import pytest
from cntk_parallel_asgd import AsynchronousOptions, AsynchronousSGD, SimulatedTime, WarmUp
from cntk_parallel_asgd.shard import ConstantCompensation, NoCompensation, Push, Shard
from workers import RATE, SIZE, first, gradient, model, options, run, shares

from cntk_core.api import CntkError, Parameter, ParameterStore, Schedule
from cntk_core.api.builders import parse_text
from cntk_core.api.parallel import StepCounts
from cntk_core.api.recipes import read_parallel
from cntk_testing import VirtualRanks


class Table:
    """Knows this one strategy."""

    def get(self, name, where=None):
        return AsynchronousSGD


def read(block):
    text = f"SGD = [ parallelTrain = [\nparallelizationMethod = dataParallelASGD\nDataParallelASGD = [\n{block}\n]\n] ]"
    return read_parallel(parse_text(text).section("SGD"), Table(), Table()).parallelizer.settings


def test_a_recipe_of_the_original():
    found = read(
        "syncPeriod = 128:256\nusePipeline = true\nSimModelAverage = true\n"
        "AdjustLearningRateAtBeginning = [ adjustType = Linearly ; adjustCoefficient = 0.2\n"
        "adjustPerMinibatches = 16 ]"
    )
    assert [found.period[epoch] for epoch in range(3)] == [128, 256, 256]
    assert found.use_pipeline
    assert found.bound == 0
    assert found.adjust_learning_rate_at_beginning == WarmUp(
        adjust_type="linearly", adjust_coefficient=0.2, adjust_per_minibatches=16
    )


def test_defaults():
    found = read("AdjustLearningRateAtBeginning = [ adjustNBMinibatch = 10 ]")
    assert found.period[0] == 256
    assert found.bound is None
    assert not found.use_pipeline
    assert found.adjust_learning_rate_at_beginning == WarmUp(
        adjust_type="staircase", adjust_coefficient=0.1, adjust_per_minibatches=10
    )
    assert read("").adjust_learning_rate_at_beginning is None


def test_simulated_time():
    found = read("simulatedTime = [ seed = 5 ; slowness = 1:1:3 ; latency = 0.5 ]").simulated_time
    assert found == SimulatedTime(seed=5, slowness=(1.0, 1.0, 3.0), latency=0.5)


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (
            "syncPeriod = 3\nsyncPeriodPerWorker = 4",
            "parallelizer 'dataParallelASGD': syncPeriod is an older name of syncPeriodPerWorker; give one of them",
        ),
        ("syncPeriod = 0", "parallelizer 'dataParallelASGD': syncPeriodPerWorker must be at least 1"),
        ("staleness = -1", "parallelizer 'dataParallelASGD': staleness must not be negative"),
        (
            "SimModelAverage = true\nstaleness = 2",
            "parallelizer 'dataParallelASGD': with simModelAverage the workers wait for each other; staleness can only "
            "be 0",
        ),
        (
            "SimModelAverage = true\ndelayCompensation = constant",
            "parallelizer 'dataParallelASGD': with simModelAverage there is no delay that delayCompensation could mend",
        ),
        (
            "compensationLambda = 1",
            "parallelizer 'dataParallelASGD': compensationLambda needs delayCompensation=constant or adaptive",
        ),
        (
            "delayCompensation = constant\ncompensationLambda = -1",
            "parallelizer 'dataParallelASGD': compensationLambda must not be negative",
        ),
        (
            "delayCompensation = adaptive\ncompensationDecay = 1",
            "parallelizer 'dataParallelASGD': compensationDecay must be at least 0 and less than 1",
        ),
        ("AdjustLearningRateAtBeginning = [ adjustCoefficient = -1 ]", "adjustCoefficient must not be negative"),
        ("AdjustLearningRateAtBeginning = [ adjustPerMinibatches = 0 ]", "adjustPerMinibatches must be at least 1"),
        ("simulatedTime = [ seed = -1 ]", "seed must not be negative"),
        ("simulatedTime = [ secondsPerSample = 0 ]", "secondsPerSample must be more than 0"),
        ("simulatedTime = [ jitter = -0.1 ]", "jitter and latency must not be negative"),
        ("simulatedTime = [ latency = -1 ]", "jitter and latency must not be negative"),
        ("simulatedTime = [ slowness = 1:0 ]", "every number of slowness must be more than 0"),
    ],
)
def test_mistakes(block, message):
    with pytest.raises(CntkError) as caught:
        read(block)
    assert caught.value.message.endswith(message)


# -- the warm-up --------------------------------------------------------------------------------------------


def test_a_staircase():
    warm_up = WarmUp(adjust_coefficient=0.25, adjust_per_minibatches=3)
    found = [warm_up.factor(count) for count in range(1, 11)]
    assert found == [0.25, 0.25, 0.5, 0.5, 0.5, 0.75, 0.75, 0.75, 1.0, 1.0]


def test_a_line():
    warm_up = WarmUp(adjust_type="linearly", adjust_coefficient=0.2, adjust_per_minibatches=4)
    assert [warm_up.factor(count) for count in range(1, 6)] == pytest.approx([0.4, 0.6, 0.8, 1.0, 1.0])


def test_none():
    assert WarmUp(adjust_type="none").factor(1) == 1.0


def test_updates_count_in_part_and_exchanges_are_counted_over_epochs():
    warm_up = WarmUp(adjust_type="linearly", adjust_coefficient=0.0, adjust_per_minibatches=8)
    found = run(options(adjust_learning_rate_at_beginning=warm_up), [[[3, 2], [4]]])
    values = first()
    # An epoch ends with an exchange, too.
    for epoch, step, samples, exchange in ((0, 0, 3, 1), (0, 1, 2, 2), (1, 0, 4, 4)):
        values = values - exchange / 8 * RATE * gradient(values, 0, 100 * epoch + step, samples)
    np.testing.assert_allclose(model(found), values, rtol=1e-13)


def test_what_diverges_is_not_a_number_and_no_warning():
    shard = Shard(np.zeros(2, np.float32), 2, ConstantCompensation(1e30), reads=1)
    shard.apply(Push(0, np.full(2, 1e20, np.float32), rate=0.1))
    shard.apply(Push(1, np.full(2, -1e20, np.float32), rate=0.1))
    assert not np.any(np.isfinite(shard.values))


def test_an_update_without_a_rate_is_not_compensated():
    shard = Shard(np.zeros(2), 2, ConstantCompensation(0.5))
    shard.apply(Push(0, np.ones(2), rate=0.1))
    shard.apply(Push(1, np.full(2, 5.0), rate=0.0))
    np.testing.assert_array_equal(shard.values, [6.0, 6.0])
    assert shard.staleness == (1, 1)


# -- what is said and sent ----------------------------------------------------------------------------------


def strategies(count, given):
    def work(communicator):
        strategy = AsynchronousSGD(given)
        strategy.begin(ParameterStore([Parameter.make("w", (SIZE,), value=first())], np.float64), communicator)
        return strategy.describe(0)

    return VirtualRanks(count).run(work)


def test_the_log_says_how_an_epoch_is_trained():
    plain = AsynchronousOptions(sync_period=Schedule.constant(64))
    assert strategies(2, plain)[1] == ("DataParallelASGD training (myRank = 1, numNodes = 2, SamplesSyncToServer = 64)")
    assert strategies(1, AsynchronousOptions(staleness=3, delay_compensation="adaptive")) == [
        "DataParallelASGD training (myRank = 0, numNodes = 1, SamplesSyncToServer = 256, staleness = 3, "
        "delayCompensation = adaptive)"
    ]


def test_statistics():
    timed = options(4, simulated_time=SimulatedTime(jitter=0.0, latency=0.5))
    found = run(timed, [[[4, 4, 4, 4]], [[4, 4, 4, 4]]], show_every=2)
    one, two = found[0].lines
    pattern = (
        r"\t\t\(asynchronous SGD stats\) 2-th sync: +\d+\.\d\d seconds since last report, \d+\.\d\d of them waiting; "
        r"8 samples processed by me; pushes are (\d\.\d\d) behind on average, at most 1 in this epoch; "
        r"simulated time 2\.008 s"
    )
    assert re.fullmatch(pattern, one)
    assert "4-th sync" in two
    assert "simulated time 4.016 s" in two


def test_a_slow_worker_is_stale():
    """In one of its periods the others make many, unless they may not."""
    sizes = [[[1] * 30], [[1] * 30], [[1] * 3]]
    slow = SimulatedTime(jitter=0.0, slowness=(1.0, 1.0, 10.0))
    free = run(options(simulated_time=slow), sizes)[0].strategy._server.shard
    bound = run(options(simulated_time=slow, staleness=1), sizes)[0].strategy._server.shard
    assert free.staleness[1] >= 18
    assert bound.staleness[1] <= 6
    assert free.version == bound.version == 30 + 30 + 3 + 3


def test_parameters_that_are_not_learned_stay():
    def work(communicator):
        fixed = Parameter.make("f", (8,), value=np.zeros(8), learning_rate_multiplier=0.0)
        store = ParameterStore([Parameter.make("w", (SIZE,), value=first()), fixed], np.float64)
        strategy = AsynchronousSGD(options())
        strategy.begin(store, communicator)
        strategy.begin_epoch(0)
        store.values[...] = communicator.rank
        strategy.sync(store, StepCounts(0, {}), epoch_end=True)
        return store.values[store.learned_size :].copy(), store.values[: store.learned_size].copy()

    for rank, (fixed, learned) in enumerate(VirtualRanks(3).run(work)):
        assert set(fixed.tolist()) == {float(rank)}
        np.testing.assert_allclose(learned[:SIZE], 3.0 - 2.0 * first())


def test_no_compensation_has_no_memory():
    assert NoCompensation().memory is None


def test_another_number_of_ranks_keeps_the_mean_square():
    adaptive = options(delay_compensation="adaptive")
    before = run(adaptive, shares(3, seed=4))

    def work(communicator):
        strategy = AsynchronousSGD(adaptive)
        strategy.begin(ParameterStore([Parameter.make("w", (SIZE,), value=first())], np.float64), communicator)
        said = strategy.adopt([result.state for result in before])
        return said, strategy.state()

    after = VirtualRanks(4).run(work)
    assert {said for said, _ in after} == {"there are 4 workers instead of 3"}
    parts = [
        np.concatenate([state["compensation"] for state in states])
        for states in ([result.state for result in before], [state for _, state in after])
    ]
    assert np.any(parts[0])
    np.testing.assert_array_equal(parts[0], parts[1])
    exchanges = max(int(result.state["counts"][0]) for result in before)
    assert all(state["counts"][0] == exchanges for _, state in after)
