"""Trains the residual network of ``benchmarks/recipes/resnet20.cntk`` with PyTorch; run by ``test_residual.py``.

``python torch_residual.py GIVEN RESULT`` reads first values by our names, images, classes and settings from an npz file
and writes the losses, every parameter after the first step and after the last, and the running statistics.
"""

from __future__ import annotations

import math
import sys

import numpy as np
import torch
from torch.nn import functional

STAGES = ((1, False), (2, False), (3, False), (4, True), (5, False), (6, False), (7, True), (8, False), (9, False))
"""Number of each block, and whether it reduces the image."""


class Residual:
    """The network as functions of the values by name."""

    def __init__(self, values: dict[str, torch.Tensor], time_constant: float) -> None:
        self.values = values
        self.time_constant = time_constant

    def normalized(self, x: torch.Tensor, name: str, stride: int) -> torch.Tensor:
        """Convolution and batch normalization; the first minibatch sets the running statistics."""
        v = self.values
        weights = v[f"{name}.conv.W"]
        x = functional.conv2d(x, weights, stride=stride, padding=weights.shape[-1] // 2)
        seen, samples = v[f"{name}.norm.runCount"], len(x)
        share = 1.0 if seen == 0 else -math.expm1(-samples / self.time_constant)
        seen += samples
        mean, variance, scale, bias = (
            v[f"{name}.norm.{part}"].reshape(-1) for part in ("runMean", "runVariance", "scale", "bias")
        )
        return functional.batch_norm(x, mean, variance, scale, bias, training=True, momentum=share, eps=1e-5)

    def block(self, x: torch.Tensor, name: str, *, reduces: bool) -> torch.Tensor:
        """Two convolutions and the shortcut past them."""
        inner = functional.relu(self.normalized(x, f"{name}.inner", 2 if reduces else 1))
        past = self.normalized(x, f"{name}.shortcut", 2) if reduces else x
        return functional.relu(self.normalized(inner, f"{name}.outer", 1) + past)

    def loss(self, images: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        """Sum of the cross entropies of a minibatch."""
        x = functional.relu(self.normalized(images, "first", 1))
        for number, reduces in STAGES:
            x = self.block(x, f"block{number}", reduces=reduces)
        z = functional.avg_pool2d(x, 8).flatten(1) @ self.values["last.W"].reshape(64, -1) + self.values["last.b"]
        return functional.cross_entropy(z, classes, reduction="sum")


def main(given: str, result: str) -> None:
    """Do the steps."""
    arrays = dict(np.load(given))
    images, classes = torch.from_numpy(arrays.pop("images")), torch.from_numpy(arrays.pop("classes"))
    rate, momentum, time_constant = arrays.pop("settings").tolist()
    values = {name: torch.from_numpy(array) for name, array in arrays.items()}
    learned = {name: value for name, value in values.items() if ".run" not in name}
    for value in learned.values():
        value.requires_grad_()
    network = Residual(values, time_constant)
    smoothed = {name: torch.zeros_like(value) for name, value in learned.items()}
    written, losses = {}, []
    for step in range(len(images)):
        loss = network.loss(images[step], classes[step])
        losses.append(loss.item())
        gradients = torch.autograd.grad(loss, list(learned.values()))
        with torch.no_grad():
            for (name, value), gradient in zip(learned.items(), gradients, strict=True):
                smoothed[name].mul_(momentum).add_(gradient, alpha=(1 - momentum) * rate)
                value -= smoothed[name]
                if step == 0:
                    written[f"1:{name}"] = value.detach().numpy().copy()
    written |= {f"n:{name}": value.detach().numpy() for name, value in values.items()}
    np.savez(result, losses=np.array(losses), **written)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(*sys.argv[1:])
