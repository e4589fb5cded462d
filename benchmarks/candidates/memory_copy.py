"""A copy of many numbers: what the machine's memory gives."""

from __future__ import annotations

from floor import COPIED
from workloads import Workload

from candidates.arrays import library, wait


class Candidate:
    """Copies with NumPy, which leaves it to the C library, or with CuPy."""

    def __init__(self, workload: Workload, threads: int) -> None:
        xp = library()
        self.copy = xp.copyto
        self.source = xp.ones(COPIED, "float32")
        self.target = xp.zeros(COPIED, "float32")

    def steps(self, count: int) -> float:
        """Do ``count`` copies."""
        for _ in range(count):
            self.copy(self.target, self.source)
        wait()
        return 0.0
