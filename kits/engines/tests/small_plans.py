"""Plans of two small networks, for tests: two layers, and a recurrent one."""

from __future__ import annotations

import numpy as np

from cntk_core.errors import Location
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node, Parameter
from cntk_core.ops.families.recurrence import DelayAttributes
from cntk_core.ops.table import core_op
from cntk_core.plan.make import make_plan
from cntk_core.plan.plan import Plan


class Maker:
    """Adds nodes by operation and name; each stands on a line of its own."""

    def __init__(self) -> None:
        self.network = Network(np.float64)

    def input(self, name: str, *shape: int) -> Node:
        return self.network.add(Input.make(name, shape))

    def parameter(self, name: str, *shape: int) -> Node:
        return self.network.add(Parameter.make(name, shape, value=np.full(shape, 0.5)))

    def __call__(self, name: str, op: str, *inputs: Node, attributes: object = None) -> Node:
        found, line = core_op(op), len(self.network)
        node = Node(name, found, list(inputs), attributes or found.attributes(), where=Location("n.cntk", line, 1))
        return self.network.add(node)

    def plan(self, criterion: Node) -> Plan:
        self.network.infer()
        return make_plan(self.network, [criterion], criterion)


def layers() -> Plan:
    """``SquareError(l, sigmoid(W x + b))``, of four numbers for three."""
    make = Maker()
    x, label = make.input("x", 4), make.input("l", 3)
    product = make("Wx", "Times", make.parameter("W", 4, 3), x)
    out = make("h", "Sigmoid", make("sum", "Plus", product, make.parameter("b", 3)))
    return make.plan(make("loss", "SquareError", label, out))


def recurrent(op: str = "PastValue") -> Plan:
    """``h = sigmoid(x + R past(h))``, of three numbers."""
    make = Maker()
    x, label = make.input("x", 3), make.input("l", 3)
    past = make("past", op, attributes=DelayAttributes((3,)))
    back = make("Rh", "Times", make.parameter("R", 3, 3), past)
    past.inputs = [make("h", "Sigmoid", make("sum", "Plus", x, back))]
    return make.plan(make("loss", "SquareError", label, make.network["h"]))
