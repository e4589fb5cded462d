"""Networks with blocks and placeholders, for the tests of this folder."""

from __future__ import annotations

from typing import Any

import numpy as np

from cntk_core.network.blocks import Block
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node, Parameter
from cntk_core.ops.table import core_ops

TABLE = core_ops()


def add(network: Network, name: str, op: str, *inputs: Node, **attributes: Any) -> Node:
    found = TABLE.find("", op)
    assert found is not None
    return network.add(Node(name, found, list(inputs), found.attributes(**attributes)))


def make_network() -> Network:
    """``two (one (x))`` of two layers, with ``both`` around them."""
    network = Network()
    x = network.add(Input.make("x", (4,)))
    w = network.add(Parameter.make("W", (4, 4), value=np.eye(4, dtype=np.float32)))
    first = add(network, "one.times", "Times", w, x)
    one = add(network, "one.out", "Sigmoid", first)
    second = add(network, "two.times", "Times", w, one)
    two = add(network, "two.out", "Sigmoid", second)
    network.mark(two, "output")
    for name, product, output in (("one", first, one), ("two", second, two)):
        network.add_block(Block(name, "Dense", {product: None, output: None}, [output], {"x": [(product, 1)]}))
    everything = dict.fromkeys((first, one, second, two))
    network.add_block(Block("both", "Stack", everything, [two], {"x": [(first, 1)]}))
    network.infer()
    return network
