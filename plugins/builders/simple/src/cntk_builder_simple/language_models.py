"""LBLM, the log-bilinear language model, and NPLM, the neural probabilistic one: earlier words as inputs."""

from __future__ import annotations

from cntk_builder_simple.criteria import Judged, add_criteria
from cntk_builder_simple.layers import (
    Numbering,
    affine,
    chosen_layers,
    dropped,
    looked_up,
    mean_of_labels,
    normalized,
    recurrent,
)
from cntk_builder_simple.maker import Maker, close
from cntk_core.api import Node

NUMBERING = Numbering()
BEHIND_LOOK_UP = Numbering(look_up=True)

EARLIER_WORDS = 4
"""How many words before the present one NPLM reads."""


def log_bilinear(maker: Maker) -> None:
    """Make a log-bilinear model: ``maOrder`` earlier inputs, each times its matrix, added to the present one."""
    features = normalized(maker, maker.input("features", maker.sizes[0], role="feature"))
    value, width = looked_up(maker, features, "Lookuptatble")  # the original's spelling
    value = dropped(maker, _with_earlier(maker, value, width))
    recurrent_layers, _ = chosen_layers(maker.chosen, BEHIND_LOOK_UP)
    for layer in BEHIND_LOOK_UP.layers(maker.chosen):
        size = maker.sizes[layer + 1]
        value = maker.node("Times", maker.weights(f"U{layer}", size, width), value)
        if layer in recurrent_layers:
            value = _fed_back(maker, layer, value)
        value = dropped(maker, maker.node("Plus", value, maker.fixed(f"bi{layer}", size)))
        width = size
    matrix = maker.weights(f"W{maker.hidden}", maker.sizes[-1], width)
    labels = maker.input("labels", maker.sizes[-1])
    add_criteria(maker, Judged(labels, value, matrix))
    maker.network.mark(maker.node("Times", matrix, value, name="outputs"), "output")
    mean_of_labels(maker, labels)


def _with_earlier(maker: Maker, value: Node, width: int) -> Node:
    total = value
    for steps in range(1, maker.chosen.ma_order + 1):
        past = maker.delay(width, steps, f"pastValue{steps}", key="maOrder")
        close(past, value)
        matrix = maker.weights(f"DD{steps}", width, width, key="maOrder")
        total = maker.node("Plus", total, maker.node("Times", matrix, past, key="maOrder"), key="maOrder")
    return total


def _fed_back(maker: Maker, layer: int, value: Node) -> Node:
    """Return the value plus a matrix times their sum one frame before."""
    size = maker.sizes[layer + 1]
    back = maker.weights(f"R{layer + 1}", size, size, key="recurrentLayer")
    past = maker.delay(size)
    product = maker.node("Times", back, past, key="recurrentLayer")
    output = maker.node("Plus", product, value, key="recurrentLayer")
    close(past, output)
    return output


def neural_probabilistic(maker: Maker) -> None:
    """Make a network whose first layer reads a word and the four before it."""
    value = normalized(maker, maker.input("features", maker.sizes[0], sparse=True, role="feature"))
    recurrent_layers, _ = chosen_layers(maker.chosen, NUMBERING)
    for layer in range(maker.hidden):
        width = maker.sizes[layer]
        if layer == 0 and layer in recurrent_layers:
            value = _of_five_words(maker, value)
        elif layer in recurrent_layers:
            value = recurrent(maker, layer, value, width, activation=layer)
        else:
            value = affine(maker, layer, value, width)
        value = dropped(maker, value)
    matrix = maker.weights(f"W{maker.hidden}", maker.sizes[-1], maker.sizes[-2])
    labels = maker.input("labels", maker.sizes[-1], sparse=True)
    add_criteria(maker, Judged(labels, value, matrix))
    maker.network.mark(maker.node("Times", matrix, value), "output")
    mean_of_labels(maker, labels)


def _of_five_words(maker: Maker, word: Node) -> Node:
    """Return ``tanh(sum of matrix * word) + bias``; the tanh is not that of ``layerTypes``."""
    vocabulary, size = maker.sizes[:2]
    bias = maker.fixed("bi0", size)
    words = [word]
    for steps in range(1, EARLIER_WORDS + 1):
        past = maker.delay(vocabulary, steps)
        close(past, word)
        words.append(past)
    names = ("WXI2", "WXI3", "WXI4", "WXI1", "WXI")  # their random seeds follow this order
    matrices = {name: maker.weights(name, size, vocabulary) for name in names}
    total = maker.node("Times", matrices["WXI"], word)
    for steps in range(1, EARLIER_WORDS + 1):
        product = maker.node("Times", matrices[f"WXI{steps}"], words[steps])
        total = maker.node("Plus", product, total)
    return maker.node("Plus", maker.node("Tanh", total), bias)
