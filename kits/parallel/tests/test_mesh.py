"""Ranks with a TCP connection between each two: where they meet, their sums in parts and groups, and failures."""

from __future__ import annotations

import itertools
import socket
import threading
import time

import numpy as np
import pytest

from cntk_core.errors import RankGone
from cntk_kit_parallel.background_worker import BackgroundWorker, sum_by_rank
from cntk_kit_parallel.mesh import Mesh
from cntk_kit_parallel.mesh_communicator import DIRECT_BYTES, MeshCommunicator
from cntk_kit_parallel.mesh_meeting import greet
from cntk_kit_parallel.rendezvous import Rendezvous
from cntk_testing.ports import free_port


@pytest.fixture
def port():
    return free_port()


def run(port, size, work):
    """Let each of some ranks, which are threads, work with its communicator; return what each gives."""
    results, errors = {}, []

    def rank(number):
        try:
            mesh = Mesh(Rendezvous(number, size, "127.0.0.1", port, b"s" * 16), patience=60.0)
            communicator = MeshCommunicator(mesh)
            communicator.watch.deadline = 60.0
            results[number] = work(communicator)
            communicator.close()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=rank, args=(number,), daemon=True) for number in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120.0)
    if errors:
        raise errors[0]
    return [results[number] for number in range(size)]


@pytest.mark.parametrize("count", [3, DIRECT_BYTES])
def test_sums_are_in_the_order_of_ranks(port, count):
    """Small ones at every rank, large ones in stripes: the same to the last bit."""
    parts = [np.random.default_rng(rank).normal(size=count) for rank in range(3)]

    def work(communicator):
        array = parts[communicator.rank].copy()
        communicator.allreduce(array)
        return array

    for found in run(port, 3, work):
        np.testing.assert_array_equal(found, (parts[0] + parts[1]) + parts[2])


def test_bytes_that_a_rank_sends(port):
    """What comes in is not counted, nor what a rank sends to itself."""
    byte, most = np.uint8, DIRECT_BYTES // 2

    def work(communicator):
        rank = communicator.rank
        operations = [
            lambda: communicator.allreduce(np.zeros(most, byte)),
            lambda: communicator.allreduce(np.zeros(most + 1, byte)),
            lambda: communicator.allgather(np.zeros(100 + rank, byte)),
            lambda: communicator.alltoall([np.zeros(10**to, byte) for to in range(3)]),
            lambda: communicator.broadcast(np.zeros(100, byte), 1),
            communicator.barrier,
            lambda: communicator.send(np.zeros(100, byte), rank),
            lambda: communicator.send(np.zeros(100, byte), (rank + 1) % 3),
            lambda: communicator.split(0),
        ]
        found = []
        for operation in operations:
            before = communicator.bytes_sent
            operation()
            found.append(communicator.bytes_sent - before)
        return found

    cuts = [(most + 1) * rank // 3 for rank in range(4)]
    stripes = [end - begin for begin, end in itertools.pairwise(cuts)]
    for rank, found in enumerate(run(port, 3, work)):
        others = most + 1 - stripes[rank]
        sums = [2 * most, others + 2 * stripes[rank]]
        assert found == [*sums, 2 * (100 + rank), 111 - 10**rank, 200 if rank == 1 else 0, 0, 0, 100, 16]


def test_groups_and_background(port):
    """Ranks 0 and 2 are a group; what a group does in the background is among its ranks alone."""

    def work(communicator):
        group = communicator.split(communicator.rank % 2)
        array = np.array([10.0**communicator.rank])
        group.allreduce(array)
        late = group.background(lambda inner: inner.allgather(np.array([communicator.rank])))
        gathered = [int(one[0]) for one in late.wait()]
        everywhere = [int(one[0]) for one in communicator.allgather(np.array([group.rank]))]
        group.close()
        return float(array[0]), group.size, gathered, everywhere

    assert run(port, 3, work) == [
        (101.0, 2, [0, 2], [0, 0, 1]),
        (10.0, 1, [1], [0, 0, 1]),
        (101.0, 2, [0, 2], [0, 0, 1]),
    ]


def test_broadcasts_and_messages(port):
    def work(communicator):
        array = np.array([communicator.rank + 5])
        communicator.broadcast(array, root=1)
        if communicator.rank == 0:
            communicator.send(np.array([1.5, 2.5]), 1, tag=7)
            return int(array[0]), None
        message = communicator.receive(0, 7)
        return int(array[0]), message.array.tolist()

    assert run(port, 2, work) == [(6, None), (6, [1.5, 2.5])]


@pytest.mark.parametrize(("length", "kept"), [(10, 10), (5000, 4096 - len("rank 1 has failed: "))])
def test_the_reason_of_a_failure_reaches_the_others(port, length, kept):
    reason = "why " * (length // 4) + "?" * (length % 4)

    def work(communicator):
        if communicator.rank == 1:
            communicator.abort(reason)
            return ""
        with pytest.raises(RankGone) as error:
            communicator.barrier()
        return str(error.value)

    assert run(port, 2, work)[0] == f"rank 1 has failed: {reason[:kept]}"


def test_a_rank_that_has_ended_is_not_waited_for(port):
    """What it sent before it ended is still received."""

    def work(communicator):
        if communicator.rank == 1:
            communicator.send(np.array([3.0]), 0, tag=1)
            return ""
        first = communicator.receive(1, 1).array.tolist()
        with pytest.raises(RankGone) as error:
            communicator.receive()
        assert communicator.poll() is None, "asking costs nothing"
        with pytest.raises(RankGone, match=r"^rank 0 waits in a broadcast from rank 1 for rank 1, which has ended$"):
            communicator.broadcast(np.zeros(1), root=1)
        return f"{first}: {error.value}"

    expected = "[3.0]: rank 0 waits in receiving a message for rank 1, which has ended"
    assert run(port, 2, work)[0] == expected


def test_where_ranks_meet():
    alone = Rendezvous.of({})
    assert (alone.rank, alone.size, alone.address, alone.port) == (0, 1, "127.0.0.1", 29500)
    given = {"RANK": "2", "WORLD_SIZE": "4", "MASTER_ADDR": "host", "MASTER_PORT": "30000", "CNTK_SECRET": "a"}
    meeting = Rendezvous.of(given)
    assert (meeting.rank, meeting.size, meeting.address, meeting.port) == (2, 4, "host", 30000)
    assert Rendezvous.of({**given, "TORCHELASTIC_USE_AGENT_STORE": "False"}) == meeting
    assert Rendezvous.of({**given, "TORCHELASTIC_USE_AGENT_STORE": "True"}).port == 30001
    assert Rendezvous.of({**given, "CNTK_SECRET": "", "TORCHELASTIC_RUN_ID": "a"}).secret == b"", "everybody knows it"
    assert Rendezvous.of({**given, "CNTK_SECRET": "b"}).secret != meeting.secret


def test_a_sum_is_a_new_array_in_the_order_of_ranks():
    parts = [np.array([1e16, 1.0]), np.array([1.0, 2.0]), np.array([-1e16, 4.0])]
    assert sum_by_rank(parts).tolist() == [0.0, 7.0]
    assert parts[0].tolist() == [1e16, 1.0]


def test_the_background_does_one_piece_after_the_other(two_ranks):
    """Errors come out where the work is waited for; the bytes count as the owner's."""

    def work(communicator):
        inner = communicator.split(0)
        worker = BackgroundWorker(communicator, inner)
        done = []

        def piece(number):
            def do(inside):
                assert inside is inner
                done.append(number)
                if number == 1:
                    raise ZeroDivisionError("the second piece")
                inside.bytes_sent += 100
                return number

            return do

        before = communicator.bytes_sent
        pending = [worker.begin(piece(number)) for number in range(3)]
        with pytest.raises(ZeroDivisionError, match="the second piece"):
            pending[1].wait()
        results = [pending[0].wait(), pending[2].wait()]
        worker.close()
        return done, results, pending[2].is_done, communicator.bytes_sent - before

    for found in two_ranks.run(work):
        assert found == ([0, 1, 2], [0, 2], True, 200)


def test_a_greeting_takes_what_is_its_own_however_it_comes():
    """What the other side sends at once after its greeting belongs to what follows."""

    def steps():
        first = yield b"hello", 4
        second = yield b"", 3
        return first, second

    here, there = socket.socketpair()
    with here, there:
        answer = threading.Thread(target=lambda: (there.sendall(b"ab"), time.sleep(0.05), there.sendall(b"cdefgrest")))
        answer.start()
        assert greet(here, steps(), time.monotonic() + 20.0) == (b"abcd", b"efg")
        answer.join()
        assert here.recv(100) == b"rest"
        assert there.recv(100) == b"hello"
