"""A learner in Python, an assignment and a function with a state on two ranks; writes what each has learned.

Every rank runs this, in step: see test_sockets.py. Given are the strategy, its options, and a folder for a checkpoint.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
from cntk_builder_python import Dense, Graph, Sequential, squared_error, tanh, user_function
from cntk_parallel_sockets import SocketCommunicator

from cntk_core.api import Slot, UserLearner
from cntk_core.api.builders import UserFunction
from cntk_core.api.training import LearnerSettings, Parallel, Trainer

STEPS = 6


class Falling(UserLearner):
    """Descent with a smoothed gradient, and a rate that falls."""

    requires_api = "1.0"
    slots = (Slot("smoothed"),)
    state = (Slot("count"),)

    def advance(self, context):
        return {"count": context.state["count"] + 1.0}

    def update(self, parameters):
        for each in parameters:
            smoothed = each.slots["smoothed"]
            smoothed[...] = 0.5 * smoothed + each.gradient
            each.value -= each.context.learning_rate / each.context.state["count"] * smoothed


class Counted(UserFunction):
    """x; counts the frames that it has seen."""

    updates = (1,)

    def infer_outputs(self, x, seen):
        return x

    def forward(self, context, x, seen):
        if context.training:
            seen += len(x)
        return x

    def backward(self, context, gradient):
        return gradient, None


def make(communicator, strategy, options):
    graph = Graph(np.float64)
    seen, kept = graph.constant(np.zeros(1), name="seen"), graph.constant(np.zeros(4), name="kept")
    hidden = Dense(4, tanh)(user_function(Counted(), graph.input("x", 3), seen))
    graph.output(graph.apply("Assign", kept, graph.apply("EpochAccumulator", hidden)), "assigned")
    graph.criterion(squared_error(Sequential(Dense(1))(hidden), graph.label("y", 1)), "loss")
    parallel = Parallel(communicator, strategy, options)
    return Trainer(graph.finish(), "loss", LearnerSettings(Falling(), rate=0.02), parallel=parallel, seed=1)


def train(trainer, first, last):
    rows = np.random.default_rng(trainer.epoch).normal(size=(STEPS, 8, 3))
    rank, size = trainer._ranks.rank, trainer._ranks.size
    for one in rows[first:last, rank::size]:
        trainer.train_minibatch({"x": one, "y": one.sum(axis=1, keepdims=True)})


def learned(trainer):
    """A digest of all parameters, and what was counted."""
    found = hashlib.sha256()
    for parameter in trainer.model.network.parameters:
        found.update(np.ascontiguousarray(parameter.value).tobytes())
    return found.hexdigest()[:16], int(trainer.model.network["seen"].value[0])


def main(strategy, options, inside, path):
    communicator = SocketCommunicator()
    with make(communicator, strategy, options) as one:
        train(one, 0, 3)
        if inside == "behind":
            one.end_epoch()
        one.save(path)
        train(one, 3, STEPS)
        before = learned(one)
        one.end_epoch()
        straight = before, learned(one)
        one.restore(path)  # the same ranks go back
        train(one, 3, STEPS)
        before = learned(one)
        one.end_epoch()
        assert (before, learned(one)) == straight, f"rank {communicator.rank} does not go on to the byte"
        Path(f"{path}.rank{communicator.rank}").write_text(json.dumps(straight), encoding="utf-8")


main(*sys.argv[1:])
