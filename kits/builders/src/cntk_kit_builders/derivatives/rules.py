"""How ops write their gradients as nodes: a rule for each op that is no element-wise expression."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cntk_core.network.node import Node
from cntk_core.ops.families.adjoints import SUM_OF_OUTER_PRODUCTS
from cntk_core.ops.families.products import TIMES, TRANSPOSE_TIMES
from cntk_core.ops.families.reshaping import TransposeAttributes, transposed_axes
from cntk_core.ops.families.sequences import RECONCILE_DYNAMIC_AXIS
from cntk_core.ops.families.slicing import (
    ROW_STACK,
    SLICE,
    SLICE_BY_STRIDES,
    SliceAttributes,
    StackAttributes,
    slice_ranges,
)
from cntk_core.ops.language.expression import symbol
from cntk_core.ops.language.shapes import elements
from cntk_core.plan.traced import traced_gradient
from cntk_kit_builders.derivatives.registry import Gradients, derivative_rule
from cntk_kit_builders.derivatives.writing import DerivativeWriter, NotDifferentiable, Term


def by_expression(d: DerivativeWriter, node: Node, g: Node, needs: Sequence[bool]) -> Gradients:
    """The rule of every element-wise op."""
    names = [f"x{index}" for index in range(len(node.inputs))]
    symbols = {"g": g, "y": node, **dict(zip(names, node.inputs, strict=True))}
    trees = traced_gradient(node, symbol("g"), symbol("y"), [symbol(name) for name in names])
    return [
        None if tree is None or not needed else d.expression(tree, symbols)
        for tree, needed in zip(trees, needs, strict=True)
    ]


# -- products -----------------------------------------------------------------------------------------------


def _outer_products(d: DerivativeWriter, left: Node, right: Node, *, framed: bool) -> Node:
    """``(I, O)``: the sum of the outer products of ``(R, O)`` and ``(R, I)``, for each frame or over all of them."""
    if not framed and (left.framed or right.framed):
        assert left.framed, "the gradient of a product has the frames of the product"
        if right.framed:
            return d.op(SUM_OF_OUTER_PRODUCTS, left, right)
    return d.op(TIMES, left, d.op("TransposeDimensions", right))


@derivative_rule("Times")
def _times(d: DerivativeWriter, node: Node, g: Node, needs: Sequence[bool]) -> Gradients:
    left, right = node.inputs
    if node.framed and g.axis != left.axis and left.framed:  # over the steps of sequences
        g = d.op(RECONCILE_DYNAMIC_AXIS, g, left)
    rank = node.attributes.output_rank
    outer = elements(left.known_shape[len(left.known_shape) - rank :]) if rank else 1
    inner, rest = elements(left.known_shape) // outer, elements(node.known_shape) // outer
    incoming = d.reshape(g, (rest, outer))
    to_left = to_right = None
    if needs[0]:
        made = _outer_products(d, incoming, d.reshape(right, (rest, inner)), framed=bool(left.framed))
        to_left = d.reshape(made, left.known_shape)
    if needs[1]:
        made = d.op(TRANSPOSE_TIMES, d.reshape(left, (inner, outer)), incoming)
        to_right = d.reshape(made, right.known_shape)
    return to_left, to_right


@derivative_rule("TransposeTimes")
def _transpose_times(d: DerivativeWriter, node: Node, g: Node, needs: Sequence[bool]) -> Gradients:
    left, right = node.inputs
    inner = left.known_shape[-1]
    outer = elements(left.known_shape) // inner
    rest = elements(node.known_shape) // outer
    incoming = d.reshape(g, (rest, outer))
    to_left = to_right = None
    if needs[0]:
        made = _outer_products(d, d.reshape(right, (rest, inner)), incoming, framed=bool(left.framed))
        to_left = d.reshape(made, left.known_shape)
    if needs[1]:
        to_right = d.reshape(d.op(TIMES, d.reshape(left, (outer, inner)), incoming), right.known_shape)
    return to_left, to_right


@derivative_rule(SUM_OF_OUTER_PRODUCTS)
def _sum_of_outer_products(d: DerivativeWriter, node: Node, g: Node, needs: Sequence[bool]) -> Gradients:
    left, right = node.inputs
    pairs = elements(left.known_shape[:-1])
    rows = [d.reshape(value, (pairs, value.known_shape[-1])) for value in (left, right)]
    to_left = d.reshape(d.op(TIMES, g, rows[1]), left.known_shape) if needs[0] else None
    to_right = d.reshape(d.op(TRANSPOSE_TIMES, g, rows[0]), right.known_shape) if needs[1] else None
    return to_left, to_right


@derivative_rule("DiagTimes")
def _diag_times(d: DerivativeWriter, node: Node, g: Node, needs: Sequence[bool]) -> Gradients:
    diagonal, data = node.inputs
    count = elements(diagonal.known_shape)
    whole = data.known_shape
    if count not in (whole[-1], elements(whole)):
        raise NotDifferentiable("its diagonal has another size than CNTK's first axis")
    lying = d.reshape(diagonal, whole if count == elements(whole) else whole[-1:])
    to_diagonal = None
    if needs[0]:
        to_diagonal = d.reshape(d.fit(d.times(g, data), lying), diagonal.known_shape)
    return to_diagonal, d.times(g, lying) if needs[1] else None


@derivative_rule("LookupTable")
def _look_up(d: DerivativeWriter, node: Node, g: Node, needs: Sequence[bool]) -> Gradients:
    table, words = node.inputs
    inner = elements(table.known_shape[:-1])
    if elements(words.known_shape) != inner:
        raise NotDifferentiable("it looks up several words at once")
    outer = table.known_shape[-1]
    incoming = d.reshape(g, (1, outer))
    to_table = to_words = None
    if needs[0]:
        made = _outer_products(d, incoming, d.reshape(words, (1, inner)), framed=bool(table.framed))
        to_table = d.reshape(made, table.known_shape)
    if needs[1]:
        made = d.op(TRANSPOSE_TIMES, d.reshape(table, (inner, outer)), incoming)
        to_words = d.reshape(made, words.known_shape)
    return to_table, to_words


@derivative_rule("Diagonal")
def _diagonal(d: DerivativeWriter, node: Node, g: Node, needs: Sequence[bool]) -> Gradients:
    return (d.times(g, d.constant(np.eye(node.known_shape[0]))),)


@derivative_rule("CosDistance")
def _cosine(d: DerivativeWriter, node: Node, g: Node, needs: Sequence[bool]) -> Gradients:
    if not all(child.framed for child in node.inputs):
        raise NotDifferentiable("one of its inputs has no dynamic axis")
    left, right = (d.reshape(child, (elements(child.known_shape),)) for child in node.inputs)
    squares = [d.sum_sample(d.op("ElementTimes", side, side)) for side in (left, right)]
    both = d.op("Reciprocal", d.op("Sqrt", d.op("ElementTimes", *squares)))
    found = []
    for side, other, square in ((left, right, squares[0]), (right, left, squares[1])):
        along = d.times(other, both)
        across = d.times(side, d.over(node, square))
        found.append(d.times(g, d.minus(along, d.node(across))))
    return [
        d.reshape(d.node(each), child.known_shape) if needed else None
        for each, child, needed in zip(found, node.inputs, needs, strict=True)
    ]


# -- sums and reductions ------------------------------------------------------------------------------------


@derivative_rule("SumElements", "SumColumnElements", "SumFrames")
def _repeated(d: DerivativeWriter, node: Node, g: Node, needs: Sequence[bool]) -> Gradients:
    return (g,)


@derivative_rule("MatrixL1Reg")
def _l1(d: DerivativeWriter, node: Node, g: Node, needs: Sequence[bool]) -> Gradients:
    x, zero = node.inputs[0], d.number(0.0)
    return (d.times(g, d.op("Minus", d.op("Greater", x, zero), d.op("Less", x, zero))),)


@derivative_rule("MatrixL2Reg")
def _l2(d: DerivativeWriter, node: Node, g: Node, needs: Sequence[bool]) -> Gradients:
    return (d.times(node.inputs[0], d.over(g, node)),)


@derivative_rule("Softmax")
def _softmax(d: DerivativeWriter, node: Node, g: Node, needs: Sequence[bool]) -> Gradients:
    shared = d.sum_sample(d.op("ElementTimes", g, node))
    return (d.op("ElementTimes", node, d.op("Minus", g, shared)),)


@derivative_rule("LogSoftmax")
def _log_softmax(d: DerivativeWriter, node: Node, g: Node, needs: Sequence[bool]) -> Gradients:
    return (d.op("Minus", g, d.op("ElementTimes", d.op("Exp", node), d.sum_sample(g))),)


# -- criteria -----------------------------------------------------------------------------------------------


@derivative_rule("SquareError")
def _square_error(d: DerivativeWriter, node: Node, g: Node, needs: Sequence[bool]) -> Gradients:
    left, right = node.inputs
    change = d.times(d.times(g, 2.0), d.op("Minus", left, d.reshape(right, left.known_shape)))
    return change, _laid_out(d, d.times(change, -1.0), right) if needs[1] else None


def _laid_out(d: DerivativeWriter, value: Term, like: Node) -> Node:
    """A gradient in the shape of an input that is laid out otherwise."""
    return d.reshape(d.node(value), like.known_shape)


@derivative_rule("CrossEntropyWithSoftmax")
def _cross_entropy_with_softmax(d: DerivativeWriter, node: Node, g: Node, needs: Sequence[bool]) -> Gradients:
    labels, scores = node.inputs[:2]
    lying = d.reshape(labels, scores.known_shape)
    to_labels = to_scores = None
    if needs[0]:
        to_labels = _laid_out(d, d.times(d.times(g, -1.0), d.op("LogSoftmax", scores)), labels)
    if needs[1]:
        to_scores = d.times(g, d.op("Minus", d.op("Softmax", scores), lying))
    return to_labels, to_scores


@derivative_rule("CrossEntropy")
def _cross_entropy(d: DerivativeWriter, node: Node, g: Node, needs: Sequence[bool]) -> Gradients:
    labels, chances = node.inputs
    lying, negative = d.reshape(labels, chances.known_shape), d.times(g, -1.0)
    to_labels = _laid_out(d, d.times(negative, d.op("Log", chances)), labels) if needs[0] else None
    return to_labels, d.times(negative, d.over(lying, chances)) if needs[1] else None


@derivative_rule("Logistic")
def _logistic(d: DerivativeWriter, node: Node, g: Node, needs: Sequence[bool]) -> Gradients:
    if len(node.inputs) > 2:
        raise NotDifferentiable("its samples have weights")
    labels, chances = node.inputs
    lying = d.reshape(labels, chances.known_shape)
    slope = d.op("Minus", d.node(d.times(lying, 2.0)), d.number(1.0))
    correct = d.op("Plus", d.op("Minus", d.number(1.0), lying), d.op("ElementTimes", chances, slope))
    return None, d.times(d.times(g, -1.0), d.over(slope, correct))


# -- moves --------------------------------------------------------------------------------------------------


@derivative_rule("Reshape", "LegacyReshape")
def _reshape(d: DerivativeWriter, node: Node, g: Node, needs: Sequence[bool]) -> Gradients:
    if node.op.makes_axis(node.inputs[0].shape, node.attributes):
        raise NotDifferentiable("it changes the number of frames")
    return (d.reshape(g, node.inputs[0].known_shape),)


@derivative_rule("TransposeDimensions")
def _transpose(d: DerivativeWriter, node: Node, g: Node, needs: Sequence[bool]) -> Gradients:
    axes = transposed_axes(node.inputs[0].known_shape, node.attributes)
    rank = len(axes)
    # Both are in CNTK's order, from 1: the axis of the result where an axis of the input went.
    back = tuple(rank - axes.index(rank - axis) for axis in range(1, rank + 1))
    moved = d.op(
        "TransposeDimensions", d.reshape(g, _padded(g, rank)), attributes=TransposeAttributes(permutation=back)
    )
    return (d.reshape(moved, node.inputs[0].known_shape),)


def _padded(node: Node, rank: int) -> tuple[int, ...]:
    return (1,) * (rank - len(node.known_shape)) + node.known_shape


@derivative_rule("Slice")
def _slice(d: DerivativeWriter, node: Node, g: Node, needs: Sequence[bool]) -> Gradients:
    shape = node.inputs[0].known_shape
    strides = {
        len(shape) - axis: step for axis, step in zip(node.attributes.axis, node.attributes.strides, strict=True)
    }
    for axis, (first, last) in slice_ranges(shape, node.attributes).items():
        g = _spread(d, g, axis, last - first, strides.get(axis, 1))
        parts = [g]
        for count, place in ((first, 0), (shape[axis] - last, len(parts))):
            if count:
                zeros = tuple(count if each == axis else 1 for each in range(len(shape)))
                parts.insert(place if place == 0 else len(parts), d.number(0.0, zeros))
        if len(parts) > 1:
            g = d.op(ROW_STACK, *parts, attributes=StackAttributes(len(shape) - axis))
    return (g,)


def _spread(d: DerivativeWriter, g: Node, axis: int, count: int, step: int) -> Node:
    """Elements at every ``step``-th of ``count`` places along a memory axis, from the last one on if it is negative."""
    shape = g.known_shape
    rank, size = len(shape), abs(step)
    number = rank - axis
    if step < 0:
        g = d.op(SLICE_BY_STRIDES, g, attributes=SliceAttributes(0, 0, number, -1))
    if size == 1:
        return g
    zeros = d.number(0.0, tuple(size - 1 if each == axis + 1 else 1 for each in range(rank + 1)))
    apart = d.reshape(g, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
    apart = d.op(ROW_STACK, apart, zeros, attributes=StackAttributes(number))
    g = d.reshape(apart, (*shape[:axis], shape[axis] * size, *shape[axis + 1 :]))
    before = (count - 1) % size if step < 0 else 0
    if before:
        lead = d.number(0.0, tuple(before if each == axis else 1 for each in range(rank)))
        g = d.op(ROW_STACK, lead, g, attributes=StackAttributes(number))
    return d.op(SLICE, g, attributes=SliceAttributes(0, count, number))


@derivative_rule("RowStack")
def _stack(d: DerivativeWriter, node: Node, g: Node, needs: Sequence[bool]) -> Gradients:
    axis = node.attributes.axis
    found: list[Node | None] = []
    begin = 0
    for child, needed in zip(node.inputs, needs, strict=True):
        shape = child.known_shape
        count = shape[-axis] if len(shape) >= axis else 1
        part = SliceAttributes(begin, begin + count, axis)
        found.append(d.op(SLICE, g, attributes=part) if needed else None)
        begin += count
    return found


@derivative_rule("OutputMultiplexer")
def _output(d: DerivativeWriter, node: Node, g: Node, needs: Sequence[bool]) -> Gradients:
    """One of several outputs, which lie side by side: the others get zeros."""
    attributes, (*lead, total) = node.attributes, node.inputs[0].known_shape
    if attributes.rows:
        raise NotDifferentiable("the output has an axis of its own")
    if not attributes.end:
        return (g,)
    if lead and len(attributes.dims) != 1:
        raise NotDifferentiable("the output has several axes beside that of the steps")
    parts = [g if lead else d.reshape(g, (attributes.end - attributes.begin,))]
    ones = (1,) * len(lead)
    if attributes.begin:
        parts.insert(0, d.number(0.0, (*ones, attributes.begin)))
    if total > attributes.end:
        parts.append(d.number(0.0, (*ones, total - attributes.end)))
    return (d.op(ROW_STACK, *parts) if len(parts) > 1 else parts[0],)


@derivative_rule("RowRepeat")
def _repeat(d: DerivativeWriter, node: Node, g: Node, needs: Sequence[bool]) -> Gradients:
    blocks = d.reshape(g, (node.attributes.num_repeats, *node.inputs[0].known_shape))
    return (d.sum_axis(blocks, 0, keep=False),)
