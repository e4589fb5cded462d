"""Nodes of the components of nnet1.

Frames before the first and behind the last of an utterance are that frame, as in Kaldi. What is fixed there (shifts and
scales without a rate of their own, and what ``Copy`` picks) is not learned here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_core.api import FindOp, Input, Network, Node, Parameter
from cntk_reader_kaldi.nnet1_components import BIAS_RATE, CELL_CLIP, RATE, Component

USUAL_CLIP = 50.0
"""Cells are kept below it where the file does not say."""

_NAMES = {
    "AffineTransform": "affine", "LinearTransform": "linear", "Splice": "splice", "Copy": "copy", "AddShift": "shift",
    "Rescale": "scale", "LengthNormComponent": "norm", "ParametricRelu": "relu", "LstmProjected": "lstm",
    "BlstmProjected": "blstm",
}  # fmt: skip
_DUPLICATE = 0
"""Shift's ``boundaryMode``: the frame at the end stands beyond it."""


class NodeMaker:
    """Makes the nodes of components, one after the other.

    Args:
        network: to add them to.
        find_op: see :class:`~cntk_core.api.ModelFormat`.
    """

    def __init__(self, network: Network, find_op: FindOp) -> None:
        self.network = network
        self._find = find_op
        self._name = ""

    def add(self, component: Component, value: Node, number: int) -> Node:
        """Add a component behind a node, and return what it gives. Its nodes are called ``affine1``, ``affine1.W``."""
        self._name = f"{_NAMES.get(component.kind, component.kind.lower())}{number}"
        return _MAKERS[component.kind](self, component, value)

    # -- nodes --------------------------------------------------------------------------------------------

    def op(self, op_name: str, name: str, *inputs: Node, **attributes: Any) -> Node:
        """Add a node; without a name it is what the component gives."""
        op = self._find("model", op_name)
        assert op is not None, op_name
        whole = f"{self._name}.{name}" if name else self._name
        return self.network.add(Node(whole, op, list(inputs), op.attributes(**attributes)))

    def given(self, name: str, values: NDArray[Any], rate: float = 1.0) -> Node:
        """Add a parameter with the values of a matrix ``(outputs, inputs)`` or a vector."""
        value = np.ascontiguousarray(values.T.astype(self.network.dtype))
        made = Parameter.make(f"{self._name}.{name}", value.shape, value=value, learning_rate_multiplier=rate)
        return self.network.add(made)

    def constant(self, name: str, value: float) -> Node:
        """Add a number that is not learned."""
        return self.given(name, np.array([value]), 0.0)


def network_of(components: list[Component], find_op: FindOp, dtype: Any) -> Network:
    """Return the network of a file: an input ``features``, and a node that has the role of an output."""
    network = Network(dtype)
    value = network.add(Input.make("features", (components[0].given,)))
    network.mark(value, "feature")
    maker = NodeMaker(network, find_op)
    for number, component in enumerate(components, 1):
        value = maker.add(component, value, number)
    network.mark(value, "output")
    network.infer()
    return network


def _splice(maker: NodeMaker, component: Component, value: Node) -> Node:
    beyond = maker.constant("beyond", 0.0)
    moved = []
    for offset in component.places:
        name = f"{'before' if offset < 0 else 'after'}{abs(offset)}"
        moved.append(maker.op("Shift", name, value, beyond, from_offset=offset, boundary_mode=_DUPLICATE))
    return maker.op("RowStack", "", *moved)


def _copy(maker: NodeMaker, component: Component, value: Node) -> Node:
    picked = np.zeros((component.output, component.given))
    picked[np.arange(component.output), list(component.places)] = 1
    return maker.op("Times", "", maker.given("picked", picked, 0.0), value)


def _shift(maker: NodeMaker, component: Component, value: Node) -> Node:
    return maker.op("Plus", "", value, maker.given("b", component.arrays["values"], component.numbers.get(RATE, 0.0)))


def _scale(maker: NodeMaker, component: Component, value: Node) -> Node:
    rate = component.numbers.get(RATE, 0.0)
    return maker.op("ElementTimes", "", value, maker.given("s", component.arrays["values"], rate))


def _linear(maker: NodeMaker, component: Component, value: Node) -> Node:
    weights = maker.given("W", component.arrays["W"], component.numbers.get(RATE, 1.0))
    return maker.op("Times", "", weights, value)


def _affine(maker: NodeMaker, component: Component, value: Node) -> Node:
    weights = maker.given("W", component.arrays["W"], component.numbers.get(RATE, 1.0))
    bias = maker.given("b", component.arrays["b"], component.numbers.get(BIAS_RATE, 1.0))
    return maker.op("Plus", "", maker.op("Times", "Wx", weights, value), bias)


def _each(op_name: str) -> Callable[[NodeMaker, Component, Node], Node]:
    def make(maker: NodeMaker, component: Component, value: Node) -> Node:
        return maker.op(op_name, "", value)

    return make


def _length(maker: NodeMaker, component: Component, value: Node) -> Node:
    squares = maker.op("ElementTimes", "squares", value, value)
    length = maker.op("Sqrt", "length", maker.op("ReduceElements", "sum", squares, reduction_op="Sum", axis=0))
    return maker.op("ElementTimes", "", value, maker.op("Reciprocal", "inverse", length))


def _slopes(maker: NodeMaker, component: Component, value: Node) -> Node:
    above, below = (maker.given(name, component.arrays[name]) for name in ("alpha", "beta"))
    positive = maker.op("ElementTimes", "above", maker.op("RectifiedLinear", "positive", value), above)
    turned = maker.op("RectifiedLinear", "negative", maker.op("Negate", "turned", value))
    return maker.op("Minus", "", positive, maker.op("ElementTimes", "below", turned, below))


def _lstm(maker: NodeMaker, component: Component, value: Node) -> Node:
    return lstm(maker, component, value, "", "PastValue")


def _both_ways(maker: NodeMaker, component: Component, value: Node) -> Node:
    ways = [lstm(maker, component, value, way, op) for way, op in (("f.", "PastValue"), ("b.", "FutureValue"))]
    return maker.op("RowStack", "", *ways)


def lstm(maker: NodeMaker, component: Component, value: Node, way: str, delay: str) -> Node:
    """Add an LSTM with a projection; ``way`` stands before the names of its arrays."""
    rates = {"b": component.numbers.get(BIAS_RATE, 1.0)}
    usual = component.numbers.get(RATE, 1.0)
    arrays = {name.removeprefix(way): one for name, one in component.arrays.items() if name.startswith(way)}
    own = {name: maker.given(way + name, one, rates.get(name, usual)) for name, one in arrays.items()}
    cells = arrays["Pi"].size

    def op(op_name: str, name: str, *inputs: Node, **attributes: Any) -> Node:
        return maker.op(op_name, way + name if name else name, *inputs, **attributes)

    before = op(delay, "r1", time_step=1, default_hidden_activation=0.0)
    cell_before = op(delay, "c1", time_step=1, default_hidden_activation=0.0)
    outside = op("Plus", "x", op("Times", "Wx.x", own["Wx"], value), own["b"])
    gates = op("Plus", "gates", outside, op("Times", "Wr.r", own["Wr"], before))

    def gate(name: str, place: int) -> Node:
        return op("Slice", name, gates, begin=(place * cells,), end=((place + 1) * cells,))

    def seen(name: str, place: int, peephole: Node, cell: Node) -> Node:
        both = op("Plus", f"{name}.in", gate(f"{name}.gate", place), op("ElementTimes", f"{name}.c", peephole, cell))
        return op("Sigmoid", name, both)

    news = op("ElementTimes", "new", op("Tanh", "g", gate("g.gate", 0)), seen("i", 1, own["Pi"], cell_before))
    kept = op("ElementTimes", "kept", seen("f", 2, own["Pf"], cell_before), cell_before)
    cell = op("Plus", "c", news, kept)
    clip = component.numbers.get(CELL_CLIP, USUAL_CLIP)
    if clip > 0:
        ends = maker.constant(f"{way}least", -clip), maker.constant(f"{way}most", clip)
        cell = op("Clip", "clipped", *ends, cell)
    shown = op("ElementTimes", "m", seen("o", 3, own["Po"], cell), op("Tanh", "h", cell))
    result = op("Times", "r" if way else "", own["Wm"], shown)
    before.inputs, cell_before.inputs = [result], [cell]
    return result


_MAKERS: Mapping[str, Callable[[NodeMaker, Component, Node], Node]] = {
    "Splice": _splice,
    "Copy": _copy,
    "AddShift": _shift,
    "Rescale": _scale,
    "AffineTransform": _affine,
    "LinearTransform": _linear,
    "Sigmoid": _each("Sigmoid"),
    "Tanh": _each("Tanh"),
    "Softmax": _each("Softmax"),
    "Relu": _each("RectifiedLinear"),
    "Dropout": _each("Dropout"),
    "LengthNormComponent": _length,
    "ParametricRelu": _slopes,
    "LstmProjected": _lstm,
    "BlstmProjected": _both_ways,
}
