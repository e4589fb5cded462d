"""The contract of communicators on MPI. Every rank runs these tests, in step: see test_mpi.py."""

from __future__ import annotations

import pickle
from functools import lru_cache

import numpy as np
import pytest
from cntk_parallel_mpi import MPICommunicator

from cntk_testing import CommunicatorContract


@lru_cache(maxsize=1)
def everybody():
    return MPICommunicator()


def run_on_mpi(size, work):
    """Call ``work`` on the first ranks; every rank gets the results."""
    whole = everybody()
    part = whole.split(int(whole.rank >= size))
    result = work(part) if whole.rank < size else None
    part.close()
    packed = whole.allgather(np.frombuffer(pickle.dumps(result), np.uint8))
    return [pickle.loads(bytes(one)) for one in packed[:size]]


class TestMPI(CommunicatorContract):
    reports_errors = False  # an error ends the processes: test_mpi.py looks at that from outside

    @pytest.fixture
    def run_ranks(self):
        return run_on_mpi


@pytest.mark.parametrize("count", [1, 3, 1024, 1025, 200_000])
def test_sums_of_all_sizes(count):
    """Direct and striped sums are the same serial sum, also of arrays that are not contiguous."""

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
        for found in run_on_mpi(size, work):
            np.testing.assert_array_equal(found, expected)


def test_background_overlaps():
    """A rank goes on while others have not yet come to the work in the background."""

    def work(communicator):
        def add(own):
            array = np.ones(10_000)
            own.allreduce(array)
            return float(array[0])

        if communicator.rank == 0:
            pending = communicator.background(add)
            communicator.send(np.zeros(1), 1)
            return pending.wait()
        if communicator.rank == 1:
            communicator.receive(0)
        return communicator.background(add).wait()

    # The thread's communicator is made by all ranks together, the first time that any of them needs it.
    def prepared(communicator):
        communicator.background(lambda own: None).wait()
        return work(communicator)

    assert run_on_mpi(3, prepared) == [3.0, 3.0, 3.0]
