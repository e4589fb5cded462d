"""Loops that are an LSTM, a GRU or a plain recurrence, as operations; those that are none as Scan."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cntk_builder_python import GRU, LSTM, Graph, Recurrence, RNNStep, relu, splice, tanh
from cntk_model_onnx.wire import read_model
from judge import difference, load, same, written

from cntk_core.api import Network
from cntk_core.api.builders import initialize_parameters

KINDS = {"LSTM", "GRU", "RNN", "Scan"}


def made(function: Callable[[Any], Any]) -> Network:
    graph = Graph()
    function(graph.input("x", (3,))).named("y")
    network: Network = graph.finish()
    network.infer()
    initialize_parameters(network, 1)
    rng = np.random.default_rng(0)
    for parameter in network.parameters:
        assert parameter.value is not None
        if parameter.value.size > 1:
            parameter.value[...] = rng.normal(size=parameter.value.shape) * 0.5
    network.mark(network["y"], "output")
    return network


def kinds(path: Path) -> list[str]:
    return [node.op_type for node in read_model(path).model.graph.node if node.op_type in KINDS]


def both(x: Any) -> Any:
    return splice(Recurrence(GRU(4))(x), Recurrence(LSTM(5), go_backwards=True)(x))


CASES: dict[str, tuple[Callable[[Any], Any], list[str]]] = {
    "lstm": (Recurrence(LSTM(4)), ["LSTM"]),
    "lstm backward": (Recurrence(LSTM(4), go_backwards=True), ["LSTM"]),
    "peepholes": (Recurrence(LSTM(4, use_peepholes=True)), ["LSTM"]),
    "stabilized": (Recurrence(LSTM(4, enable_self_stabilization=True)), ["LSTM"]),
    "gru": (Recurrence(GRU(4)), ["GRU"]),
    "gru backward": (Recurrence(GRU(4), go_backwards=True), ["GRU"]),
    "rnn": (Recurrence(RNNStep(4)), ["RNN"]),
    "relu": (Recurrence(RNNStep(4, activation=relu)), ["RNN"]),
    "tanh": (Recurrence(RNNStep(4, activation=tanh), initial_state=0.3), ["RNN"]),
    "both ways": (both, ["GRU", "LSTM"]),
    "layers": (lambda x: Recurrence(LSTM(3))(Recurrence(LSTM(4))(x)), ["LSTM", "LSTM"]),
    "projected": (Recurrence(LSTM(4, 5)), ["Scan"]),
    "gru of relu": (Recurrence(GRU(4, activation=relu)), ["Scan"]),
    "stabilized gru": (Recurrence(GRU(4, enable_self_stabilization=True)), ["Scan"]),
}


@pytest.mark.thinned
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("sequences", ["batch", "one"])
def test_loops_that_are_operations(name: str, sequences: str, tmp_path: Path) -> None:
    function, wanted = CASES[name]
    network = made(function)
    path = tmp_path / "net.onnx"
    assert difference(network, path, sequences=sequences) < 1e-6
    assert sorted(kinds(path)) == sorted(wanted)
    same(load(path), network)


@pytest.mark.parametrize("name", ["lstm backward", "gru"])
def test_every_loop_may_be_a_scan(name: str, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    assert difference(made(CASES[name][0]), path, loops="scan") < 1e-6
    assert kinds(path) == ["Scan"]


def test_a_state_that_is_read_keeps_the_loop(tmp_path: Path) -> None:
    network = made(Recurrence(LSTM(4, name="cell")))
    network.mark(network["cell.ct"], "output")
    path = written(network, tmp_path / "net.onnx")
    assert kinds(path) == ["Scan"]
    assert difference(network, path) < 1e-6


def test_what_the_operation_replaces_is_not_written(tmp_path: Path) -> None:
    path = written(made(Recurrence(LSTM(4))), tmp_path / "net.onnx")
    read = {name for node in read_model(path).model.graph.node for name in node.input}
    outputs = {name for node in read_model(path).model.graph.node for name in node.output}
    assert outputs - read == {"y"}
