"""The contracts of communicators and parallelizers hold for simple ones, and notice others that are wrong."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from cntk_core.contract.parallel import GradientAggregation, Parallelizer
from cntk_testing import AggregationContract, CommunicatorContract, ParallelizerContract
from cntk_testing.virtual_ranks import RankFailure, VirtualCommunicator, VirtualRanks


class TestVirtualRanks(CommunicatorContract):
    @pytest.fixture
    def run_ranks(self):
        return lambda size, work: VirtualRanks(size).run(work)


class Sums(Parallelizer):
    """Adds gradients."""

    requires_api = "1.0"

    def begin(self, store, communicator):
        self.communicator = communicator

    def reduce(self, store, counts):
        self.communicator.allreduce(store.gradients)
        header = counts.header()
        self.communicator.allreduce(header)
        return counts.summed(header)


class Averages(Parallelizer):
    """Averages parameters every third time, and at the end of an epoch."""

    requires_api = "1.0"

    def begin(self, store, communicator):
        self.communicator = communicator
        self.count = 0

    def sync(self, store, counts, *, epoch_end=False):
        self.count += 1
        if epoch_end or self.count % 3 == 0:
            self.communicator.allreduce(store.values)
            store.values /= self.communicator.size

    def state(self):
        return {"count": np.array([self.count])}

    def restore(self, state):
        self.count = int(state["count"][0])


class Exact(GradientAggregation):
    """Adds gradients as they are."""

    requires_api = "1.0"

    def aggregate(self, gradients, header, communicator):
        communicator.allreduce(gradients)
        communicator.allreduce(header)


class Signs(GradientAggregation):
    """Sends a sign for each value and one scale; what that leaves out comes later."""

    requires_api = "1.0"

    def begin(self, store, communicator):
        super().begin(store, communicator)
        self.residual = np.zeros_like(store.gradients)

    def aggregate(self, gradients, header, communicator):
        value = gradients + self.residual
        sent = np.sign(value) * np.mean(np.abs(value))
        self.residual = value - sent
        communicator.allreduce(sent)
        communicator.allreduce(header)
        gradients[...] = sent

    def state(self):
        return {"residual": self.residual}

    def restore(self, state):
        self.residual[...] = state["residual"]


class TestExact(AggregationContract):
    aggregation_class = Exact


class Largest(Signs):
    """Sends the largest eighth of the values; the rest comes later."""

    def aggregate(self, gradients, header, communicator):
        self.residual += gradients
        largest = np.argpartition(np.abs(self.residual), -(gradients.size // 8))[-(gradients.size // 8) :]
        gradients[...] = 0
        gradients[largest], self.residual[largest] = self.residual[largest], 0
        communicator.allreduce(gradients)
        communicator.allreduce(header)


class TestLargest(AggregationContract):
    aggregation_class = Largest
    exact = False


class Periodic(Averages):
    """Averages the models every three steps, and at the end of an epoch."""

    def begin(self, store, communicator):
        super().begin(store, communicator)
        self.steps = 0

    def sync(self, store, counts, *, epoch_end=False):
        self.steps += 1
        return super().sync(store, counts, epoch_end=epoch_end) if epoch_end or self.steps % 3 == 0 else counts

    def state(self):
        return {**super().state(), "steps": np.array([self.steps])}

    def restore(self, state):
        super().restore({name: value for name, value in state.items() if name != "steps"})
        self.steps = int(state["steps"][0])


def run_ranks(size, work):
    return VirtualRanks(size).run(work)


class Forgetful(Signs):
    """Drops what it leaves out."""

    def aggregate(self, gradients, header, communicator):
        super().aggregate(gradients, header, communicator)
        self.residual[...] = 0.0


class Selfish(Exact):
    """Rank 1 keeps its own gradients."""

    def aggregate(self, gradients, header, communicator):
        own = gradients.copy()
        super().aggregate(gradients, header, communicator)
        if communicator.rank == 1:
            gradients[...] = own


class Fresh(Signs):
    """Restores nothing."""

    def restore(self, state):
        pass


@pytest.mark.parametrize(
    ("aggregation", "test", "message"),
    [
        (Forgetful, "test_nothing_is_lost", "with 1 ranks the mean result is off"),
        (
            Signs,
            "test_what_is_left_out_does_not_pile_up",
            "what is left out is .* but comes too late",
        ),
        (Forgetful, "test_descent_follows_full_precision", "with 1 ranks, 200 steps of gradient descent leave"),
        (Selfish, "test_all_ranks_get_the_same", "gradients of step 0 on rank 1 of 2"),
        (Fresh, "test_a_restart_goes_on_where_it_was", "restart on rank 0 of 1"),
    ],
)
def test_faults_of_aggregations_are_noticed(aggregation, test, message):
    more = ("float32",) if test == "test_all_ranks_get_the_same" else ()
    with pytest.raises(AssertionError, match=message):
        getattr(AggregationContract(), test)(aggregation, run_ranks, *more)


class TestSums(ParallelizerContract):
    parallelizer_class = Sums


class TestAverages(ParallelizerContract):
    parallelizer_class = Averages
    reduces_gradients = False


class TestPeriodic(TestAverages):
    parallelizer_class = Periodic


@pytest.mark.parametrize(
    ("base", "methods", "test", "message"),
    [
        (
            Sums,
            {"reduce": lambda self, store, counts: counts},
            "test_gradients_are_added_in_the_order_of_ranks",
            "gradients of step 0 on rank 0 of 2",
        ),
        (
            Sums,
            {"reduce": lambda self, store, counts: [Sums.reduce(self, store, counts), counts][1]},
            "test_counts_ride_along",
            "samples of step",
        ),
        (Averages, {"restore": lambda self, state: None}, "test_a_restart_goes_on_where_it_was", "restart on rank 0"),
        (
            Averages,
            {"sync": lambda self, store, counts, *, epoch_end=False: Averages.sync(self, store, counts)},
            "test_ranks_agree_at_the_end_of_an_epoch",
            "parameters of rank 1 of 2",
        ),
        (
            Sums,
            {"finish": lambda self: self.communicator.barrier()},
            "test_finish_after_a_failure",
            r"only the ranks \[.*\] of 2 finished|calls barrier|has ended",
        ),
    ],
)
def test_faults_of_parallelizers_are_noticed(base, methods, test, message):
    faulty = type("Faulty", (base,), methods)
    with pytest.raises((AssertionError, RankFailure), match=message):
        getattr(ParallelizerContract(), test)(faulty)


def test_a_sum_in_another_order_is_noticed():
    class Backwards(VirtualCommunicator):
        def allreduce(self, array):
            array[...] = np.sum(np.stack(self.allgather(array)[::-1]), axis=0)

    def run_ranks(size, work):
        return VirtualRanks(size).run(lambda one: work(Backwards(one._ranks, one.rank)))

    with pytest.raises(AssertionError, match="sum on rank 0 of 5"):
        CommunicatorContract().test_allreduce_adds_in_the_order_of_ranks(run_ranks, "float32")


def message_of(size, work, **options):
    with pytest.raises(RankFailure) as error:
        VirtualRanks(size, **options).run(work)
    return str(error.value)


def test_ranks_that_do_not_come_together():
    over = threading.Event()

    def late(communicator):
        if communicator.rank == 1:
            over.wait(30.0)
        try:
            communicator.barrier()
        finally:
            over.set()

    def differs(communicator):
        if communicator.rank:
            communicator.barrier()
            time.sleep(0)
        else:
            communicator.allgather(np.zeros(1))

    assert message_of(2, differs) in {
        "rank 0 calls allgather where another calls barrier",
        "rank 1 calls barrier where another calls allgather",
    }
    assert message_of(2, lambda one: one.barrier() if one.rank else None) == (
        "rank 1 waits in barrier, but rank 0 has ended"
    )
    assert message_of(2, late, deadline=0.1) == "barrier lacks the ranks [1] after 0.1 s"
    assert message_of(2, lambda one: one.abort("enough") if one.rank else one.barrier()) == "rank 1 aborted: enough"


def test_ranks_that_wait_for_each_other():
    def work(communicator):
        if communicator.rank:
            communicator.receive(0, tag=3)
        else:
            communicator.barrier()

    assert message_of(2, work) == (
        "all ranks wait for each other: rank 0 waits in barrier; rank 1 waits in receive from rank 0 with tag 3"
    )
    assert message_of(2, lambda one: one.receive(1) if one.rank == 0 else None) == (
        "rank 0 waits in receive from rank 1, but it has ended"
    )


def test_ranks_take_turns():
    """The order of messages from different ranks does not depend on how long the ranks take."""

    def work(communicator):
        if communicator.rank == 0:
            return [communicator.receive().source for _ in range(6)]
        for turn in range(2):
            time.sleep(0.001 * ((communicator.rank + turn) % 3))
            communicator.send(np.zeros(1), 0)
            communicator.poll()
        return []

    assert VirtualRanks(4).run(work)[0] == [1, 2, 3, 1, 2, 3]


def test_a_rank_cannot_go_on_after_a_failure():
    seen = []

    def work(communicator):
        if communicator.rank == 0:
            raise ValueError("first")
        try:
            communicator.barrier()
        except Exception as error:
            seen.append(error)

    with pytest.raises(ValueError, match="first"):
        VirtualRanks(3).run(work)
    assert not [error for error in seen if not isinstance(error, RankFailure)]


def test_ranks_run_again_after_a_failure():
    ranks = VirtualRanks(2)
    with pytest.raises(ZeroDivisionError):
        ranks.run(lambda one: 1 / one.rank)
    assert ranks.run(lambda one: one.allgather(np.array([one.rank]))[1][0]) == [1, 1]
