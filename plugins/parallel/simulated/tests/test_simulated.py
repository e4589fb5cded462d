"""Ranks on a simulated network: the contract of communicators, and times that can be reckoned by hand."""

from __future__ import annotations

import numpy as np
import pytest
from cntk_parallel_simulated import SimulatedCommunicator
from cntk_parallel_simulated.links import Links, serve

from cntk_core.api import RankGone, RankMissing, TrainingError
from cntk_core.api.parallel import NetworkModel, SimulationPlan, WireSize
from cntk_testing import CommunicatorContract, PackagingContract

BYTE = np.uint8


class TestPackaging(PackagingContract):
    distribution = "cntk-parallel-simulated"
    kind = "communicator"


def run(ranks, work, *, failures=None, wire=None, **network):
    """Run on a network; return results and the simulation."""
    plan = SimulationPlan(ranks, NetworkModel(**network), wire or {}, failures or {}, patience=60.0)
    simulation = SimulatedCommunicator.simulation(plan)
    return simulation.run(work), simulation


class TestIdealNetwork(CommunicatorContract):
    @pytest.fixture
    def run_ranks(self):
        return lambda size, work: run(size, work)[0]


class TestSlowNetwork(CommunicatorContract):
    sizes = (1, 2, 5, 7)

    @pytest.fixture
    def run_ranks(self):
        network = {"bandwidth": 1e6, "latency": 1e-3, "overhead": 1e-5, "ranks_per_host": 2, "local_bandwidth": 1e8}
        return lambda size, work: run(size, work, **network)[0]


def ends(ranks, operation, **network):
    """When an operation is over, by rank, if all begin at 0."""

    def work(communicator):
        operation(communicator)
        return communicator.now()

    return run(ranks, work, **network)[0]


# -- times by hand -----------------------------------------------------------------------------------------


def test_a_message_takes_latency_and_bytes_over_bandwidth():
    def work(communicator):
        if communicator.rank == 0:
            communicator.send(np.zeros(1000, BYTE), 1)
        else:
            communicator.receive()
        return communicator.now()

    found, _ = run(2, work, bandwidth=1e4, latency=0.5, overhead=0.25)
    # Rank 0 is busy for 0.25 s; 0.5 s later the first byte is there, the last one 0.1 s after it; rank 1 is busy, too.
    assert found == pytest.approx([0.25, 0.25 + 0.5 + 0.1 + 0.25])


def test_a_link_carries_one_message_at_a_time():
    def work(communicator):
        if communicator.rank == 0:
            for to in (1, 2, 3):
                communicator.send(np.zeros(1000, BYTE), to)
        else:
            communicator.receive(0)
        return communicator.now()

    assert run(4, work, bandwidth=1e3)[0] == pytest.approx([0.0, 1.0, 2.0, 3.0])


def test_what_many_send_to_one_comes_in_one_after_the_other():
    def work(communicator):
        if communicator.rank:
            communicator.advance(0.25 * communicator.rank)
            communicator.send(np.zeros(1000, BYTE), 0)
            return []
        return [(communicator.receive().source, communicator.now()) for _ in range(3)]

    assert run(4, work, bandwidth=1e3)[0][0] == [(1, 1.25), (2, 2.25), (3, 3.25)]


def test_a_message_that_leaves_late_does_not_hold_up_one_that_arrives_early():
    def work(communicator):
        if communicator.rank == 0:
            communicator.send(np.zeros(5000, BYTE), 1)
            communicator.send(np.zeros(1000, BYTE), 2)
        if communicator.rank == 1:
            communicator.advance(1.0)
            communicator.send(np.zeros(1000, BYTE), 2)
            communicator.receive()
        if communicator.rank == 2:
            return [(communicator.receive().source, communicator.now()) for _ in range(2)]
        return []

    # The link of rank 2 is free until 5 s, when the second message of rank 0 begins to come.
    assert run(3, work, bandwidth=1e3)[0][2] == [(1, 2.0), (0, 6.0)]


def test_a_large_sum_goes_twice_over_the_links_in_stripes():
    size = 80_000
    for ranks in (2, 4, 8):
        expected = 2 * size * (ranks - 1) / ranks / 1e5 + 2 * 0.01
        found = ends(ranks, lambda one: one.allreduce(np.zeros(size, BYTE)), bandwidth=1e5, latency=0.01)
        assert found == pytest.approx([expected] * ranks)


def test_a_small_sum_is_one_message_to_each():
    # 7 messages of 512 bytes leave one after the other.
    found = ends(8, lambda one: one.allreduce(np.zeros(512, BYTE)), bandwidth=1e5, latency=0.01)
    assert found == pytest.approx([7 * 512 / 1e5 + 0.01] * 8)


def test_sums_together_take_as_many_rounds_as_the_longest():
    arrays = [np.zeros(80_000, BYTE), np.zeros(8, BYTE)]
    together = ends(4, lambda one: one.allreduce_all(arrays), latency=1.0)
    apart = ends(4, lambda one: [one.allreduce(array) for array in arrays], latency=1.0)
    assert together == pytest.approx([2.0] * 4)
    assert apart == pytest.approx([3.0] * 4)


def test_adding_up_takes_time():
    found = ends(4, lambda one: one.allreduce(np.zeros(80_000, BYTE)), sum_rate=1e5)
    assert found == pytest.approx([0.8] * 4)


def test_a_gathering_waits_for_the_longest_array():
    found = ends(3, lambda one: one.allgather(np.zeros(1000 * (1 + one.rank), BYTE)), bandwidth=1e3)
    # Rank 2 sends twice 3000 bytes; rank 0 receives 3000 + 2000 bytes, rank 1 1000 + 3000.
    assert max(found) == pytest.approx(6.0)


def test_an_exchange_may_be_uneven():
    def work(communicator):
        sizes = [0, 4000] if communicator.rank == 0 else [1000, 0]
        communicator.alltoall([np.zeros(size, BYTE) for size in sizes])
        return communicator.now()

    assert run(2, work, bandwidth=1e3)[0] == pytest.approx([4.0, 4.0])


def test_a_broadcast_is_a_tree():
    # Of 8 ranks the last ones get it in the third step; each step is 1 s of the link and 0.5 s on the way.
    found = ends(8, lambda one: one.broadcast(np.zeros(1000, BYTE)), bandwidth=1e3, latency=0.5)
    assert max(found) == pytest.approx(4.5)


def test_ranks_of_a_host_share_its_link():
    size, network = 80_000, {"bandwidth": 1e5, "ranks_per_host": 2}
    found = ends(4, lambda one: one.allreduce(np.zeros(size, BYTE)), **network)
    # Each of a host's two ranks sends two of its four stripes out of the host, twice.
    assert max(found) == pytest.approx(2 * 2 * 2 * (size / 4) / 1e5)
    assert ends(2, lambda one: one.allreduce(np.zeros(size, BYTE)), **network) == pytest.approx([0.0, 0.0])


def test_a_straggler_is_waited_for():
    def work(communicator):
        communicator.advance(1.0 + communicator.rank)
        communicator.allreduce(np.zeros(80_000, BYTE))
        return communicator.now(), communicator.spent

    found, _ = run(3, work, latency=0.25)
    assert [one[0] for one in found] == pytest.approx([3.5] * 3)
    assert [one[1].computing for one in found] == pytest.approx([1.0, 2.0, 3.0])
    assert [one[1].waiting for one in found] == pytest.approx([2.0, 1.0, 0.0])
    assert [one[1].communicating for one in found] == pytest.approx([0.5] * 3)


def test_work_in_the_background_takes_time_beside():
    def work(communicator):
        array = np.full(80_000, 1.0)
        pending = communicator.background(lambda own: own.allreduce(array))
        again = communicator.background(lambda own: own.allreduce(array))
        early = pending.is_done
        communicator.advance(0.6)
        pending.wait()
        first = communicator.now()
        again.wait()
        return early, first, communicator.now(), float(array[0]), communicator.spent.communicating

    for early, first, second, number, communicating in run(2, work, latency=0.5)[0]:
        assert not early
        assert (first, second, number) == pytest.approx((1.0, 2.0, 4.0))
        assert communicating == pytest.approx(1.4)


def test_polling_sees_what_is_there_at_its_time():
    def work(communicator):
        if communicator.rank:
            communicator.send(np.zeros(1000, BYTE), 0)
            return []
        seen = []
        for _ in range(3):
            communicator.advance(0.4)
            seen.append(communicator.poll() is not None)
        return seen

    assert run(2, work, bandwidth=1e3)[0][0] == [False, False, True]


def test_smaller_arrays_may_stand_for_larger_ones():
    wire = {("/sum", 0): WireSize(0.0, 100.0), ("/message", 3): WireSize(64.0, 10.0)}

    def work(communicator):
        communicator.allreduce(np.zeros(10_000, BYTE))
        first = communicator.now()
        communicator.send(np.zeros(164, BYTE), 1 - communicator.rank, tag=3)
        communicator.receive()
        return first, communicator.now() - first, communicator.bytes_sent

    found, simulation = run(2, work, wire=wire, bandwidth=1e6)
    assert found == [pytest.approx((1.0, 0.001064, 1_001_064))] * 2
    assert simulation.traffic == {("/sum", 0): (20_000, 2), ("/message", 3): (328, 2)}


def test_a_run_is_the_same_every_time():
    def work(communicator):
        generator = np.random.default_rng(communicator.rank)
        order = []
        for _ in range(20):
            communicator.advance(float(generator.random()))
            communicator.send(np.zeros(generator.integers(1, 500), BYTE), (communicator.rank + 1) % 4)
            while (message := communicator.poll()) is not None:
                order.append((message.source, message.array.size, communicator.now()))
        return order

    first, second = (run(4, work, bandwidth=1e3, overhead=1e-3)[0] for _ in range(2))
    assert first == second
    assert all(first)


# -- failures ----------------------------------------------------------------------------------------------


def test_a_rank_that_fails_ends_the_others():
    def work(communicator):
        for _ in range(10):
            communicator.advance(1.0)
            communicator.barrier()

    with pytest.raises(RankGone, match=r"^rank 2 is gone after 4.5 simulated seconds$"):
        run(4, work, failures={2: 4.5})


def test_ranks_that_wait_in_vain_are_told_of():
    def work(communicator):
        if communicator.rank == 1:
            communicator.receive(0, 7)

    with pytest.raises(RankMissing) as caught:
        run(2, work)
    assert str(caught.value) == (
        "the ranks wait in vain: rank 1 waits in receiving a message from rank 0 about 7, and rank 0 has ended"
    )


def test_ranks_that_call_different_operations_are_told_of():
    def work(communicator):
        if communicator.rank:
            communicator.barrier()
        else:
            communicator.allgather(np.zeros(1))

    with pytest.raises(TrainingError, match="calls a meeting of all ranks where another calls a gathering of arrays"):
        run(2, work)


def test_polling_for_ever_is_told_of():
    def work(communicator):
        while communicator.rank == 0:
            communicator.poll()

    with pytest.raises(TrainingError, match="rank 0 looks for messages that nobody sends"):
        run(2, work)


def test_deadlines_are_simulated():
    def work(communicator):
        communicator.watch.deadline = 5.0
        communicator.advance(6.0 * communicator.rank)
        communicator.barrier()

    with pytest.raises(RankMissing, match="rank 0 has waited 6 simulated seconds in a meeting of all ranks"):
        run(2, work)


def test_a_rank_alone_needs_no_world():
    communicator = SimulatedCommunicator()
    array = np.ones(3)
    communicator.allreduce(array)
    communicator.advance(2.0)
    assert (communicator.rank, communicator.size, communicator.now(), array.tolist()) == (0, 1, 2.0, [1.0] * 3)


# -- many --------------------------------------------------------------------------------------------------


def test_queues_serve_in_the_order_of_arrival():
    """Against a loop."""
    random = np.random.default_rng(3)
    for _ in range(20):
        jobs, queues = 200, 7
        queue, arrival = random.integers(0, queues, jobs), random.random(jobs).round(1)
        service, free = random.random(jobs) / 30, random.random(queues)
        expected, ends_at = np.zeros(jobs), free.copy()
        for job in sorted(range(jobs), key=lambda one: (arrival[one], one)):
            ends_at[queue[job]] = max(ends_at[queue[job]], arrival[job]) + service[job]
            expected[job] = ends_at[queue[job]]
        np.testing.assert_allclose(serve(queue, arrival, service, free), expected, atol=1e-9)
        np.testing.assert_allclose(free, ends_at, atol=1e-9)


def test_an_exchange_is_what_its_messages_are():
    """The times of an exchange that is reckoned at once against those of its messages one by one."""
    random = np.random.default_rng(5)
    ranks, network = 6, {"bandwidth": 1e3, "latency": 0.2}
    starts, sizes = random.random(ranks), random.integers(1, 900, (ranks, ranks)).astype(float)
    found = Links(NetworkModel(**network), ranks).exchange(np.arange(ranks), starts, sizes)

    def work(communicator):
        rank = communicator.rank
        communicator.advance(float(starts[rank]))
        others = [(rank + step) % ranks for step in range(1, ranks)]
        for to in others:
            communicator.send(np.zeros(int(sizes[rank, to]), BYTE), to)
        for _ in others:
            communicator.receive()
        left = starts[rank] + sum(sizes[rank, to] for to in others) / 1e3
        return max(communicator.now(), left)

    np.testing.assert_allclose(found, run(ranks, work, **network)[0], atol=1e-9)


def test_many_ranks():
    def work(communicator):
        array = np.ones(4)
        communicator.allreduce(array)
        return float(array[0])

    assert run(300, work, bandwidth=1e9, latency=1e-5)[0] == [300.0] * 300
