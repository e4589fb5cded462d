"""Recurrent networks made by hand, for the tests of plans."""

from __future__ import annotations

from typing import Any

import numpy as np

from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node, Parameter
from cntk_core.ops.families.recurrence import DelayAttributes
from cntk_core.ops.table import core_ops
from cntk_core.plan.make import make_plan
from cntk_core.plan.plan import Plan

TABLE = core_ops()


class Maker:
    """Adds nodes by name, operation and the names of their inputs."""

    def __init__(self) -> None:
        self.network = Network(np.float64)
        self.network.add(Input.make("x", (4,)))
        self.network.add(Input.make("l", (2,)))

    def __call__(self, name: str, op: str, *inputs: str, **attributes: Any) -> Node:
        found = TABLE.find("", op)
        assert found is not None, op
        nodes = [self.network[item] for item in inputs]
        return self.network.add(Node(name, found, nodes, found.attributes(**attributes)))

    def parameter(self, name: str, *shape: int, rate: float = 1.0) -> None:
        self.network.add(Parameter.make(name, shape, value=np.zeros(shape), learning_rate_multiplier=rate))

    def delay(self, name: str, dim: int = 3, step: int = 1, *, op: str = "PastValue") -> None:
        """A delay whose input is set afterwards by :meth:`close`."""
        found = TABLE.find("", op)
        assert found is not None
        self.network.add(Node(name, found, [], DelayAttributes((dim,), time_step=step)))

    def close(self, delay: str, value: str, *initial: str) -> None:
        self.network[delay].inputs = [self.network[item] for item in (value, *initial)]

    def classify(self, h: str, dim: int = 3) -> None:
        self.parameter("V", dim, 2)
        self("z", "Times", "V", h)
        self("ce", "CrossEntropyWithSoftmax", "l", "z")

    def plan(self, *, fuse: bool = True, training: bool = True) -> Plan:
        self.network.infer()
        roots = [self.network["z"]]
        return make_plan(self.network, roots, self.network["ce"] if training else None, fuse=fuse)


def elman(op: str = "PastValue", *initial: str, step: int = 1) -> Maker:
    """h = tanh(W x + R past(h) + b)."""
    make = Maker()
    for name, shape in {"W": (4, 3), "R": (3, 3), "b": (3,), "h0": (3,)}.items():
        make.parameter(name, *shape)
    make.delay("past", step=step, op=op)
    make("Wx", "Times", "W", "x")
    make("Rh", "Times", "R", "past")
    make("sum", "Plus", "Wx", "Rh")
    make("biased", "Plus", "sum", "b")
    make("h", "Tanh", "biased")
    make.close("past", "h", *initial)
    make.classify("h")
    return make
