"""Operations along sequences: delays outside of loops, frames chosen, moved and made, attention, recurrent stacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from cntk_core.api import Node, elements, is_delay
from cntk_model_onnx.export.graph import Refused
from cntk_model_onnx.export.scope import Frames, Scope, Value, plain
from cntk_model_onnx.export.table import writes

_ABSENT = -1e30
_PASSED_ON = {"ReconcileDynamicAxis", "Pass", "StopGradient", "Reshape", "Slice", "BroadcastLike"}


def initial_state(scope: Scope, node: Node, values: Sequence[Value], like: Value) -> str:
    """Return what stands beyond the ends of the sequences of a delay, ``(N, *shape)``; ``like`` has the samples."""
    shape = plain(node.known_shape)
    first = attrs.evolve(like, lead=1)
    if len(values) < 2:
        value = Value(scope.number(node.attributes.default_hidden_activation), ())
        return scope.expanded(value, shape, first)
    state = values[1]
    if state.lead == 2:
        if node.attributes.time_step > 1:
            raise Refused("its initial state is a sequence, and it looks several frames away")
        name = last_frames(scope, state) if node.op.traits.delay == 1 else _first_frames(scope, state)
        state = attrs.evolve(state, name=name, lead=1)
    if elements(state.shape) != 1 and state.shape != node.known_shape:
        name = scope.reshape(state.name, state.lead, shape)
        state = attrs.evolve(state, name=name, shape=node.known_shape)
    elif elements(state.shape) == 1 and len(state.shape) != 1:
        state = attrs.evolve(state, name=scope.reshape(state.name, state.lead, [1]), shape=(1,))
    return scope.expanded(state, shape, first)


def _first_frames(scope: Scope, value: Value) -> str:
    return scope.op("Squeeze", scope.sliced(value.name, 1, 0, 1), scope.ints(1))


def last_frames(scope: Scope, value: Value) -> str:
    """Return the last frame of each sequence."""
    last = scope.op("Sub", scope.lengths(value.axis), scope.ints(1))
    return scope.op("GatherND", value.name, scope.op("Unsqueeze", last, scope.ints(1)), batch_dims=1)


@writes("PastValue", "FutureValue")
def _delay(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    value, step = values[0], node.attributes.time_step
    if value.lead != 2:
        raise Refused("its input has no sequences")
    state = scope.op("Unsqueeze", initial_state(scope, node, values, value), scope.ints(1))
    return delayed(scope, value, state, step * node.op.traits.delay)


def delayed(scope: Scope, value: Value, state: str, shift: int) -> str:
    """Return frames from so many steps before, with a state ``(N, 1, *shape)`` where there are none."""
    outside = [state] * abs(shift)
    if shift > 0:
        joined = scope.op("Concat", *outside, value.name, axis=1)
        count = scope.op("Shape", value.name, start=1, end=2)
        return scope.op("Slice", joined, scope.ints(0), count, scope.ints(1))
    mask = scope.op("Unsqueeze", scope.mask(value.axis), scope.ints(*range(2, 2 + len(value.shape))))
    inside = scope.op("Where", mask, value.name, state)
    return scope.sliced(scope.op("Concat", inside, *outside, axis=1), 1, -shift)


@writes("Shift")
def _shift(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    value, boundary = values
    attributes = node.attributes
    if attributes.dim != -1 or attributes.boundary_mode != -1 or boundary.lead == 2:
        raise Refused("only a shift along sequences, with one boundary value, can be written", "Use PastValue.")
    if not attributes.from_offset:
        return value.name
    shape = boundary.shape
    while len(shape) > len(value.shape) and shape[0] == 1:
        shape = shape[1:]
    name = boundary.name if shape == boundary.shape else scope.reshape(boundary.name, boundary.lead, shape)
    fitting = attrs.evolve(boundary, name=name, shape=shape)
    state = scope.expanded(fitting, plain(value.shape), attrs.evolve(value, lead=1))
    return delayed(scope, value, scope.op("Unsqueeze", state, scope.ints(1)), -attributes.from_offset)


# -- frames chosen and moved ------------------------------------------------------------------------------


@writes("Where")
def _where(scope: Scope, node: Node, values: Sequence[Value]) -> Value:
    condition = values[0]
    if condition.lead != 2:
        raise Refused("its input has no sequences")
    end = chosen_end(node)
    if end is not None:
        return _one_frame(scope, node, condition, last=end)
    rows = scope.where_there(attrs.evolve(condition, name=scope.flat(condition), shape=(1,)), 0.0)
    reached = _reached(scope, scope.op("Squeeze", rows, scope.ints(2)))
    lengths = scope.op("ReduceMax", reached, scope.ints(1), keepdims=0)
    zero, one = (scope.graph.store.constant(number) for number in (0, 1))
    longest = scope.op("ReduceMax", lengths, scope.ints(0), keepdims=0)
    # Before a frame that is emitted stand those until which no more had been than before it.
    before = scope.op(
        "LessOrEqual", scope.op("Unsqueeze", reached, scope.ints(2)), scope.op("Range", zero, longest, one)
    )
    found = scope.op("ReduceSum", scope.op("Cast", before, to=7), scope.ints(1), keepdims=0)
    last = scope.op("Sub", scope.op("Shape", condition.name, start=1, end=2), scope.ints(1))
    name = scope.op("Unsqueeze", scope.to_numbers(scope.op("Min", found, last)), scope.ints(2))
    scope.axes[node.axis] = Frames(2, name, lengths)
    return Value(name, (1,), 2, node.axis)


_NEARLY = 1.0 - 2.0**-23
"""Of a sum of fractions this part counts, as in Where."""


def _reached(scope: Scope, counts: str) -> str:
    """How many frames were emitted up to each: numbers ``(N, T)``, which are not negative, add up."""
    store = scope.graph.store
    total = scope.op("CumSum", scope.op("Cast", counts, to=11), store.constant(1))
    whole = scope.op("Ceil", scope.op("Mul", total, store.constant(_NEARLY, np.float64)))
    numbers = scope.op("Cast", whole, to=7)
    earlier = scope.op("Pad", scope.sliced(numbers, 1, 0, -1), scope.ints(0, 1, 0, 0), store.constant(0))
    new = scope.op("Max", scope.op("Sub", numbers, earlier), store.constant(0))
    return scope.op("CumSum", new, store.constant(1))


def _one_frame(scope: Scope, node: Node, condition: Value, *, last: bool) -> Value:
    if last:
        place = scope.op("Sub", scope.lengths(condition.axis), scope.ints(1))
    else:
        sizes = scope.op("Shape", condition.name, start=0, end=1)
        place = scope.op("Expand", scope.ints(0), sizes)
    name = scope.op("Unsqueeze", scope.to_numbers(place), scope.ints(1))
    scope.axes[node.axis] = Frames(1, name)
    return Value(name, (1,), 1, node.axis)


def chosen_end(node: Node) -> bool | None:
    """Whether a node chooses the last frame of each sequence (True) or the first (False); None if it does neither."""
    flags = node.inputs[0]
    if not is_delay(flags) or len(flags.inputs) > 1:
        return None
    attributes = flags.attributes
    if attributes.time_step != 1 or not attributes.default_hidden_activation or not _is_zero(flags.inputs[0]):
        return None
    return flags.op.traits.delay == -1


def _is_zero(node: Node) -> bool:
    """Whether all elements of a value are 0, whatever the data."""
    if node.value is not None:
        return not np.any(node.value)
    if node.op.name in _PASSED_ON:
        return _is_zero(node.inputs[0])
    return node.op.name == "ElementTimes" and any(_is_zero(child) for child in node.inputs)


@writes("PackedIndex")
def _packed_index(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    return values[1].name


def _places(scope: Scope, index: Value) -> str:
    """Indices as whole numbers ``(N, 1)`` or ``(N, T, 1)``."""
    return scope.op("Cast", scope.flat(index), to=7)


@writes("GatherPacked")
def _gather_packed(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    index, value = values
    if value.lead != 2 or not index.lead:
        raise Refused("its second input has no sequences")
    return scope.op("GatherND", value.name, _places(scope, index), batch_dims=1)


@writes("ScatterPacked")
def _scatter_packed(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    target, index, frames = values
    if target.lead != 2:
        raise Refused("its first input has no sequences")
    sizes, shape = scope.lead_sizes(target), plain(frames.shape)
    places, updates = _places(scope, index), frames.name
    if index.lead == 1:
        places, updates = (scope.op("Unsqueeze", name, scope.ints(1)) for name in (places, updates))
    else:  # what is beyond the end of a sequence goes to a frame more, which is cut off
        mask = scope.op("Unsqueeze", scope.mask(index.axis), scope.ints(2))
        places = scope.op("Where", mask, places, scope.op("Shape", target.name, start=1, end=2))
    longer = scope.op("Add", sizes, scope.ints(0, 1))
    zeros = scope.op("Expand", scope.number(0), scope.op("Concat", longer, scope.ints(*shape), axis=0))
    zero, one = (scope.graph.store.constant(number) for number in (0, 1))
    rows = scope.op("Range", zero, scope.op("Squeeze", scope.op("Shape", target.name, start=0, end=1)), one)
    rows = scope.op("Expand", scope.op("Reshape", rows, scope.ints(-1, 1, 1)), scope.op("Shape", places))
    found = scope.op("ScatterND", zeros, scope.op("Concat", rows, places, axis=2), updates)
    return scope.op("Slice", found, scope.ints(0), scope.op("Shape", target.name, start=1, end=2), scope.ints(1))


@writes("ReconcileDynamicAxis")
def _reconcile(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    value, like = values
    if value.lead == like.lead and (value.axis == like.axis or value.lead < 2):
        return value.name
    if value.lead == 2 and like.lead == 1:
        return scope.at_lead(value, 1).name
    return scope.repeated(value, like)


@writes("ToSequence")
def _to_sequence(scope: Scope, node: Node, values: Sequence[Value]) -> Value:
    value = values[0]
    if value.lead != 1:
        raise Refused("its input is a sequence already")
    if len(values) > 1:
        lengths = scope.op("Squeeze", _places(scope, values[1]), scope.ints(1))
    else:
        first = scope.op("Shape", value.name, start=0, end=1)
        lengths = scope.op("Expand", scope.op("Shape", value.name, start=1, end=2), first)
    scope.axes[node.axis] = Frames(2, value.name, lengths)
    return Value(value.name, value.shape[1:], 2, node.axis)


@writes("ToBatch")
def _to_batch(scope: Scope, node: Node, values: Sequence[Value]) -> Value:
    name = values[0].name
    scope.axes[node.axis] = Frames(1, name)
    return Value(name, node.known_shape, 1, node.axis)


@writes("UnpackBatch")
def _unpack_batch(scope: Scope, node: Node, values: Sequence[Value]) -> Value:
    value = values[0]
    if value.lead != 1:
        raise Refused("its input has sequences, or no samples", "UnpackSequence makes an axis of the steps of each.")
    return Value(value.name, node.known_shape)


@writes("ToSequenceLike")
def _to_sequence_like(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    value, like = values
    if value.lead != 1 or like.lead != 2:
        raise Refused("its first input is a sequence already, or its second is none")
    return scope.op("Slice", value.name, scope.ints(0), scope.op("Shape", like.name, start=1, end=2), scope.ints(1))


@writes("UnpackSequence")
def _unpack(scope: Scope, node: Node, values: Sequence[Value]) -> Value:
    value = values[0]
    if value.lead != 2:
        raise Refused("its input has no sequences")
    if node.attributes.with_mask:
        raise Refused("it has two outputs, values and a mask", "Use the values alone.")
    name = scope.where_there(value, node.attributes.padding_value)
    scope.axes[node.axis] = Frames(1, name)
    return Value(name, node.known_shape, 1, node.axis)


@writes("Gather")
def _gather(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    return scope.op("Gather", values[1].name, scope.op("Cast", values[0].name, to=7), axis=0)


# -- attention --------------------------------------------------------------------------------------------


def _memory(scope: Scope, value: Value, shape: Sequence[int]) -> str:
    """What frames look at, as ``(N or 1, *shape)``."""
    if value.lead == 2:
        raise Refused("what it looks at has several frames for a sequence", "Use UnpackSequence.")
    return scope.op("Reshape", value.name, scope.ints(*([0] if value.lead else [1]), *shape))


def _by_sequence(scope: Scope, value: Value, shape: Sequence[int]) -> str:
    """Frames as ``(N, T, *shape)``; samples are sequences of one frame."""
    if value.lead == 2:
        return scope.reshape(value.name, 2, shape)
    return scope.reshape(scope.op("Unsqueeze", value.name, scope.ints(1)), 2, shape)


def _softmax(scope: Scope, node: Node, scores: str, frames: Value, there: Value | None, heads: int) -> str:
    """Weights ``(N, heads, T, S)`` of scores."""
    if there is not None:
        present = _memory(scope, there, [1, 1, -1])
        absent = scope.op("Equal", present, scope.number(0))
        scores = scope.op("Where", absent, scope.number(_ABSENT), scores)
    if node.attributes.causal:
        if frames.lead != 2:
            raise Refused("it does not look at later frames, and is part of a loop or has no sequences")
        own = scope.op("Unsqueeze", scope.places(frames.axis), scope.ints(1))
        count = scope.op("Squeeze", scope.op("Shape", scores, start=3, end=4))
        zero, one = (scope.graph.store.constant(number) for number in (0, 1))
        later = scope.op("Greater", scope.op("Range", zero, count, one), own)
        scores = scope.op("Where", later, scope.number(_ABSENT), scores)
    return scope.op("Softmax", scores, axis=-1)


def _weights_of(scope: Scope, weights: str, lead: int, heads: int) -> str:
    """Weights ``(N, heads, T, S)`` as a value of the network."""
    if heads == 1:
        found = scope.op("Squeeze", weights, scope.ints(1))
        return found if lead == 2 else scope.op("Squeeze", found, scope.ints(1))
    found = scope.op("Transpose", weights, perm=[0, 2, 1, 3])
    return found if lead == 2 else scope.op("Squeeze", found, scope.ints(1))


@writes("AttentionWeights")
def _attention(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    memory, frames = values[:2]
    heads = node.attributes.heads
    size = elements(frames.shape) // heads
    keys = scope.op("Transpose", _memory(scope, memory, [-1, heads, size]), perm=[0, 2, 3, 1])
    queries = scope.op("Transpose", _by_sequence(scope, frames, [heads, size]), perm=[0, 2, 1, 3])
    scores = scope.op("Mul", scope.op("MatMul", queries, keys), scope.number(node.attributes.scale))
    there = values[2] if len(values) > 2 else None
    weights = _softmax(scope, node, scores, frames, there, heads)
    return _weights_of(scope, weights, scope.lead_of(node), heads)


@writes("AdditiveAttentionWeights")
def _additive(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    memory, frames, vector = values[:3]
    size = elements(frames.shape)
    keys = _memory(scope, memory, [1, -1, size])
    queries = _by_sequence(scope, frames, [1, size])
    sums = scope.op("Tanh", scope.op("Add", queries, keys))
    scores = scope.op("MatMul", sums, scope.op("Reshape", vector.name, scope.ints(size, 1)))
    scores = scope.op("Unsqueeze", scope.op("Squeeze", scores, scope.ints(3)), scope.ints(1))
    there = values[3] if len(values) > 3 else None
    return _weights_of(scope, _softmax(scope, node, scores, frames, there, 1), scope.lead_of(node), 1)


@writes("AttentionSum")
def _attention_sum(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    memory, weights = values
    heads = elements(weights.shape[:-1])
    size = elements(memory.shape[1:])
    parts = scope.op("Transpose", _memory(scope, memory, [-1, heads, size // heads]), perm=[0, 2, 1, 3])
    by_head = scope.op("Transpose", _by_sequence(scope, weights, [heads, -1]), perm=[0, 2, 1, 3])
    joined = scope.op("Transpose", scope.op("MatMul", by_head, parts), perm=[0, 2, 1, 3])
    lead = scope.lead_of(node)
    found = joined if lead == 2 else scope.op("Squeeze", joined, scope.ints(1))
    return scope.reshape(found, lead, plain(node.known_shape))


# -- recurrent stacks -------------------------------------------------------------------------------------

_GATES: dict[str, tuple[str, tuple[int, ...], dict[str, Any]]] = {
    "lstm": ("LSTM", (0, 3, 1, 2), {}),
    "gru": ("GRU", (1, 0, 2), {"linear_before_reset": 1}),
    "rnntanh": ("RNN", (0,), {"activations": ["Tanh"]}),
    "rnnrelu": ("RNN", (0,), {"activations": ["Relu"]}),
}
"""For each cell the operation, its gates in the order of ONNX as those of cuDNN, and further attributes."""


@writes("OptimizedRNNStack")
def _stack(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    weights, data = values
    attributes = node.attributes
    over_time = attributes.axis == -1
    if over_time and data.lead != 2:
        raise Refused("its input has no sequences")
    flat = weights.name if len(weights.shape) == 1 else scope.op("Reshape", weights.name, scope.ints(-1))
    lengths = scope.op("Cast", scope.lengths(data.axis), to=6) if over_time else ""
    merged = data.name if over_time else scope.merged(data)
    x = scope.op("Transpose", merged, perm=[1, 0, 2])
    for layer in _layers(data.shape[-1], attributes):
        x = _layer(scope, flat, x, lengths, attributes, layer)
    found = scope.op("Transpose", x, perm=[1, 0, 2])
    return found if over_time else scope.unmerged(found, data, node.known_shape)


def _layers(inputs: int, attributes: Any) -> list[list[dict[str, tuple[int, int, int]]]]:
    """For each layer and direction where its weights begin, and how many rows and columns they have."""
    hidden, directions = attributes.hidden_size, attributes.directions
    rows = len(_GATES[attributes.recurrent_op.lower()][1]) * hidden
    sizes = [inputs] + [directions * hidden] * (attributes.num_layers - 1)
    found: list[list[dict[str, tuple[int, int, int]]]] = []
    begin = 0
    for size in sizes:
        found.append([])
        for _ in range(directions):
            found[-1].append({"W": (begin, rows, size), "R": (begin + rows * size, rows, hidden)})
            begin += rows * (size + hidden)
    for layer in found:
        for each in layer:
            each |= {"Wb": (begin, rows, 1), "Rb": (begin + rows, rows, 1)}
            begin += 2 * rows
    return found


def _layer(
    scope: Scope,
    flat: str,
    x: str,
    lengths: str,
    attributes: Any,
    layer: Sequence[dict[str, tuple[int, int, int]]],
) -> str:
    """One layer of frames ``(T, N, inputs)``."""
    kind, order, settings = _GATES[attributes.recurrent_op.lower()]
    hidden = attributes.hidden_size

    def part(place: tuple[int, int, int]) -> str:
        begin, rows, columns = place
        cut = scope.sliced(flat, 0, begin, begin + rows * columns)
        shaped = scope.op("Reshape", cut, scope.ints(len(order), hidden, columns))
        if len(order) > 1:
            shaped = scope.op("Gather", shaped, scope.ints(*order), axis=0)
        return scope.op("Reshape", shaped, scope.ints(1, rows, columns))

    def together(name: str) -> str:
        parts = [part(each[name]) for each in layer]
        return parts[0] if len(parts) == 1 else scope.op("Concat", *parts, axis=0)

    biases = scope.op("Squeeze", scope.op("Concat", together("Wb"), together("Rb"), axis=1), scope.ints(2))
    settings = dict(settings)
    if attributes.directions == 2:
        settings["direction"] = "bidirectional"
        if "activations" in settings:
            settings["activations"] = settings["activations"] * 2
    inputs = [x, together("W"), together("R"), biases, *([lengths] if lengths else [])]
    y = scope.op(kind, *inputs, hidden_size=hidden, **settings)
    return scope.op("Reshape", scope.op("Transpose", y, perm=[0, 2, 1, 3]), scope.ints(0, 0, -1))
