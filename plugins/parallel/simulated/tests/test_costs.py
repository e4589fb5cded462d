"""What each operation costs a rank: bytes that it sends, seconds, and where these go."""

from __future__ import annotations

import numpy as np
import pytest
from cntk_parallel_simulated import SimulatedCommunicator
from cntk_parallel_simulated.communicator import POLL_SECONDS
from cntk_parallel_simulated.links import Links

from cntk_core.api import RankGone, RankMissing, TrainingError
from cntk_core.api.parallel import NetworkModel, SimulationPlan, TimeSpent

BYTE = np.uint8


def simulated(ranks, work, *, failures=None, patience=60.0, **network):
    """Run on a network; return results and the simulation."""
    plan = SimulationPlan(ranks, NetworkModel(**network), {}, failures or {}, patience=patience)
    simulation = SimulatedCommunicator.simulation(plan)
    return simulation.run(work), simulation


def run(ranks, work, **settings):
    return simulated(ranks, work, **settings)[0]


def zeros(size):
    return np.zeros(size, BYTE)


def spent(one: TimeSpent) -> tuple[float, float, float]:
    return one.computing, one.communicating, one.waiting


@pytest.mark.parametrize(
    ("operation", "ranks", "bytes_sent"),
    [
        (lambda one: one.allreduce(zeros(512)), 4, [1536] * 4),
        (lambda one: one.allreduce(zeros(4096)), 3, [8192] * 3),  # the largest that goes to each as a whole
        (lambda one: one.allreduce(zeros(4098)), 3, [5464] * 3),  # twice over the links, but for a rank's own stripe
        (lambda one: one.allreduce(zeros(9000)), 1, [0]),
        (lambda one: one.allreduce_all([zeros(512), zeros(80_000)]), 4, [1536 + 120_000] * 4),
        (lambda one: one.allgather(zeros(100 * (one.rank + 1))), 3, [200, 400, 600]),
        (lambda one: one.alltoall([zeros(10 ** (1 + to)) for to in range(3)]), 3, [1100, 1010, 110]),
        (lambda one: one.broadcast(zeros(100), 1), 5, [0, 300, 100, 0, 0]),
        (lambda one: one.broadcast(zeros(100), 0), 8, [300, 200, 100, 100, 0, 0, 0, 0]),
        (lambda one: one.barrier(), 3, [0, 0, 0]),
        (lambda one: one.send(zeros(100), 0), 2, [0, 100]),
        (lambda one: one.split(one.rank % 2).allreduce(zeros(50)), 4, [0] * 4),
        (lambda one: one.background(lambda own: own.allreduce(zeros(512))).wait(), 4, [1536] * 4),
    ],
)
def test_bytes_that_a_rank_sends(operation, ranks, bytes_sent):
    def work(communicator):
        operation(communicator)
        return communicator.bytes_sent

    assert run(ranks, work) == bytes_sent


def test_bytes_of_several_works_in_the_background_add_up():
    def work(communicator):
        for _ in range(3):
            communicator.background(lambda own: own.allgather(zeros(100))).wait()
        return communicator.bytes_sent

    assert run(3, work) == [600] * 3


def test_a_meeting_is_a_message_to_each():
    def work(communicator):
        communicator.barrier()
        return communicator.now()

    # The last message of a rank leaves after 0.25 s, and arrives at 1.25; the first one is taken at 1.125 to 1.25.
    assert run(3, work, latency=1.0, overhead=0.125) == pytest.approx([1.375] * 3)
    assert run(1, work, latency=1.0, overhead=0.125) == [0.0]


def test_a_broadcast_goes_down_a_tree_from_its_root():
    def work(communicator):
        communicator.broadcast(zeros(1000), 2)
        return communicator.now()

    # Rank 2 sends to rank 3 and, when its link is free again, to rank 0; rank 3 sends to rank 1.
    found = run(4, work, bandwidth=1e3, latency=0.5, overhead=0.25)
    assert found == pytest.approx([0.25 + 1 + 0.5 + 1 + 0.25, 2.0 + 0.25 + 0.5 + 1 + 0.25, 0.5, 2.25])


def test_a_broadcast_among_three():
    def work(communicator):
        communicator.broadcast(zeros(1), 1)
        return communicator.now()

    # Rank 1 sends to rank 2, then to rank 0.
    assert run(3, work, latency=1.0, overhead=0.25) == pytest.approx([1.75, 0.5, 1.5])


def test_ranks_of_a_host_do_not_use_its_link():
    network = {"ranks_per_host": 2, "local_bandwidth": 4e3, "local_latency": 0.0625, "bandwidth": 1e3, "latency": 0.5}

    def message(communicator):
        if communicator.rank == 0:
            communicator.send(zeros(1000), 1)
        elif communicator.rank == 1:
            communicator.receive()
        return communicator.now()

    assert run(2, message, **network) == pytest.approx([0.0, 0.0625 + 0.25])

    def gathering(communicator):
        communicator.allgather(zeros(1000))
        return communicator.now()

    assert run(2, gathering, **network) == pytest.approx([0.0625 + 0.25] * 2)
    # Two ranks send two messages each over a link; the first one of the other host has its last one after 3 s.
    assert run(4, gathering, **network) == pytest.approx([3.5, 4.5, 3.5, 4.5])


def test_an_exchange_between_hosts_is_what_its_messages_are():
    """The times of an exchange that is reckoned at once against those of its messages one by one."""
    random = np.random.default_rng(5)
    ranks = 6
    network = {
        "bandwidth": 1e3, "latency": 10.0, "overhead": 0.05, "ranks_per_host": 2, "local_bandwidth": 5e3,
        "local_latency": 0.3,
    }  # fmt: skip
    starts, sizes = random.random(ranks), random.integers(1, 900, (ranks, ranks)).astype(float)
    found = Links(NetworkModel(**network), ranks).exchange(np.arange(ranks), starts, sizes)

    def work(communicator):
        rank = communicator.rank
        communicator.advance(float(starts[rank]))
        for step in range(1, ranks):
            to = (rank + step) % ranks
            communicator.send(zeros(int(sizes[rank, to])), to)
        for _ in range(1, ranks):
            communicator.receive()
        return communicator.now()

    np.testing.assert_allclose(found, run(ranks, work, **network), atol=1e-9)


def test_a_division_hands_over_a_number():
    def work(communicator):
        part = communicator.split(communicator.rank // 2)
        return communicator.now(), part.rank, part.size

    assert run(4, work, bandwidth=8.0) == [(3.0, rank % 2, 2) for rank in range(4)]


def test_parts_of_parts_have_traffic_of_their_own():
    def work(communicator):
        part = communicator.split(communicator.rank // 2)
        part.allreduce(zeros(10))
        part.split(part.rank).allreduce(zeros(20))
        communicator.allreduce(zeros(30))
        communicator.background(lambda own: own.broadcast(zeros(40))).wait()

    _, simulation = simulated(4, work)
    assert simulation.traffic == {
        ("/split 0/sum", 0): (40, 4),
        ("/split 0/split 1/sum", 0): (80, 4),
        ("/sum", 1): (120, 4),
        ("/background/broadcast", 0): (160, 4),
    }


def test_a_part_has_the_deadline_of_the_whole():
    def work(communicator):
        communicator.watch.deadline = 5.0
        part = communicator.split(0)
        part.advance(6.0 * part.rank)
        part.barrier()

    with pytest.raises(RankMissing, match="rank 0 has waited 6 simulated seconds"):
        run(2, work)


def test_who_runs_last_may_have_waited_longest():
    def work(communicator):
        communicator.watch.deadline = 5.0
        communicator.barrier()
        communicator.advance(0.0 if communicator.rank == 0 else 6.0)
        communicator.barrier()

    # Rank 1 goes on from the first meeting before rank 0 does.
    with pytest.raises(RankMissing, match=r"^rank 0 has waited 6 simulated seconds in a meeting of all ranks$"):
        run(2, work)


def test_waiting_as_long_as_the_deadline_is_in_time():
    def work(communicator):
        communicator.watch.deadline = 6.0
        communicator.advance(6.0 * communicator.rank)
        communicator.barrier()
        return communicator.now()

    assert run(2, work) == [6.0, 6.0]


def test_where_the_seconds_of_a_message_go():
    def work(communicator):
        if communicator.rank == 0:
            communicator.advance(2.0)
            communicator.send(zeros(1000), 1)
        else:
            communicator.advance(0.5)
            communicator.receive(0)
        return spent(communicator.spent)

    # Rank 1 waits until the message is sent, 1.75 s; 0.5 + 1 s it is on its way, 0.25 s its processor takes it.
    found = run(2, work, bandwidth=1e3, latency=0.5, overhead=0.25)
    assert found == [pytest.approx((2.0, 0.25, 0.0)), pytest.approx((0.5, 1.75, 1.75))]


def test_a_message_that_is_there_is_not_waited_for():
    def work(communicator):
        if communicator.rank == 0:
            communicator.send(zeros(1000), 1)
        else:
            communicator.advance(5.0)
            communicator.receive(0)
        return (*spent(communicator.spent), communicator.now())

    assert run(2, work, bandwidth=1e3)[1] == pytest.approx((5.0, 0.0, 0.0, 5.0))


def test_a_message_to_oneself_costs_nothing_and_comes_in_order():
    def work(communicator):
        for number in range(3):
            communicator.advance(1.0)
            communicator.send(np.array([number]), communicator.rank, tag=number % 2)
        found = [int(communicator.receive(tag=tag).array[0]) for tag in (1, 0, 0)]
        return found, communicator.now(), communicator.bytes_sent, spent(communicator.spent)

    network = {"bandwidth": 1.0, "latency": 9.0, "overhead": 9.0, "local_latency": 9.0}
    assert run(1, work, **network) == [([1, 0, 2], 3.0, 0, (3.0, 0.0, 0.0))]


def test_polling_takes_a_message_as_soon_as_it_is_there():
    def work(communicator):
        if communicator.rank:
            communicator.send(zeros(1000), 0, tag=4)
            return None
        communicator.advance(1.0)
        others = communicator.poll(1, 5), communicator.poll(0, 4)
        found = communicator.poll(1, 4)
        return [one is None for one in (*others, found)], communicator.now(), spent(communicator.spent)

    told, now, times = run(2, work, bandwidth=1e3)[0]
    assert told == [True, True, False]
    assert (now, *times) == pytest.approx((1.0 + 2 * POLL_SECONDS, 1.0, 2 * POLL_SECONDS, 0.0), rel=1e-12)


def test_a_message_is_there_at_the_very_moment_of_its_last_byte():
    def work(communicator):
        if communicator.rank:
            communicator.send(zeros(1000), 0)
            return True
        communicator.advance(0.5)
        early = communicator.poll()
        communicator.wait_until(1.0)
        return early is None and communicator.poll() is not None

    assert run(2, work, bandwidth=1e3) == [True, True]


def test_looking_in_vain_takes_the_processor_s_time():
    def work(communicator):
        communicator.poll()
        return communicator.now()

    assert run(1, work, overhead=0.25) == [0.25]


def test_looking_in_vain_is_told_of_only_where_nothing_can_happen_any_more():
    def work(communicator):
        looks = 0
        if communicator.rank:
            communicator.advance(0.5)
            communicator.send(zeros(1), 0)
            communicator.receive()
            return looks
        while communicator.poll() is None:
            looks += 1
        communicator.send(zeros(1), 1)
        return looks

    # Far more often than a rank may look when all others have ended.
    assert run(2, work, overhead=2e-5)[0] > 20_000


def test_a_message_makes_up_for_looks_in_vain():
    def work(communicator):
        found = 0
        for _ in range(2 if communicator.rank == 0 else 0):
            for _ in range(6000):
                assert communicator.poll() is None
            communicator.send(zeros(1), 0)
            found += communicator.poll() is not None
        return found

    assert run(2, work) == [2, 0]


def test_work_in_the_background_begins_when_the_work_before_it_is_done():
    def work(communicator):
        communicator.advance(1.0)
        first = communicator.background(lambda own: own.barrier())
        second = communicator.background(lambda own: own.barrier())
        communicator.advance(0.75)
        states = first.is_done, second.is_done
        first.wait()
        waited = communicator.now()
        states = (*states, first.is_done, second.is_done)
        second.wait()
        return states, waited, communicator.now(), spent(communicator.spent)

    expected = ((False, False, True, False), 2.0, 3.0, (1.75, 1.25, 0.0))
    assert run(2, work, latency=1.0) == [expected] * 2


def test_work_that_was_done_long_ago_is_not_waited_for():
    def work(communicator):
        pending = communicator.background(lambda own: own.barrier())
        communicator.advance(5.0)
        pending.wait()
        return communicator.now(), spent(communicator.spent)

    assert run(2, work, latency=1.0) == [(5.0, (5.0, 0.0, 0.0))] * 2


def test_an_error_in_the_background_comes_out_where_it_is_waited_for():
    def work(communicator):
        def failing(own):
            own.advance(1.0)
            raise ValueError("no")

        pending = communicator.background(failing)
        assert communicator.now() == 0.0
        with pytest.raises(ValueError, match=r"^no$"):
            pending.wait()
        return communicator.now()

    assert run(1, work) == [1.0]


def test_the_end_of_a_run_is_that_of_its_last_rank():
    assert SimulatedCommunicator.simulation(SimulationPlan(2)).ended_at == 0.0
    _, simulation = simulated(3, lambda one: one.advance([1.0, 7.0, 2.0][one.rank]))
    assert simulation.ended_at == 7.0
    simulation.run(lambda one: one.advance(0.5))
    assert simulation.ended_at == 0.5


def test_a_rank_is_gone_at_its_time_whatever_it_does_then():
    def work(communicator):
        communicator.advance(10.0)

    plan = SimulationPlan(3, NetworkModel(), {}, {1: 4.0, 2: 2.5})
    simulation = SimulatedCommunicator.simulation(plan)
    with pytest.raises(RankGone, match=r"^rank 2 is gone after 2.5 simulated seconds$"):
        simulation.run(work)
    assert simulation.ended_at == 10.0


def test_a_rank_that_ends_before_its_time_fails_nobody():
    assert run(2, lambda one: one.advance(1.0), failures={1: 1.5}) == [None, None]


def test_many_ranks_that_wait_are_counted():
    def work(communicator):
        if communicator.rank:
            communicator.receive(0)

    with pytest.raises(RankMissing, match=r"rank 8 waits in receiving a message from rank 0; and 3 more, and rank 0"):
        run(12, work)


def test_ranks_that_ended_are_named_with_those_that_wait():
    def work(communicator):
        if communicator.rank == 2:
            communicator.receive()

    with pytest.raises(RankMissing) as caught:
        run(4, work)
    assert str(caught.value) == (
        "the ranks wait in vain: rank 2 waits in receiving a message from any rank, and rank 0, 1, 3 has ended"
    )


def test_a_rank_that_stops_the_run():
    def work(communicator):
        if communicator.rank == 1:
            communicator.abort("enough")
        communicator.receive()

    with pytest.raises(TrainingError, match=r"^rank 1 aborted: enough$"):
        run(3, work)


def test_an_exchange_needs_an_array_for_each_rank():
    with pytest.raises(ValueError, match=r"^alltoall needs 2 arrays, not 3$"):
        run(2, lambda one: one.alltoall([zeros(1)] * 3))
