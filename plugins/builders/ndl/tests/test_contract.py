"""The builder keeps the contract of builders."""

from __future__ import annotations

from cntk_builder_ndl import NDLNetworkBuilder

from cntk_testing import BuilderContract, PackagingContract

NET = """
run = net
net = [
    Layer(x, rows, cols) { W = Parameter(rows, cols) ; b = Parameter(rows, 1, init=fixedValue, value=0.5)
        z = Plus(Times(W, x), b) }
    features = Input(4, tag=feature)
    labels = Input(3, tag=label)
    h = Sigmoid(Layer(features, 5, 4))
    out = Layer(h, 3, 5)
    ce = CrossEntropyWithSoftmax(labels, out, tag=criterion)
    err = ClassificationError(labels, out, tag=eval)
]
"""


class TestNDL(BuilderContract):
    builder_class = NDLNetworkBuilder
    good = NET
    bad = (
        "run = net",
        NET.replace("Sigmoid", "Sigmoit"),
        NET.replace("Layer(h, 3, 5)", "Layer(h, 3, 6)"),
        NET.replace("CrossEntropyWithSoftmax(labels, out", "CrossEntropyWithSoftmax(label, out"),
        NET.replace("h = Sigmoid(", "h = Sigmoid(("),
    )


class TestPackaging(PackagingContract):
    distribution = "cntk-builder-ndl"
    kind = "builder"
