"""Elements that are taken from places, or put there, which another tensor names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import NodeProto

from cntk_model_onnx.read.elementwise import chosen, of_two
from cntk_model_onnx.read.folding import attributes_of
from cntk_model_onnx.read.matrices import along
from cntk_model_onnx.read.shapes import length_of, part, picked, reshaped, tensor
from cntk_model_onnx.read.table import reads
from cntk_model_onnx.read.values import WHOLE, Array, Constant, Tensor, Unreadable, Value, numbers

if TYPE_CHECKING:
    from cntk_model_onnx.read.importer import Importer

_MOST_STEPS = 512
_MOST_PLACES = 1 << 22


def _within(places: Array, sizes: Any) -> Array:
    """Places counted from the begin of axes.

    Raises:
        Unreadable: some are not there.
    """
    if np.any(places != np.clip(places, -sizes, sizes - 1)):
        raise Unreadable("it names places that are not there")
    return np.asarray(places % sizes)


def _positive(reader: Importer, value: Value | None, size: int) -> Value:
    """Places counted from the begin of an axis."""
    if isinstance(value, Constant):
        return Constant(_within(value.array, size))
    return chosen(
        reader, of_two(reader, "Less", value, _number(0)), of_two(reader, "Plus", value, _number(size)), value
    )


def _number(value: float) -> Constant:
    return Constant(np.full(1, value))


def _slice(reader: Importer, value: Value | None, axis: int, place: int) -> Value:
    """An element of an axis, which stays."""
    if isinstance(value, Constant):
        return Constant(np.take(value.array, [place], axis))
    return part(reader, tensor(value), axis, place, place + 1)


def _equal(reader: Importer, places: Value, other: Constant) -> Value:
    if isinstance(places, Constant):
        return Constant(places.array == other.array)
    return of_two(reader, "Equal", places, other)


def _sizes(reader: Importer, value: Value | None) -> list[Any]:
    return list(value.array.shape) if isinstance(value, Constant) else tensor(value).sizes(reader.samples)


def _steps(count: int) -> range:
    if not 0 < count <= _MOST_STEPS:
        raise Unreadable(f"it goes through {count} places")
    return range(count)


@reads("GatherElements")
def _gather_elements(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    data, axis = inputs[0], attributes_of(node).get("axis", 0)
    own, wanted = _sizes(reader, data), _sizes(reader, inputs[1])
    axis %= len(own)
    if len(own) != len(wanted):
        raise Unreadable("its inputs have not as many axes")
    count = length_of(data, axis)
    # A constant with one row of places has it for all samples.
    for_all = data.batch if isinstance(data, Tensor) and isinstance(inputs[1], Constant) else WHOLE
    for place, (size, less) in enumerate(zip(own, wanted, strict=True)):
        if place != axis and size != less and not (place == for_all and less == 1):
            data = part(reader, tensor(data), place, 0, int(less))
    places = _positive(reader, inputs[1], count)
    found: Value | None = None
    for step in _steps(count):
        here = _slice(reader, data, axis, step)
        if found is None and isinstance(places, Constant):
            found = of_two(reader, "Plus", here, Constant(np.zeros(places.array.shape)))
        elif found is None:
            found = of_two(reader, "Plus", here, of_two(reader, "ElementTimes", places, _number(0)))
        else:
            found = chosen(reader, _equal(reader, places, _number(step)), here, found)
    assert found is not None
    return found


_REDUCTIONS = {"add": "Plus", "mul": "ElementTimes", "max": "Greater", "min": "Less"}


def _reduced(reader: Importer, kind: str, new: Value, old: Value) -> Value:
    if kind == "none":
        return new
    if kind not in _REDUCTIONS:
        raise Unreadable(f"it reduces by '{kind[:40]}'")
    found = of_two(reader, _REDUCTIONS[kind], new, old)
    return chosen(reader, found, new, old) if kind in ("max", "min") else found


@reads("ScatterElements", "Scatter")
def _scatter_elements(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    given = attributes_of(node)
    sizes, wanted = _sizes(reader, inputs[0]), _sizes(reader, inputs[1])
    axis = given.get("axis", 0) % len(sizes)
    if [*sizes[:axis], *sizes[axis + 1 :]] != [*wanted[:axis], *wanted[axis + 1 :]]:
        raise Unreadable("its places do not have the sizes of its input in all other axes")
    size = length_of(inputs[0], axis)
    own = Constant(np.arange(size, dtype=np.float64).reshape(-1, *[1] * (len(sizes) - axis - 1)))
    places = _positive(reader, inputs[1], size)
    found = inputs[0]
    assert found is not None
    for step in _steps(length_of(places, axis)):
        new, place = _slice(reader, inputs[2], axis, step), _slice(reader, places, axis, step)
        here = _equal(reader, place, own)
        found = chosen(reader, here, _reduced(reader, given.get("reduction", "none"), new, found), found)
    return found


def _flat_places(indices: Array, sizes: Sequence[int], batch_dims: int = 0) -> Array:
    """Numbers of the parts that tuples of indices name, if the first axes of a tensor were one."""
    depth = indices.shape[-1]
    strides = [math.prod(sizes[batch_dims + place + 1 : batch_dims + depth]) for place in range(depth)]
    inside = _within(indices, np.asarray(sizes[batch_dims : batch_dims + depth], np.int64))
    found = (inside * np.asarray(strides, np.int64)).sum(-1)
    if batch_dims:
        count = math.prod(sizes[batch_dims : batch_dims + depth])
        rows = np.arange(math.prod(sizes[:batch_dims])).reshape(sizes[:batch_dims])
        found = found + count * rows.reshape(*rows.shape, *[1] * (found.ndim - batch_dims))
    return np.asarray(found)


@reads("GatherND")
def _gather_nd(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    value, indices = tensor(inputs[0]), numbers(inputs[1], "indices").astype(np.int64)
    batch_dims = attributes_of(node).get("batch_dims", 0)
    depth = batch_dims + indices.shape[-1]
    if WHOLE < value.batch < depth:
        raise Unreadable("it works along the samples of a minibatch")
    sizes = value.sizes(reader.samples)
    places = _flat_places(indices, sizes, batch_dims)
    rows = reshaped(reader, value, [math.prod(sizes[:depth]), *sizes[depth:]])
    taken = picked(reader, rows, 0, places.reshape(-1).tolist())
    return reshaped(reader, taken, [*places.shape, *sizes[depth:]])


@reads("ScatterND")
def _scatter_nd(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    indices = numbers(inputs[1], "indices").astype(np.int64)
    like = next(each for each in (inputs[0], inputs[2]) if isinstance(each, Tensor))
    if like.batch != WHOLE or attributes_of(node).get("reduction", "none") not in ("none", "add"):
        raise Unreadable("it works along the samples of a minibatch, or reduces what it puts to one place")
    sizes, depth = _sizes(reader, inputs[0]), indices.shape[-1]
    places = _flat_places(indices, sizes).reshape(-1)
    count = math.prod(sizes[:depth])
    if count * len(places) > _MOST_PLACES:
        raise Unreadable(f"it puts {len(places)} parts to {count} places")
    spread = np.zeros((len(places), count), np.float32)
    spread[np.arange(len(places)), places] = 1.0
    inner = sizes[depth:]
    data = _whole_shape(reader, inputs[0], [count, *inner])
    new = along(reader, tensor(_whole_shape(reader, inputs[2], [len(places), *inner], like)), 0, spread)
    if attributes_of(node).get("reduction", "none") == "none":
        if len(set(places.tolist())) != len(places):
            raise Unreadable("it puts several parts to one place")
        there = Constant(spread.max(0).reshape(-1, *[1] * len(inner)))
        data = chosen(reader, there, _number(0), data)
    return reshaped(reader, of_two(reader, "Plus", data, new), sizes)


def _whole_shape(reader: Importer, value: Value | None, shape: Sequence[int], like: Tensor | None = None) -> Value:
    if isinstance(value, Constant):
        array = Constant(value.array.reshape(shape))
        return array if like is None else Tensor(reader.parameter(array, array.array), WHOLE)
    return reshaped(reader, tensor(value), shape)


@reads("Compress")
def _compress(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    value, axis = tensor(inputs[0]), attributes_of(node).get("axis")
    kept = np.flatnonzero(numbers(inputs[1], "condition").reshape(-1)).tolist()
    if axis is None:
        value, axis = reshaped(reader, value, [-1]), 0
        if value.batch == 0:
            raise Unreadable("it works along the samples of a minibatch")
    return picked(reader, value, axis, kept)
