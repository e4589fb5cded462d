"""The network of convnet.cntk in Python."""

from __future__ import annotations

from cntk_builder_python import (
    Convolution2D,
    Dense,
    Dropout,
    Graph,
    MaxPooling,
    Sequential,
    classification_error,
    cross_entropy_with_softmax,
    relu,
)


def build(graph: Graph) -> None:
    """Two convolutions, each followed by a pooling, and two dense layers."""
    features = graph.input("features", (1, 8, 8))  # channels, height, width
    labels = graph.label("labels", 10)
    model = Sequential(
        Convolution2D(3, 16, relu, pad=True),
        MaxPooling((2, 2), strides=2),
        Convolution2D(3, 32, relu, pad=True),
        MaxPooling((2, 2), strides=2),
        Dense(64, relu),
        Dropout(),
        Dense(10),
    )
    z = model(features * (1 / 256))
    graph.criterion(cross_entropy_with_softmax(z, labels), "ce")
    graph.evaluation(classification_error(z, labels), "errs")
    graph.output(z, "z")
