"""Trainings by a trainer, on the network and the data of ``tests/training/small.py``."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from cntk_core.contract.reader import EpochSpec
from cntk_core.network.network import Network
from cntk_core.plugins.manager import PluginManager
from cntk_core.trainer import LearnerSettings, Trainer
from cntk_core.training.rates.schedules import momentum_per_sample
from cntk_testing import ReferenceEngine
from tests.training.small import ListReader, make_data, make_network

SIZE = 8
"""Samples of a minibatch, as in a session's settings there."""


def learner(rule: Any = "sgd", rate: Any = 0.0625, **given: Any) -> LearnerSettings:
    """Return a learner with the rate and the momentum of a session there."""
    given = {"momentum": momentum_per_sample(0.5, SIZE), "momentum_unit": "sample", **given}
    return LearnerSettings(rule, rate, **given)


@functools.cache
def plugins() -> PluginManager:
    """Return the plugins; to look for them takes a while."""
    return PluginManager()


def trainer(network: Network | None = None, learners: Any = None, **given: Any) -> Trainer:
    """Return a trainer on the reference engine."""
    given = {"engine": ReferenceEngine(), "plugins": plugins(), **given}
    return Trainer(network or make_network(), "ce", learners or learner(), **given)


def minibatches(epoch: int = 0) -> list[dict[str, np.ndarray]]:
    """Return the minibatches of an epoch, as arrays."""
    found = ListReader().minibatches(EpochSpec(epoch=epoch, minibatch_size=SIZE))
    return [{name: stream.data for name, stream in one.streams.items()} for one in found]


def train(made: Trainer, epochs: int = 3) -> Trainer:
    """Train some epochs."""
    for epoch in range(epochs):
        for one in minibatches(epoch):
            made.train_minibatch(one)
        made.end_epoch()
    return made


def values(network: Network) -> dict[str, np.ndarray]:
    """Return copies of the parameters."""
    return {parameter.name: np.array(parameter.value) for parameter in network.parameters}


def assert_same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    """Check that parameters are the same to the byte."""
    assert {name: value.tobytes() for name, value in found.items()} == {
        name: value.tobytes() for name, value in expected.items()
    }


__all__ = ["SIZE", "assert_same", "learner", "make_data", "make_network", "minibatches", "train", "trainer", "values"]
