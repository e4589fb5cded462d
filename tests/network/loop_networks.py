"""Networks with loops, made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node, Parameter
from cntk_core.ops.families.recurrence import DelayAttributes
from cntk_core.ops.table import core_ops

TABLE = core_ops()


class Maker:
    """Adds nodes by operation and name."""

    def __init__(self) -> None:
        self.network = Network(np.float64)

    def input(self, name: str, *shape: int, axis: str = "") -> Node:
        return self.network.add(Input.make(name, shape, axis=axis))

    def parameter(self, name: str, *shape: int) -> Node:
        return self.network.add(Parameter.make(name, shape))

    def __call__(self, name: str, op: str, *inputs: Node, attributes: Any = None) -> Node:
        found = TABLE.find("", op)
        assert found is not None, op
        return self.network.add(
            Node(name, found, list(inputs), found.attributes() if attributes is None else attributes)
        )

    def past(self, name: str, *dims: int, op: str = "PastValue", **attributes: Any) -> Node:
        """A delay whose input is set afterwards."""
        return self(name, op, attributes=DelayAttributes(dims, **attributes))


def rnn(size: int = 3, dims: tuple[int, ...] = (), weights: tuple[int, int] = (4, 3)) -> Maker:
    """h = sigmoid(W x + R past(h) + b), with dimensions to be inferred."""
    make = Maker()
    x = make.input("x", weights[0])
    past = make.past("past", *dims)
    product = make("Wx", "Times", make.parameter("W", 0, size), x)
    back = make("Rh", "Times", make.parameter("R", 0, size), past)
    total = make("sum", "Plus", make("both", "Plus", product, back), make.parameter("b", 0))
    past.inputs = [make("h", "Sigmoid", total)]
    return make


def lstm(layers: int, size: int = 8, dims: tuple[int, ...] = ()) -> Maker:
    """A stack of LSTM layers with peepholes, all input dimensions to be inferred."""
    make = Maker()
    below = make.input("x", 5)
    for layer in range(layers):

        def name(text: str, layer: int = layer) -> str:
            return f"{text}{layer}"

        past_h, past_c = make.past(name("ph"), *dims), make.past(name("pc"), *dims)

        def gate(kind: str, inner: Node, name: Any = name, past_h: Node = past_h, below: Node = below) -> Node:
            wx = make(name(f"{kind}wx"), "Times", make.parameter(name(f"{kind}W"), 0, size), below)
            rh = make(name(f"{kind}rh"), "Times", make.parameter(name(f"{kind}R"), 0, size), past_h)
            peep = make(name(f"{kind}p"), "DiagTimes", make.parameter(name(f"{kind}d"), 0), inner)
            both = make(name(f"{kind}+"), "Plus", wx, rh)
            return make(name(kind), "Sigmoid", make(name(f"{kind}++"), "Plus", both, peep))

        new = make(
            name("new"),
            "Tanh",
            make(name("new+"), "Times", make.parameter(name("newR"), size, size), past_h),
        )
        kept = make(name("kept"), "ElementTimes", gate("f", past_c), past_c)
        cell = make(name("c"), "Plus", kept, make(name("added"), "ElementTimes", gate("i", past_c), new))
        below = make(name("h"), "ElementTimes", gate("o", cell), make(name("tanh"), "Tanh", cell))
        past_h.inputs, past_c.inputs = [below], [cell]
    return make
