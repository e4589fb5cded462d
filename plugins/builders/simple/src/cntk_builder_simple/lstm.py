"""LSTM, CLASSLSTM, CLSTM, NCELSTM and CRF: networks with layers of LSTM cells."""

from __future__ import annotations

import math

from cntk_builder_simple.class_based import class_based_criteria
from cntk_builder_simple.criteria import Judged, add_criteria
from cntk_builder_simple.layers import (
    Numbering,
    activated,
    affine,
    chosen_layers,
    dropped,
    looked_up,
    mean_of_labels,
    normalized,
)
from cntk_builder_simple.lstm_cell import lstm_layer
from cntk_builder_simple.maker import Maker
from cntk_core.api import Node

BEHIND_LOOK_UP = Numbering(look_up=True)
ABOVE_FIRST = Numbering(base=0, skipped=1, look_up=True)
"""The first LSTM layer is there anyway, and the layers above it count from 0."""


def lstm(maker: Maker) -> None:
    """Make an LSTM network with scores of all outputs."""
    features = maker.input("features", maker.sizes[0], sparse=maker.chosen.sparseinput, role="feature")
    value, width = looked_up(maker, normalized(maker, features))
    values = _first_lstm_then_chosen(maker, value, width)
    value = values[max(values)]
    matrix = maker.weights(f"W{maker.hidden}", maker.sizes[-1], maker.sizes[-2])
    labels = maker.input("labels", maker.sizes[-1])
    add_criteria(maker, Judged(labels, value, matrix))
    output = maker.node("Times", matrix, value, name="outputs")
    result = output
    if maker.chosen.need_prior:
        prior = maker.node("Mean", labels, key="needPrior")
        logarithm = maker.node("Log", prior, name="LogOfPrior", key="needPrior")
        result = maker.node("Minus", output, logarithm, name="ScaledLogLikelihood", key="needPrior")
    maker.network.mark(result, "output")
    maker.node("Softmax", output, name="PosteriorProb")


def class_lstm(maker: Maker) -> None:
    """Make an LSTM language model whose words are grouped in classes."""
    _class_outputs(maker, _all_lstm(maker))


def conditional_lstm(maker: Maker) -> None:
    """Make a class-based LSTM language model with a second input, ``binaryFeature``, added to the last layer."""
    value = _all_lstm(maker)
    size = maker.sizes[-2]
    extra = maker.input("binaryFeature", maker.chosen.auxfeatdim, role="feature", key="auxfeatdim")
    weights = maker.weights("AuxTrans0", size, maker.chosen.auxfeatdim, key="auxfeatdim")
    product = maker.node("Times", weights, extra, key="auxfeatdim")
    bias = activated(maker, product, maker.hidden, "TimesToGetGlobalBias")
    _class_outputs(maker, maker.node("Plus", value, bias, name="PlusGlobalBias", key="auxfeatdim"))


def noise_contrastive_lstm(maker: Maker) -> None:
    """Make an LSTM language model that is trained to tell words from noise."""
    features = maker.input("features", maker.sizes[0], sparse=True, role="feature")
    value, width = looked_up(maker, normalized(maker, features))
    values = _first_lstm_then_chosen(maker, value, width)
    value = values[max(values)]
    for layer in range(_first_layer(maker), maker.hidden + 1):
        value = _with_direct(maker, layer, values, value, width)
    vocabulary = maker.sizes[-1]
    words = maker.weights(f"W{maker.hidden}", maker.sizes[-2], vocabulary)
    labels = maker.input("labels", 2 * (maker.chosen.noise_number + 1), key="noise_number")
    bias = maker.fixed("BiasVector", 1, vocabulary, -math.log(vocabulary))
    judged = Judged(labels, value, words, (bias,))
    # The missing letter of the second name is the original's.
    result = add_criteria(maker, judged, "TrainNodeNCEBasedCrossEntropy", "EvalNodeNCEBasedCrossEntrpy")
    maker.network.mark(result, "output")
    mean_of_labels(maker, labels)


def crf_lstm(maker: Maker) -> None:
    """Make an LSTM network whose outputs are the states of a linear chain."""
    features = maker.input("features", maker.sizes[0], role="feature")
    value, width = looked_up(maker, normalized(maker, features))
    recurrent_layers, _ = chosen_layers(maker.chosen, BEHIND_LOOK_UP)
    for layer in BEHIND_LOOK_UP.layers(maker.chosen):
        size = maker.sizes[layer + 1]
        if layer in recurrent_layers:
            value = lstm_layer(maker, layer, value, width, size)
        else:
            value = affine(maker, layer, value, width)
        value, width = dropped(maker, value), size
    states = maker.sizes[-1]
    matrix = maker.weights(f"TimesBeforeSoftMax{maker.hidden}", states, width)
    scores = maker.node("Times", matrix, value, name="outputsBeforeSoftmax")
    transitions = maker.fixed(f"TransProb{maker.hidden}", states, states, 1 / states)
    labels = maker.input("labels", states)
    add_criteria(maker, Judged(labels, scores, more=(transitions,)), "CRFTrainCriterion", "CRFEvalCriterion")
    maker.network.mark(maker.node("SequenceDecoder", labels, scores, transitions, name="outputs"), "output")
    maker.node("Softmax", scores, name="PosteriorProb")


def _first_layer(maker: Maker) -> int:
    """Number of the first hidden layer that is not the look-up."""
    return 1 if maker.chosen.lookup_table_order > 0 else 0


def _first_lstm_then_chosen(maker: Maker, value: Node, width: int) -> dict[int, Node]:
    """Make the hidden layers: the first is LSTM, others are if ``recurrentLayer`` chooses them.

    The parameters of the first LSTM layer have number 0 also behind a look-up, as in the original.

    Returns:
        The values by layer: 0 is the input, 1 the first hidden layer or the look-up, and so on.
    """
    first = _first_layer(maker)
    values = {first: value}
    if not maker.hidden:
        return values
    value = values[first + 1] = lstm_layer(maker, 0, value, width, maker.sizes[first + 1])
    recurrent_layers, _ = chosen_layers(maker.chosen, ABOVE_FIRST)
    for layer in ABOVE_FIRST.layers(maker.chosen):
        width, size = maker.sizes[layer : layer + 2]
        if layer in recurrent_layers:
            value = lstm_layer(maker, layer, value, width, size)
        else:
            value = affine(maker, layer, value, width)
        value = values[layer + 1] = dropped(maker, value)
    return values


def _all_lstm(maker: Maker) -> Node:
    """Make the sparse input, its look-up, and LSTM layers only."""
    features = maker.input("features", maker.sizes[0], sparse=True, role="feature")
    value, width = looked_up(maker, normalized(maker, features))
    value = lstm_layer(maker, 0, value, width, maker.sizes[2])
    for layer in range(2, maker.hidden):
        width, size = maker.sizes[layer : layer + 2]
        value = dropped(maker, lstm_layer(maker, layer, value, width, size))
    return value


def _with_direct(maker: Maker, layer: int, values: dict[int, Node], value: Node, width: int) -> Node:
    """Return the last hidden value plus 0.01 times a product with that of a layer, if ``directConnect`` names it.

    The factor, ``SV<i>``, is learned; ``i`` is the place in ``directConnect``, counted from 0, and also chooses the
    non-linearity among ``layerTypes``.
    """
    if layer not in maker.chosen.direct_connect:
        return value
    key = "directConnect"
    number = maker.chosen.direct_connect.index(layer)
    columns = width if layer == _first_layer(maker) else maker.sizes[layer]
    weights = maker.weights(f"D{number}", maker.sizes[-2], columns, key=key)
    linked = activated(maker, maker.node("Times", weights, values[layer], key=key), number)
    factor = maker.fixed(f"SV{number}", 1, 1, 0.01, key=key)
    scaled = maker.node("ElementTimes", factor, linked, name=f"S{number}", key=key)
    return maker.node("Plus", value, scaled, key=key)


def _class_outputs(maker: Maker, value: Node) -> None:
    class_based_criteria(maker, value)
    words = maker.network[f"W{maker.hidden}"]
    output = maker.node("TransposeTimes", words, value, name="outputs")
    maker.network.mark(output, "output")
    maker.node("Softmax", output, name="PosteriorProb")
