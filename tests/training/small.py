"""A small network, data in memory and a session around them, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from cntk_learner_sgd import SGD, SGDOptions

from cntk_core.config import Schedule
from cntk_core.contract.reader import DataReader, EpochSpec, ReaderContext, StreamInfo
from cntk_core.network.model_file import load_model
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node, Parameter
from cntk_core.ops.language.layouts import frame_layout
from cntk_core.ops.table import core_ops
from cntk_core.records.minibatch import Minibatch, StreamData
from cntk_core.training.settings import SGDSettings
from cntk_kit_recipes.session.run_log import RunLog
from cntk_kit_recipes.session.session import TrainingSession
from cntk_testing.reference import ReferenceEngine

TABLE = core_ops()
FRAMES = 43


def operation(network: Network, name: str, op: str, *inputs: Node, **attributes: Any) -> Node:
    """Add an operation."""
    found = TABLE.find("ndl", op)
    assert found is not None
    return network.add(Node(name, found, list(inputs), found.attributes(**attributes)))


def make_network(
    dtype: Any = np.float64, *, normalized: bool = False, dropout: bool = False, sparse: bool = False
) -> Network:
    """Return a classifier 4-5-3 with given values, ready to train."""
    random = np.random.default_rng(7)
    network = Network(dtype)

    def parameter(name: str, *shape: int) -> Node:
        return network.add(Parameter.make(name, shape, value=random.normal(0, 0.5, shape).astype(dtype)))

    features, labels = network.add(Input.make("features", (4,), sparse=sparse)), network.add(Input.make("labels", (3,)))
    x: Node = features
    if normalized:
        mean = operation(network, "mean", "Mean", features)
        deviation = operation(network, "invStdDev", "InvStdDev", features)
        x = operation(network, "normalized", "PerDimMeanVarNormalization", features, mean, deviation)
    h = operation(network, "Wx", "Times", parameter("W0", 4, 5), x)
    h = operation(network, "h", "Sigmoid", operation(network, "Wx_b", "Plus", h, parameter("b0", 1, 5)))
    if dropout:
        h = operation(network, "d", "Dropout", h)
    z = operation(network, "Wh", "Times", parameter("W1", 5, 3), h)
    z = operation(network, "z", "Plus", z, parameter("b1", 1, 3))
    network.mark(operation(network, "ce", "CrossEntropyWithSoftmax", labels, z), "criterion")
    network.mark(operation(network, "errs", "ErrorPrediction", labels, z), "evaluation")
    for node, role in ((features, "feature"), (labels, "label"), (z, "output")):
        network.mark(node, role)
    network.infer()
    return network


def make_data(frames: int = FRAMES, seed: int = 3) -> dict[str, np.ndarray]:
    """Return features and one-hot labels."""
    random = np.random.default_rng(seed)
    features = random.normal(size=(frames, 4))
    classes = np.argmax(features @ random.normal(size=(4, 3)), axis=1)
    return {"features": features, "labels": np.eye(3)[classes]}


class ListReader(DataReader):
    """Reads arrays in memory, in order, over and over."""

    requires_api = "1.0"

    def __init__(self, data: dict[str, np.ndarray] | None = None) -> None:
        super().__init__(None, ReaderContext())
        self.data = make_data() if data is None else data

    @property
    def streams(self) -> tuple[StreamInfo, ...]:
        return tuple(StreamInfo(name, values.shape[1:]) for name, values in self.data.items())

    def minibatches(self, epoch: EpochSpec) -> Iterator[Minibatch]:
        frames = len(next(iter(self.data.values())))
        size = epoch.epoch_size or frames
        at, end = epoch.epoch * size, (epoch.epoch + 1) * size
        while at < end:
            sweep_end = (at // frames + 1) * frames
            count = min(epoch.minibatch_size, end - at, sweep_end - at)
            rows = slice(at % frames, at % frames + count)
            yield minibatch({name: values[rows] for name, values in self.data.items()})
            at += count


def minibatch(arrays: dict[str, np.ndarray]) -> Minibatch:
    """Make a minibatch of frames."""
    frames = len(next(iter(arrays.values())))
    layout = frame_layout(frames)
    return Minibatch({name: StreamData(values, layout) for name, values in arrays.items()}, frames)


def settings(**changes: Any) -> SGDSettings:
    """Settings of a short training; values of schedules may be plain numbers."""
    given: dict[str, Any] = {
        "max_epochs": 3,
        "minibatch_size": 8,
        "learning_rates_per_sample": 0.0625,
        "momentum_per_mb": 0.5,
        "num_mbs_to_show_result": 2,
        "trace_level": 1,
        **changes,
    }
    for field in attrs.fields(SGDSettings):
        if "Schedule" in str(field.type) and isinstance(given.get(field.name), int | float):
            given[field.name] = Schedule.constant(given[field.name])
    return SGDSettings(**given)


class Lines:
    """Keeps the lines of a log."""

    def __init__(self) -> None:
        self.all: list[str] = []

    def line(self, text: str = "") -> None:
        self.all.append(text)

    def with_text(self, text: str) -> list[str]:
        return [line for line in self.all if text in line]


def make_session(
    folder: Path,
    lines: Lines | None = None,
    *,
    name: str = "net.dnn",
    use_nag: bool = False,
    network: Any = None,
    **changes: Any,
) -> TrainingSession:
    """Return a session; keywords that it knows go to it, the others to the settings."""
    own = {key: changes.pop(key) for key in _OWN if key in changes}
    chosen = settings(**changes)
    log = RunLog(lines if lines is not None else Lines(), trace_level=chosen.trace_level)
    return TrainingSession(
        make_network if network is None else network,
        own.pop("engine", None) or ReferenceEngine(),
        own.pop("reader", None) or ListReader(),
        own.pop("learner", None) or SGD(SGDOptions(use_nag=use_nag)),
        chosen,
        folder / name,
        load_model=lambda path, dtype: load_model(path, TABLE.find, dtype),
        log=log,
        **own,
    )


_OWN = (
    *("engine", "reader", "learner", "cv_reader", "hooks", "seed", "make_mode", "resume", "must_resume", "job"),
    "ranks",
    "stop",
    "early_stopping",
)
