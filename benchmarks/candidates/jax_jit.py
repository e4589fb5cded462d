"""JAX: the whole step as one jitted function with donated buffers."""

from __future__ import annotations

from functools import partial

import numpy as np
from workloads import MOMENTUM, RATE, FeedForward

from candidates.devices import load_jax


class Candidate:
    """Trains with ``jax.jit``; pinned to as many processors as it may have threads, since its flags do not limit it."""

    def __init__(self, workload: FeedForward, threads: int) -> None:
        self.jax = jax = load_jax(threads)
        self.layers = len(workload.sizes) - 1
        self.values = {name: jax.numpy.asarray(value) for name, value in workload.parameters().items()}
        self.smoothed = {name: jax.numpy.zeros_like(value) for name, value in self.values.items()}
        self.data = [(jax.numpy.asarray(x), jax.numpy.asarray(y)) for x, y in workload.data()]
        self.step = partial(jax.jit(self._step, donate_argnums=(0, 1)))
        self.done = 0

    def _loss(self, values, x, y):
        jax = self.jax
        for layer in range(self.layers):
            x = x @ values[f"W{layer}"] + values[f"b{layer}"]
            if layer < self.layers - 1:
                x = jax.nn.sigmoid(x)
        picked = jax.numpy.take_along_axis(jax.nn.log_softmax(x), y[:, None], axis=1)
        return -picked.sum()

    def _step(self, values, smoothed, x, y):
        loss, grads = self.jax.value_and_grad(self._loss)(values, x, y)
        smoothed = {name: MOMENTUM * smoothed[name] + (1 - MOMENTUM) * RATE * grads[name] for name in values}
        return {name: values[name] - smoothed[name] for name in values}, smoothed, loss

    def steps(self, count: int) -> float:
        """Do ``count`` steps; return the last loss."""
        loss = None
        for _ in range(count):
            x, y = self.data[self.done % len(self.data)]
            self.done += 1
            self.values, self.smoothed, loss = self.step(self.values, self.smoothed, x, y)
        return float(loss.block_until_ready())

    def parameters(self) -> dict[str, np.ndarray]:
        """Present values by name."""
        return {name: np.asarray(value) for name, value in self.values.items()}
