"""PyTorch with ``nn.LSTM`` over padded sequences (its oneDNN path; packed sequences are slower), fused optimiser."""

from __future__ import annotations

import numpy as np
import torch
from workloads import RATE, Recurrent

from candidates.torch_device import DEVICE, fed, held, prepare

GATES = (0, 2, 1, 3)
"""Ours: input, candidate, forget, output; theirs: input, forget, candidate, output. The order is its own inverse."""

LAYER_NAMES = {"W": "weight_ih", "H": "weight_hh", "B": "bias_ih", "P": "weight_hr"}

FIRST_STATE = 0.1


class Candidate:
    """Trains ``nn.Embedding``, one ``nn.LSTM`` of all layers and a linear layer over the frames that are there."""

    def __init__(self, workload: Recurrent, threads: int) -> None:
        prepare(threads)
        self.workload = workload
        projected = workload.outputs if workload.outputs != workload.cells else 0
        with DEVICE:
            self.embedding = torch.nn.Embedding(workload.inputs, workload.embedding) if workload.embedding else None
            self.lstm = torch.nn.LSTM(workload.widths[0], workload.cells, workload.layers, proj_size=projected)
            self.last = torch.nn.Linear(workload.outputs, workload.labels)
        with torch.no_grad():
            for name, value in workload.parameters().items():
                self._tensor(name).copy_(torch.from_numpy(self._theirs(name, value)))
            for layer in range(workload.layers):
                getattr(self.lstm, f"bias_hh_l{layer}").zero_()
        learned = [self._tensor(name) for name in workload.parameters()]
        rate = RATE * (1 - workload.momentum)
        self.optimiser = torch.optim.SGD(learned, lr=rate, momentum=workload.momentum, fused=True)
        self.data = [self._minibatch(sequences) for sequences in workload.data()]
        self.done = 0

    def _tensor(self, name: str) -> torch.Tensor:
        kind, layer = name[0], name[1:]
        if layer:
            return getattr(self.lstm, f"{LAYER_NAMES[kind]}_l{layer}")
        if kind == "E":
            return self.embedding.weight
        return self.last.weight if kind == "V" else self.last.bias

    @staticmethod
    def _theirs(name: str, value: np.ndarray) -> np.ndarray:
        if name[0] in "WHB":
            value = np.concatenate([np.split(value, 4, axis=-1)[gate] for gate in GATES], axis=-1)
        return np.ascontiguousarray(value if name == "E" else value.T)

    def _minibatch(self, sequences):
        lengths = [len(labels) for _, labels in sequences]
        pad = torch.nn.utils.rnn.pad_sequence
        x = pad([torch.from_numpy(inputs) for inputs, _ in sequences])
        y = pad([torch.from_numpy(labels) for _, labels in sequences])
        there = torch.arange(max(lengths))[:, None] < torch.tensor(lengths)[None, :]
        rows = there.flatten().nonzero().squeeze(1)
        h = torch.full((self.workload.layers, len(lengths), self.workload.outputs), FIRST_STATE, device=DEVICE)
        c = torch.full((self.workload.layers, len(lengths), self.workload.cells), FIRST_STATE, device=DEVICE)
        return (held(x), held(y.flatten()[rows]), held(rows)), (h, c)

    def steps(self, count: int) -> float:
        """Do ``count`` steps; return the last loss."""
        loss = None
        for _ in range(count):
            minibatch, state = self.data[self.done % len(self.data)]
            x, y, rows = fed(*minibatch)
            self.done += 1
            self.optimiser.zero_grad(set_to_none=True)
            if self.embedding is not None:
                x = self.embedding(x)
            h, _ = self.lstm(x, state)
            scores = self.last(h.flatten(0, 1)[rows])
            loss = torch.nn.functional.cross_entropy(scores, y, reduction="sum")
            loss.backward()
            self.optimiser.step()
        return float(loss.detach())

    def parameters(self) -> dict[str, np.ndarray]:
        """Present values by name."""
        found = {}
        for name in self.workload.parameters():
            value = self._tensor(name).detach().cpu().numpy()
            found[name] = np.ascontiguousarray(value if name == "E" else value.T)
            if name[0] in "WHB":
                found[name] = np.concatenate([np.split(found[name], 4, axis=-1)[gate] for gate in GATES], axis=-1)
        return found
