"""Operations that reduce, reshape, take, join and repeat."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import attrs

from cntk_core.api import Node, Shape
from cntk_core.api.engines import slice_ranges, transposed_axes
from cntk_model_onnx.export.graph import END, Refused
from cntk_model_onnx.export.scope import Scope, Value, plain, size_of
from cntk_model_onnx.export.table import writes
from cntk_model_onnx.sizes import are_free

_REDUCTIONS = {"Sum": "ReduceSum", "LogSum": "ReduceLogSumExp", "Mean": "ReduceMean", "Max": "ReduceMax",
               "Min": "ReduceMin", "Prod": "ReduceProd"}  # fmt: skip
_EMPTY = {"Sum": 0.0, "Mean": 0.0, "Prod": 1.0, "LogSum": -float("inf"), "Max": -float("inf"), "Min": float("inf"),
          "Argmax": -float("inf"), "Argmin": float("inf")}  # fmt: skip
_WHOLE, _ALL, _SEQUENCE, _BATCH = 0, -1, -2, -3


@writes("ReduceElements")
def _reduce(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    value, axis = values[0], node.attributes.axis
    if axis == _SEQUENCE:
        return _over_steps(scope, node, value)
    if axis == _BATCH:
        return _over_samples(scope, node, value)
    if axis == _ALL:
        return _over_everything(scope, node, value, node.attributes.operation)
    name, place = value.name, -axis
    if axis == _WHOLE:
        name, place = scope.flat(value), -1
    found = _reduced(scope, name, node.attributes.operation, place)
    shape = plain(node.known_shape)
    if axis == _WHOLE:
        return found if len(shape) == 1 else scope.reshape(found, value.lead, shape)
    return found if node.attributes.keeps else scope.op("Squeeze", found, scope.ints(place))


def _reduced(scope: Scope, name: str, operation: str, axis: int) -> str:
    """Reduce an axis, which stays with length 1."""
    if operation in ("Argmax", "Argmin"):
        kind = "ArgMax" if operation == "Argmax" else "ArgMin"
        return scope.to_numbers(scope.op(kind, name, axis=axis, keepdims=1))
    return scope.op(_REDUCTIONS[operation], name, scope.ints(axis), keepdims=1)


def _over_steps(scope: Scope, node: Node, value: Value) -> str:
    operation = node.attributes.operation
    if value.lead != 2:
        return _reduced(scope, scope.op("Unsqueeze", value.name, scope.ints(1)), operation, 1)
    there = scope.where_there(value, _EMPTY[operation])
    if operation != "Mean":
        return scope.op("Squeeze", _reduced(scope, there, operation, 1), scope.ints(1))
    total = scope.op("ReduceSum", there, scope.ints(1), keepdims=0)
    lengths = scope.to_numbers(scope.lengths(value.axis))
    ones = scope.ints(*range(1, 1 + len(value.shape)))
    return scope.op("Div", total, scope.op("Unsqueeze", lengths, ones))


def _over_samples(scope: Scope, node: Node, value: Value) -> str:
    name = scope.at_lead(value, 1).name
    return scope.op("Squeeze", _reduced(scope, name, node.attributes.operation, 0), scope.ints(0))


def _over_everything(scope: Scope, node: Node, value: Value, operation: str) -> str:
    name = scope.where_there(value, _EMPTY[operation]) if value.lead == 2 else value.name
    if operation == "Mean" and value.lead == 2:
        total = scope.op("ReduceSum", scope.op("Reshape", name, scope.ints(-1)), scope.ints(0), keepdims=1)
        frames = scope.to_numbers(scope.op("ReduceSum", scope.lengths(value.axis), scope.ints(0), keepdims=1))
        found = scope.op("Div", total, scope.op("Mul", frames, scope.number(size_of(value.shape))))
    else:
        found = _reduced(scope, scope.op("Reshape", name, scope.ints(-1)), operation, 0)
    return found if len(node.known_shape) == 1 else scope.op("Reshape", found, scope.ints(*node.known_shape))


@writes("SumElements")
def _sum(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    return _over_everything(scope, node, values[0], "Sum")


@writes("MatrixL1Reg", "MatrixL2Reg")
def _norm(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    value = values[0]
    name = scope.where_there(value, 0.0) if value.lead == 2 else value.name
    kind = "ReduceL1" if node.op.name == "MatrixL1Reg" else "ReduceL2"
    return scope.op(kind, scope.op("Reshape", name, scope.ints(-1)), scope.ints(0), keepdims=1)


@writes("SumColumnElements")
def _sum_columns(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    return scope.op("ReduceSum", scope.flat(values[0]), scope.ints(-1), keepdims=1)


@writes("Softmax", "LogSoftmax", "Hardmax")
def _softmax(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    value = values[0]
    if len(value.shape) == 1 or not value.lead:
        return scope.op(node.op.name, value.name, axis=-1)
    found = scope.op(node.op.name, scope.flat(value), axis=-1)
    return scope.reshape(found, value.lead, plain(value.shape))


@writes("Reshape", "LegacyReshape", "ExpandDims", "Squeeze")
def _reshape(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    value = values[0]
    if node.op.name == "LegacyReshape" and node.op.makes_axis(value.shape, node.attributes):
        raise Refused("it changes the number of frames", "Reshape outside of the network.")
    return scope.reshape(value.name, value.lead, plain(node.known_shape))


@writes("TransposeDimensions")
def _transpose(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    value = values[0]
    axes = transposed_axes(value.shape, node.attributes)
    missing, name = len(axes) - len(value.shape), value.name
    if missing:
        name = scope.op("Unsqueeze", name, scope.ints(*range(value.lead, value.lead + missing)))
    return scope.op("Transpose", name, perm=[*range(value.lead), *(value.lead + axis for axis in axes)])


def _ranges(value: Value, attributes: Any) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
    """Where parts of axes begin and end, and the axes, counted from the last one."""
    if are_free(value.shape):  # a size that the data bring: what is counted from its end stays so
        return attributes.begin, [end or END for end in attributes.end], [-axis for axis in attributes.axis]
    ranges = slice_ranges(value.shape, attributes)
    begins, ends = zip(*ranges.values(), strict=True)
    return begins, ends, [axis - len(value.shape) for axis in ranges]


@writes("Slice")
def _slice(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    value = values[0]
    begins, ends, places = _ranges(value, node.attributes)
    axes = scope.ints(*places)
    found = scope.op("Slice", value.name, scope.ints(*begins), scope.ints(*ends), axes)
    strides = node.attributes.strides
    if set(strides) == {1}:
        return found
    # Of the range, from its first or its last element on.
    listed = scope.ints(*(-axis for axis in node.attributes.axis))
    starts = scope.ints(*(0 if step > 0 else -1 for step in strides))
    stops = scope.ints(*(END if step > 0 else -END for step in strides))
    return scope.op("Slice", found, starts, stops, listed, scope.ints(*strides))


@writes("RowStack")
def _stack(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    lead, whole, axis = scope.lead_of(node), node.known_shape, -node.attributes.axis
    values = [scope.at_lead(value, lead) for value in values]
    like = next((value for value in values if value.lead == lead), values[0])
    parts = [_wide(scope, value, whole, len(whole) + axis, like) for value in values]
    return parts[0] if len(parts) == 1 else scope.op("Concat", *parts, axis=axis)


def _wide(scope: Scope, value: Value, whole: Shape, place: int, like: Value) -> str:
    """A part with the sizes of the whole along all axes but one."""
    padded = (1,) * (len(whole) - len(value.shape)) + value.shape
    wanted = (*whole[:place], padded[place], *whole[place + 1 :])
    if padded == wanted and value.lead == like.lead:
        if value.lead or len(padded) == len(value.shape):
            return scope.aligned(value, len(whole), like.lead)
        return scope.op("Reshape", value.name, scope.ints(*plain(wanted)))
    return scope.expanded(value, wanted, like)


@writes("RowRepeat")
def _repeat(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    value = values[0]
    times = [1] * value.lead + [node.attributes.num_repeats] + [1] * (len(value.shape) - 1)
    return scope.op("Tile", value.name, scope.ints(*times))


@writes("Diagonal")
def _diagonal(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    value, size = values[0], node.known_shape[0]
    flat = scope.reshape(value.name, value.lead, (-1,))
    found = scope.op("Slice", flat, scope.ints(0), scope.ints(END), scope.ints(-1), scope.ints(size + 1))
    return scope.op("Unsqueeze", found, scope.ints(-1))


@writes("OneHot")
def _one_hot(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    value, count = values[0], node.attributes.num_class
    rank = len(value.shape)
    place = rank - node.attributes.axis % (rank + 1)
    zero, outside = scope.number(0), scope.number(-1)
    number = scope.op("Where", scope.op("Less", value.name, zero), outside, scope.op("Floor", value.name))
    classes = scope.op("Reshape", scope.numbers(range(count)), scope.ints(-1, *[1] * (rank - place)))
    return scope.to_numbers(scope.op("Equal", scope.op("Unsqueeze", number, scope.ints(place + value.lead)), classes))


@writes("TopK")
def _top(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    found = scope.graph.ops("TopK", values[0].name, scope.ints(node.attributes.k), count=2, axis=-node.attributes.axis)
    return found[0] if node.attributes.output == "values" else scope.to_numbers(found[1])


@writes("Pad")
def _pad(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    value, attributes = values[0], node.attributes
    missing = [0] * (value.lead + len(value.shape) - len(attributes.head))
    widths = scope.ints(*missing, *reversed(attributes.head), *missing, *reversed(attributes.foot))
    if attributes.mode == "constant":
        return scope.op("Pad", value.name, widths, scope.number(attributes.value), mode="constant")
    if attributes.mode == "reflect":
        return scope.op("Pad", value.name, widths, mode="reflect")
    return _mirrored(scope, node, value)


def _mirrored(scope: Scope, node: Node, value: Value) -> str:
    """Padding that begins with the element at the border, which ONNX lacks: elements chosen by index."""
    name, rank = value.name, len(value.shape)
    for axis, (head, foot) in enumerate(zip(node.attributes.head, node.attributes.foot, strict=True), 1):
        if head or foot:
            size = value.shape[rank - axis]
            chosen = itertools.chain(range(head - 1, -1, -1), range(size), range(size - 1, size - 1 - foot, -1))
            name = scope.op("Gather", name, scope.ints(*chosen), axis=-axis)
    return name


@writes("DepthToSpace", "SpaceToDepth")
def _blocks(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    value = values[0]
    merged = scope.merged(value)
    extra = {"mode": "DCR"} if node.op.name == "DepthToSpace" else {}
    found = scope.op(node.op.name, merged, blocksize=node.attributes.block_size, **extra)
    return scope.unmerged(found, value, node.known_shape)


@writes("Crop")
def _crop(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    value = values[0]
    x, y = node.attributes.x_offset or 0, node.attributes.y_offset or 0
    height, width = node.known_shape[-2:]
    size_of((height, width))
    found = scope.op("Slice", value.name, scope.ints(y, x), scope.ints(y + height, x + width), scope.ints(-2, -1))
    if value.lead == scope.lead_of(node):
        return found
    return scope.expanded(attrs.evolve(value, name=found, shape=node.known_shape), node.known_shape, values[1])


@writes("OutputMultiplexer")
def _output(scope: Scope, node: Node, values: Sequence[Value]) -> str:
    value, attributes = values[0], node.attributes
    if attributes.rows:
        raise Refused("it reads an output with an axis of its own")
    if not attributes.end:
        return value.name
    part = scope.sliced(value.name, -1, attributes.begin, attributes.end)
    return scope.reshape(part, value.lead, plain(node.known_shape))
