"""Which GPU a rank takes."""

from __future__ import annotations

import numpy as np
import pytest
from gpu_ranks import Ranks, gpus

from cntk_core.api import TrainingError


def test_each_rank_has_its_gpu(monkeypatch):
    with gpus(4):
        assert Ranks()(4, lambda one: one._number) == [0, 1, 2, 3]
        monkeypatch.setenv("SLURM_LOCALID", "2")
        assert Ranks()(1, lambda one: one._number) == [2]


def test_more_ranks_than_gpus():
    with gpus(2), pytest.raises(TrainingError, match=r"^rank 2 is number 3 on .*, which has 2 GPUs\n    Start at most"):
        Ranks()(3, lambda one: one.barrier())


def test_two_ranks_on_one_gpu():
    """Where each rank sees one GPU, as some launchers arrange, it may be the same one."""

    def work(communicator):
        communicator.allreduce(np.ones(100_000))

    text = (
        r"^the ranks 0 and 1 have the same GPU, 0000:00:00\.0 of .*; NCCL wants one for each\n    Start at most as many"
    )
    with gpus(1), pytest.raises(TrainingError, match=text):
        Ranks()(2, work)


def test_an_array_on_another_gpu():
    def work(communicator):
        with communicator._cupy.cuda.Device(0):
            communicator.allreduce(communicator._cupy.zeros(3))

    def alone(communicator):
        with communicator._cupy.cuda.Device(1):
            communicator.allgather(communicator._cupy.zeros(3))

    with gpus(), pytest.raises(TrainingError) as caught:
        Ranks()(1, alone)
    assert str(caught.value) == (
        "rank 0 has GPU 0, but the engine computes on GPU 1\n    deviceId=auto gives each rank its own GPU."
    )
    with gpus(), pytest.raises(TrainingError, match=r"^rank 1 has GPU 1, but the engine computes on GPU 0\n"):
        Ranks()(2, work)


def test_strided_arrays_of_gpus():
    def work(communicator):
        communicator.allgather(communicator._cupy.zeros((4, 4))[:, ::2])

    with gpus(), pytest.raises(ValueError, match=r"^ranks exchange contiguous arrays$"):
        Ranks()(1, work)
