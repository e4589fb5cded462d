"""PyTorch with a loop in Python over the frames: what does not depend on the state is computed before it, at once."""

from __future__ import annotations

import numpy as np
import torch
from workloads import RATE, Cell

from candidates.torch_device import DEVICE, fed, held, prepare

FIRST_STATE = 0.1


class Candidate:
    """Trains the cell of the workload."""

    def __init__(self, workload: Cell, threads: int) -> None:
        prepare(threads)
        self.workload = workload
        self.values = {
            name: torch.from_numpy(value.copy()).to(DEVICE).requires_grad_()
            for name, value in workload.parameters().items()
        }
        rate = RATE * (1 - workload.momentum)
        self.optimiser = torch.optim.SGD(self.values.values(), lr=rate, momentum=workload.momentum, fused=True)
        self.data = [(held(torch.from_numpy(x)), held(torch.from_numpy(y.reshape(-1)))) for x, y in workload.data()]
        self.loss = self.make_loss()
        self.done = 0

    def make_loss(self):
        """Return the function that is trained."""
        return self._loss

    def _loss(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        values, workload = self.values, self.workload
        given, query = x @ values["Wx"] + values["bias"], x @ values["Wq"]
        first = torch.full((workload.sequences, workload.cells), FIRST_STATE, device=x.device)
        states = [first] * max(workload.delays)
        for t in range(workload.frames):
            past = torch.stack([states[-k] for k in workload.delays])
            scores = torch.tanh(past @ values["Wk"] + query[t]) @ values["score"]
            seen = (torch.softmax(scores, dim=0) * past).sum(dim=0)
            update, new = (given[t] + seen @ values["Wm"]).chunk(2, dim=1)
            update = torch.sigmoid(update)
            states.append(update * torch.tanh(new) + (1 - update) * states[-1])
        z = torch.stack(states[max(workload.delays) :]).flatten(0, 1) @ values["Wz"] + values["bz"]
        return torch.nn.functional.cross_entropy(z, y, reduction="sum")

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
