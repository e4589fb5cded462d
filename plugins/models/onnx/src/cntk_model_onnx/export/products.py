"""Matrix products, look-up in tables, distances."""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs

from cntk_core.api import Node, Shape, elements, to_cntk
from cntk_model_onnx.export.graph import Refused
from cntk_model_onnx.export.scope import Scope, Value, plain, size_of
from cntk_model_onnx.export.table import writes
from cntk_model_onnx.sizes import are_free

_SMALLEST_NORM = 1e-30


@attrs.frozen
class _Split:
    """How the axes of a product are grouped: sums over ``inner`` elements; shapes in memory order."""

    inner: int
    summed: int
    rest: Shape
    out: Shape


def _split(left: Shape, right: Shape, rank: int) -> _Split:
    dims, other = to_cntk(left), to_cntk(right)
    inner = -1 if are_free(dims[rank:]) else elements(dims[rank:])
    count = len(dims) - rank
    if tuple(other[:count]) != tuple(dims[rank:]):  # a column stands for several axes
        count = next(number for number in range(1, len(other) + 1) if elements(other[:number]) == inner)
    rest = tuple(reversed(other[count:]))
    return _Split(inner, count, rest, tuple(reversed(dims[:rank])))


@writes("Times", "QuantizedTimes", index=True)
def _times(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    if getattr(node.attributes, "infer_input_rank_to_map", -1) <= -2:
        return _times_over_steps(scope, node, values)
    return _product(scope, node, values[0], values[1], node.attributes.output_rank)


@writes("TransposeTimes", index=True)
def _transpose_times(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    left = values[0]
    if len(left.shape) == 1:
        turned = attrs.evolve(left, name=scope.op("Unsqueeze", left.name, scope.ints(-1)), shape=(*left.shape, 1))
    else:
        order = [*range(left.lead), left.lead + 1, left.lead]
        turned = attrs.evolve(left, name=scope.op("Transpose", left.name, perm=order), shape=tuple(left.shape[::-1]))
    return _product(scope, node, turned, values[1], 1)


def _matrix(scope: Scope, left: Value, split: _Split) -> str:
    """The left operand as a matrix ``(inner, outer)``."""
    outer = elements(split.out)
    if left.shape == (split.inner, outer):
        return left.name
    return scope.reshape(left.name, left.lead, (split.inner, outer))


def _product(scope: Scope, node: Node, left: Value, right: Value, rank: int) -> str:
    lead = scope.lead_of(node)
    left, right = scope.at_lead(left, lead), scope.at_lead(right, lead)
    split = _split(left.shape, right.shape, rank)
    matrix = _matrix(scope, left, split)
    if right.index:
        if left.lead or right.shape != (split.inner,):
            raise Refused("its weights have frames, and its data are numbers of elements", "Use sparse=dense.")
        found = scope.op("Gather", matrix, right.name, axis=0)
        return found if len(split.out) == 1 else scope.reshape(found, lead, split.out)
    if not left.lead and split.summed == 1:
        found = scope.op("MatMul", right.name, matrix)
    else:
        outer = -1 if are_free(split.rest) else elements(split.rest)
        if outer == split.inner == -1:
            raise Refused("several of its dimensions are known only with the data", "Give the inputs fixed dimensions.")
        rows = scope.reshape(right.name, right.lead, (outer, split.inner))
        found = scope.op("MatMul", rows, matrix)
        return scope.reshape(found, lead, plain(node.known_shape))
    return found if len(split.out) == 1 else scope.reshape(found, lead, plain(node.known_shape))


def _times_over_steps(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    """The sum of the products of all steps of a sequence: one product ``(T * inner)`` long."""
    left, right = values
    if left.lead != 2 or right.lead != 2:
        raise Refused("it sums over the steps of a sequence, and one operand has none")
    split = _split(left.shape, right.shape, node.attributes.output_rank)
    outer, rest = elements(split.out), size_of(split.rest)
    there = scope.where_there(left, 0.0), scope.where_there(right, 0.0)
    matrix = scope.op("Reshape", there[0], scope.ints(0, -1, outer))
    rows = scope.op("Reshape", there[1], scope.ints(0, 0, rest, split.inner))
    columns = scope.op("Reshape", scope.op("Transpose", rows, perm=[0, 2, 1, 3]), scope.ints(0, rest, -1))
    return scope.reshape(scope.op("MatMul", columns, matrix), 1, plain(node.known_shape))


@writes("DiagTimes")
def _diag_times(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    diagonal, data = values
    lead, size, shape = scope.lead_of(node), size_of(diagonal.shape), data.shape
    wanted = (size,) if shape and size == shape[-1] else shape
    name = diagonal.name if diagonal.shape == wanted else scope.reshape(diagonal.name, diagonal.lead, wanted)
    factor = scope.aligned(attrs.evolve(diagonal, name=name, shape=wanted), len(shape), lead)
    return scope.op("Mul", factor, scope.aligned(data, len(shape), lead))


@writes("KhatriRaoProduct")
def _khatri_rao(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    left, right = (scope.at_lead(value, scope.lead_of(node)) for value in values)
    across = scope.reshape(left.name, left.lead, (1, size_of(left.shape)))
    down = scope.reshape(right.name, right.lead, (size_of(right.shape), 1))
    return scope.reshape(scope.op("Mul", across, down), scope.lead_of(node), node.known_shape)


@writes("CosDistance")
def _cosine(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    lead = scope.lead_of(node)
    sides = [scope.at_lead(value, lead) for value in values]
    flat = [scope.flat(value) for value in sides]
    last = scope.ints(-1)
    product = scope.op("ReduceSum", scope.op("Mul", *flat), last, keepdims=1)
    norms = [
        scope.op("Max", scope.op("ReduceL2", each, last, keepdims=1), scope.number(_SMALLEST_NORM)) for each in flat
    ]
    return scope.op("Mul", product, scope.op("Reciprocal", scope.op("Mul", *norms)))


@writes("LookupTable", index=True)
def _look_up(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    table, words = values
    columns, width = elements(table.shape[:-1]), table.shape[-1]
    matrix = table.name if len(table.shape) == 2 else scope.op("Reshape", table.name, scope.ints(columns, width))
    if words.index and words.shape == (columns,):
        return scope.op("Gather", matrix, words.name, axis=0)
    if words.index:
        raise Refused("each frame has several words, and its data are numbers of elements", "Use sparse=dense.")
    if words.shape == (columns,):
        return scope.op("MatMul", words.name, matrix)
    split = scope.reshape(words.name, words.lead, (-1, columns))
    return scope.reshape(scope.op("MatMul", split, matrix), words.lead, (-1,))


@writes("GMMLogLikelihood")
def _mixture(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    lead = scope.lead_of(node)
    prior, mean, deviation, data = (scope.at_lead(value, lead) for value in values)
    count, size = size_of(prior.shape), size_of(data.shape)
    means = scope.reshape(mean.name, mean.lead, (count, size))
    distances = scope.op("Sub", scope.reshape(data.name, data.lead, (1, size)), means)
    squares = scope.op("ReduceSumSquare", distances, scope.ints(-1), keepdims=0)
    deviations = scope.flat(deviation)
    precision = scope.op("Exp", scope.op("Mul", deviations, scope.number(-2.0)))
    spread = scope.op("Mul", scope.op("Add", deviations, scope.number(0.5 * math.log(2 * math.pi))), scope.number(size))
    near = scope.op("Mul", scope.op("Mul", squares, precision), scope.number(-0.5))
    weights = scope.op("LogSoftmax", scope.flat(prior), axis=-1)
    logs = scope.op("Sub", scope.op("Add", weights, near), spread)
    return scope.op("ReduceLogSumExp", logs, scope.ints(-1), keepdims=1)
