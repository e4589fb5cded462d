"""The names of what trains, reads and reports, and the modules in which they are."""

from __future__ import annotations

BY_MODULE: dict[str, str] = {
    "cntk.learners": "IGNORE Learner UnitType UserLearner adadelta adagrad adam default_unit_gain_value"
    " default_use_mean_gradient_value fsadagrad learning_parameter_schedule learning_parameter_schedule_per_sample"
    " learning_rate_schedule momentum_as_time_constant_schedule momentum_schedule momentum_schedule_per_sample"
    " momentum_sgd nesterov rmsprop set_default_unit_gain_value set_default_use_mean_gradient_value sgd"
    " training_parameter_schedule universal",
    "cntk.train": "CheckpointConfig Communicator CrossValidationConfig DataUnit TestConfig Trainer TrainingSession"
    " WorkerDescriptor block_momentum_distributed_learner data_parallel_distributed_learner minibatch_size_schedule"
    " mpi_communicator training_session",
    "cntk.eval": "Evaluator",
    "cntk.io": "INFINITELY_REPEAT MinibatchData",
}
"""Each module with its names that the package has, too."""

MODULES: dict[str, str] = {
    "debugging": "cntk.debugging",
    "distributed": "cntk.train.distributed",
    "eval": "cntk.eval",
    "evaluator": "cntk.eval.evaluator",
    "io": "cntk.io",
    "learners": "cntk.learners",
    "logging": "cntk.logging",
    "misc": "cntk.misc",
    "train": "cntk.train",
    "trainer": "cntk.train.trainer",
}
"""Names that are modules."""
