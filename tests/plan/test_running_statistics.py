"""Running statistics of batch normalization change in the parameter store, in training alone."""

from __future__ import annotations

import numpy as np
import pytest

from cntk_core.contract.store import ParameterStore
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node, Parameter
from cntk_core.ops.language.layouts import frame_layout
from cntk_core.ops.table import core_ops
from cntk_core.plan.make import make_plan
from cntk_core.records.minibatch import Minibatch, StreamData
from cntk_testing.reference import ReferenceEngine

TABLE = core_ops()


def make_network() -> Network:
    network = Network(np.float64)

    def node(name: str, op: str, *inputs: Node) -> Node:
        found = TABLE.find("", op)
        assert found is not None
        return network.add(Node(name, found, list(inputs), found.attributes()))

    statistics = [
        network.add(Parameter.make(name, (2,), value=np.full(2, value), learning_rate_multiplier=rate))
        for name, value, rate in (("scale", 1.0, 1.0), ("bias", 0.0, 1.0), ("mean", 0.0, 0.0), ("variance", 1.0, 0.0))
    ]
    count = network.add(Parameter.make("count", (1,), value=np.zeros(1), learning_rate_multiplier=0.0))
    normalized = node("y", "BatchNormalization", network.add(Input.make("x", (2,))), *statistics, count)
    node("cost", "MatrixL2Reg", normalized)
    network.infer()
    return network


@pytest.mark.parametrize("training", [True, False])
def test_running_statistics(training):
    network = make_network()
    store = ParameterStore(network.parameters, network.dtype)
    data = np.random.default_rng(0).normal(size=(6, 2)) + 3.0
    minibatch = Minibatch({"x": StreamData(data, frame_layout(6))}, 6)
    cost = network["cost"]
    if training:
        program = ReferenceEngine().compile(make_plan(network, [cost], cost), store)
        program.compute_gradients(minibatch)
        np.testing.assert_allclose(network["mean"].value, data.mean(axis=0))
        assert network["count"].value == 6
    else:
        network["count"].value[...] = 5.0
        program = ReferenceEngine().compile(make_plan(network, [cost]), store)
        program.evaluate(minibatch)
        np.testing.assert_array_equal(network["mean"].value, 0.0)
        assert network["count"].value == 5.0
