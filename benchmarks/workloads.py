"""The workloads: what every candidate trains, with the same first values and the same data.

A step is forward, backward and a momentum update in float32, data in memory. Losses are sums over the minibatch; the
momentum is CNTK's unit-gain form ``s = m s + (1 - m) lr g; w -= s``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

MOMENTUM = 0.9
RATE = 0.002


class Workload(NamedTuple):
    """A feed-forward net: ``sizes`` from input to output, sigmoid between, softmax cross entropy at the end."""

    name: str
    sizes: tuple[int, ...]
    minibatch: int
    steps: int

    @property
    def batches(self) -> int:
        """How many different minibatches are cycled through: about 16 MB, at least 2."""
        return max(2, min(64, 4_000_000 // (self.minibatch * self.sizes[0])))

    def parameters(self) -> dict[str, np.ndarray]:
        """First values by name: ``W0`` (in, out), ``b0`` (out,), ..."""
        rng = np.random.default_rng(1)
        values = {}
        for layer, (rows, columns) in enumerate(zip(self.sizes, self.sizes[1:], strict=False)):
            scale = np.float32(np.sqrt(6.0 / (rows + columns)))
            weights = rng.random((rows, columns), dtype=np.float32)
            weights -= np.float32(0.5)
            weights *= 2 * scale
            values[f"W{layer}"] = weights
            values[f"b{layer}"] = np.zeros(columns, np.float32)
        return values

    def data(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Minibatches: inputs ``(minibatch, in)`` and class indices ``(minibatch,)``."""
        rng = np.random.default_rng(2)
        return [
            (
                rng.random((self.minibatch, self.sizes[0]), dtype=np.float32),
                rng.integers(0, self.sizes[-1], self.minibatch),
            )
            for _ in range(self.batches)
        ]


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("W1a", (784, 256, 10), 32, 1000),
        Workload("W1b", (784, 200, 10), 32, 1000),
        Workload("W2a", (363, 512, 512, 132), 256, 60),
        Workload("W2b", (363, 512, 512, 132), 1024, 20),
        Workload("W6", (26752, 2048, 2048, 2048, 26752), 64, 3),
    )
}
