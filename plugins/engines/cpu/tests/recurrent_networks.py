"""Small recurrent networks by name, and minibatches of sequences for them.

Every network reads ``x`` (5 values a frame) and ``l`` (one of 3 classes a frame) and has the roots ``z`` and ``ce``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from cpu_networks import Net

from cntk_core.api import Input, Minibatch, Node, Plan, SequenceLayout, StreamData, core_ops
from cntk_core.api.engines import sequence_layout

INPUTS, HIDDEN, CLASSES = 5, 4, 3
TABLE = core_ops()


class RecurrentNet(Net):
    """A network under construction whose delays get their input when it is there."""

    def __init__(self, dtype: Any = np.float64) -> None:
        super().__init__(seed=11, dtype=dtype)
        self.x = self.input("x", INPUTS)

    def op(self, operation: str, *inputs: Node, name: str = "", **attributes: Any) -> Node:
        found = TABLE.find("", operation)
        assert found is not None, operation
        return self.network.add(
            Node(name or f"n{len(self.network)}", found, list(inputs), found.attributes(**attributes))
        )

    def delay(self, *initial: Node, step: int = 1, ahead: bool = False, dim: int = HIDDEN, default: float = 0.1) -> Any:
        """A delay, and the function that says of what."""
        made = self.op(
            "FutureValue" if ahead else "PastValue", dims=(dim,), time_step=step, default_hidden_activation=default
        )

        def close(value: Node) -> Node:
            made.inputs = [value, *initial]
            return value

        return made, close

    def affine(self, size: int, *terms: tuple[Node, int]) -> Node:
        """A sum of products and a bias."""
        total = self.parameter(size)
        for term, dim in terms:
            total = self.op("Plus", self.op("Times", self.parameter(dim, size), term), total)
        return total

    def elman(self, x: Node, dim: int, *initial: Node, act: str = "Tanh", size: int = HIDDEN, **options: Any) -> Node:
        past, close = self.delay(*initial, dim=size, **options)
        return close(self.op(act, self.affine(size, (x, dim), (past, size))))

    def lstm(self, x: Node, dim: int, **options: Any) -> Node:
        """With peepholes, and one product for its four gates."""
        past, close = self.delay(**options)
        past_cell, close_cell = self.delay(**options | {"default": 0.0})
        gates = self.affine(4 * HIDDEN, (x, dim), (past, HIDDEN))
        i, g, f, o = (self.op("Slice", gates, begin=k * HIDDEN, end=(k + 1) * HIDDEN, axis=1) for k in range(4))

        def peep(gate: Node, cell: Node) -> Node:
            weighed = self.op("ElementTimes", self.parameter(HIDDEN), cell)
            return self.op("Sigmoid", self.op("Plus", gate, weighed))

        kept = self.op("ElementTimes", peep(f, past_cell), past_cell)
        added = self.op("ElementTimes", peep(i, past_cell), self.op("Tanh", g))
        cell = close_cell(self.op("Plus", kept, added))
        return close(self.op("ElementTimes", peep(o, cell), self.op("Tanh", cell)))

    def gru(self, x: Node, dim: int, **options: Any) -> Node:
        past, close = self.delay(**options)
        z = self.op("Sigmoid", self.affine(HIDDEN, (x, dim), (past, HIDDEN)))
        r = self.op("Sigmoid", self.affine(HIDDEN, (x, dim), (past, HIDDEN)))
        reset = self.op("ElementTimes", r, past)
        new = self.op("Tanh", self.affine(HIDDEN, (x, dim), (reset, HIDDEN)))
        move = self.op("ElementTimes", z, self.op("Minus", new, past))
        return close(self.op("Plus", past, move))

    def classify(self, h: Node, dim: int = HIDDEN) -> Plan:
        """The plan with a softmax layer on top."""
        labels = self.input("l", CLASSES)
        z = self.op("Pass", self.affine(CLASSES, (h, dim)), name="z")
        return self.plan(self.op("CrossEntropyWithSoftmax", labels, z, name="ce"), z)


def _elman(net: RecurrentNet, **options: Any) -> Plan:
    return net.classify(net.elman(net.x, INPUTS, **options))


def _both_ways(net: RecurrentNet) -> Plan:
    ahead = net.elman(net.x, INPUTS)
    back = net.lstm(net.x, INPUTS, ahead=True)
    return net.classify(net.op("RowStack", ahead, back), 2 * HIDDEN)


def _stacked(net: RecurrentNet) -> Plan:
    return net.classify(net.gru(net.lstm(net.x, INPUTS), HIDDEN))


def _softmax(net: RecurrentNet) -> Plan:
    return net.classify(net.elman(net.x, INPUTS, act="Softmax"))


def _own_gradient(net: RecurrentNet) -> Plan:
    """A parameter inside of the loop whose gradient is summed time step by time step."""
    past, close = net.delay()
    near = net.op("CosDistance", net.op("Plus", past, net.op("Times", net.parameter(INPUTS, HIDDEN), net.x)), past)
    stacked = net.op("RowStack", net.op("Times", net.parameter(HIDDEN, HIDDEN - 1), past), near)
    return net.classify(close(net.op("Tanh", stacked)))


def _stack_inside(net: RecurrentNet) -> Plan:
    """The recurrent product of an input and a state that are put together in the loop."""
    past, close = net.delay()
    joined = net.op("RowStack", net.x, past)
    return net.classify(close(net.op("Sigmoid", net.affine(HIDDEN, (joined, INPUTS + HIDDEN)))))


def _learned_state(net: RecurrentNet) -> Plan:
    return net.classify(net.elman(net.x, INPUTS, net.parameter(HIDDEN, name="h0")))


def _state_of_a_sequence(net: RecurrentNet, **options: Any) -> Plan:
    """Every sequence begins with a state made of an input with an axis of its own."""
    state = net.network.add(Input.make("s", (2,), axis="states"))
    return net.classify(net.elman(net.x, INPUTS, net.op("Times", net.parameter(2, HIDDEN), state), **options))


def _gathered(net: RecurrentNet) -> Plan:
    """A loop over the frames where a condition holds, put back among the others."""
    condition = net.input("c", 1)
    rows = net.op("PackedIndex", net.x, net.op("Where", condition))
    h = net.elman(net.op("GatherPacked", rows, net.x), INPUTS)
    back = net.op("ScatterPacked", condition, rows, h)
    return net.classify(net.elman(back, HIDDEN))


def _straight(net: RecurrentNet) -> Plan:
    """Delays outside of a loop."""
    h = net.op("Tanh", net.affine(HIDDEN, (net.x, INPUTS)))
    before = net.op("PastValue", h, time_step=2)
    after = net.op("FutureValue", h, net.parameter(HIDDEN))
    return net.classify(net.op("Plus", net.op("ElementTimes", before, after), h))


def _two_readers(net: RecurrentNet) -> Plan:
    """A state that is read inside of the loop at two distances, and outside of it twice."""
    one, close_one = net.delay()
    two, close_two = net.delay(step=2, default=-0.3)
    h = net.op("Tanh", net.affine(HIDDEN, (net.x, INPUTS), (one, HIDDEN), (two, HIDDEN)))
    close_two(close_one(h))
    return net.classify(net.op("Plus", net.op("ElementTimes", h, h), h))


def _shared_weights(net: RecurrentNet) -> Plan:
    """One matrix inside of the loop, twice, and outside of it."""
    weights = net.parameter(HIDDEN, HIDDEN, name="W")
    past, close = net.delay()
    inner = net.op("Tanh", net.op("Times", weights, past))
    h = net.op("Plus", net.op("Times", weights, inner), net.affine(HIDDEN, (net.x, INPUTS)))
    return net.classify(net.op("Times", weights, close(net.op("Sigmoid", h))))


def _diagonal(net: RecurrentNet) -> Plan:
    """A recurrence of every element by itself: the state is weighed element by element."""
    past, close = net.delay()
    kept = net.op("DiagTimes", net.parameter(HIDDEN, name="d"), past)
    return net.classify(close(net.op("Tanh", net.op("Plus", kept, net.affine(HIDDEN, (net.x, INPUTS))))))


NETWORKS: Mapping[str, Callable[[RecurrentNet], Plan]] = {
    "elman": _elman,
    "elman back": lambda net: _elman(net, ahead=True, step=2),
    "elman 3 steps": lambda net: _elman(net, step=3),
    "lstm": lambda net: net.classify(net.lstm(net.x, INPUTS)),
    "gru": lambda net: net.classify(net.gru(net.x, INPUTS)),
    "both ways": _both_ways,
    "stacked": _stacked,
    "softmax": _softmax,
    "own gradient": _own_gradient,
    "stack inside": _stack_inside,
    "learned state": _learned_state,
    "state of a sequence": _state_of_a_sequence,
    "state of a sequence, back": lambda net: _state_of_a_sequence(net, ahead=True, step=2),
    "gathered": _gathered,
    "straight": _straight,
    "two readers": _two_readers,
    "shared weights": _shared_weights,
    "diagonal": _diagonal,
}


def recurrent_plan(name: str, dtype: Any = np.float64) -> Plan:
    """The plan of one of the networks, with the same values each time."""
    return NETWORKS[name](RecurrentNet(dtype))


def sequences(rng: np.random.Generator, layout: SequenceLayout, count: int, dtype: Any = np.float64) -> Minibatch:
    """Random streams for any of the networks; ``count`` sequences, some of them perhaps empty."""
    frames = layout.frames
    states = sequence_layout([1] * count)

    def stream(rows: Any, own: SequenceLayout = layout) -> StreamData:
        return StreamData(np.asarray(rows, dtype), own)

    streams = {
        "x": stream(rng.normal(size=(frames, INPUTS))),
        "l": stream(np.eye(CLASSES)[rng.integers(CLASSES, size=frames)]),
        "c": stream(rng.integers(2, size=(frames, 1))),
        "s": stream(rng.normal(size=(count, 2)), states),
    }
    return Minibatch(streams, frames)


def minibatches(lengths: Sequence[Sequence[int]], dtype: Any = np.float64, seed: int = 5) -> list[Minibatch]:
    """Minibatches of whole sequences."""
    rng = np.random.default_rng(seed)
    return [sequences(rng, sequence_layout(each), len(each), dtype) for each in lengths]
