"""The communicator without an MPI library: its contract, and what it does when ranks are lost."""

from __future__ import annotations

import threading
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pytest
from cntk_parallel_mpi import communicator as module
from cntk_parallel_mpi import ulfm
from cntk_parallel_mpi.ulfm import ENABLED
from mpi_of_threads import OTHER, Fault, Lost, World, run

from cntk_core.api import RankGone, RankMissing
from cntk_core.api.parallel import Whereabouts
from cntk_testing import CommunicatorContract


class TestThreads(CommunicatorContract):
    reports_errors = False  # an error ends the processes: test_mpi.py looks at that from outside

    @pytest.fixture
    def run_ranks(self):
        return run


@pytest.mark.parametrize("count", [1, 3, 257, 258, 512, 513, 1024, 1025, 30_000])
def test_sums_of_all_sizes(count):
    """Direct and striped sums are the same serial sum, also of arrays that are not contiguous."""

    def numbers(rank):
        return np.random.default_rng([rank, count]).normal(size=2 * count).astype(np.float32)[::2]

    def work(communicator):
        arrays = [numbers(communicator.rank), np.full((2, 3), communicator.rank)]
        communicator.allreduce_all(arrays)
        return arrays

    for size in (2, 5):
        expected = numbers(0).copy()
        for rank in range(1, size):
            expected += numbers(rank)
        for one, other in run(size, work):
            np.testing.assert_array_equal(one, expected)
            np.testing.assert_array_equal(other, np.full((2, 3), sum(range(size))))


@pytest.mark.parametrize(("count", "sent"), [(512, 2 * 8 * 512), (513, 4 * 8 * 171)])
def test_what_sums_send(count, sent):
    """Up to 8192 bytes for all others together go whole; of more the others' stripes, and then the sum of its own."""

    def work(communicator):
        before = communicator.bytes_sent
        communicator.allreduce(np.zeros(count))
        return communicator.bytes_sent - before

    assert run(3, work) == [sent] * 3


def test_background_without_threads():
    """A library that threads must not share does the work at once; what it raises is kept."""

    def work(communicator):
        def fail(own):
            raise ArithmeticError("no luck")

        found = communicator.background(lambda own: (own is communicator, own.allgather(np.zeros(own.rank))))
        failed = communicator.background(fail)
        with pytest.raises(ArithmeticError, match="no luck"):
            failed.wait()
        here, arrays = found.wait()
        return here, [len(one) for one in arrays]

    assert run(2, work, threads=2) == [(True, [0, 1])] * 2


def test_threads_end_with_their_communicator():
    before = set(threading.enumerate())

    def work(communicator):
        communicator.background(lambda own: own.barrier()).wait()
        communicator.close()
        communicator.close()
        return communicator.background(lambda own: own.size).wait()

    assert run(2, work) == [2, 2]
    left = [one for one in set(threading.enumerate()) - before if one.name == "communication"]
    assert len(left) == 2  # of the work after the end


def test_messages_to_itself():
    def work(communicator):
        for tag in (1, 2):
            communicator.send(np.array([tag]), communicator.rank, tag)
        assert communicator.poll(1 - communicator.rank) is None
        assert communicator.poll(tag=3) is None
        found = [communicator.poll(communicator.rank, 2), communicator.poll(), communicator.poll(communicator.rank)]
        return [None if one is None else (one.source, one.tag, one.array.tolist()) for one in found]

    for rank, found in enumerate(run(2, work)):
        assert found == [(rank, 2, [2]), (rank, 1, [1]), None]


def test_what_was_sent_may_be_changed():
    def work(communicator):
        for to in range(2):
            array = np.array([1.0])
            communicator.send(array, to)
            array[0] = 2.0
        return [communicator.receive(source).array.tolist() for source in range(2)]

    assert run(2, work) == [[[1.0], [1.0]]] * 2


def test_parts_wait_as_the_whole_does():
    def work(communicator):
        part = communicator.split(0)
        return part.watch is communicator.watch, part.losses, part.is_elastic

    assert run(2, work) == [(True, None, False)] * 2


def test_an_exchange_needs_an_array_for_each():
    def work(communicator):
        with pytest.raises(ValueError, match="alltoall needs 2 arrays, not 1"):
            communicator.alltoall([np.zeros(1)])

    run(2, work)


def test_the_end_of_all(capsys):
    world = World(1)

    def work(communicator):
        communicator.abort("no paper")
        error = RankMissing("nobody came")
        error.exit_code = 7
        try:
            raise error
        except RankMissing:
            communicator.abort("nobody came")

    run(1, work, world=world)
    assert world.aborted == [1, 7]
    said = "rank 0 ends all ranks: no paper\nrank 0 ends all ranks: nobody came\n"
    assert capsys.readouterr().err == said


@pytest.fixture
def ends(monkeypatch):
    """What is to happen when the process ends, and what MPI says it can."""
    noted = []
    monkeypatch.setattr(module, "atexit", SimpleNamespace(register=noted.append))
    monkeypatch.setenv(ENABLED, "1")
    return noted


def tolerant(communicator):
    communicator.tolerate_losses()
    assert communicator.is_elastic
    assert communicator.regroup(True) is None


def until_lost(communicator):
    """Work on; return what is said of the loss."""

    def work():
        while True:
            communicator.allreduce(np.zeros(5000))
            communicator.allgather(np.zeros(communicator.rank))
            communicator.barrier()

    with pytest.raises((RankGone, RankMissing)) as caught:
        work()
    return str(caught.value)


def added(communicator, number):
    total = np.array([float(number)])
    communicator.allreduce(total)
    communicator.split(0).barrier()
    communicator.background(lambda own: own.barrier()).wait()
    assert communicator.regroup(True) is None
    assert communicator.is_elastic
    communicator.close()
    return communicator.rank, communicator.size, float(total[0])


def test_the_others_go_on(ends):
    world, before = World(4), set(threading.enumerate())
    all_are_behind_it = threading.Barrier(4)

    def work(communicator):
        first = communicator.rank
        tolerant(communicator)
        part = communicator.split(first % 2)
        communicator.background(lambda own: own.barrier()).wait()
        all_are_behind_it.wait(60.0)
        if first == 1:
            communicator._worker.close()
            world.lose(1)
            return None
        said = until_lost(communicator)
        # Nobody waits for others in what was made of it, either; ranks 0 and 2 may meet there before they look.
        with pytest.raises(RankGone) if first == 3 else suppress(RankGone):
            part.barrier()
        return said, added(communicator.regroup(False), first)

    found = run(4, work, world=world)
    assert [one and one[1] for one in found] == [(0, 3, 5.0), None, (1, 3, 5.0), (2, 3, 5.0)]
    assert {found[rank][0] for rank in (0, 2, 3)} <= {"rank 1 is gone", "another rank is gone"}
    assert ends == [module._end_at_once] * 3
    assert not [one for one in set(threading.enumerate()) - before if one.name == "communication"]


def test_another_is_lost_while_the_rest_meets(ends):
    world = World(4)

    def work(communicator):
        first = communicator.rank
        tolerant(communicator)
        if first == 3:
            world.dying.add(2)
            world.lose(3)
            return None
        until_lost(communicator)
        return added(communicator.regroup(False), first)

    assert run(4, work, world=world) == [(0, 2, 1.0), (1, 2, 1.0), None, None]


def test_whereabouts_of_those_that_are_left(ends, monkeypatch):
    monkeypatch.setattr(
        Whereabouts,
        "gather",
        lambda communicator: Whereabouts(tuple(f"of {rank}" for rank in range(communicator.size))),
    )
    world = World(3)

    def work(communicator):
        tolerant(communicator)
        if communicator.rank == 0:
            world.lose(0)
            return None
        until_lost(communicator)
        return communicator.regroup(False).losses._whereabouts.texts

    assert run(3, work, world=world) == [None, ("of 1", "of 2"), ("of 1", "of 2")]


@pytest.mark.parametrize("can_end", [True, False])
def test_a_rank_that_does_not_answer(ends, monkeypatch, can_end):
    world, awake, warned, ended = World(2), threading.Event(), [], []
    monkeypatch.setattr(ulfm, "PATIENCE", 0.02)
    monkeypatch.setattr(ulfm, "NOTICE", 0.02)

    def end(whereabouts, rank):
        ended.append(rank)
        if can_end:
            world.lose(rank)

    monkeypatch.setattr(Whereabouts, "end", end)

    def work(communicator):
        tolerant(communicator)
        if communicator.rank == 1:
            awake.wait(60.0)
            raise Lost
        communicator.watch.deadline, communicator.watch.say = 0.05, warned.append
        try:
            said = until_lost(communicator)
            assert said.startswith("rank 0 has waited 0 s in the sum of 5000 numbers for rank 1\n")
            if can_end:
                return added(communicator.regroup(False), 7)
            with pytest.raises(RankMissing) as caught:
                communicator.regroup(False)
            return str(caught.value)
        finally:
            awake.set()

    found, _ = run(2, work, world=world)
    assert ended == [1]
    assert warned == ["Warning: rank 1 does not answer: it counts as lost, and is ended if it is on this machine"]
    assert found == (
        (0, 1, 7.0)
        if can_end
        else "rank 1 does not answer, and MPI does not notice that it is lost\n"
        "    Either it has ended without a signal, or it hangs and no other rank is on its machine."
    )


def test_other_errors_of_the_library_are_no_losses(ends, monkeypatch):
    def work(communicator):
        tolerant(communicator)

        def broken(*arguments):
            raise Fault(OTHER)

        communicator._comm.Isend = broken
        with pytest.raises(Fault):
            communicator.allreduce(np.zeros(3))
        communicator.losses._roll.Agree = broken
        with pytest.raises(Fault):
            communicator.regroup(True)

    run(2, work)


def test_leaving(ends, capsys):
    run(1, lambda communicator: communicator.leave("told to"))
    assert capsys.readouterr().err == "rank 0 leaves: told to\n"
    assert ends == [module._end_by_signal]
