"""The components of nnet1 that a network consists of, from its output down to its input.

What is made of several nodes is found by likeness: its nodes are made anew, and compared with those of the network.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import attrs
import numpy as np

from cntk_core.api import Input, Network, NetworkError, Node, Parameter, core_ops
from cntk_reader_kaldi.nnet1_components import BIAS_RATE, CELL_CLIP, LSTM_ARRAYS, RATE, Component, Values
from cntk_reader_kaldi.nnet1_nodes import NodeMaker

_HINT = (
    "Files of nnet1 hold one layer after the other: Times with a bias, Sigmoid, Tanh, RectifiedLinear, Softmax, "
    "normalization, and LSTMs like those that were read from such a file."
)
_SIMPLE = {"Sigmoid": "Sigmoid", "Tanh": "Tanh", "Softmax": "Softmax", "RectifiedLinear": "Relu"}
Found = tuple[list[Component], Node]
"""Components, the last one first, and the node below them."""


def components_of(network: Network) -> list[Component]:
    """Return the components of a network.

    The output is the only one of which no other is made, or what the classification error or criterion judges.

    Raises:
        NetworkError: the network is not of that form; names the node.
    """
    value = _output(network)
    found: list[Component] = []
    while not isinstance(value, Input):
        own, value = _below(value)
        found += own
    if not found:
        raise NetworkError("the network has no layer that a file of nnet1 could hold", hint=_HINT)
    return found[::-1]


def _output(network: Network) -> Node:
    outputs = network.roots["output"]
    last = [node for node in outputs if not any(node in network.order([one]) for one in outputs if one is not node)]
    if len(last) == 1:
        return last[0]
    judges = [node for node in network if node.op.name == "ClassificationError"]
    for judge in [*judges, *network.roots["criterion"]]:
        for node in judge.inputs:
            if not isinstance(node, Input):
                return node
    raise NetworkError("the network does not say which node is its output", hint="Give it one output node.")


def _below(value: Node) -> Found:
    """Return the components that end in a node, and the node below them."""
    if value.op.name in _SIMPLE:
        return [Component(_SIMPLE[value.op.name], _size(value), _size(value))], value.inputs[0]
    if value.op.name == "Dropout":
        return [], value.inputs[0]
    for find in (_lstm, _both_ways, _product, _affine, _shift, _scale, _splice, _normalized, _prior, _alike):
        found = find(value)
        if found is not None:
            return found
    raise NetworkError(
        f"{value.op.name} '{value.name}' cannot be written to a file of nnet1", where=value.where, hint=_HINT
    )


def _size(node: Node) -> int:
    found = math.prod(node.known_shape)
    if max(node.known_shape, default=1) != found:
        text = f"{node.op.name} '{node.name}' cannot be written to a file of nnet1: it is no vector"
        raise NetworkError(text, where=node.where, hint=_HINT)
    return found


def _values(parameter: Node) -> Values:
    """Return the values of a parameter in Kaldi's order."""
    if parameter.value is None:
        raise NetworkError(f"the parameter '{parameter.name}' has no value", where=parameter.where)
    found = np.asarray(parameter.value, np.float64).T
    return found.reshape(-1) if found.ndim == 2 and found.shape[1] == 1 else found


def _rate(node: Node) -> float:
    return node.learning_rate_multiplier if isinstance(node, Parameter) and node.needs_gradient else 0.0


def _with_one_parameter(value: Node, op_name: str) -> tuple[Node, Node] | None:
    """Return the other input and the parameter of a node of an operation; the parameter is as large as the value."""
    parameters = [node for node in value.inputs if isinstance(node, Parameter)]
    if value.op.name != op_name or len(parameters) != 1 or parameters[0].value is None:
        return None
    (other,) = (node for node in value.inputs if node is not parameters[0])
    return (other, parameters[0]) if parameters[0].value.size == _size(value) == _size(other) else None


def _product(value: Node) -> Found | None:
    if value.op.name != "Times" or not isinstance(value.inputs[0], Parameter):
        return None
    parameter, below = value.inputs
    weights = _values(parameter).reshape(_size(value), _size(below))
    picks = not _rate(parameter) and ((weights == 0) | (weights == 1)).all() and (weights.sum(axis=1) == 1).all()
    if picks:
        places = tuple(weights.argmax(axis=1).tolist())
        return [Component("Copy", *weights.shape, places=places)], below
    numbers = {RATE: _rate(parameter)}
    return [Component("LinearTransform", *weights.shape, {"W": weights}, numbers=numbers)], below


def _affine(value: Node) -> Found | None:
    found = _with_one_parameter(value, "Plus")
    if found is None or found[0].op.name != "Times":
        return None
    product = _product(found[0])
    if product is None or product[0][0].kind != "LinearTransform" or _lstm(found[0]) is not None:
        return None
    (layer,), below = product
    arrays = {**layer.arrays, "b": _values(found[1]).reshape(-1)}
    numbers = {**layer.numbers, BIAS_RATE: _rate(found[1])}
    return [attrs.evolve(layer, kind="AffineTransform", arrays=arrays, numbers=numbers)], below


def _each(kind: str, op_name: str) -> Callable[[Node], Found | None]:
    def find(value: Node) -> Found | None:
        found = _with_one_parameter(value, op_name)
        if found is None:
            return None
        own = {"values": _values(found[1]).reshape(-1)}
        return [Component(kind, _size(value), _size(value), own, numbers={RATE: _rate(found[1])})], found[0]

    return find


_shift, _scale = _each("AddShift", "Plus"), _each("Rescale", "ElementTimes")


def _fixed(kind: str, values: Values) -> Component:
    return Component(kind, values.size, values.size, {"values": values.reshape(-1)}, numbers={RATE: 0.0})


def _normalized(value: Node) -> Found | None:
    if value.op.name != "PerDimMeanVarNormalization":
        return None
    below, mean, inverse = value.inputs
    return [_fixed("Rescale", _values(inverse)), _fixed("AddShift", -_values(mean))], below


def _prior(value: Node) -> Found | None:
    """Scores less the logarithm of a prior that was counted: what decoders take for likelihoods."""
    if value.op.name != "Minus" or value.inputs[1].op.name != "Log":
        return None
    (prior,) = value.inputs[1].inputs
    if prior.framed is not False:
        return None
    return [_fixed("AddShift", -np.log(_values(prior)))], value.inputs[0]


def _splice(value: Node) -> Found | None:
    pieces = value.inputs if value.op.name == "RowStack" else [value]
    if any(node.op.name != "Shift" for node in pieces):
        return None
    below = pieces[0].inputs[0]
    if any(node.inputs[0] is not below or (node.attributes.dim, node.attributes.boundary_mode) != (-1, 0)
           for node in pieces):  # fmt: skip
        return None
    places = tuple(node.attributes.from_offset for node in pieces)
    return [Component("Splice", _size(value), _size(below), places=places)], below


# -- by likeness -----------------------------------------------------------------------------------------------------


def _lstm(value: Node) -> Found | None:
    return _recurrent(value, "LstmProjected", ("",))


def _both_ways(value: Node) -> Found | None:
    return _recurrent(value, "BlstmProjected", ("f.", "b.")) if value.op.name == "RowStack" else None


def _recurrent(value: Node, kind: str, ways: tuple[str, ...]) -> Found | None:
    """Find an LSTM by making one of as many cells; one without a limit of its cells, too."""
    first = value if len(ways) == 1 else value.inputs[0]
    if (
        first.op.name != "Times"
        or not isinstance(first.inputs[0], Parameter)
        or first.inputs[1].op.name != "ElementTimes"
    ):
        return None
    size, cells = _size(first), _size(first.inputs[1])
    shapes = [(4 * cells, 1), (4 * cells, size), (4 * cells,), (cells,), (cells,), (cells,), (size, cells)]
    empty = {way + name: np.zeros(shape) for way in ways for name, shape in zip(LSTM_ARRAYS, shapes, strict=True)}
    for clip in (1.0, 0.0):
        pattern = Component(kind, size * len(ways), 1, empty, numbers={CELL_CLIP: clip, "CellDim": cells})
        found = _like(value, pattern)
        if found is None:
            continue
        nodes, below = found
        arrays = {name: _values(nodes[name]).reshape(-1, *empty[name].shape[1:]) if empty[name].ndim == 1
                  else _values(nodes[name]) for name in empty}  # fmt: skip
        numbers = {"CellDim": float(cells), RATE: _rate(nodes[ways[0] + "Wx"]), BIAS_RATE: _rate(nodes[ways[0] + "b"])}
        numbers[CELL_CLIP] = float(_values(nodes[ways[0] + "most"]).item()) if clip else 0.0
        return [Component(kind, _size(value), _size(below), arrays, numbers=numbers)], below
    return None


def _alike(value: Node) -> Found | None:
    """Find what has no recurrence and is made of several nodes."""
    size = _size(value)
    slopes = Component("ParametricRelu", size, size, {name: np.zeros(size) for name in ("alpha", "beta")})
    for pattern in (slopes, Component("LengthNormComponent", size, size)):
        found = _like(value, pattern)
        if found is not None:
            nodes, below = found
            arrays = {name: _values(nodes[name]).reshape(-1) for name in pattern.arrays}
            return [attrs.evolve(pattern, arrays=arrays)], below
    return None


def _like(value: Node, pattern: Component) -> tuple[dict[str, Node], Node] | None:
    """Compare a node and what is below it with the nodes of a component.

    Returns:
        The nodes by the names that they have in the component, and the node below; None if it is something else.
    """
    made = Network(np.float64)
    given = made.add(Input.make("given", (pattern.given,)))
    top = NodeMaker(made, core_ops().find).add(pattern, given, 1)
    pairs: dict[Node, Node] = {}
    waiting = [(top, value)]
    while waiting:
        wanted, there = waiting.pop()
        if wanted in pairs:
            if pairs[wanted] is not there:
                return None
            continue
        pairs[wanted] = there
        if wanted is given:
            continue
        if wanted.op.name != there.op.name or len(wanted.inputs) != len(there.inputs) or not _agree(wanted, there):
            return None
        waiting += zip(wanted.inputs, there.inputs, strict=True)
    return {wanted.name.partition(".")[2]: there for wanted, there in pairs.items()}, pairs[given]


def _agree(wanted: Node, there: Node) -> bool:
    """Tell whether the attributes of two nodes of one operation agree, but for the shape that delays may name."""
    if wanted.op.name in ("PastValue", "FutureValue"):
        one, other = wanted.attributes, there.attributes
        return bool(
            one.time_step == other.time_step and one.default_hidden_activation == other.default_hidden_activation
        )
    return bool(wanted.attributes == there.attributes)
