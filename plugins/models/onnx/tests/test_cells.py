"""Loops that are written in other ways than layers write them: an operation of ONNX, or a Scan, and the same values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cntk_model_onnx.wire import read_model
from judge import difference

from cntk_core.api import Node, core_ops
from cntk_testing.sequence_networks import FEATURES, HIDDEN, SequenceSketch

SLICE: Any = core_ops().find("ndl", "Slice")
KINDS = {"LSTM", "GRU", "RNN", "Scan"}


class Cells(SequenceSketch):
    """A loop while it is put together, in float32."""

    def __init__(self) -> None:
        super().__init__(np.float32)

    def times(self, *operands: Node) -> Node:
        return self.op("ElementTimes", *operands)

    def plus(self, *terms: Node) -> Node:
        return self.op("Plus", *terms)

    def product(self, value: Node, dim: int) -> Node:
        return self.op("Times", self.parameter(f"W{len(self.network)}", dim, HIDDEN), value)

    def sums(self, past: Node) -> Node:
        """What goes into a gate."""
        return self.weighted((self.x, FEATURES), (past, HIDDEN))

    def cut(self, value: Node, *places: int) -> Node:
        return self.op("Slice", value, attributes=SLICE.attributes(*places))

    def seen(self) -> Node:
        """A value of each frame, of the size of a gate, that is no product."""
        return self.op("Exp", self.product(self.x, FEATURES))


def lstm(made: Cells, *, turned: bool) -> Node:
    """An LSTM whose sums and products have their operands in this order or the other."""
    (past, close), (kept, close_cell) = made.delay(), made.delay(default=0.0)

    def both(op: str, one: Node, other: Node) -> Node:
        return made.op(op, *((other, one) if turned else (one, other)))

    i, f, o = (made.op("Sigmoid", made.sums(past)) for _ in range(3))
    g = made.op("Tanh", made.sums(past))
    cell = close_cell(both("Plus", both("ElementTimes", f, kept), both("ElementTimes", i, g)))
    return close(both("ElementTimes", o, made.op("Tanh", cell)))


def gru(made: Cells, *, turned: bool = False, ones: Callable[[Cells], Node] | None = None) -> Node:
    past, close = made.delay()
    z, r = (made.op("Sigmoid", made.sums(past)) for _ in range(2))
    held = (past, r) if turned else (r, past)
    new = made.op("Tanh", made.weighted((made.x, FEATURES), (made.times(*held), HIDDEN)))
    one = made.given("ones", np.ones(HIDDEN)) if ones is None else ones(made)
    rest = made.op("Minus", one, z)
    terms = [made.times(*((new, rest) if turned else (rest, new))), made.times(*((past, z) if turned else (z, past)))]
    return close(made.plus(*(reversed(terms) if turned else terms)))


def plain(made: Cells, sums: Callable[[Cells, Node], Node], function: str = "Tanh") -> Node:
    past, close = made.delay()
    return close(made.op(function, sums(made, past)))


def of_nothing(made: Cells, past: Node) -> Node:
    return made.plus(made.seen(), made.product(past, HIDDEN))


def of_a_part(made: Cells, past: Node) -> Node:
    wide = made.op("Tanh", made.weighted((made.x, FEATURES), size=2 * HIDDEN))
    part = made.cut(wide, 1, 1 + HIDDEN)
    return made.plus(part, made.product(past, HIDDEN))


def of_a_part_from_the_end(made: Cells, past: Node) -> Node:
    wide = made.weighted((made.x, FEATURES), (past, HIDDEN), size=2 * HIDDEN)
    return made.cut(wide, -HIDDEN, 0)


def of_every_second(made: Cells, past: Node) -> Node:
    wide = made.weighted((made.x, FEATURES), (past, HIDDEN), size=2 * HIDDEN)
    return made.cut(wide, 0, 0, 1, 2)


def of_two_products(made: Cells, past: Node) -> Node:
    twice = made.plus(made.product(made.x, FEATURES), made.sums(past))
    return made.plus(made.product(past, HIDDEN), made.plus(twice, made.parameter("b", HIDDEN)))


def with_one_bias(made: Cells, past: Node) -> Node:
    return made.plus(made.parameter("b", 1), made.plus(made.seen(), made.product(past, HIDDEN)))


def with_another_way(made: Cells, past: Node) -> Node:
    return made.plus(made.seen(), made.product(made.op("Exp", past), HIDDEN))


def without_weights(made: Cells, past: Node) -> Node:
    return made.plus(made.sums(past), past)


LOOPS: dict[str, tuple[Callable[[Cells], Node], str]] = {
    "LSTM": (lambda made: lstm(made, turned=False), "LSTM"),
    "LSTM, turned": (lambda made: lstm(made, turned=True), "LSTM"),
    "GRU": (gru, "GRU"),
    "GRU, turned": (lambda made: gru(made, turned=True), "GRU"),
    "GRU whose gates do not sum to 1": (
        lambda made: gru(made, ones=lambda made: made.given("ones", np.array([1.0, 0.9]))),
        "Scan",
    ),
    "GRU of another gate": (lambda made: gru(made, ones=lambda made: made.seen()), "Scan"),
    "a value beside a product": (lambda made: plain(made, of_nothing), "RNN"),
    "a part of a value": (lambda made: plain(made, of_a_part), "RNN"),
    "a part of a sum": (lambda made: plain(made, of_a_part_from_the_end, "Sigmoid"), "RNN"),
    "several products and biases": (lambda made: plain(made, of_two_products, "RectifiedLinear"), "RNN"),
    "every second element": (lambda made: plain(made, of_every_second), "Scan"),
    "one bias for all": (lambda made: plain(made, with_one_bias), "Scan"),
    "a function of the state": (lambda made: plain(made, with_another_way), "Scan"),
    "the state as it is": (lambda made: plain(made, without_weights), "Scan"),
    "another function": (lambda made: plain(made, of_nothing, "Softplus"), "Scan"),
}


LATER = {"GRU, turned", "GRU of another gate", "a function of the state", "one bias for all"}
"""Loops of the thorough tier: an LSTM that is turned and other loops that stay a Scan are run always."""


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.thorough] if n in LATER else []) for n in LOOPS])
def test_loops(name: str, tmp_path: Path) -> None:
    function, wanted = LOOPS[name]
    made = Cells()
    y: Any = made.op("Pass", function(made), name="y")
    network = made.finish(None, y).network
    network.mark(y, "output")
    path = tmp_path / "net.onnx"
    assert difference(network, path) < 1e-6
    assert [node.op_type for node in read_model(path).model.graph.node if node.op_type in KINDS] == [wanted]
