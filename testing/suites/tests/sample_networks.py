"""Small networks for the tests of this folder."""

from __future__ import annotations

import numpy as np

from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node, Parameter
from cntk_core.ops.language.layouts import frame_layout
from cntk_core.ops.table import core_ops
from cntk_core.records.minibatch import Minibatch, StreamData

TABLE = core_ops()


def add(network, name, op, *inputs, attributes=None):
    """Add a node of an op, with its attributes at their defaults if none are given."""
    found = TABLE.find("", op)
    return network.add(Node(name, found, list(inputs), found.attributes() if attributes is None else attributes))


def classifier(*, dropout=False, dtype=np.float64):
    """A network of one hidden layer with a shared parameter; returns it with its criterion."""
    rng = np.random.default_rng(3)
    network = Network(dtype)
    x, labels = network.add(Input.make("x", (4,))), network.add(Input.make("labels", (3,)))
    weights = [
        network.add(Parameter.make(name, shape, value=rng.normal(size=shape)))
        for name, shape in (("W0", (4, 5)), ("b0", (5,)), ("W1", (5, 3)), ("b1", (1, 3)))
    ]
    hidden = add(
        network, "h", "Sigmoid", add(network, "z0", "Plus", add(network, "t0", "Times", weights[0], x), weights[1])
    )
    gated = add(network, "g", "ElementTimes", hidden, add(network, "s", "Tanh", weights[1]))
    if dropout:
        gated = add(network, "d", "Dropout", gated)
    product = add(network, "t1", "Times", weights[2], gated)
    output = add(network, "z", "ReduceElements", add(network, "z1", "Plus", product, weights[3]), attributes=_rows())
    criterion = add(network, "ce", "CrossEntropyWithSoftmax", labels, output)
    add(network, "err", "ClassificationError", labels, output)
    network.infer()
    return network, criterion


def _rows():
    return TABLE.find("", "ReduceElements").attributes("Sum", 2, False)


def minibatch(frames=6, seed=4):
    """Frames for :func:`classifier`."""
    rng = np.random.default_rng(seed)
    layout = frame_layout(frames)
    labels = np.eye(3)[rng.integers(3, size=frames)]
    streams = {"x": StreamData(rng.normal(size=(frames, 4)), layout), "Labels": StreamData(labels, layout)}
    return Minibatch(streams, frames)
