"""JAX: the loop is a ``lax.scan``, the whole step one jitted function with donated buffers."""

from __future__ import annotations

import numpy as np
from workloads import RATE, Cell

from candidates.devices import load_jax

FIRST_STATE = 0.1


class Candidate:
    """Trains the cell of the workload."""

    def __init__(self, workload: Cell, threads: int) -> None:
        self.jax = jax = load_jax(threads)
        self.workload = workload
        self.values = {name: jax.numpy.asarray(value) for name, value in workload.parameters().items()}
        self.smoothed = {name: jax.numpy.zeros_like(value) for name, value in self.values.items()}
        self.data = [(jax.numpy.asarray(x), jax.numpy.asarray(y)) for x, y in workload.data()]
        self.step = jax.jit(self._step, donate_argnums=(0, 1))
        self.done = 0

    def _loss(self, values, x, y):
        jax, workload = self.jax, self.workload

        def frame(states, inputs):
            given, query = inputs
            past = jax.numpy.stack([states[-k] for k in workload.delays])
            scores = jax.numpy.tanh(past @ values["Wk"] + query) @ values["score"]
            seen = (jax.nn.softmax(scores, axis=0) * past).sum(axis=0)
            update, new = jax.numpy.split(given + seen @ values["Wm"], 2, axis=1)
            update = jax.nn.sigmoid(update)
            state = update * jax.numpy.tanh(new) + (1 - update) * states[-1]
            return (*states[1:], state), state

        first = jax.numpy.full((workload.sequences, workload.cells), FIRST_STATE)
        given = x @ values["Wx"] + values["bias"], x @ values["Wq"]
        _, states = jax.lax.scan(frame, (first,) * max(workload.delays), given)
        picked = jax.numpy.take_along_axis(
            jax.nn.log_softmax(states @ values["Wz"] + values["bz"]), y[..., None], axis=2
        )
        return -picked.sum()

    def _step(self, values, smoothed, x, y):
        momentum = self.workload.momentum
        loss, grads = self.jax.value_and_grad(self._loss)(values, x, y)
        smoothed = {name: momentum * smoothed[name] + (1 - momentum) * RATE * grads[name] for name in values}
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
