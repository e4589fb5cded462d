"""PyTorch's fused optimisers, over one large parameter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from workloads import MOMENTUM, RATE, RuleUpdate

from candidates.torch_device import DEVICE, prepare

RULES: dict[str, Callable[[list[torch.Tensor]], Any]] = {
    "momentum": lambda p: torch.optim.SGD(p, lr=RATE * (1 - MOMENTUM), momentum=MOMENTUM, fused=True),
    "nag": lambda p: torch.optim.SGD(p, lr=RATE * (1 - MOMENTUM), momentum=MOMENTUM, nesterov=True, fused=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=RATE, fused=True),
    "adam": lambda p: torch.optim.Adam(p, lr=RATE, fused=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=RATE, fused=True),
}


class Candidate:
    """Updates with ``torch.optim``, ``fused=True``."""

    def __init__(self, workload: RuleUpdate, threads: int) -> None:
        prepare(threads)
        self.value = torch.tensor(workload.parameters()["W"], device=DEVICE, requires_grad=True)
        self.value.grad = torch.from_numpy(workload.gradient()).to(DEVICE)
        self.optimiser = RULES[workload.rule]([self.value])

    def steps(self, count: int) -> float:
        """Do ``count`` updates."""
        for _ in range(count):
            self.optimiser.step()
        if DEVICE.type == "cuda":
            torch.cuda.synchronize()
        return 0.0

    def parameters(self) -> dict[str, np.ndarray]:
        """Present values by name."""
        return {"W": self.value.detach().cpu().numpy()}
