"""The contract of communicators on sockets. Every rank runs these tests, in step: see test_sockets.py."""

from __future__ import annotations

import pickle
from functools import lru_cache

import numpy as np
import pytest
from cntk_parallel_sockets import SocketCommunicator

from cntk_testing import CommunicatorContract


@lru_cache(maxsize=1)
def everybody():
    return SocketCommunicator()


def run_on_sockets(size, work):
    """Call ``work`` on the first ranks; every rank gets the results."""
    whole = everybody()
    part = whole.split(int(whole.rank >= size))
    result = work(part) if whole.rank < size else None
    part.close()
    packed = whole.allgather(np.frombuffer(pickle.dumps(result), np.uint8))
    return [pickle.loads(bytes(one)) for one in packed[:size]]


class TestSockets(CommunicatorContract):
    reports_errors = False  # an error ends the processes: test_sockets.py looks at that from outside

    @pytest.fixture
    def run_ranks(self):
        return run_on_sockets


@pytest.mark.parametrize("count", [1, 3, 1024, 1025, 200_000])
def test_sums_of_all_sizes(count):
    def numbers(rank):
        return np.random.default_rng([rank, count]).normal(size=2 * count).astype(np.float32)[::2]

    def work(communicator):
        array = numbers(communicator.rank)
        communicator.allreduce(array)
        return array

    for size in (2, 3, 5):
        expected = numbers(0).copy()
        for rank in range(1, size):
            expected += numbers(rank)
        for found in run_on_sockets(size, work):
            np.testing.assert_array_equal(found, expected)


def test_end():
    everybody().barrier()
    everybody().close()
