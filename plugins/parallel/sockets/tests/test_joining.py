"""Ranks on sockets that take others in: those that were lost and come again, and new ones."""

from __future__ import annotations

import contextlib
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from cntk_parallel_sockets import SocketCommunicator

from cntk_core.api import RankGone
from cntk_core.api.parallel import Mesh, Rendezvous
from cntk_kit_parallel import mesh_joining
from cntk_kit_parallel.mesh_greeting import Own, visit
from cntk_kit_parallel.mesh_meeting import greet
from cntk_testing.ports import free_port

SECRET = "0123456789abcdef"


class Group:
    """Ranks in this process, and those that come to them."""

    def __init__(self, monkeypatch):
        self.monkeypatch = monkeypatch
        self.port = free_port()
        self.threads = ThreadPoolExecutor(16)
        self.all = []

    def environment(self, rank, size):
        return {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_PORT": str(self.port), "CNTK_SECRET": SECRET}

    def begin(self, size, secret=SECRET):
        def connect(rank):
            given = {**self.environment(rank, size), "CNTK_SECRET": secret}
            found = SocketCommunicator(Mesh(Rendezvous.of(given)))
            found.watch.deadline = 20.0
            found.tolerate_losses()
            return found

        found = self.together(connect, range(size))
        self.all += found
        return found

    def come(self, rank, size=3, **more):
        """Let a rank come; returns what will be its communicator."""
        for name, value in {**self.environment(rank, size), **more}.items():
            self.monkeypatch.setenv(name, value)
        asked = []
        own = mesh_joining.rendezvous_here()
        self.monkeypatch.setattr(mesh_joining, "rendezvous_here", lambda: asked.append(own) or own)

        def connect():
            found = SocketCommunicator()
            found.watch.deadline = 20.0
            self.all.append(found)
            return found

        future = self.threads.submit(connect)
        while not asked:
            time.sleep(0.005)
        self.monkeypatch.undo()
        return future

    def visitor(self):
        """Return a connection to the door, which opens in a moment."""
        end = time.monotonic() + 20.0
        while True:
            try:
                return socket.create_connection(("127.0.0.1", self.port))
            except ConnectionRefusedError:
                assert time.monotonic() < end
                time.sleep(0.01)

    def together(self, work, ranks):
        return list(self.threads.map(work, ranks))

    def regroup(self, ranks):
        found = self.together(lambda one: one.regroup(False), ranks)
        self.all += found
        return found


@pytest.fixture
def group():
    with pytest.MonkeyPatch.context() as own:
        found = Group(own)
        yield found
    for one in found.all:
        one.close()
    found.threads.shutdown(wait=False)


def lose(communicator):
    """End the connections of a rank, as the system does when its process ends."""
    communicator._joining.close()
    for line in communicator._mesh._peers.values():
        with contextlib.suppress(OSError):
            line.connection.shutdown(socket.SHUT_RDWR)


def await_newcomers(communicator, count=1):
    end = time.monotonic() + 20.0
    while communicator.newcomers < count and time.monotonic() < end:
        time.sleep(0.01)
    assert communicator.newcomers == count


def added(communicator):
    array = np.array([10.0**communicator.rank])
    communicator.allreduce(array)
    return float(array[0])


def test_a_rank_comes_back(group):
    first, second, third = group.begin(3)
    lose(second)
    left = group.regroup([first, third])
    assert [one.size for one in left] == [2, 2]
    late = group.come(1)
    await_newcomers(left[0])
    assert left[1].newcomers == 0, "rank 0 alone knows it"
    assert group.together(lambda one: one.regroup(True), left) == [None, None], "all is done: nothing begins again"
    grown = group.regroup(left)
    grown.append(late.result(20.0))
    assert [(one.rank, one.size) for one in grown] == [(0, 3), (1, 3), (2, 3)]
    assert [one.has_joined for one in grown] == [False, False, True]
    assert group.together(added, grown) == [111.0] * 3
    grown[2].tolerate_losses()  # what a run asks of it; it does already
    lose(grown[1])
    assert [one.size for one in group.regroup([grown[0], grown[2]])] == [2, 2]


def test_the_rank_that_was_the_first_comes_back_to_one_alone(group):
    first, second = group.begin(2)
    lose(first)
    (alone,) = group.regroup([second])
    assert alone.size == 1
    late = group.come(0, 2, CNTK_JOIN="1")
    await_newcomers(alone)
    grown = [*group.regroup([alone]), late.result(20.0)]
    assert [one.rank for one in grown] == [0, 1]
    assert group.together(added, grown) == [11.0] * 2


def test_new_ranks_come_two_at_once(group):
    ranks = group.begin(2)
    late = [group.come(5, 6), group.come(7, 8, CNTK_JOIN="1")]
    await_newcomers(ranks[0], 2)
    grown = [*group.regroup(ranks), *(one.result(20.0) for one in late)]
    assert [one.rank for one in grown] == [0, 1, 2, 3]
    assert group.together(added, grown) == [1111.0] * 4
    assert group.together(lambda one: one.regroup(True), grown) == [None] * 4


def test_who_seems_to_be_there_waits_until_the_loss_is_noticed(group):
    first, second, third = group.begin(3)
    late = group.come(1)
    time.sleep(0.3)
    assert first.newcomers == 0
    assert not late.done()
    lose(second)
    left = group.regroup([first, third])
    if left[0].size == 2:  # the rank had not asked again yet
        await_newcomers(left[0])
        left = group.regroup(left)
    assert late.result(20.0).size == 3


def test_nothing_is_left_to_do(group):
    ranks = group.begin(2)
    late = group.come(2)
    await_newcomers(ranks[0])
    for one in ranks:
        one.close()
    with pytest.raises(RankGone) as caught:
        late.result(20.0)
    assert str(caught.value) == "the ranks have come to the end of their work without rank 2"


def test_who_gives_up_at_the_door_is_forgotten(group):
    ranks = group.begin(2)
    waiting = ranks[0]._joining
    late = group.come(2)
    await_newcomers(ranks[0])
    waiting._door.waiting[0].line.connection.shutdown(socket.SHUT_RDWR)
    await_newcomers(ranks[0], 1)  # it comes again by itself
    grown = [*group.regroup(ranks), late.result(20.0)]
    assert group.together(added, grown) == [111.0] * 3


def test_a_meeting_that_fails_leaves_the_others_as_they_are(group, monkeypatch):
    """Who waits is gone in the moment in which it is told where all meet."""
    monkeypatch.setattr(mesh_joining, "JOINING", 0.5)
    ranks = group.begin(3)
    with group.visitor() as stranger:
        own = Own(9, 10, SECRET.encode(), sealed=False)
        assert greet(stranger, visit(own, 0), time.monotonic() + 10.0).late
        await_newcomers(ranks[0])
        left = group.regroup(ranks)
    assert [(one.rank, one.size) for one in left] == [(0, 3), (1, 3), (2, 3)]
    assert group.together(added, left) == [111.0] * 3
    late = group.come(3, 4)
    await_newcomers(left[0])
    grown = [*group.regroup(left), late.result(20.0)]
    assert group.together(added, grown) == [1111.0] * 4


def test_without_the_secret_nobody_is_taken_in(group, monkeypatch):
    monkeypatch.setattr(mesh_joining, "PATIENCE", 0.5)
    ranks = group.begin(2)
    late = group.come(2, CNTK_SECRET="another text, not the one")
    with pytest.raises(Exception, match=r"turned away by rank 0 at .*: its secret is another one"):
        late.result(20.0)
    assert ranks[0].newcomers == 0


def test_ranks_without_a_secret_keep_no_door(group):
    ranks = group.begin(2, secret="")
    assert group.regroup(ranks)[0].newcomers == 0
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", group.port))
