"""Block momentum whose workers are ranks that learn through a parameter server (``localMethod=DataParallelASGD``)."""

from __future__ import annotations

import numpy as np
import pytest
from cntk_parallel_asgd import AsynchronousOptions, AsynchronousSGD, SimulatedTime
from cntk_parallel_bmuf import BlockMomentum, BlockMomentumOptions, ModelAveraging, ModelAveragingOptions

from cntk_core.config.schedule import Schedule
from cntk_core.contract.parallel import StepCounts
from cntk_core.contract.store import ParameterStore
from cntk_core.network.node import Parameter
from cntk_testing import VirtualRanks

SIZE, RATE, MINIBATCH = 24, 0.02, 3


def first():
    return np.random.default_rng(11).normal(size=SIZE)


def gradient(values, rank, step, samples):
    return samples * (np.tanh(values) - np.random.default_rng([rank, step]).normal(size=SIZE))


def made(kind, options, each, **local):
    """Return a strategy with asynchronous SGD inside its workers; a block is four minibatches of each rank."""
    own = options(ranks_per_worker=each, local_method="DataParallelASGD", block_size_per_worker=each * 4 * MINIBATCH)
    strategy = kind(own)
    strategy.local = AsynchronousSGD(AsynchronousOptions(sync_period_per_worker=Schedule.constant(1), **local))
    return strategy


def run(make, ranks, steps, *, samples=lambda rank, step: MINIBATCH, flat=False):
    """Learn an epoch; return the model of each rank, and the steps after which all had met, with the models then."""

    def work(communicator):
        rank, met = communicator.rank, []
        store = ParameterStore([Parameter.make("w", (SIZE,), value=first())], np.float64)
        strategy = make()
        strategy.begin(store, communicator)
        strategy.begin_epoch(0)
        for step in range(steps(rank)):
            counts = strategy.reduce(store, StepCounts(samples(rank, step), {}, learning_rate=RATE))
            store.values -= RATE * gradient(store.values * (not flat), rank, step, counts.samples)
            strategy.sync(store, counts)
            if strategy.has_met:
                met.append((step + 1, store.values.copy()))
        strategy.sync(store, StepCounts(0, {}), epoch_end=True)
        return store.values.copy(), met

    return VirtualRanks(ranks).run(work)


def stated(workers, each, steps, momentum):
    """The same in plain NumPy: rounds of a worker's ranks, and after each block a step with momentum; -1: the mean."""
    model, velocity, models = first(), np.zeros(SIZE), []
    own = [model] * workers
    for step in range(steps):
        for worker in range(workers):
            updates = [RATE * gradient(own[worker], worker * each + one, step, MINIBATCH) for one in range(each)]
            own[worker] = own[worker] - np.sum(updates, axis=0)
        for _ in range((step % 4 == 3) + (step == steps - 1)):  # the end of the epoch is a step, too
            if momentum < 0:
                model = np.mean(own, axis=0)
            else:
                velocity = momentum * velocity + (1 - momentum) * sum(model - one for one in own)
                model = model - velocity - momentum * velocity
            own = [model] * workers
            models.append(model)
    return models


@pytest.mark.parametrize(("ranks", "each"), [(4, 2), (6, 3), (6, 2), (2, 2)])
@pytest.mark.parametrize(
    ("kind", "options"), [(BlockMomentum, BlockMomentumOptions), (ModelAveraging, ModelAveragingOptions)]
)
def test_what_the_formulas_say(ranks, each, kind, options):
    """Ranks of a worker in rounds, and between workers Nesterov's momentum as CNTK has it, or the mean."""
    workers, steps = ranks // each, 12
    expected = stated(workers, each, steps, 1 - 1 / workers if kind is BlockMomentum else -1)
    for values, met in run(lambda: made(kind, options, each, staleness=0), ranks, lambda rank: steps):
        assert [step for step, _ in met] == [4, 8, 12]
        for found, model in zip([*(model for _, model in met), values], expected, strict=True):
            np.testing.assert_allclose(found, model, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("local", [{}, {"staleness": 1}, {"use_pipeline": True}])
def test_no_sample_is_lost_or_learned_twice(local):
    """Gradients that do not depend on the model add up whatever the order; some ranks have fewer minibatches."""
    steps, sizes = [9, 14, 0, 11], lambda rank, step: 1 + (rank + 2 * step) % 5

    def make():
        return made(ModelAveraging, ModelAveragingOptions, 4, **local)

    found = run(make, 4, lambda rank: steps[rank], samples=sizes, flat=True)
    total = sum(
        gradient(np.zeros(SIZE), rank, step, sizes(rank, step)) for rank in range(4) for step in range(steps[rank])
    )
    for values, _ in found:
        np.testing.assert_allclose(values, first() - RATE * total, rtol=1e-12)


def test_uneven_workers_come_to_one_model():
    """Workers whose ranks end at different times; simulated time makes it the same every time."""
    steps = [9, 14, 17, 11]

    def make():
        return made(BlockMomentum, BlockMomentumOptions, 2, simulated_time=SimulatedTime(slowness=(1.0, 2.0)))

    def train():
        return run(make, 4, lambda rank: steps[rank], samples=lambda rank, step: 1 + (rank + step) % 4)

    one, other = train(), train()
    for (values, met), (again, _) in zip(one, other, strict=True):
        np.testing.assert_array_equal(values, one[0][0])
        np.testing.assert_array_equal(values, again)
        assert len(met) == len(one[0][1]) > 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"local_method": "DataParallelASGD"},
            "localMethod says how the ranks of a worker learn: give ranksPerWorker, too",
        ),
        (
            {"local_method": "DataParallelASGD", "ranks_per_worker": 2, "gradient_bits": Schedule.constant(1)},
            "gradientBits and aggregation mean sums of gradients, and localMethod something else",
        ),
    ],
)
def test_options_that_exclude_each_other(given, said):
    with pytest.raises(ValueError, match=f"^{said}$"):
        BlockMomentumOptions(**given)
