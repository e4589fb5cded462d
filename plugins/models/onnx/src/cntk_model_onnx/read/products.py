"""Matrix products. Those of two tensors with further axes, such as the heads of attention, go part by part."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from onnx import NodeProto

from cntk_core.api import Node
from cntk_model_onnx.read.elementwise import together, without_samples
from cntk_model_onnx.read.folding import attributes_of
from cntk_model_onnx.read.shapes import squeezed, tensor, turned, unsqueezed, with_shape
from cntk_model_onnx.read.table import reads
from cntk_model_onnx.read.values import WHOLE, Array, Constant, Tensor, Unreadable, Value, is_zero, operand
from cntk_model_onnx.sizes import are_free

if TYPE_CHECKING:
    from cntk_model_onnx.read.importer import Importer

_MOST_PRODUCTS = 256


@reads("MatMul")
def _matmul(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    left, right = inputs
    assert left is not None
    assert right is not None
    gone = [place for place, each in ((-2, left), (-1, right)) if each.rank == 1]
    found = multiplied(reader, _as_matrix(reader, left, 0), _as_matrix(reader, right, 1))
    return squeezed(reader, found, gone)


def _as_matrix(reader: Importer, value: Value, axis: int) -> Value:
    """A vector as a matrix of one row (0) or column (1)."""
    if value.rank != 1:
        return value
    if isinstance(value, Constant):
        return Constant(np.expand_dims(value.array, axis), value.name)
    return unsqueezed(reader, value, axis)


def multiplied(reader: Importer, left: Value, right: Value) -> Tensor:
    """Return the product of two tensors with at least two axes.

    Raises:
        Unreadable: it mixes samples.
    """
    if isinstance(left, Tensor) and isinstance(right, Constant) and right.rank == 2:
        return times(reader, left, right, right.array)
    if isinstance(left, Constant) and isinstance(right, Tensor) and left.rank == 2:
        swapped = [*range(right.rank - 2), right.rank - 1, right.rank - 2]
        found = times(reader, turned(reader, right, swapped), left, left.array.T)
        return turned(reader, found, swapped)
    return by_parts(reader, left, right)


def times(reader: Importer, value: Tensor, constant: Constant, matrix: Array) -> Tensor:
    """Return the product of a tensor and a matrix, which is laid out anew of a constant."""
    if value.batch == value.rank - 1 and value.batch != WHOLE:
        raise Unreadable("it works along the samples of a minibatch")
    weights = reader.parameter(constant, matrix)
    return Tensor(reader.add("Times", [weights, value.node]), value.batch, value.fold)


def by_parts(reader: Importer, left: Value | None, right: Value | None) -> Tensor:
    """The product of tensors ``(N, ..., m, k)`` and ``(N, ..., k, p)``: one of each element of the axes between."""
    rank = max(each.rank for each in (left, right) if each is not None)
    like = left if isinstance(left, Tensor) else tensor(right)
    batch, fold = like.batch_of(rank), like.fold
    if batch >= rank - 2 and batch != WHOLE:
        raise Unreadable("it works along the samples of a minibatch")
    sides = [_side(reader, each, rank, batch, fold) for each in (left, right)]
    outer = [tuple(each.known_shape[:-2]) for each in sides]
    whole = None if are_free(itertools.chain(*outer)) else np.broadcast_shapes(*outer)
    if whole is None or np.prod(whole, dtype=np.int64) > _MOST_PRODUCTS:
        raise Unreadable("it has too many products of matrices, or their number is known only with the data")
    if not whole:
        return Tensor(reader.add("Times", [sides[1], sides[0]]), batch, fold)
    found = [
        reader.add("Times", [_cut(reader, sides[1], place), _cut(reader, sides[0], place)])
        for place in itertools.product(*map(range, whole))
    ]
    rows, columns = sides[0].known_shape[-2], sides[1].known_shape[-1]
    joined = found[0] if len(found) == 1 else reader.add("RowStack", found, axis=3)
    return Tensor(with_shape(reader, joined, (*whole, rows, columns)), batch, fold)


def _side(reader: Importer, value: Value | None, rank: int, batch: int, fold: int) -> Node:
    """An operand as a node whose last two axes are the matrix."""
    if isinstance(value, Constant):
        node: Node = reader.parameter(value, without_samples(value.array, rank, batch, fold))
    else:
        found = tensor(value)
        if (found.batch_of(rank), found.fold) != (batch, fold):
            raise Unreadable("the samples of its inputs do not stand along the same axis")
        node = found.node
    if len(node.known_shape) < 2:
        raise Unreadable("one of its inputs is a vector")
    return node


def _cut(reader: Importer, node: Node, place: Sequence[int]) -> Node:
    """The matrix at a place of the axes before it; an axis of length 1 stands for all places."""
    shape = node.known_shape
    outer = shape[:-2]
    own = place[len(place) - len(outer) :]
    for axis, (index, size) in enumerate(zip(own, outer, strict=True)):
        if size > 1:
            number = len(shape) - axis
            node = reader.add("Slice", [node], begin=(index,), end=(index + 1,), axis=(number,))
    return with_shape(reader, node, shape[-2:])


@reads("Gemm")
def _gemm(reader: Importer, node: NodeProto, inputs: Sequence[Value | None]) -> Value:
    given = attributes_of(node)
    left = _transposed(reader, inputs[0], swap=bool(given.get("transA", 0)))
    right = _transposed(reader, inputs[1], swap=bool(given.get("transB", 0)))
    found = multiplied(reader, left, right)
    node_found = found.node
    if given.get("alpha", 1.0) != 1.0:
        node_found = reader.add("ElementTimes", [node_found, reader.number(given["alpha"])])
    bias = operand(inputs, 2)
    beta = given.get("beta", 1.0)
    found = Tensor(node_found, found.batch, found.fold)
    if bias is None or beta == 0.0 or (isinstance(bias, Constant) and is_zero(bias.array)):
        return found
    nodes, batch, fold = together(reader, [found, bias])
    if beta != 1.0:
        nodes[1] = reader.add("ElementTimes", [nodes[1], reader.number(beta)])
    return Tensor(reader.add("Plus", nodes), batch, fold)


def _transposed(reader: Importer, value: Value | None, *, swap: bool) -> Value:
    if value is None or value.rank != 2:
        raise Unreadable("its inputs are no matrices")
    if not swap:
        return value
    if isinstance(value, Constant):
        return Constant(value.array.T, value.name)
    return turned(reader, value, [1, 0])
