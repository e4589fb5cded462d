"""1-bit SGD learns what full precision learns, and would not without the residuals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cntk_parallel_onebit import OneBit, OneBitOptions

from cntk_core.api import GradientAggregation, Parameter, ParameterStore
from cntk_testing import VirtualRanks

RANKS, MINIBATCH, EPOCHS, WARM = 4, 64, 12, 2
HIDDEN, RATE, MOMENTUM = 48, 0.15, 0.9
SEEDS = (1, 2, 3, 4)


class Forgetful(OneBit):
    """1 bit without error feedback."""

    def aggregate(self, gradients: Any, header: Any, communicator: Any) -> None:
        self.restore({})
        super().aggregate(gradients, header, communicator)


class Full(GradientAggregation):
    """Full precision."""

    def aggregate(self, gradients: Any, header: Any, communicator: Any) -> None:
        communicator.allreduce(gradients)


def digits() -> tuple[Any, Any, Any, Any]:
    """Pixels and classes of the digits to learn from and of those to test with."""
    datasets = pytest.importorskip("sklearn.datasets")
    pixels, classes = datasets.load_digits(return_X_y=True)
    pixels, order = (pixels / 16.0 - 0.3).astype(np.float32), np.random.default_rng(0).permutation(len(classes))
    pixels, classes = pixels[order], classes[order]
    return pixels[:1200], classes[:1200], pixels[1200:], classes[1200:]


def network(seed: int) -> ParameterStore:
    rng = np.random.default_rng(seed)
    shapes = {"W1": (64, HIDDEN), "b1": (HIDDEN,), "W2": (HIDDEN, 10), "b2": (10,)}
    values = {name: rng.normal(size=s) / np.sqrt(s[0]) * (len(s) > 1) for name, s in shapes.items()}
    return ParameterStore([Parameter.make(name, v.shape, value=v) for name, v in values.items()], np.float32)


def forward(values: dict[str, Any], pixels: Any) -> tuple[Any, Any]:
    hidden = np.tanh(pixels @ values["W1"] + values["b1"])
    scores = hidden @ values["W2"] + values["b2"]
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return hidden, scores / scores.sum(axis=1, keepdims=True)


def fill_gradients(store: ParameterStore, pixels: Any, classes: Any) -> None:
    """Sums over the samples of the cross entropy's gradients."""
    values = {parameter.name: store.value(parameter) for parameter in store.parameters}
    found = {parameter.name: store.gradient(parameter) for parameter in store.parameters}
    hidden, off = forward(values, pixels)
    off[np.arange(len(classes)), classes] -= 1.0
    inner = (off @ values["W2"].T) * (1.0 - hidden * hidden)
    found["W1"][...], found["b1"][...] = pixels.T @ inner, inner.sum(axis=0)
    found["W2"][...], found["b2"][...] = hidden.T @ off, off.sum(axis=0)


def accuracy(kind: type[GradientAggregation], seed: int) -> float:
    """Train on all ranks, the first epochs in full precision; return the share of the test that is right."""
    pixels, classes, test_pixels, test_classes = digits()

    def work(communicator: Any) -> float:
        store = network(seed)
        speed = np.zeros_like(store.gradients)
        aggregations = [Full(), kind() if kind is Full else kind(OneBitOptions(reset_residual_per_epoch=False))]
        for aggregation in aggregations:
            aggregation.begin(store, communicator)
        for epoch in range(EPOCHS):
            aggregation = aggregations[epoch >= WARM]
            aggregation.begin_epoch(epoch)
            order = np.random.default_rng([seed, epoch]).permutation(len(classes))
            for first in range(0, len(order), MINIBATCH):
                mine = order[first : first + MINIBATCH][communicator.rank :: communicator.size]
                fill_gradients(store, pixels[mine], classes[mine])
                aggregation.aggregate(store.gradients, np.zeros(1), communicator)
                speed *= MOMENTUM
                speed += (1 - MOMENTUM) * store.gradients
                store.values -= np.float32(RATE / MINIBATCH * 4) * speed
        values = {parameter.name: store.value(parameter) for parameter in store.parameters}
        return float(np.mean(forward(values, test_pixels)[1].argmax(axis=1) == test_classes))

    results = VirtualRanks(RANKS, deadline=200.0).run(work)
    assert len(set(results)) == 1
    return results[0]


@pytest.mark.thorough  # the contract of aggregations follows a descent in full precision
@pytest.mark.slow
def test_one_bit_learns_digits_only_with_error_feedback() -> None:
    means = {kind: float(np.mean([accuracy(kind, seed) for seed in SEEDS])) for kind in (Full, OneBit, Forgetful)}
    assert means[Full] > 0.95
    assert abs(means[OneBit] - means[Full]) <= 0.003
    assert abs(means[Forgetful] - means[Full]) > 0.003
