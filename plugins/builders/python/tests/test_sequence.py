"""Functions along sequences, and settings of layers whose axes differ: what they give, written out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cntk_builder_python import (
    AveragePooling,
    BiRecurrence,
    Convolution,
    ConvolutionTranspose,
    Graph,
    MaxPooling,
    binary_cross_entropy,
    sequence,
)

from cntk_testing.inside import Model

X = [np.random.default_rng(7).normal(size=(length, 2)) for length in (4, 3, 5)]


def computed(function: Callable[[Any], Any]) -> list[Any]:
    """What a function of sequences of vectors gives for X."""
    graph = Graph(np.float64)
    function(graph.input("x", 2)).named("y")
    network = graph.finish()
    network.infer()
    return list(Model(network, engine="cpu").evaluate({"x": X}, ["y"])["y"])


PARTS = [(1, 0), (2, 0), (-1, 0), (-2, 0), (0, 1), (0, 2), (0, -1), (0, -2), (1, 2), (1, -1), (-2, -1), (-3, 2)]


@pytest.mark.parametrize(("begin", "end"), PARTS)
def test_parts_of_sequences(begin: int, end: int) -> None:
    kept = [rows[begin : end or None] for rows in X]
    if min(map(len, kept)) == 0:
        kept = [rows for rows in kept if len(rows)]
    found = computed(lambda x: sequence.slice(x, begin, end))
    for ours, wanted in zip([rows for rows in found if len(rows)], kept, strict=True):
        np.testing.assert_allclose(ours, wanted)


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (sequence.first, lambda rows: rows[:1]),
        (sequence.last, lambda rows: rows[-1:]),
        (sequence.reverse, lambda rows: rows[::-1]),
        (sequence.reduce_sum, lambda rows: rows.sum(0, keepdims=True)),
        (sequence.reduce_mean, lambda rows: rows.mean(0, keepdims=True)),
        (sequence.reduce_max, lambda rows: rows.max(0, keepdims=True)),
        (sequence.softmax, lambda rows: np.exp(rows) / np.exp(rows).sum(0)),
        (sequence.position, lambda rows: np.arange(len(rows))[:, None]),
        (lambda x: sequence.past_value_window(x, 3)[0], lambda rows: rows[-1:-4:-1][None]),
    ],
    ids=["first", "last", "reverse", "sum", "mean", "max", "softmax", "position", "window"],
)
def test_functions_of_sequences(function: Callable[[Any], Any], wanted: Callable[[Any], Any]) -> None:
    for ours, rows in zip(computed(function), X, strict=True):
        np.testing.assert_allclose(np.reshape(ours, np.shape(wanted(rows))), wanted(rows), rtol=1e-10)


def test_two_directions() -> None:
    """Sums of the steps so far, and of those that are left."""
    both = BiRecurrence(lambda state, x: state + x, lambda state, x: state + 2.0 * x)
    for ours, rows in zip(computed(both), X, strict=True):
        np.testing.assert_allclose(ours, np.hstack([rows.cumsum(0), 2 * rows[::-1].cumsum(0)[::-1]]), rtol=1e-10)


def test_binary_cross_entropy_has_a_margin() -> None:
    graph = Graph(np.float64)
    z, y = graph.input("z", 2), graph.input("y", 2)
    binary_cross_entropy(z, y).named("loss")
    network = graph.finish()
    network.infer()
    chances, targets = np.array([[0.2, 0.0], [0.7, 1.0]]), np.array([[0.0, 1.0], [0.25, 0.5]])
    found = Model(network, engine="cpu").evaluate({"z": chances, "y": targets}, ["loss"])["loss"]
    # What is added to 1 is so in single precision, as there.
    wanted = -(targets * np.log(chances + 1e-6) + (1 - targets) * np.log(float(np.float32(1 + 1e-6)) - chances))
    np.testing.assert_allclose(np.reshape(found, wanted.shape), wanted, rtol=1e-9)


def test_settings_of_windows_are_in_the_order_of_the_axes() -> None:
    """CNTK counts axes from the other end."""
    graph = Graph()
    x = graph.input("x", (2, 9, 11))
    pad = (True, False)
    Convolution((3, 2), 4, strides=(2, 1), pad=pad, dilation=(1, 2))(x).named("c")
    ConvolutionTranspose((3, 2), 4, strides=(2, 1), pad=pad, dilation=(1, 2), output_shape=(18, 13))(x).named("t")
    MaxPooling((3, 2), strides=(2, 1), pad=pad)(x).named("m")
    AveragePooling((2, 3), strides=(1, 2), pad=(False, True))(x).named("a")
    network = graph.finish()

    def said(name: str, *settings: str) -> list[Any]:
        node = next(each for each in network if each.name.startswith(f"{name}.") or each.name == name)
        while not hasattr(node.attributes, "kernel_shape"):
            node = node.inputs[0]
        return [getattr(node.attributes, setting) for setting in settings]

    windows = ("kernel_shape", "stride", "auto_padding")
    assert said("c", *windows, "dilation") == [(2, 3), (1, 2), (False, True), (2, 1)]
    assert said("t", *windows) == [(2, 3, 4), (1, 2), (False, True, False)]
    assert said("t", "dilation", "output_shape") == [(2, 1, 1), (13, 18, 4)]
    assert said("m", *windows) == [(2, 3), (1, 2), (False, True)]
    assert said("a", *windows) == [(3, 2), (2, 1), (True, False)]
