"""Parts that several kinds of networks share.

Where the original makes several unnamed nodes in one expression, its compiler made the right operand first; the numbers
in names such as ``AutoName7`` tell. Here every such node has its own line, in that order.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from cntk_builder_simple.maker import Maker, close
from cntk_builder_simple.options import SimpleOptions
from cntk_core.api import Node

_ACTIVATIONS = {"sigmoid": "Sigmoid", "rectifiedlinear": "RectifiedLinear", "tanh": "Tanh"}


def normalized(maker: Maker, features: Node, names: Sequence[str] = ("", "", "")) -> Node:
    """Return the features less their mean, divided by their deviation, if ``applyMeanVarNorm`` asks for it."""
    key = "applyMeanVarNorm"
    if not maker.chosen.apply_mean_var_norm:
        return features
    mean = maker.node("Mean", features, name=names[0], key=key)
    deviation = maker.node("InvStdDev", features, name=names[1], key=key)
    return maker.node("PerDimMeanVarNormalization", features, mean, deviation, name=names[2], key=key)


def dropped(maker: Maker, value: Node, name: str = "") -> Node:
    """Return the value behind a ``Dropout``, if ``addDropoutNodes`` asks for it."""
    if not maker.chosen.add_dropout_nodes:
        return value
    return maker.node("Dropout", value, name=name, key="addDropoutNodes")


def activated(maker: Maker, value: Node, layer: int, name: str = "") -> Node:
    """Return the non-linearity of a layer (from 0) applied to a value; the last of ``layerTypes`` counts on.

    ``None`` returns the value itself, which then gets the name.
    """
    types = maker.chosen.layer_types
    kind = _ACTIVATIONS.get(types[min(layer, len(types) - 1)].lower())
    if kind is not None:
        return maker.node(kind, value, name=name, key="layerTypes")
    if name:
        maker.network.rename(value, name)
    return value


def looked_up(maker: Maker, words: Node, name: str = "LookupTable") -> tuple[Node, int]:
    """Return the embedded words of each frame, one after the other, and their size together.

    Without ``lookupTableOrder`` these are the words themselves.
    """
    vocabulary, order = maker.sizes[0], maker.chosen.lookup_table_order
    if order < 1:
        return words, vocabulary
    table = maker.weights("E0", maker.sizes[1], vocabulary // order, key="lookupTableOrder")
    found = maker.node("LookupTable", table, words, name=name, key="lookupTableOrder")
    return dropped(maker, found), maker.sizes[1] * order


@attrs.frozen
class Numbering:
    """How ``recurrentLayer`` counts the layers of a kind of network.

    Attributes:
        base: the number of layer 0.
        skipped: layers at the bottom that it cannot choose.
        look_up: whether the look-up table, if there is one, is the first layer.
    """

    base: int = 1
    skipped: int = 0
    look_up: bool = False

    def layers(self, chosen: SimpleOptions) -> range:
        """Return the layers (from 0) that can be chosen."""
        table = int(self.look_up and chosen.lookup_table_order > 0)
        return range(self.skipped + table, len(chosen.layer_sizes) - 2)


def chosen_layers(chosen: SimpleOptions, numbering: Numbering) -> tuple[set[int], list[int]]:
    """Return which layers (from 0) ``recurrentLayer`` chooses, and the numbers that choose none.

    The original goes through the layers with the first number that has not been met; one that no layer meets hides all
    after it.
    """
    met: set[int] = set()
    waiting = list(chosen.recurrent_layer)
    for layer in numbering.layers(chosen):
        if waiting and waiting[0] == layer + numbering.base:
            met.add(layer)
            waiting.pop(0)
    return met, [number for number in waiting if number - numbering.base not in met]


def affine(maker: Maker, layer: int, value: Node, width: int) -> Node:
    """Return ``U * value + B`` of a layer that is not recurrent, with its non-linearity and ``Dropout``."""
    size = maker.sizes[layer + 1]
    weights = maker.weights(f"U{layer}", size, width)
    bias = maker.fixed(f"B{layer}", size)
    total = maker.node("Plus", maker.node("Times", weights, value), bias)
    return activated(maker, total, layer)


def recurrent(maker: Maker, layer: int, value: Node, width: int, activation: int) -> Node:
    """Return ``f(U * value + W * h)``, where ``h`` is the result one frame before and ``f`` that of ``activation``."""
    size = maker.sizes[layer + 1]
    weights = maker.weights(f"U{layer}", size, width)
    back = maker.weights(f"W{layer}", size, size, key="recurrentLayer")
    past = maker.delay(size)
    fed_back = maker.node("Times", back, past, key="recurrentLayer")
    total = maker.node("Plus", maker.node("Times", weights, value), fed_back)
    output = activated(maker, total, activation)
    close(past, output)
    return output


def mean_of_labels(maker: Maker, labels: Node) -> None:
    """Make what ``needPrior`` gives networks that do not use it: the mean of the labels."""
    if maker.chosen.need_prior:
        maker.node("Mean", labels, key="needPrior")
