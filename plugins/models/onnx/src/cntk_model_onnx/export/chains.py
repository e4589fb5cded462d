"""The best path of a linear chain: a ``Scan`` forward over the frames, and one back along what it has found.

L. Rabiner, "A tutorial on hidden Markov models", 1989, equations 32 to 35, in the log domain.
"""

from __future__ import annotations

from collections.abc import Sequence

from onnx import TensorProto, ValueInfoProto, helper

from cntk_core.api import Node
from cntk_model_onnx.export.graph import TYPES, GraphWriter, Refused
from cntk_model_onnx.export.scope import Scope, Value
from cntk_model_onnx.export.table import writes

_NEVER = -1e30
"""In place of the logarithm of 0."""


@writes("SequenceDecoder")
def _decoder(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    labels, scores, transitions = values
    if scores.lead != 2 or labels.lead != 2 or scope.outer:
        raise Refused("its inputs have no sequences")
    size = int(scores.shape[-1])
    ways = scope.op("Reshape", transitions.name, scope.ints(1, size, size))
    given = scope.op("ArgMax", scope.flat(labels), axis=-1, keepdims=0)
    before = _forward(scope, scope.flat(scores), given, ways, size)
    last = scope.op("Equal", scope.places(scores.axis), scope.op("Sub", _column(scope, scores.axis), scope.ints(1)))
    path = _back(scope, given, last, before)
    found = scope.op("OneHot", path, scope.graph.store.constant(size), scope.numbers([0.0, 1.0]), axis=-1)
    return found if len(node.known_shape) == 1 else scope.reshape(found, 2, list(node.known_shape))


def _column(scope: Scope, axis: str) -> str:
    return scope.op("Unsqueeze", scope.lengths(axis), scope.ints(1))


def _forward(scope: Scope, scores: str, labels: str, ways: str, size: int) -> str:
    """For each frame and label from which label the best path to it comes, ``(N, T, labels)``."""
    store = scope.graph.store
    inner = Scope(GraphWriter(store), {})
    inner.graph.near = f"{scope.graph.near}/forward"
    best, first, score, label = (store.unique(f"{inner.graph.near}/{name}") for name in ("best", "first", "s", "y"))
    hot = inner.op("OneHot", label, store.constant(size), inner.numbers([0.0, 1.0]), axis=-1)
    begin = inner.op("Where", inner.op("Cast", hot, to=TensorProto.BOOL), score, inner.number(_NEVER))
    sums = inner.op("Add", inner.op("Unsqueeze", best, inner.ints(2)), ways)
    reached = inner.op("Add", inner.op("ReduceMax", sums, inner.ints(1), keepdims=0), score)
    now = inner.op("Where", first, begin, reached)
    no = inner.op("And", first, inner.op("Not", first))
    origin = inner.op("ArgMax", sums, axis=1, keepdims=0)
    number = TYPES[store.dtype]
    truth, whole = TensorProto.BOOL, TensorProto.INT64
    zeros = scope.op("Mul", scope.op("Squeeze", scope.sliced(scores, 1, 0, 1), scope.ints(1)), scope.number(0))
    return _scan(
        scope,
        inner,
        [(zeros, best, now, number, 2), (store.constant(True, bool), first, no, truth, 0)],
        [(scores, score), (labels, label)],
        (origin, whole, 2),
        backward=False,
    )


def _back(scope: Scope, labels: str, last: str, before: str) -> str:
    """The labels of the best path, ``(N, T)``: from the last one back to where each comes from."""
    store = scope.graph.store
    inner = Scope(GraphWriter(store), {})
    inner.graph.near = f"{scope.graph.near}/back"
    state, label, ends, origin = (store.unique(f"{inner.graph.near}/{name}") for name in ("state", "y", "end", "from"))
    here = inner.op("Where", ends, label, state)
    earlier = inner.op("GatherElements", origin, inner.op("Unsqueeze", here, inner.ints(1)), axis=1)
    whole = TensorProto.INT64
    begin = scope.op("Squeeze", scope.sliced(labels, 1, 0, 1), scope.ints(1))
    return _scan(
        scope,
        inner,
        [(begin, state, inner.op("Squeeze", earlier, inner.ints(1)), whole, 1)],
        [(labels, label), (last, ends), (before, origin)],
        (inner.op("Identity", here), whole, 1),
        backward=True,
    )


def _scan(
    scope: Scope,
    inner: Scope,
    states: Sequence[tuple[str, str, str, int, int]],
    frames: Sequence[tuple[str, str]],
    result: tuple[str, int, int],
    *,
    backward: bool,
) -> str:
    """Add a Scan along the second axis, and return what its steps give.

    Args:
        scope: where.
        inner: its body.
        states: of each the first value, its names in the body before and after a step, its type, how many axes it has.
        frames: tensors, and the names of their frames in the body.
        result: what a step gives, its type, how many axes it has.
        backward: goes from the last frame to the first.
    """

    def info(name: str, kind: int, rank: int) -> ValueInfoProto:
        return helper.make_tensor_value_info(name, kind, [None] * rank)

    inputs = [info(name, kind, rank) for _, name, _, kind, rank in states]
    inputs += [helper.make_empty_tensor_value_info(name) for _, name in frames]
    for each in inputs[len(states) :]:
        each.type.Clear()
    outputs = [*(info(name, kind, rank) for *_, name, kind, rank in states), info(*result)]
    body = helper.make_graph(inner.graph.nodes, inner.graph.near, inputs, outputs)
    count = len(frames)
    found = scope.graph.ops(
        "Scan",
        *(begin for begin, *_ in states),
        *(name for name, _ in frames),
        count=len(states) + 1,
        body=body,
        num_scan_inputs=count,
        scan_input_axes=[1] * count,
        scan_input_directions=[int(backward)] * count,
        scan_output_axes=[1],
        scan_output_directions=[int(backward)],
    )
    return found[-1]
