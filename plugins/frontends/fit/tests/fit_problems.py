"""Small networks and data that the tests of this wheel share."""

from __future__ import annotations

import numpy as np
from cntk_builder_python import (
    LSTM,
    Dense,
    Dropout,
    Embedding,
    Graph,
    Recurrence,
    Sequential,
    classification_error,
    cross_entropy_with_softmax,
    tanh,
)

random = np.random.default_rng(0)
X = random.normal(size=(120, 2))
CLASSES = (X[:, 0] * X[:, 1] > 0).astype(int)
Y = np.eye(2)[CLASSES]
SENTENCES = [random.integers(0, 20, length) for length in random.integers(1, 9, size=24)]
TAGS = [sentence % 3 for sentence in SENTENCES]


def perceptron(*, sparse=False, sparse_labels=False, dropout=False):
    graph = Graph(seed=1)
    x, y = graph.input("x", 2, sparse=sparse), graph.label("y", 2, sparse=sparse_labels)
    hidden = Dense(8, tanh)(x)
    z = Dense(2)(Dropout()(hidden) if dropout else hidden)
    graph.criterion(cross_entropy_with_softmax(z, y), "ce")
    graph.evaluation(classification_error(z, y), "errs")
    graph.output(z, "z")
    return graph.finish()


def tagger(*, sparse=True):
    graph = Graph(seed=1)
    z = Sequential(Embedding(6), Recurrence(LSTM(6)), Dense(3))(graph.input("words", 20, sparse=True))
    graph.criterion(cross_entropy_with_softmax(z, graph.label("tags", 3, sparse=sparse)), "ce")
    graph.output(z, "z")
    return graph.finish()


def values(network):
    return {each.name: np.array(each.value) for each in network.parameters}


def same(one, other):
    return one.keys() == other.keys() and all(one[name].tobytes() == other[name].tobytes() for name in one)
