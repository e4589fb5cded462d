"""Ranks on sockets that go on without others."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from cntk_parallel_sockets import SocketCommunicator
from cntk_parallel_sockets import ranks as module
from cntk_parallel_sockets.launching import launch

from cntk_core.api import RankGone, RankMissing
from cntk_core.api.parallel import Mesh, Rendezvous
from cntk_testing.ports import free_port


@pytest.fixture
def three():
    """Three ranks in this process that tolerate losses."""
    port = free_port()

    def connect(rank):
        given = {"RANK": str(rank), "WORLD_SIZE": "3", "MASTER_PORT": str(port)}
        found = SocketCommunicator(Mesh(Rendezvous.of(given)))
        found.watch.deadline = 20.0
        found.tolerate_losses()
        return found

    with ThreadPoolExecutor() as threads:
        found = list(threads.map(connect, range(3)))
    yield found
    for one in found:
        one.close()


def together(work, ranks):
    with ThreadPoolExecutor() as threads:
        return list(threads.map(work, ranks))


def cut(communicator):
    """End the connections of a rank, as the system does when its process ends."""
    for line in communicator._mesh._peers.values():
        line.connection.shutdown(socket.SHUT_RDWR)


def added(communicator):
    array = np.array([float(communicator.rank + 1)])
    communicator.allreduce(array)
    return float(array[0])


def test_all_are_there(three):
    assert together(lambda one: one.regroup(True), three) == [None] * 3
    assert together(added, three) == [6.0] * 3
    followings = together(lambda one: one.regroup(one.rank != 1), three)
    assert [one.rank for one in followings] == [0, 1, 2]
    assert all(one.is_elastic for one in followings)
    assert together(added, followings) == [6.0] * 3


def test_a_rank_is_lost(three):
    first, second, third = three
    part = together(lambda one: one.split(0), three)
    cut(second)
    for one in (first, third, part[0], part[2]):
        with pytest.raises(RankGone, match="rank 1 is gone"):
            one.barrier()
    followings = together(lambda one: one.regroup(False), [first, third])
    assert [(one.rank, one.size) for one in followings] == [(0, 2), (1, 2)]
    assert together(added, followings) == [3.0] * 2
    assert together(lambda one: one.split(0).size, followings) == [2, 2]
    assert together(lambda one: one.regroup(True), followings) == [None] * 2


def test_a_rank_that_has_done_its_work_hears_of_a_loss(three):
    first, second, third = three
    cut(third)
    found = together(lambda one: one.regroup(one is first), [first, second])
    assert [one.size for one in found] == [2, 2]


def test_a_rank_that_leaves(three):
    three[1].leave("no luck")
    with pytest.raises(RankGone, match="rank 1 has failed: no luck"):
        three[0].barrier()
    assert [one.size for one in together(lambda one: one.regroup(False), [three[0], three[2]])] == [2, 2]


def test_a_rank_that_does_not_answer(three, monkeypatch):
    """It counts as lost, and when it comes back it hears that."""
    said, ended = [], []
    monkeypatch.setattr(module, "PATIENCE", 0.3)
    monkeypatch.setattr(module.Whereabouts, "end", lambda self, rank: ended.append(rank))
    first, second, third = three
    first.watch.deadline, first.watch.say = 0.3, said.append
    with pytest.raises(RankMissing):
        first.barrier()
    assert first.regroup(False).size == 1
    for late in (second, third):
        with pytest.raises(RankGone, match=f"the other ranks have gone on without rank {late.rank}"):
            late.regroup(False)
    assert said == ["Warning: rank 1, 2 does not answer: it counts as lost, and is ended if it is on this machine"]
    assert ended == [1, 2]


ENDS = """
import os, sys, time
rank = int(os.environ["RANK"])
if rank == 1:
    os.kill(os.getpid(), {fault})
time.sleep(0.3)
sys.exit({code})
"""


@pytest.mark.parametrize(
    ("fault", "code", "expected"), [(signal.SIGKILL, 0, 0), (signal.SIGSTOP, 3, 3), (signal.SIGKILL, 3, 137)]
)
def test_the_launcher_waits_for_those_that_are_left(monkeypatch, fault, code, expected):
    monkeypatch.setattr("signal.signal", lambda *_: None)
    text = ENDS.format(fault=int(fault), code=code)
    assert launch(3, [sys.executable, "-c", text], elastic=True) == expected


def test_the_command_of_the_launcher():
    command = SocketCommunicator.launcher(2, elastic=True).command
    done = subprocess.run(
        [*command, sys.executable, "-c", "import os; os.kill(os.getpid(), 9) if os.environ['RANK'] == '1' else None"],
        check=False,
        env=dict(os.environ),
    )
    assert done.returncode == 0
