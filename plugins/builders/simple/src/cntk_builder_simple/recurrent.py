"""SIMPLERNN and CLASSLM: layers that feed their value of one frame before back into themselves."""

from __future__ import annotations

from cntk_builder_simple.class_based import class_based_criteria
from cntk_builder_simple.criteria import Judged, add_criteria
from cntk_builder_simple.layers import (
    Numbering,
    activated,
    affine,
    chosen_layers,
    dropped,
    mean_of_labels,
    normalized,
    recurrent,
)
from cntk_builder_simple.maker import Maker
from cntk_core.api import Node

NUMBERING = Numbering()
"""``recurrentLayer`` counts from 1."""


def simple_recurrent(maker: Maker) -> None:
    """Make a plain recurrent network."""
    value = _sparse_features(maker)
    recurrent_layers, _ = chosen_layers(maker.chosen, NUMBERING)
    for layer in range(maker.hidden):
        width = maker.sizes[layer]
        if layer in recurrent_layers:
            # The original takes the type of the first layer for all recurrent ones.
            value = recurrent(maker, layer, value, width, activation=0)
        else:
            value = affine(maker, layer, value, width)
        value = dropped(maker, value)
    matrix = maker.weights(f"W{maker.hidden}", maker.sizes[-1], maker.sizes[-2])
    labels = maker.input("labels", maker.sizes[-1])
    add_criteria(maker, Judged(labels, value, matrix), "criterion", "eval")
    maker.network.mark(maker.node("Times", matrix, value, name="outputs"), "output")
    mean_of_labels(maker, labels)


def class_based_recurrent(maker: Maker) -> None:
    """Make a recurrent language model whose words are grouped in classes."""
    value = _sparse_features(maker)
    recurrent_layers, _ = chosen_layers(maker.chosen, NUMBERING)
    first_bias: Node | None = None
    for layer in range(maker.hidden):
        width, size = maker.sizes[layer : layer + 2]
        if layer in recurrent_layers:
            value = recurrent(maker, layer, value, width, activation=0)
        else:
            weights = maker.weights(f"U{layer}", size, width)
            bias = _shared_bias(maker, layer, size, first_bias)
            first_bias = first_bias or bias
            value = activated(maker, maker.node("Plus", maker.node("Times", weights, value), bias), layer)
        value = dropped(maker, value)
    labels, result = class_based_criteria(maker, value)
    maker.network.mark(result, "output")
    mean_of_labels(maker, labels)


def _shared_bias(maker: Maker, layer: int, size: int, first: Node | None) -> Node:
    """Return the bias of a layer that is not recurrent.

    In the original all of them share that of layer 0, whose first values are random, and there must be one. Where it is
    missing or has another size, a layer gets its own here.
    """
    if layer == 0:
        return maker.weights("B0", size, 1)
    if first is not None and first.name == "B0" and maker.sizes[1] == size:
        return first
    return maker.fixed(f"B{layer}", size)


def _sparse_features(maker: Maker) -> Node:
    return normalized(maker, maker.input("features", maker.sizes[0], sparse=True, role="feature"))
