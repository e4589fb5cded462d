"""Loops that are an LSTM, a GRU or a plain recurrence, as ONNX's operations of these names.

A loop is recognized by what it computes: the nodes between what its delays hold and what they give, whoever built them.
What goes into a gate is a sum; its parts are products with the state, products with values outside, biases, peepholes.
Formulas: "LSTM", "GRU" and "RNN" in ONNX's list of operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import attrs
import numpy as np

from cntk_core.api import Node
from cntk_core.api.engines import Loop
from cntk_model_onnx.export.graph import Refused
from cntk_model_onnx.export.scope import Scope, Value
from cntk_model_onnx.export.sequences import initial_state
from cntk_model_onnx.export.table import ALIASES
from cntk_model_onnx.sizes import are_free

_ACTIVATIONS = {"Sigmoid": "Sigmoid", "StableSigmoid": "Sigmoid", "Tanh": "Tanh", "RectifiedLinear": "Relu"}

ValueOf = Callable[[Node], Value]


@attrs.frozen
class _Part:
    """A part of what goes into a gate: some elements of a value, or of a product with it.

    Attributes:
        source: the value; a parameter for a bias.
        weights: of a product, ``(elements of the value, elements)``; of a peephole, a number for each element.
        begin, end: which elements.
        scale: a number that the value is multiplied by before the product, as self-stabilization does.
    """

    source: Node
    weights: Node | None
    begin: int
    end: int
    scale: Node | None = None


@attrs.define
class _Gate:
    """What goes into a gate, added up."""

    biases: list[_Part] = attrs.field(factory=list)
    products: list[_Part] = attrs.field(factory=list)
    recurrent: list[_Part] = attrs.field(factory=list)
    peepholes: list[_Part] = attrs.field(factory=list)


@attrs.frozen
class _Recognized:
    """A loop that is one operation.

    Attributes:
        kind: of ONNX.
        output: what the loop gives.
        delays: of the output, and for LSTM of the cell.
        gates: in ONNX's order.
        activations: for the operation, where they are others than its own.
        before_reset: of a GRU, whether the state is multiplied by weights before it is reset.
    """

    kind: str
    output: Node
    delays: Sequence[Node]
    gates: Sequence[_Gate]
    activations: Sequence[str] = ()


def write_cells(scope: Scope, loop: Loop, value_of: ValueOf) -> Mapping[Node, Value] | None:
    """Write a loop as one operation, and return the value that it gives; None if it is none.

    Args:
        scope: where.
        loop: what.
        value_of: the value of a node outside of the loop.

    Raises:
        Refused: what it reads cannot be written.
    """
    if any(abs(delay.attributes.time_step) != 1 or len(delay.known_shape) != 1 for delay in loop.delays):
        return None
    found = next(filter(None, (match(loop) for match in (_lstm, _gru, _rnn))), None)
    if found is None or {_seen(node) for node in loop.writes} != {found.output}:
        return None
    return _Writer(scope, loop, value_of, found).run()


# -- recognizing ------------------------------------------------------------------------------------------


def _seen(node: Node) -> Node:
    """A node without those that change nothing."""
    while node.op.name in ALIASES:
        node = node.inputs[0]
    return node


def _pairs(node: Node, op: str) -> Iterator[tuple[Node, Node]]:
    """The operands of a sum or product, in both orders."""
    node = _seen(node)
    if node.op.name == op and all(child.known_shape == node.known_shape for child in node.inputs):
        one, other = map(_seen, node.inputs)
        yield one, other
        yield other, one


def _activated(node: Node, *names: str) -> Node | None:
    """What an activation is computed of, if it is one of these."""
    node = _seen(node)
    return _seen(node.inputs[0]) if _ACTIVATIONS.get(node.op.name) in names else None


def _gate_of(node: Node | None, loop: Loop, state: Node, cells: Sequence[Node] = ()) -> _Gate | None:
    """The parts of a sum; None if the loop goes through another way than products with the state and peepholes."""
    if node is None or len(node.known_shape) != 1:
        return None
    gate = _Gate()
    waiting = [(node, 0, node.known_shape[0])]
    while waiting:
        node, begin, end = waiting.pop()
        node = _seen(node)
        if not node.framed and node.value is not None:
            gate.biases.append(_Part(node, None, begin, end))
            if len(node.known_shape) != 1 or node.known_shape[0] < end:
                return None
        elif node.op.name == "Plus" and all(child.known_shape == node.known_shape for child in node.inputs):
            waiting += [(child, begin, end) for child in node.inputs[::-1]]
        elif node.op.name == "Slice" and (cut := _cut_of(node)) is not None:
            waiting.append((node.inputs[0], cut + begin, cut + end))
        elif (product := _product_of(node, loop)) is not None:
            weights, source, scale = product
            own = gate.recurrent if source is state else gate.products
            own.append(_Part(source, weights, begin, end, scale))
        elif any(cell in map(_seen, node.inputs) for cell in cells) and _is_peephole(node):
            gate.peepholes.append(
                _Part(node, next(child for child in node.inputs if child.value is not None), begin, end)
            )
        elif node not in loop.nodes and node.framed:
            gate.products.append(_Part(node, None, begin, end))
        else:
            return None
    inside = set(loop.nodes)
    return None if any(part.source in inside for part in gate.products) else gate


def _cut_of(node: Node) -> int | None:
    """Where a Slice of vectors begins."""
    attributes, (size, *more) = node.attributes, node.inputs[0].known_shape
    if more or are_free([size]) or len(attributes.axis) != 1 or tuple(attributes.stride) != (1,):
        return None
    begin = int(attributes.begin[0])
    return begin + size if begin < 0 else begin


def _product_of(node: Node, loop: Loop) -> tuple[Node, Node, Node | None] | None:
    """The weights of a product, the vectors that it is of and a number for them; sparse inputs stay as they are."""
    if node.op.name != "Times" or len(node.inputs) != 2:
        return None
    weights, source = node.inputs[0], _seen(node.inputs[1])
    if weights.framed or weights.value is None or len(weights.known_shape) != 2 or len(source.known_shape) != 1:
        return None
    scale = None
    if source in loop.nodes and source.op.name == "ElementTimes":
        for one, other in (source.inputs, source.inputs[::-1]):
            if not one.framed and one.known_shape == (1,) and other.framed:
                scale, source = one, _seen(other)
    return None if getattr(source, "sparse", False) or not source.framed else (weights, source, scale)


def _is_peephole(node: Node) -> bool:
    return (
        node.op.name == "ElementTimes"
        and any(child.value is not None and child.known_shape == node.known_shape for child in node.inputs)
        and not all(child.value is not None for child in node.inputs)
    )


def _lstm(loop: Loop) -> _Recognized | None:
    if len(loop.delays) != 2:
        return None
    for dh, dc in (loop.delays, loop.delays[::-1]):
        h, c = _seen(dh.inputs[0]), _seen(dc.inputs[0])
        for gate, shown in _pairs(h, "ElementTimes"):
            o = _activated(gate, "Sigmoid")
            if o is None or _activated(shown, "Tanh") is not c:
                continue
            found = _cell_gates(c, dc)
            if found is not None:
                i, forget, candidate = found
                gates = [_gate_of(i, loop, dh, [dc]), _gate_of(o, loop, dh, [c])]
                gates += [_gate_of(forget, loop, dh, [dc]), _gate_of(candidate, loop, dh)]
                whole = [gate for gate in gates if gate is not None]
                return _Recognized("LSTM", h, [dh, dc], whole) if len(whole) == 4 else None
    return None


def _cell_gates(c: Node, dc: Node) -> tuple[Node, Node, Node] | None:
    """Of ``c = sigmoid(f) * c' + sigmoid(i) * tanh(g)`` what i, f and g are."""
    for kept, taken in _pairs(c, "Plus"):
        forgets = [_activated(gate, "Sigmoid") for gate, held in _pairs(kept, "ElementTimes") if held is dc]
        takes = [
            (_activated(gate, "Sigmoid"), _activated(new, "Tanh"))
            for gate, new in _pairs(taken, "ElementTimes")
            if new is not dc
        ]
        for forget in forgets:
            for i, candidate in takes:
                if forget is not None and i is not None and candidate is not None:
                    return i, forget, candidate
    return None


def _gru(loop: Loop) -> _Recognized | None:
    """``h = (1 - z) * tanh(... + (r * h') @ H) + z * h'``, where z and r are sigmoids."""
    if len(loop.delays) != 1:
        return None
    (dh,) = loop.delays
    h = _seen(dh.inputs[0])
    for new, old in _pairs(h, "Plus"):
        keeps = [gate for gate, held in _pairs(old, "ElementTimes") if held is dh]
        for rest, candidate in _pairs(new, "ElementTimes"):
            inside = _activated(candidate, "Tanh")
            if not keeps or inside is None or not _is_rest(rest, keeps[0]):
                continue
            reset = _reset_state(inside, dh, loop)
            if reset is None:
                continue
            state, r = reset
            gates = [_gate_of(_activated(keeps[0], "Sigmoid"), loop, dh), _gate_of(_activated(r, "Sigmoid"), loop, dh)]
            gates.append(_gate_of(inside, loop, state))
            whole = [gate for gate in gates if gate is not None]
            if len(whole) == 3:
                return _Recognized("GRU", h, [dh], whole)
    return None


def _is_rest(node: Node, gate: Node) -> bool:
    """Whether a node is 1 minus a gate."""
    if node.op.name != "Minus" or _seen(node.inputs[1]) is not gate:
        return False
    ones = _seen(node.inputs[0])
    if ones.op.name == "ConstantOp":
        return bool(ones.attributes.fill_value == 1.0)
    return ones.value is not None and bool(np.all(ones.value == 1.0))


def _reset_state(node: Node, dh: Node, loop: Loop) -> tuple[Node, Node] | None:
    """The product of the state and the reset gate that goes into a candidate, and that gate."""
    waiting = [node]
    while waiting:
        node = _seen(waiting.pop())
        if node.op.name in ("Plus", "Slice"):
            waiting += [child for child in node.inputs if child in loop.nodes or _seen(child) in loop.nodes]
        elif node.op.name == "Times":
            state = _seen(node.inputs[1])
            for held, gate in _pairs(state, "ElementTimes"):
                if held is dh:
                    return state, gate
    return None


def _rnn(loop: Loop) -> _Recognized | None:
    if len(loop.delays) != 1:
        return None
    (dh,) = loop.delays
    h = _seen(dh.inputs[0])
    gate = _gate_of(_activated(h, "Sigmoid", "Tanh", "Relu"), loop, dh)
    return None if gate is None else _Recognized("RNN", h, [dh], [gate], [_ACTIVATIONS[h.op.name]])


# -- writing ----------------------------------------------------------------------------------------------


class _Writer:
    """Writes an operation, and what makes its weights of the parameters of the network."""

    def __init__(self, scope: Scope, loop: Loop, value_of: ValueOf, found: _Recognized) -> None:
        self._scope, self._loop, self._value_of, self._found = scope, loop, value_of, found
        self._hidden = int(found.output.known_shape[0])
        self._axis = loop.nodes[0].axis
        self._sources = list(dict.fromkeys(part.source for gate in found.gates for part in gate.products))

    def run(self) -> Mapping[Node, Value] | None:
        scope, found = self._scope, self._found
        values = [self._value_of(node) for node in self._sources]
        if not values or any(value.lead != 2 or value.axis != self._axis or value.index for value in values):
            return None
        scope.graph.near = found.output.name
        flat = [scope.flat(value) for value in values]
        x = flat[0] if len(flat) == 1 else scope.op("Concat", *flat, axis=2)
        x = scope.op("Transpose", x, perm=[1, 0, 2])
        weights = [self._stacked(self._input_weights(gate) for gate in found.gates)]
        weights.append(self._stacked(self._recurrent_weights(gate) for gate in found.gates))
        weights.append(self._biases())
        states = [self._state(delay) for delay in found.delays]
        inputs = [x, *weights, self._lengths(), *states]
        if any(gate.peepholes for gate in found.gates):
            inputs.append(self._peepholes())
        settings = {"activations": list(found.activations)} if found.activations else {}
        direction = "reverse" if self._loop.direction == -1 else "forward"
        y = scope.op(found.kind, *inputs, hidden_size=self._hidden, direction=direction, **settings)
        name = scope.op("Transpose", scope.op("Squeeze", y, scope.ints(1)), perm=[1, 0, 2])
        name = scope.graph.name_last(name, found.output.name, 0)
        value = Value(name, found.output.known_shape, 2, self._axis)
        return dict.fromkeys([found.output, *self._loop.writes], value)

    def _lengths(self) -> str:
        try:
            return self._scope.op("Cast", self._scope.lengths(self._axis), to=6)
        except Refused:
            if self._loop.direction == -1:
                raise
            return ""  # what is beyond the end of a sequence means nothing

    def _state(self, delay: Node) -> str:
        like = Value(self._scope.axes[self._axis].like, delay.known_shape, 2, self._axis)
        given = [like, *(self._value_of(child) for child in delay.inputs[1:])]
        return self._scope.op("Unsqueeze", initial_state(self._scope, delay, given, like), self._scope.ints(0))

    def _stacked(self, gates: Iterator[str]) -> str:
        """Matrices ``(elements, hidden)`` of gates as ``(1, gates * hidden, elements)``."""
        scope = self._scope
        parts = list(gates)
        joined = parts[0] if len(parts) == 1 else scope.op("Concat", *parts, axis=1)
        return scope.op("Unsqueeze", scope.op("Transpose", joined, perm=[1, 0]), scope.ints(0))

    def _sum(self, parts: Sequence[str], zeros: Sequence[int]) -> str:
        if not parts:
            return self._scope.numbers(np.zeros(zeros))
        total = parts[0]
        for part in parts[1:]:
            total = self._scope.op("Add", total, part)
        return total

    def _matrix(self, part: _Part) -> str:
        if part.weights is None:  # elements of a value as they are
            size = int(part.source.known_shape[0])
            return self._scope.numbers(np.eye(size)[:, part.begin : part.end])
        name = self._value_of(part.weights).name
        if part.scale is not None:
            name = self._scope.op("Mul", name, self._value_of(part.scale).name)
        if (part.begin, part.end) == (0, part.weights.known_shape[1]):
            return name
        return self._scope.sliced(name, 1, part.begin, part.end)

    def _input_weights(self, gate: _Gate) -> str:
        rows = [
            self._sum(
                [self._matrix(part) for part in gate.products if part.source is source],
                (int(source.known_shape[0]), self._hidden),
            )
            for source in self._sources
        ]
        return rows[0] if len(rows) == 1 else self._scope.op("Concat", *rows, axis=0)

    def _recurrent_weights(self, gate: _Gate) -> str:
        return self._sum([self._matrix(part) for part in gate.recurrent], (self._hidden, self._hidden))

    def _vector(self, node: Node, begin: int, end: int) -> str:
        name = self._value_of(node).name
        return name if (begin, end) == (0, node.known_shape[0]) else self._scope.sliced(name, 0, begin, end)

    def _biases(self) -> str:
        """``(1, 2 * gates * hidden)``: those of inputs, then those of states, which are 0."""
        zeros = [self._hidden]
        own = [
            self._sum([self._vector(part.source, part.begin, part.end) for part in gate.biases], zeros)
            for gate in self._found.gates
        ]
        rest = self._scope.numbers(np.zeros(self._hidden * len(own)))
        return self._scope.op("Unsqueeze", self._scope.op("Concat", *own, rest, axis=0), self._scope.ints(0))

    def _peepholes(self) -> str:
        own = [
            self._sum(
                [self._vector(part.weights, part.begin, part.end) for part in gate.peepholes if part.weights],
                [self._hidden],
            )
            for gate in self._found.gates[:3]
        ]
        return self._scope.op("Unsqueeze", self._scope.op("Concat", *own, axis=0), self._scope.ints(0))
