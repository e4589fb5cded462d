"""SIMPLENET, also called FFDNN: layers one after the other."""

from __future__ import annotations

from cntk_builder_simple.criteria import Judged, add_criteria
from cntk_builder_simple.layers import activated, dropped, normalized
from cntk_builder_simple.maker import Maker
from cntk_core.api import Node


def feed_forward(maker: Maker) -> None:
    """Make a feed-forward network; its last layer, ``HLast``, is linear."""
    features = maker.input("features", maker.sizes[0], role="feature")
    value = normalized(maker, features, ("MeanOfFeatures", "InvStdOfFeatures", "MVNormalizedFeatures"))
    for layer in range(maker.hidden):
        previous = f"H{layer}" if layer else "features"
        linear = _linear(maker, layer, value, previous, f"W{layer}*{previous}+B{layer}")
        value = activated(maker, linear, layer, f"H{layer + 1}")
        value = dropped(maker, value, f"DropH{layer + 1}")
    # With one hidden layer the original calls the last product W1*H0; its tools and ours go by the names.
    output = _linear(maker, maker.hidden, value, f"H{maker.hidden - 1}", "HLast")
    labels = maker.input("labels", maker.sizes[-1])
    add_criteria(maker, Judged(labels, output))
    _outputs(maker, labels, output)


def _linear(maker: Maker, layer: int, value: Node, previous: str, name: str) -> Node:
    """Return ``W * value + B``."""
    inputs, outputs = maker.sizes[layer : layer + 2]
    weights = maker.weights(f"W{layer}", outputs, inputs)
    bias = maker.fixed(f"B{layer}", outputs)
    product = maker.node("Times", weights, value, name=f"W{layer}*{previous}")
    return maker.node("Plus", product, bias, name=name)


def _outputs(maker: Maker, labels: Node, output: Node) -> None:
    result = output
    if maker.chosen.need_prior:
        prior = maker.node("Mean", labels, name="Prior", key="needPrior")
        logarithm = maker.node("Log", prior, name="LogOfPrior", key="needPrior")
        result = maker.node("Minus", output, logarithm, name="ScaledLogLikelihood", key="needPrior")
    maker.network.mark(result, "output")
    maker.node("Softmax", output, name="PosteriorProb")
