"""JAX on images: the whole step as one jitted function with donated buffers."""

from __future__ import annotations

import numpy as np
from workloads import MOMENTUM, Convolutional, resnet_convolutions

from candidates.devices import load_jax


class Candidate:
    """Trains with ``jax.jit``; pinned to as many processors as it may have threads, since its flags do not limit it."""

    def __init__(self, workload: Convolutional, threads: int) -> None:
        self.jax = jax = load_jax(threads)
        self.rate = workload.rate
        self.scores = {"lenet": self._lenet, "cifar_convnet": self._convnet, "resnet20": self._resnet}[workload.recipe]
        self.values = {name: jax.numpy.array(value) for name, value in workload.parameters().items()}
        self.smoothed = {name: jax.numpy.zeros_like(value) for name, value in self.values.items()}
        self.data = [(jax.numpy.array(x), jax.numpy.array(y)) for x, y in workload.data()]
        self.step = jax.jit(self._step, donate_argnums=(0, 1))
        self.done = 0

    def _convolve(self, weights, x, stride: int = 1):
        size, layout = x.shape[-1], ("NCHW", "OIHW", "NCHW")
        total = max((-(-size // stride) - 1) * stride + weights.shape[-1] - size, 0)
        # What does not divide by two: one more before, as CNTK pads.
        pads = [(total - total // 2, total // 2)] * 2
        return self.jax.lax.conv_general_dilated(x, weights, (stride, stride), pads, dimension_numbers=layout)

    def _rectified(self, values, name: str, x):
        bias = values[f"{name}.b"][:, None, None]
        return self.jax.nn.relu(self._convolve(values[f"{name}.W"], x) + bias)

    def _pooled(self, x):
        lax = self.jax.lax
        return lax.reduce_window(x, -np.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")

    def _dense(self, values, name: str, x):
        weights = values[f"{name}.W"]
        return x.reshape(len(x), -1) @ weights.reshape(-1, weights.shape[-1]) + values[f"{name}.b"]

    def _lenet(self, values, x):
        for name in ("conv1", "conv2"):
            x = self._pooled(self._rectified(values, name, x))
        return self._dense(values, "last", self.jax.nn.relu(self._dense(values, "hidden", x)))

    def _convnet(self, values, x):
        for layer in range(4):
            x = self._rectified(values, f"conv[{layer}]", x)
            if layer % 2:
                x = self._pooled(x)
        return self._dense(values, "last", self.jax.nn.relu(self._dense(values, "hidden", x)))

    def _normalized(self, values, name: str, x, stride: int = 1):
        x = self._convolve(values[f"{name}.conv.W"], x, stride)
        mean = x.mean((0, 2, 3), keepdims=True)
        variance = x.var((0, 2, 3), keepdims=True)
        scale, bias = (values[f"{name}.norm.{part}"][:, None, None] for part in ("scale", "bias"))
        return (x - mean) * self.jax.lax.rsqrt(variance + 1e-5) * scale + bias

    def _resnet(self, values, x):
        relu = self.jax.nn.relu
        strides = {name: stride for name, _, _, _, stride in resnet_convolutions()}
        x = relu(self._normalized(values, "first", x))
        for block in range(1, 10):
            name = f"block{block}"
            inner = relu(self._normalized(values, f"{name}.inner", x, strides[f"{name}.inner"]))
            if f"{name}.shortcut" in strides:
                x = self._normalized(values, f"{name}.shortcut", x, strides[f"{name}.shortcut"])
            x = relu(self._normalized(values, f"{name}.outer", inner) + x)
        return self._dense(values, "last", x.mean((2, 3)))

    def _loss(self, values, x, y):
        jax = self.jax
        picked = jax.numpy.take_along_axis(jax.nn.log_softmax(self.scores(values, x)), y[:, None], axis=1)
        return -picked.sum()

    def _step(self, values, smoothed, x, y):
        loss, grads = self.jax.value_and_grad(self._loss)(values, x, y)
        smoothed = {name: MOMENTUM * smoothed[name] + (1 - MOMENTUM) * self.rate * grads[name] for name in values}
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
