"""A product of two large matrices in single precision: what the machine computes."""

from __future__ import annotations

import numpy as np
from floor import SIDE
from workloads import Workload

from candidates.arrays import library, wait


class Candidate:
    """Multiplies with the BLAS of NumPy or CuPy; their threads are set in the environment."""

    def __init__(self, workload: Workload, threads: int) -> None:
        xp = library()
        self.multiply = xp.matmul
        random = np.random.default_rng(1)
        self.left, self.right = (xp.asarray(random.random((SIDE, SIDE), np.float32)) for _ in range(2))
        self.product = xp.empty_like(self.left)

    def steps(self, count: int) -> float:
        """Do ``count`` products."""
        for _ in range(count):
            self.multiply(self.left, self.right, out=self.product)
        wait()
        return 0.0
