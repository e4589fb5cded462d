"""PyTorch, eager, with images and weights in ``channels_last`` (its fastest on a CPU) and the fused optimiser."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional
from workloads import MOMENTUM, Convolutional, resnet_convolutions

from candidates.torch_device import DEVICE, fed, held, prepare


class Candidate:
    """Trains with ``torch.nn.functional``."""

    compiled = False

    def __init__(self, workload: Convolutional, threads: int) -> None:
        prepare(threads)
        self.values = {name: _tensor(value) for name, value in workload.parameters().items()}
        self.data = [
            (held(torch.from_numpy(x).to(memory_format=torch.channels_last)), held(torch.from_numpy(y)))
            for x, y in workload.data()
        ]
        self.optimiser = torch.optim.SGD(
            self.values.values(), lr=workload.rate * (1 - MOMENTUM), momentum=MOMENTUM, fused=True
        )
        scores = {"lenet": self._lenet, "cifar_convnet": self._convnet, "resnet20": self._resnet}[workload.recipe]
        self.scores = torch.compile(scores) if self.compiled else scores
        self.done = 0

    def _convolve(self, name: str, x):
        weights = self.values[f"{name}.W"]
        return functional.relu(functional.conv2d(x, weights, self.values[f"{name}.b"], padding=weights.shape[-1] // 2))

    def _dense(self, name: str, x):
        weights = self.values[f"{name}.W"]
        return functional.linear(x.flatten(1), weights.flatten(0, -2).t(), self.values[f"{name}.b"])

    def _lenet(self, x):
        for name in ("conv1", "conv2"):
            x = functional.max_pool2d(self._convolve(name, x), 2)
        return self._dense("last", functional.relu(self._dense("hidden", x)))

    def _convnet(self, x):
        for layer in range(4):
            x = self._convolve(f"conv[{layer}]", x)
            if layer % 2:
                x = functional.max_pool2d(x, 2)
        return self._dense("last", functional.relu(self._dense("hidden", x)))

    def _normalized(self, name: str, x, stride: int = 1):
        weights = self.values[f"{name}.conv.W"]
        x = functional.conv2d(x, weights, stride=stride, padding=weights.shape[-1] // 2)
        scale, bias = self.values[f"{name}.norm.scale"], self.values[f"{name}.norm.bias"]
        return functional.batch_norm(x, None, None, scale, bias, training=True)

    def _resnet(self, x):
        strides = {name: stride for name, _, _, _, stride in resnet_convolutions()}
        x = functional.relu(self._normalized("first", x))
        for block in range(1, 10):
            name = f"block{block}"
            inner = functional.relu(self._normalized(f"{name}.inner", x, strides[f"{name}.inner"]))
            if f"{name}.shortcut" in strides:
                x = self._normalized(f"{name}.shortcut", x, strides[f"{name}.shortcut"])
            x = functional.relu(self._normalized(f"{name}.outer", inner) + x)
        return self._dense("last", functional.avg_pool2d(x, 8))

    def steps(self, count: int) -> float:
        """Do ``count`` steps; return the last loss."""
        loss = None
        for _ in range(count):
            x, y = fed(*self.data[self.done % len(self.data)])
            self.done += 1
            self.optimiser.zero_grad(set_to_none=True)
            loss = functional.cross_entropy(self.scores(x), y, reduction="sum")
            loss.backward()
            self.optimiser.step()
        return float(loss.detach())

    def parameters(self) -> dict[str, np.ndarray]:
        """Present values by name."""
        return {name: np.ascontiguousarray(value.detach().cpu().numpy()) for name, value in self.values.items()}


def _tensor(value: np.ndarray):
    tensor = torch.from_numpy(value)
    if tensor.ndim == 4:
        tensor = tensor.to(memory_format=torch.channels_last)
    return tensor.to(DEVICE, copy=True).requires_grad_(True)
