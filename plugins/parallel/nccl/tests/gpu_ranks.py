"""Ranks that are threads, with real connections of TCP between them, and a stand-in for GPUs and NCCL."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager

import pytest
from cntk_parallel_nccl import NcclAllReduceCommunicator, NcclCommunicator
from nccl_stand_in import make_nccl, settle

from cntk_core.api import RankGone
from cntk_core.api.parallel import Mesh, Rendezvous
from cntk_testing.ports import free_port
from cntk_testing_gpu.cupy_stand_in import make_cupy


class AllByNccl(NcclCommunicator):
    """Nothing goes over TCP that can go by NCCL."""

    small_bytes = 0


class SumsByNccl(NcclAllReduceCommunicator):
    small_bytes = 0


class OnDevice(NcclCommunicator):
    """Every array of a collective operation is brought to the GPU before, and back after it."""

    def allreduce(self, array):
        self._through_device(super().allreduce, array)

    def broadcast(self, array, root=0):
        self._through_device(lambda there: super(OnDevice, self).broadcast(there, root), array)

    def _through_device(self, work, array):
        with self._device():
            there = self._cupy.asarray(array)
            work(there)
            array[...] = there.get()

    def allgather(self, array):
        with self._device():
            return [one.get() for one in super().allgather(self._cupy.asarray(array))]

    def alltoall(self, arrays):
        with self._device():
            return [one.get() for one in super().alltoall([self._cupy.asarray(one) for one in arrays])]


@contextmanager
def gpus(count=8, **more):
    """Within, ``import cupy`` gives the stand-in."""
    nccl = make_nccl(**more)
    with pytest.MonkeyPatch.context() as patch:
        put(patch, make_cupy(devices=count, background=True), nccl)
        yield nccl.NcclCommunicator
        settle()
    assert nccl.NcclCommunicator.problems == []


def put(patch, cupy, nccl):
    """Let a stand-in have CuPy's place."""
    patch.setitem(sys.modules, "cupy", cupy)
    patch.setitem(sys.modules, "cupy.cuda.nccl", nccl)


class Ranks:
    """Runs functions on ranks; the first error of a rank reaches the caller, and ends the others.

    Attributes:
        communicators: of the last run.
    """

    def __init__(self, kind=NcclCommunicator, deadline=20.0):
        self.kind, self.deadline = kind, deadline
        self.communicators = {}

    def __call__(self, size, work):
        port, results, errors = free_port(), {}, []
        self.communicators = {}

        def run(rank):
            mesh = Mesh(Rendezvous(rank, size, "127.0.0.1", port, b"0" * 16), patience=20.0)
            communicator = None
            try:
                communicator = self.communicators[rank] = self.kind(mesh)
                communicator.watch.deadline = self.deadline
                results[rank] = work(communicator)
                communicator.close()
            except Exception as error:
                errors.append(error)
                (communicator or mesh_only(mesh)).abort(f"{type(error).__name__}: {error}")
                mesh.end()

        threads = [threading.Thread(target=run, args=(rank,), name=f"rank {rank}") for rank in range(size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60.0)
            assert not thread.is_alive(), f"{thread.name} hangs"
        for reader in [one for one in threading.enumerate() if one.name == "messages"]:
            reader.join(10.0)
        if errors:  # those that only tell of another one's come last
            raise min(errors, key=lambda error: isinstance(error, RankGone))
        return [results[rank] for rank in range(size)]


def mesh_only(mesh):
    """What tells the others of a failure where there is no communicator yet."""
    from cntk_core.api.parallel import MeshCommunicator

    return MeshCommunicator(mesh)
