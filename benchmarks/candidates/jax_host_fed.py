"""JAX fed from host memory: each step is given NumPy arrays, as by a program that reads minibatches."""

from __future__ import annotations

import numpy as np
from workloads import FeedForward

from candidates.jax_jit import Candidate as Resident


class Candidate(Resident):
    """The same jitted step; JAX takes the arrays of a minibatch over in the call, which is its fastest way."""

    def __init__(self, workload: FeedForward, threads: int) -> None:
        super().__init__(workload, threads)
        self.data = [(x, y.astype(np.int32)) for x, y in workload.data()]
