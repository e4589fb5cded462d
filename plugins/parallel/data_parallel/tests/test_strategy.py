"""Which aggregation an epoch has, double buffering, and steps in which nobody has data."""

from __future__ import annotations

import numpy as np
import pytest
from cntk_parallel_data_parallel import DataParallel, DataParallelOptions, FullPrecision

from cntk_core.api import GradientAggregation, Parameter, ParameterStore, Schedule
from cntk_core.api.parallel import StepCounts
from cntk_testing import VirtualRanks


class Halves(GradientAggregation):
    """Sends half of what there is and keeps the rest for later."""

    requires_api = "1.0"

    def begin(self, store, communicator):
        super().begin(store, communicator)
        self.residual = np.zeros(store.learned_size)

    def aggregate(self, gradients, header, communicator):
        sent = (gradients + self.residual) / 2
        self.residual = gradients + self.residual - sent
        communicator.allreduce(sent)
        communicator.allreduce(header)
        gradients[...] = sent

    def state(self):
        return {"residual": self.residual}

    def restore(self, state):
        self.residual = np.array(state["residual"])

    def adopt(self, states):
        return "halves begin anew"


def make_store():
    return ParameterStore([Parameter.make("w", (4,), value=np.zeros(4))], np.float64)


def steps(strategy, communicator, samples):
    """Make steps with these samples on this rank; give what comes back of each, gradient first."""
    store, found = make_store(), []
    strategy.begin(store, communicator)
    strategy.begin_epoch(0)
    for count in samples:
        store.gradients[...] = float(count)
        total = strategy.reduce(store, StepCounts(count, {"ce": float(count)}, count, count, (1.0,)))
        found.append((float(store.gradients[0]), total.samples, total.criteria["ce"], total.pending, total.is_end))
    return found


def test_sums_come_at_once():
    def work(communicator):
        return steps(DataParallel(), communicator, [3 + communicator.rank, 1, 0])

    for found in VirtualRanks(2).run(work):
        assert found == [(7.0, 7, 7.0, False, False), (2.0, 2, 2.0, False, False), (0.0, 0, 0.0, False, True)]


def test_buffered_sums_come_one_step_later():
    options = DataParallelOptions(use_buffered_async_gradient_aggregation=True)

    def work(communicator):
        return steps(DataParallel(options), communicator, [3 + communicator.rank, 1, 0, 0])

    for found in VirtualRanks(2).run(work):
        assert found == [
            (0.0, 0, 0.0, True, False),
            (7.0, 7, 7.0, False, False),
            (2.0, 2, 2.0, False, False),
            (0.0, 0, 0.0, False, True),
        ]


@pytest.mark.parametrize("buffered", [False, True])
def test_a_step_without_samples_takes_nothing_from_residuals(buffered):
    """No update follows such a step, so what it sent would be lost."""
    options = DataParallelOptions(aggregation="halves", use_buffered_async_gradient_aggregation=buffered)

    def work(communicator):
        halves = Halves()
        steps(DataParallel(options, {"halves": halves}), communicator, [8, 0, 0][: 3 if buffered else 2])
        return halves.residual[0]

    assert VirtualRanks(2).run(work) == [4.0, 4.0]


def test_a_rank_without_samples_still_sends_what_it_kept():
    def work(communicator):
        halves = Halves()
        strategy = DataParallel(DataParallelOptions(aggregation="halves"), {"halves": halves})
        found = steps(strategy, communicator, [8, 0 if communicator.rank else 8])
        return [one[0] for one in found], halves.residual[0]

    assert VirtualRanks(2).run(work) == [([8.0, 8.0], 6.0), ([8.0, 8.0], 2.0)]


def test_a_new_epoch_drops_what_was_under_way():
    options = DataParallelOptions(use_buffered_async_gradient_aggregation=True)

    def work(communicator):
        strategy, store = DataParallel(options), make_store()
        strategy.begin(store, communicator)
        strategy.begin_epoch(0)
        strategy.reduce(store, StepCounts(3, {}))
        strategy.begin_epoch(1)
        return strategy.reduce(store, StepCounts(3, {})).pending

    assert VirtualRanks(2).run(work) == [True, True]


def test_a_sum_that_waits_goes_on_from_its_state():
    """Of a step without samples, too, whose residuals are taken back when it turns out that nobody had any."""
    options = DataParallelOptions(aggregation="halves", use_buffered_async_gradient_aggregation=True)

    def work(communicator):
        store = make_store()
        strategies = [DataParallel(options, {"halves": Halves()}) for _ in range(2)]
        for strategy in strategies:
            strategy.begin(store, communicator)
            strategy.begin_epoch(0)
        first, other = strategies
        states = []
        for count in (8, 0):
            store.gradients[...] = float(count)
            first.reduce(store, StepCounts(count, {"ce": float(count)}, count, count, (1.0,)))
            states.append({name: np.array(array) for name, array in first.state().items()})
        other.restore(states[1])
        found = []
        for strategy in strategies:
            total = strategy.reduce(store, StepCounts(0, {"ce": 0.0}, 0, 0, (1.0,)))
            found.append((total.is_end, set(store.gradients), set(strategy.aggregations["halves"].residual)))
        other.restore(states[0])
        store.gradients[...] = 0.0
        total = other.reduce(store, StepCounts(0, {"ce": 0.0}, 0, 0, (1.0,)))
        return [sorted(state) for state in states], found, total.samples, set(store.gradients)

    for names, found, samples, gradients in VirtualRanks(2).run(work):
        waiting = ["halves/residual", "pending/gradients", "pending/header"]
        assert names == [waiting, ["before/residual", *waiting]]
        assert found == [(True, {4.0}, {4.0})] * 2
        assert (samples, gradients) == (16, {8.0})


def test_a_state_without_a_sum_that_waits_forgets_the_one_that_does():
    options = DataParallelOptions(use_buffered_async_gradient_aggregation=True)

    def work(communicator):
        strategy, store = DataParallel(options), make_store()
        strategy.begin(store, communicator)
        strategy.begin_epoch(0)
        strategy.reduce(store, StepCounts(3, {}))
        strategy.restore({})
        return strategy.reduce(store, StepCounts(3, {})).pending

    assert VirtualRanks(2).run(work) == [True, True]


def bits(*values):
    return DataParallelOptions(gradient_bits=Schedule.of(values))


def test_the_aggregation_of_an_epoch():
    assert DataParallel.needs(DataParallelOptions()) == ("full",)
    assert DataParallel.needs(bits(32, 1, 64)) == ("full", "quantized")
    assert DataParallel.needs(bits(2)) == ("quantized",)
    assert DataParallel.needs(DataParallelOptions(aggregation="halves")) == ("halves",)
    options = bits(32, 1)
    assert [options.aggregation_of(epoch) for epoch in range(3)] == ["full", "quantized", "quantized"]


def test_epochs_change_between_aggregations():
    def work(communicator):
        strategy = DataParallel(bits(32, 1), {"full": FullPrecision(), "quantized": Halves()})
        store = make_store()
        strategy.begin(store, communicator)
        found = []
        for epoch in range(3):
            strategy.begin_epoch(epoch)
            store.gradients[...] = 8.0
            strategy.reduce(store, StepCounts(1, {}))
            found.append((float(store.gradients[0]), strategy.describe(epoch)))
        return found, strategy.adopt([strategy.state()])

    found, said = VirtualRanks(1).run(work)[0]
    text = "DataParallelSGD training (myRank = 0, numNodes = 1, numGradientBits = "
    assert found == [(8.0, f"{text}32)"), (4.0, f"{text}1)"), (6.0, f"{text}1)")]
    assert said == "halves begin anew"


def test_how_it_is_described():
    options = DataParallelOptions(aggregation="halves", use_buffered_async_gradient_aggregation=True)
    strategy = DataParallel(options, {"halves": Halves()})
    VirtualRanks(1).run(lambda communicator: strategy.begin(make_store(), communicator))
    assert strategy.describe(0) == (
        "DataParallelSGD training (myRank = 0, numNodes = 1, aggregation = halves)"
        ", BufferedAsyncGradientAggregation is ENABLED"
    )


def test_bits_that_make_no_sense():
    with pytest.raises(ValueError, match="gradientBits must be one of 1, 2, 4, 8, 16, 32, 64, not 3"):
        bits(32, 3)


def test_statistics_are_shown():
    said, sent = [], [0]

    def work(communicator):
        strategy, store = DataParallel(), make_store()
        strategy.show_every = 2
        strategy.begin(store, communicator)
        strategy.begin_epoch(0)
        if communicator.rank == 0:
            strategy.say = said.append
        for _ in range(6):
            strategy.reduce(store, StepCounts(1, {}))
            if communicator.rank == 0:
                sent.append(communicator.bytes_sent)

    VirtualRanks(2).run(work)
    # What a step sends is told in the one after it: of the first two, one had sent something.
    parts = [f"{one / 2:.0f}" for one in (sent[1], sent[3] - sent[1], sent[5] - sent[3])]
    assert said == [f"\t\t(gradient aggregation stats): {part} bytes sent in each of 2 minibatches" for part in parts]
    assert 0 < int(parts[0]) < int(parts[1])


class Lender:
    """Holds the gradients somewhere else, in an array of its own."""

    def __init__(self, store):
        self.store, self.asked = store, 0
        self.array = store.gradients.copy()

    def give_back(self, kind):
        self.asked += kind == "gradients"
        if kind == "gradients":
            self.store.raw(kind)[kind][...] = self.array

    def lend(self, kind):
        assert kind == "gradients"
        return self.array


@pytest.mark.parametrize("buffered", [False, True])
@pytest.mark.parametrize("takes", [False, True])
def test_gradients_stay_on_a_device_if_the_communicator_takes_them(buffered, takes) -> None:
    """Otherwise, and with double buffering, they are exchanged here."""

    def work(communicator):
        communicator.takes_device_arrays = takes
        settings = DataParallelOptions(use_buffered_async_gradient_aggregation=buffered)
        strategy, store = (
            DataParallel(settings),
            ParameterStore([Parameter.make("W", (3,), value=np.zeros(3))], "float64"),
        )
        store.gradients[:3] = communicator.rank + 1.0
        lender = Lender(store)
        store.hold(lender)
        strategy.begin(store, communicator)
        strategy.begin_epoch(0)
        strategy.reduce(store, StepCounts(samples=1, criteria={}))
        return lender.asked, lender.array[:3].tolist()

    stay = takes and not buffered
    assert VirtualRanks(2).run(work) == [(0, [3.0] * 3) if stay else (1, [rank + 1.0] * 3) for rank in range(2)]
