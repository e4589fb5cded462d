"""Our own step: the plan of a network, compiled by the engine."""

from __future__ import annotations

import numpy as np
from workloads import FeedForward

from candidates.training import Trainer
from cntk_core.api import Minibatch, StreamData
from cntk_core.api.engines import frame_layout


class Candidate(Trainer):
    """Trains a network of Python layers."""

    def __init__(self, workload: FeedForward, threads: int) -> None:
        from cntk_builder_python import Dense, Graph, Sequential, cross_entropy_with_softmax, sigmoid

        graph = Graph(np.float32)
        hidden = [Dense(width, sigmoid, name=f"layer{index}") for index, width in enumerate(workload.sizes[1:-1])]
        last = Dense(workload.sizes[-1], name=f"layer{len(hidden)}")
        z = Sequential(*hidden, last)(graph.input("features", workload.sizes[0]))
        graph.criterion(cross_entropy_with_softmax(z, graph.label("labels", workload.sizes[-1])), "ce")
        graph.network.infer()
        names = {name: f"layer{name[1:]}.{name[0]}" for name in workload.parameters()}
        data = [_minibatch(x, y, workload) for x, y in workload.data()]
        super().__init__(graph.network, workload.parameters(), names, data, workload.momentum, threads)


def _minibatch(x: np.ndarray, y: np.ndarray, workload: FeedForward) -> Minibatch:
    labels = np.zeros((len(y), workload.sizes[-1]), np.float32)
    labels[np.arange(len(y)), y] = 1
    layout = frame_layout(len(y))
    return Minibatch({"features": StreamData(x, layout), "labels": StreamData(labels, layout)}, len(y))
