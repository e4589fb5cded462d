"""LSTM, GRU and RNN step by step, where they have more than a recurrent stack: lengths, states, other activations.

The formulas are those of "LSTM", "GRU" and "RNN" in ONNX's list of operators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from onnx import NodeProto

from cntk_model_onnx.read.elementwise import chosen, of_two
from cntk_model_onnx.read.folding import attributes_of
from cntk_model_onnx.read.products import times
from cntk_model_onnx.read.shapes import joined, length_of, part, squeezed, tensor, turned, unsqueezed
from cntk_model_onnx.read.values import Array, Constant, Tensor, Unreadable, Value, numbers

if TYPE_CHECKING:
    from cntk_model_onnx.read.importer import Importer

_MOST_STEPS = 512
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_ACTIVATIONS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}
_PLAIN = {
    "relu": "RectifiedLinear",
    "tanh": "Tanh",
    "sigmoid": "Sigmoid",
    "softsign": "SoftSign",
    "softplus": "SoftPlus",
}
_ALPHAS = {"leakyrelu": 0.01, "elu": 1.0, "hardsigmoid": 0.2, "affine": 1.0, "scaledtanh": 1.0, "thresholdedrelu": 1.0}
_BETAS = {"hardsigmoid": 0.5, "affine": 0.0, "scaledtanh": 1.0}

Function = Callable[[Value], Value]


def unrolled(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> list[Value]:
    """Read a recurrent operation as the steps that it takes, and return its outputs.

    Raises:
        Unreadable: how many steps it takes is known only with the data, or its weights are.
    """
    given = attributes_of(node)
    inputs = [*inputs, *[None] * (8 - len(inputs))]
    value = tensor(inputs[0])
    if value.rank != 3 or value.fold != 1:
        raise Unreadable("its input has not steps, samples and elements")
    if given.get("layout", 0):
        value = turned(reader, value, [1, 0, 2])
        for place in (5, 6):
            inputs[place] = _swapped(reader, inputs[place])
    steps = length_of(value, 0)
    if not 0 < steps <= _MOST_STEPS:
        raise Unreadable(f"it takes {steps} steps")
    ways = {"bidirectional": [False, True], "reverse": [True]}.get(given.get("direction", "forward"), [False])
    if any(isinstance(each, Constant) and len(each.array) != len(ways) for each in (*inputs[1:4], inputs[7])):
        raise Unreadable("its weights are not of the directions that it says")
    runs = [_Direction(reader, node, given, inputs, number).run(value, back) for number, back in enumerate(ways)]
    found = [joined(reader, [unsqueezed(reader, rows, 1) for rows, *_ in runs], 1)]
    for place in (1, 2) if node.op_type == "LSTM" else (1,):
        found.append(joined(reader, [unsqueezed(reader, run[place], 0) for run in runs], 0))
    if given.get("layout", 0):
        found = [turned(reader, found[0], [2, 0, 1, 3]), *(turned(reader, each, [1, 0, 2]) for each in found[1:])]
    return list(found)


def _swapped(reader: Importer, value: Value | None) -> Value | None:
    if isinstance(value, Constant):
        return Constant(value.array.swapaxes(0, 1))
    return None if value is None else turned(reader, value, [1, 0, 2])


@attrs.frozen
class _State:
    """What a cell holds: its output, and for LSTM what only it sees."""

    output: Value
    cell: Value


class _Direction:
    """One direction of a recurrent operation."""

    def __init__(
        self, reader: Importer, node: NodeProto, given: dict[str, Any], inputs: Sequence[Value | None], number: int
    ) -> None:
        self._reader, self._given, self._kind = reader, given, node.op_type
        self._hidden = int(given["hidden_size"])
        self._lengths = inputs[4]
        rows = _GATES[self._kind] * self._hidden
        w, r = numbers(inputs[1], "weights"), numbers(inputs[2], "weights")
        b = np.zeros((number + 1, 2 * rows)) if inputs[3] is None else numbers(inputs[3], "bias")
        p = np.zeros((number + 1, 3 * self._hidden)) if inputs[7] is None else numbers(inputs[7], "peepholes")
        self._w, self._r = (Constant(np.ascontiguousarray(each[number].T)) for each in (w, r))
        self._wb, self._rb = b[number][:rows], b[number][rows:]
        self._peepholes = [Constant(each) for each in np.split(p[number], 3)] if np.any(p) else []
        self._functions = self._activations(number)
        self._begin = [self._initial(inputs[place], number) for place in (5, 6)]

    def _activations(self, number: int) -> list[Function]:
        own = _ACTIVATIONS[self._kind]
        names = self._given.get("activations") or own * (number + 1)
        alphas, betas = (iter(self._given.get(f"activation_{which}", [])) for which in ("alpha", "beta"))
        found = []
        for name in names[: len(own) * (number + 1)]:
            lower = name.lower()
            alpha = next(alphas, _ALPHAS[lower]) if lower in _ALPHAS else 0.0
            beta = next(betas, _BETAS[lower]) if lower in _BETAS else 0.0
            found.append(self._function(lower, alpha, beta))
        return found[-len(own) :]

    def _function(self, name: str, alpha: float, beta: float) -> Function:
        if name in _PLAIN:
            return lambda value: self._one(_PLAIN[name], value)
        if name in ("leakyrelu", "elu", "hardsigmoid"):
            op = {"leakyrelu": "LeakyReLU", "elu": "ExponentialLinearUnit", "hardsigmoid": "HardSigmoid"}[name]
            more = {"beta": beta} if name == "hardsigmoid" else {}
            return lambda value: self._one(op, value, alpha=alpha, **more)
        if name == "affine":
            return lambda value: self.plus(self.element_times(value, _number(alpha)), _number(beta))
        if name == "scaledtanh":
            return lambda value: self.element_times(
                self._one("Tanh", self.element_times(value, _number(beta))), _number(alpha)
            )
        if name == "thresholdedrelu":
            return lambda value: self.element_times(value, of_two(self._reader, "Greater", value, _number(alpha)))
        raise Unreadable(f"its activation '{name[:40]}' is not known")

    def _initial(self, value: Value | None, number: int) -> Value:
        if value is None:
            return Constant(np.zeros((1, self._hidden)))
        if isinstance(value, Constant):
            if value.array.shape[-1] != self._hidden:
                raise Unreadable("its first state does not have the size that it says")
            return Constant(value.array[number])
        return squeezed(self._reader, part(self._reader, value, 0, number, number + 1), [0])

    # -- arithmetic, of constants too: the first state often is one -----------------------------------------

    def _one(self, op: str, value: Value, **settings: Any) -> Tensor:
        found = value if isinstance(value, Tensor) else None
        if found is None:
            raise Unreadable("its state does not depend on the data")
        return Tensor(self._reader.add(op, [found.node], **settings), found.batch, found.fold)

    def _both(self, op: str, compute: Callable[[Array, Array], Array], left: Value, right: Value) -> Value:
        if isinstance(left, Constant) and isinstance(right, Constant):
            return Constant(compute(left.array, right.array))
        return of_two(self._reader, op, left, right)

    def plus(self, left: Value, right: Value) -> Value:
        return self._both("Plus", np.add, left, right)

    def element_times(self, left: Value, right: Value) -> Value:
        return self._both("ElementTimes", np.multiply, left, right)

    def _of_state(self, state: Value, weights: Constant) -> Value:
        if isinstance(state, Constant):
            return Constant(state.array @ weights.array)
        return times(self._reader, state, weights, weights.array)

    def _gate(self, value: Value, number: int) -> Value:
        begin = number * self._hidden
        if isinstance(value, Constant):
            return Constant(value.array[..., begin : begin + self._hidden])
        return part(self._reader, value, -1, begin, begin + self._hidden)

    def _clipped(self, value: Value) -> Value:
        limit = self._given.get("clip")
        if not limit or not isinstance(value, Tensor):
            return value
        limits = [self._reader.number(-limit), self._reader.number(limit)]
        return Tensor(self._reader.add("Clip", [*limits, value.node]), value.batch, value.fold)

    # -- steps ----------------------------------------------------------------------------------------------

    def run(self, value: Tensor, backward: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Return the outputs of all steps ``(T, N, H)``, and the last output and state."""
        reader, steps = self._reader, length_of(value, 0)
        bias = self._wb if self._kind == "GRU" else self._wb + self._rb
        driven = of_two(reader, "Plus", times(reader, value, self._w, self._w.array), Constant(bias))
        state = _State(*self._begin)
        rows: list[Tensor] = []
        for step in reversed(range(steps)) if backward else range(steps):
            x = squeezed(reader, part(reader, driven, 0, step, step + 1), [0])
            new = {"LSTM": self._lstm, "GRU": self._gru, "RNN": self._rnn}[self._kind](x, state)
            row, state = self._kept(step, state, new)
            rows.append(unsqueezed(reader, row, 0))
        ends = [self._tensor(each, rows[0]) for each in (state.output, state.cell)]
        return joined(reader, rows[::-1] if backward else rows, 0), ends[0], ends[1]

    def _kept(self, step: int, old: _State, new: _State) -> tuple[Tensor, _State]:
        """What a step gives, and the state after it: beyond the end of a sequence it stays."""
        if self._lengths is None:
            return tensor(new.output), new
        if isinstance(self._lengths, Constant):
            there: Value = Constant((self._lengths.array > step).reshape(-1, 1))
        else:
            longer = of_two(self._reader, "Greater", self._lengths, _number(step))
            there = unsqueezed(self._reader, longer, 1)
        row = chosen(self._reader, there, new.output, _number(0.0))
        output = chosen(self._reader, there, new.output, old.output)
        if self._kind != "LSTM":
            return row, _State(output, output)
        return row, _State(output, chosen(self._reader, there, new.cell, old.cell))

    def _tensor(self, value: Value, like: Tensor) -> Tensor:
        if isinstance(value, Tensor):
            return value
        return squeezed(
            self._reader, of_two(self._reader, "Plus", of_two(self._reader, "Minus", like, like), value), [0]
        )

    def _rnn(self, x: Tensor, state: _State) -> _State:
        found = self._functions[0](self._clipped(self.plus(x, self._of_state(state.output, self._r))))
        return _State(found, found)

    def _gru(self, x: Tensor, state: _State) -> _State:
        """Gates z, r, h in this order."""
        f, g = self._functions
        h, size = state.output, self._hidden
        r, rb = self._r.array, self._rb
        both = self.plus(self._of_state(h, Constant(r[:, : 2 * size].copy())), Constant(rb[: 2 * size]))
        z = f(self._clipped(self.plus(self._gate(x, 0), self._gate(both, 0))))
        reset = f(self._clipped(self.plus(self._gate(x, 1), self._gate(both, 1))))
        last, bias = Constant(r[:, 2 * size :].copy()), Constant(rb[2 * size :])
        if self._given.get("linear_before_reset", 0):
            inner = self.element_times(reset, self.plus(self._of_state(h, last), bias))
        else:
            inner = self.plus(self._of_state(self.element_times(reset, h), last), bias)
        new = g(self._clipped(self.plus(self._gate(x, 2), inner)))
        # (1 - z) * new + z * h
        found = self.plus(new, self.element_times(z, self.plus(h, self.element_times(new, _number(-1.0)))))
        return _State(found, found)

    def _lstm(self, x: Tensor, state: _State) -> _State:
        """Gates i, o, f, c in this order; peepholes are those of i, o, f."""
        f, g, h = self._functions
        driven = self.plus(x, self._of_state(state.output, self._r))
        i, o, forget, c = (self._gate(driven, number) for number in range(4))
        if self._peepholes:
            i = self.plus(i, self.element_times(self._peepholes[0], state.cell))
            forget = self.plus(forget, self.element_times(self._peepholes[2], state.cell))
        i = f(self._clipped(i))
        kept = self.plus(_number(1.0), self.element_times(i, _number(-1.0)))
        keep = kept if self._given.get("input_forget", 0) else f(self._clipped(forget))
        cell = self.plus(self.element_times(keep, state.cell), self.element_times(i, g(self._clipped(c))))
        if self._peepholes:
            o = self.plus(o, self.element_times(self._peepholes[1], cell))
        return _State(self.element_times(f(self._clipped(o)), h(cell)), cell)


def _number(value: float) -> Constant:
    return Constant(np.full(1, value))
