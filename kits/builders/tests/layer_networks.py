"""Networks with blocks, for the tests of this folder."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_core.contract.store import ParameterStore
from cntk_core.network.blocks import Block
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node, Parameter, Placeholder
from cntk_core.ops.language.layouts import sequence_layout
from cntk_core.ops.table import core_ops
from cntk_core.plan.make import make_plan
from cntk_core.records.minibatch import Minibatch, StreamData
from cntk_kit_builders.blocks import as_block
from cntk_testing.reference import ReferenceEngine

FIND = core_ops().find


def add(network: Network, name: str, operation: str, *inputs: Node, **attributes: Any) -> Node:
    op = FIND("", operation)
    assert op is not None
    return network.add(Node(name, op, list(inputs), op.attributes(**attributes)))


def dense(network: Network, x: Node, name: str) -> Block:
    """``Sigmoid (W * x + b)`` of 3 units as a block."""
    rows = x.known_shape[0]
    values = np.linspace(-1, 1, rows * 3).reshape(rows, 3)
    weights = network.add(Parameter.make(f"{name}.W", (rows, 3), value=values))
    bias = network.add(Parameter.make(f"{name}.b", (3,), value=np.arange(3.0)))
    inside = placeholder(network, "(argument)")
    total = add(network, f"{name}.sum", "Plus", add(network, f"{name}.times", "Times", weights, inside), bias)
    made = as_block(network, [add(network, f"{name}.out", "Sigmoid", total)], {inside: x}, "Dense", name, ["x"])
    network.infer(partial=True)
    return made


def placeholder(network: Network, name: str) -> Placeholder:
    made = Placeholder.make(name)
    network.add(made)
    return made


def two_layers() -> Network:
    """``two (one (x))``, the result of which is the root ``two.out``; ``y`` is free."""
    network = Network(np.float64)
    x, y = (network.add(Input.make(name, (4,))) for name in "xy")
    network.mark(x, "feature")
    one = dense(network, x, "one")
    network.mark(dense(network, one.outputs[0], "two").outputs[0], "output")
    assert y.name == "y"
    network.infer()
    return network


def value(network: Network, *nodes: Node) -> list[NDArray[Any]]:
    """Values of nodes for three frames, of which each input has its own."""
    network.infer()
    plan = make_plan(network, nodes)
    program = ReferenceEngine().compile(plan, ParameterStore(network.parameters, network.dtype))
    layout = sequence_layout([3])
    streams = {
        node.name: StreamData(np.random.default_rng([*node.name.encode()]).normal(size=(3, *node.known_shape)), layout)
        for node in plan.inputs
    }
    program.evaluate(Minibatch(streams, 3))
    return [np.array(program.value(node.name)) for node in nodes]


def names(nodes: Any) -> list[str]:
    return [node.name for node in nodes]
