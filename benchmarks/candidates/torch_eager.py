"""PyTorch, eager, with the fused optimiser (faster than its default one)."""

from __future__ import annotations

import numpy as np
import torch
from workloads import MOMENTUM, RATE, FeedForward

from candidates.torch_device import DEVICE, fed, held, prepare


class Candidate:
    """Trains with ``torch.nn.functional`` and ``torch.optim.SGD(fused=True)``."""

    compiled = False

    def __init__(self, workload: FeedForward, threads: int) -> None:
        prepare(threads)
        self.values = {
            name: torch.tensor(value, device=DEVICE, requires_grad=True)
            for name, value in workload.parameters().items()
        }
        self.data = [(held(torch.from_numpy(x)), held(torch.from_numpy(y))) for x, y in workload.data()]
        self.layers = len(workload.sizes) - 1
        self.optimiser = torch.optim.SGD(self.values.values(), lr=RATE * (1 - MOMENTUM), momentum=MOMENTUM, fused=True)
        self.loss = torch.compile(self._loss) if self.compiled else self._loss
        self.done = 0

    def _loss(self, x, y):
        for layer in range(self.layers):
            x = torch.addmm(self.values[f"b{layer}"], x, self.values[f"W{layer}"])
            if layer < self.layers - 1:
                x = torch.sigmoid(x)
        return torch.nn.functional.cross_entropy(x, y, reduction="sum")

    def steps(self, count: int) -> float:
        """Do ``count`` steps; return the last loss."""
        loss = None
        for _ in range(count):
            x, y = fed(*self.data[self.done % len(self.data)])
            self.done += 1
            self.optimiser.zero_grad(set_to_none=True)
            loss = self.loss(x, y)
            loss.backward()
            self.optimiser.step()
        return float(loss.detach())

    def parameters(self) -> dict[str, np.ndarray]:
        """Present values by name."""
        return {name: value.detach().cpu().numpy() for name, value in self.values.items()}
