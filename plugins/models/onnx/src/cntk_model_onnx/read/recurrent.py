"""LSTM, GRU and RNN: recurrent stacks that run along an axis of their samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import NodeProto

from cntk_model_onnx.read.cells import unrolled
from cntk_model_onnx.read.folding import attributes_of
from cntk_model_onnx.read.shapes import part, tensor, turned, with_shape
from cntk_model_onnx.read.table import reads
from cntk_model_onnx.read.values import Array, Constant, Tensor, Unreadable, Value, is_zero, numbers, operand
from cntk_model_onnx.sizes import are_free

if TYPE_CHECKING:
    from cntk_model_onnx.read.importer import Importer

_GATES = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}
"""Gates in the order of cuDNN (i, f, g, o and r, z, n) as those of ONNX (i, o, f, c and z, r, h)."""

_ACTIVATIONS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}


@reads("LSTM", "GRU", "RNN")
def _recurrent(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Sequence[Value]:
    state_of_cell = len(node.output) > 2 and reader.is_read(node.output[2])
    try:
        if state_of_cell:
            raise Unreadable("its states are read")
        return _stacked(reader, node, inputs)
    except Unreadable as refused:
        try:
            return unrolled(reader, node, inputs)
        except Unreadable as other:
            raise other if state_of_cell else refused from None


def _stacked(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Sequence[Value]:
    """A recurrent stack, which runs along the first axis of its input."""
    kind, given = node.op_type, attributes_of(node)
    value = tensor(inputs[0])
    if given.get("layout", 0) or value.batch != 1 or value.rank != 3 or value.fold != 1:
        raise Unreadable("its input has not steps, samples and elements, in this order")
    cell = _check(kind, given, inputs, value)
    directions = 2 if given.get("direction") == "bidirectional" else 1
    backward = given.get("direction") == "reverse"
    hidden = int(given["hidden_size"])
    parts = _weights(kind, inputs, directions, hidden)
    if backward:  # both ways, of which the one forward has no weights and is left out
        parts = [np.concatenate([np.zeros_like(each), each]) for each in parts]
    stack = _ordered(kind, parts, hidden)
    weights = reader.parameter(Constant(stack), stack, near=f"{node.output[0] or node.name}_weights")
    weights.learning_rate_multiplier, weights.needs_gradient = 1.0, True
    settings: dict[str, Any] = {"hidden_size": hidden, "recurrent_op": cell, "axis": 2}
    settings["bidirectional"] = backward or directions == 2
    made = Tensor(reader.add("OptimizedRNNStack", [weights, value.node], **settings), 1)
    if backward:
        made = part(reader, made, 2, hidden, 2 * hidden)
    apart = Tensor(with_shape(reader, made.node, (made.shape[0], directions, hidden)), 1)
    results: list[Value] = [turned(reader, apart, [0, 2, 1, 3])]
    if len(node.output) > 1 and node.output[1]:
        results.append(_last(reader, apart, directions, backward=backward))
    return results


def _check(kind: str, given: dict[str, Any], inputs: Sequence[Value | None], value: Tensor) -> str:
    """Return the cell.

    Raises:
        Unreadable: it is none of those that a stack has.
    """
    activations = given.get("activations") or _ACTIVATIONS[kind]
    own = activations[: len(_ACTIVATIONS[kind])]
    relu = kind == "RNN" and own == ["Relu"]
    if (own != _ACTIVATIONS[kind] and not relu) or "clip" in given or given.get("input_forget", 0):
        raise Unreadable("its cells have other activations, or are clipped")
    if kind == "GRU" and not given.get("linear_before_reset", 0):
        raise Unreadable("its cells reset the state before the product (linear_before_reset=0)")
    lengths = operand(inputs, 4)
    whole = isinstance(lengths, Constant) and all(each == value.shape[0] for each in lengths.array.reshape(-1))
    if lengths is not None and not whole:
        raise Unreadable("its sequences have lengths")
    for state in inputs[5:7]:
        if isinstance(state, Constant) and state.array.shape[-1:] != (given["hidden_size"],):
            raise Unreadable("its first state does not have the size that it says")
        if state is not None and not (isinstance(state, Constant) and is_zero(state.array)):
            raise Unreadable("it begins with a state that is not 0")
    if (peepholes := operand(inputs, 7)) is not None and not is_zero(numbers(peepholes, "peepholes")):
        raise Unreadable("its cells have peepholes")
    return {"LSTM": "lstm", "GRU": "gru"}.get(kind, "rnnReLU" if relu else "rnnTanh")


def _weights(kind: str, inputs: Sequence[Value | None], directions: int, hidden: int) -> list[Array]:
    """The matrices of inputs and states, and the biases, each of all directions."""
    w, r = (numbers(value, "weights") for value in inputs[1:3])
    gates = len(_GATES[kind])
    if w.ndim != 3 or w.shape[:2] != (directions, gates * hidden) or r.shape != (directions, gates * hidden, hidden):
        raise Unreadable("its weights do not have the sizes that it says")
    bias = operand(inputs, 3)
    b = np.zeros((directions, 2 * gates * hidden)) if bias is None else numbers(bias, "bias")
    if b.shape != (directions, 2 * gates * hidden):
        raise Unreadable("its bias does not have the size that it says")
    return [w, r, b]


def _ordered(kind: str, weights: Sequence[Array], hidden: int) -> Array:
    """All weights in one array, as cuDNN lays them out."""
    w, r, b = weights

    def ordered(array: Array) -> Array:
        return np.asarray(array.reshape(len(_GATES[kind]), hidden, -1)[list(_GATES[kind])].reshape(-1))

    parts = [ordered(each) for one in range(len(w)) for each in (w[one], r[one])]
    parts += [ordered(each) for one in range(len(w)) for each in np.split(b[one], 2)]
    return np.concatenate(parts)


def _last(reader: Importer, value: Tensor, directions: int, *, backward: bool) -> Tensor:
    """The states at the end, ``(directions, N, hidden)``; that of what goes backward is at the first step."""
    steps = value.shape[0]
    rank = len(value.shape)
    found = []
    for direction in range(directions):
        first = backward or direction == 1
        if are_free([steps]) and not first:
            place: dict[str, Any] = {"begin": (-1,), "end": (0,), "axis": (rank,)}
        else:
            index = 0 if first else int(steps) - 1
            place = {"begin": (index,), "end": (index + 1,), "axis": (rank,)}
        end = reader.add("Slice", [value.node], **place)
        found.append(reader.add("Slice", [end], begin=(direction,), end=(direction + 1,), axis=(rank - 1,)))
    joined = found[0] if directions == 1 else reader.add("RowStack", found, axis=2)
    return Tensor(with_shape(reader, joined, (directions, value.shape[-1])), 1)
