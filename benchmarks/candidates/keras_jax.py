"""Keras 3 on JAX: a loop of one's own over ``train_on_batch``, which compiles the whole step."""

from __future__ import annotations

import os

os.environ["KERAS_BACKEND"] = "jax"

import keras  # type: ignore[import-not-found,unused-ignore]
import numpy as np
from workloads import RATE, Convolutional, FeedForward


class Candidate:
    """Trains a sequential model."""

    def __init__(self, workload: FeedForward | Convolutional, threads: int) -> None:
        layers = keras.layers
        self.first = workload.parameters()
        if isinstance(workload, Convolutional):
            self.names = ["conv1", "conv2", "hidden", "last"]
            channels, height, width = workload.image
            self.model = keras.Sequential(
                [
                    keras.Input((height, width, channels)),
                    layers.Conv2D(16, 5, padding="same", activation="relu"),
                    layers.MaxPooling2D(2),
                    layers.Conv2D(32, 5, padding="same", activation="relu"),
                    layers.MaxPooling2D(2),
                    layers.Flatten(),
                    layers.Dense(128, activation="relu"),
                    layers.Dense(workload.classes),
                ]
            )
            self.data = [(np.ascontiguousarray(x.transpose(0, 2, 3, 1)), y) for x, y in workload.data()]
        else:
            self.names = [str(layer) for layer in range(len(workload.sizes) - 1)]
            hidden = [layers.Dense(width, activation="sigmoid") for width in workload.sizes[1:-1]]
            self.model = keras.Sequential(
                [keras.Input((workload.sizes[0],)), *hidden, layers.Dense(workload.sizes[-1])]
            )
            self.data = workload.data()
        self.of_images = isinstance(workload, Convolutional)
        self.layers = [layer for layer in self.model.layers if layer.weights]
        for name, layer in zip(self.names, self.layers, strict=True):
            layer.set_weights([self._theirs(self.first[self._name(name, kind)]) for kind in "Wb"])
        rate = getattr(workload, "rate", RATE) * (1 - workload.momentum)
        self.model.compile(
            keras.optimizers.SGD(rate, momentum=workload.momentum),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum"),
        )
        self.done = 0

    def _name(self, layer: str, kind: str) -> str:
        return f"{layer}.{kind}" if self.of_images else f"{kind}{layer}"

    def _theirs(self, value: np.ndarray) -> np.ndarray:
        """Values channels last; convolutions of (height, width, channels, maps)."""
        if not self.of_images or value.ndim < 4:
            return value
        if value.shape[-1] == value.shape[-2] == 5:
            return value.transpose(2, 3, 1, 0)
        return value.transpose(1, 2, 0, 3).reshape(-1, value.shape[3])

    def steps(self, count: int) -> float:
        """Do ``count`` steps; return the last loss."""
        loss = 0.0
        for _ in range(count):
            x, y = self.data[self.done % len(self.data)]
            self.done += 1
            loss = self.model.train_on_batch(x, y)
        return float(loss)

    def parameters(self) -> dict[str, np.ndarray]:
        """Present values by name."""
        found = {}
        for name, layer in zip(self.names, self.layers, strict=True):
            for kind, value in zip("Wb", layer.get_weights(), strict=True):
                first = self.first[self._name(name, kind)]
                found[self._name(name, kind)] = self._ours(np.asarray(value), first)
        return found

    def _ours(self, value: np.ndarray, first: np.ndarray) -> np.ndarray:
        if not self.of_images or first.ndim < 4:
            return value
        if value.ndim == 4:
            return value.transpose(3, 2, 0, 1)
        maps, height, width, outputs = first.shape
        return value.reshape(height, width, maps, outputs).transpose(2, 0, 1, 3)
