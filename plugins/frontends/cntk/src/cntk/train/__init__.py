"""Training: trainers, sessions, several ranks."""

from __future__ import annotations

from cntk._inherited import inherit
from cntk.train.distributed import (
    Communicator,
    WorkerDescriptor,
    block_momentum_distributed_learner,
    data_parallel_distributed_learner,
    mpi_communicator,
)
from cntk.train.trainer import Trainer
from cntk.train.training_session import (
    CheckpointConfig,
    CrossValidationConfig,
    DataUnit,
    TestConfig,
    TrainingSession,
    minibatch_size_schedule,
    training_session,
)

__all__ = [
    "CheckpointConfig",
    "Communicator",
    "CrossValidationConfig",
    "DataUnit",
    "TestConfig",
    "Trainer",
    "TrainingSession",
    "WorkerDescriptor",
    "block_momentum_distributed_learner",
    "data_parallel_distributed_learner",
    "minibatch_size_schedule",
    "mpi_communicator",
    "training_session",
]

inherit(__name__)
