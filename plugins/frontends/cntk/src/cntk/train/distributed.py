"""Several ranks: processes that train one model together, each with its share of the data.

They are started by a launcher (``mpiexec -n 4 python train.py``, or anything that sets ``RANK`` and ``WORLD_SIZE``).
Without one there is one rank, and everything here works with it, too.
"""

from __future__ import annotations

import platform
from functools import cache
from typing import Any

import attrs
import numpy as np

from cntk._inherited import inherit
from cntk._plugins import registry
from cntk.learners import Learner
from cntk_core.api.recipes import connect, detect
from cntk_core.api.training import Parallel

_FULL_PRECISION = 32


@attrs.frozen
class WorkerDescriptor:
    """A rank.

    Attributes:
        global_rank: its number, from 0.
        host_id: its machine.
    """

    global_rank: int
    host_id: str

    @property
    def m_global_rank(self) -> int:
        """Its number."""
        return self.global_rank

    @property
    def m_host_id(self) -> str:
        """Its machine."""
        return self.host_id

    def is_main(self) -> bool:
        """Return whether it is the first."""
        return self.global_rank == 0


@cache
def _connected() -> Any:
    """Return the core's communicator of the ranks; None if this process is alone."""
    launch = detect()
    return connect(launch, registry()) if launch.size > 1 else None


class Communicator:
    """The ranks of a training."""

    def workers(self) -> list[WorkerDescriptor]:
        """Return all ranks."""
        return [WorkerDescriptor(rank, platform.node()) for rank in range(self.num_workers())]

    def current_worker(self) -> WorkerDescriptor:
        """Return this rank."""
        return self.workers()[self.rank()]

    def barrier(self) -> None:
        """Wait for all ranks."""
        found = _connected()
        if found is not None:
            found.barrier()

    def is_main(self) -> bool:
        """Return whether this is the first rank."""
        return self.rank() == 0

    @staticmethod
    def finalize() -> None:
        """End the connection: the last that a distributed program does."""
        Communicator().barrier()

    @staticmethod
    def num_workers() -> int:
        """Return how many ranks there are."""
        found = _connected()
        return 1 if found is None else int(found.size)

    @staticmethod
    def rank() -> int:
        """Return the number of this rank, from 0."""
        found = _connected()
        return 0 if found is None else int(found.rank)


def mpi_communicator() -> Communicator:
    """Return the ranks that were started together."""
    return Communicator()


def data_parallel_distributed_learner(
    learner: Learner,
    distributed_after: int = 0,
    num_quantization_bits: int = _FULL_PRECISION,
    use_async_buffered_parameter_update: bool = False,
) -> Learner:
    """Let a learner sum its gradients with those of the other ranks before each update.

    Args:
        learner: of a trainer; all learners of it together.
        distributed_after: must be 0 where there are several ranks.
        num_quantization_bits: of each number of a gradient on the wire; what is lost is sent with the next one.
        use_async_buffered_parameter_update: sum the gradients of a minibatch while the next one is computed.

    Returns:
        The learner.

    Raises:
        ValueError: ranks are to begin alone.
    """
    bits = "" if num_quantization_bits >= _FULL_PRECISION else f"gradientBits={num_quantization_bits}\n"
    late = f"useBufferedAsyncGradientAggregation={str(use_async_buffered_parameter_update).lower()}\n"
    return _together(learner, "DataParallelSGD", bits + late, distributed_after, sums=True)


def block_momentum_distributed_learner(
    learner: Learner,
    block_size: int,
    block_momentum_as_time_constant: float | None = None,
    use_nestrov_momentum: bool = True,
    reset_sgd_momentum_after_aggregation: bool = True,
    block_learning_rate: float = 1.0,
    distributed_after: int = 0,
) -> Learner:
    """Let a learner go on by itself, and bring the models of all ranks together after each block (Chen and Huo, 2016).

    Args:
        learner: of a trainer; all learners of it together.
        block_size: samples of all ranks between two meetings.
        block_momentum_as_time_constant: in samples; by default as it suits the number of ranks.
        use_nestrov_momentum: begin a block where its momentum will lead to.
        reset_sgd_momentum_after_aggregation: the learner begins anew in each block.
        block_learning_rate: how much of what a block has taught is taken.
        distributed_after: must be 0 where there are several ranks.

    Returns:
        The learner.

    Raises:
        ValueError: ranks are to begin alone, or a block has no samples.
    """
    if block_size < 1:
        raise ValueError(f"a block has at least one sample: block_size cannot be {block_size}")
    options = {
        "blockSize": block_size,
        "blockMomentumAsTimeConstant": block_momentum_as_time_constant,
        "useNesterovMomentum": str(use_nestrov_momentum).lower(),
        "resetSGDMomentum": str(reset_sgd_momentum_after_aggregation).lower(),
        "blockLearningRate": block_learning_rate,
    }
    text = "".join(f"{key}={value}\n" for key, value in options.items() if value is not None)
    return _together(learner, "BlockMomentumSGD", text, distributed_after, sums=False)


def _together(learner: Learner, strategy: str, options: str, after: int, *, sums: bool) -> Learner:
    learner.communicator = Communicator
    communicator = _connected()
    if communicator is None:
        return learner
    if after:
        raise ValueError("all ranks train together from the first sample on: distributed_after must be 0")
    learner.parallel = Parallel(communicator, strategy, options)
    if sums:
        learner.count_all = _Counting(communicator)
    return learner


@attrs.frozen
class _Counting:
    """Counts the samples of a minibatch on all ranks."""

    communicator: Any

    def __call__(self, samples: int) -> int:
        """Return the samples of all ranks; all of them call this."""
        total = np.array([samples], np.float64)
        self.communicator.allreduce(total)
        return int(total[0])


inherit(__name__)
