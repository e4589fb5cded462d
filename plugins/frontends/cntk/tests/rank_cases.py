"""Trainings of two ranks, for CNTK 2.7 and for the package: ``rank_cases.py FILE`` writes what came of each.

``data/ranks.json`` is what two ranks of CNTK 2.7 gave, one after the other: ``mpiexec -n 2 PYTHON rank_cases.py
FILE``, with a Python 3.6 that has it, and an MPI for it.
"""

import json
import sys

import cntk as C
import numpy as np

PER_SAMPLE = C.learning_parameter_schedule_per_sample
MOMENTUM = C.momentum_schedule(0.9)

CASES = {
    "sums": lambda p: C.data_parallel_distributed_learner(C.sgd(p, PER_SAMPLE([0.01, 0.005], epoch_size=200))),
    "sums, momentum": lambda p: C.data_parallel_distributed_learner(C.momentum_sgd(p, 0.05, MOMENTUM)),
    "1 bit": lambda p: C.data_parallel_distributed_learner(C.sgd(p, PER_SAMPLE(0.01)), num_quantization_bits=1),
    "blocks": lambda p: C.block_momentum_distributed_learner(
        C.sgd(p, PER_SAMPLE([0.01, 0.005], epoch_size=200)), block_size=64
    ),
    "blocks, momentum": lambda p: C.block_momentum_distributed_learner(
        C.momentum_sgd(p, 0.05, MOMENTUM), block_size=64
    ),
    "blocks, all said": lambda p: C.block_momentum_distributed_learner(
        C.momentum_sgd(p, 0.05, MOMENTUM), block_size=128, block_momentum_as_time_constant=500,
        use_nestrov_momentum=False, reset_sgd_momentum_after_aggregation=False, block_learning_rate=0.9,
    ),
}  # fmt: skip


def trained(case):
    """Return losses, counts and rates by minibatch, and the weights at the end, of this rank."""
    rank, ranks = C.Communicator.rank(), C.Communicator.num_workers()
    random = np.random.RandomState(1)
    data = random.randn(640, 6).astype(np.float32)
    classes = np.eye(3, dtype=np.float32)[data[:, :3].argmax(1)]
    x, y = C.input_variable(6), C.input_variable(3)
    w = C.parameter((6, 3), init=np.linspace(-0.5, 0.5, 18).reshape(6, 3).astype(np.float32))
    z = C.times(x, w) + C.parameter(3)
    loss = C.cross_entropy_with_softmax(z, y)
    learner = CASES[case](z.parameters)
    trainer = C.Trainer(z, (loss, C.classification_error(z, y)), [learner])
    steps = []
    for begin in range(0, 640, 32):
        mine = slice(begin + rank, begin + 32, ranks)
        trainer.train_minibatch({x: data[mine], y: classes[mine]})
        counts = [trainer.previous_minibatch_sample_count, trainer.total_number_of_samples_seen]
        steps.append([trainer.previous_minibatch_loss_average, *counts, learner.learning_rate()])
    return {"steps": steps, "weights": w.value.tolist()}


if __name__ == "__main__":
    found = {case: trained(case) for case in sorted(CASES)}
    with open(f"{sys.argv[1]}.{C.Communicator.rank()}", "w") as file:
        json.dump(found, file)
    C.Communicator.finalize()
