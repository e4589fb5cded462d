"""Rules of what goes over frames: reductions and products of sequences, memories and attention; and of dropout."""

from __future__ import annotations

from collections.abc import Sequence

from cntk_core.network.node import BATCH, Node
from cntk_core.ops.families.attention import ATTENTION_SUM
from cntk_core.ops.families.attention_adjoints import ATTENTION_MEMORY, ATTENTION_PRODUCTS, ProductsAttributes
from cntk_core.ops.families.frame_reductions import SEQUENCE_AXIS
from cntk_core.ops.families.products import TIMES
from cntk_core.ops.families.reductions import REDUCE_ELEMENTS, ReduceAttributes
from cntk_core.ops.families.sequences import RECONCILE_DYNAMIC_AXIS, TO_SEQUENCE_LIKE, UNPACK_SEQUENCE
from cntk_core.ops.families.slicing import SLICE, SliceAttributes
from cntk_core.ops.language.shapes import Longest, elements
from cntk_core.plan.loops import components
from cntk_kit_builders.derivatives.registry import Gradients, derivative_rule
from cntk_kit_builders.derivatives.writing import DerivativeWriter, NotDifferentiable, Term

_SINGLE = tuple(op.form for op in (REDUCE_ELEMENTS, TIMES, UNPACK_SEQUENCE))
"""Of ops whose new dynamic axis has one frame for each sequence, in whatever form they make one."""


@derivative_rule("ReduceElements")
def _reduce(d: DerivativeWriter, node: Node, g: Node, needs: Sequence[bool]) -> Gradients:
    (x,), axis, operation = node.inputs, node.attributes.axis, node.attributes.operation
    shape, y = x.known_shape, node
    if axis >= 0:
        place = len(shape) - axis
        kept = (1,) * len(shape) if not axis else (*shape[:place], 1, *shape[place + 1 :])
        g, y = d.reshape(g, kept), d.reshape(node, kept)
    elif axis == SEQUENCE_AXIS:
        g, y = repeated(d, g, x), repeated(d, node, x)
    if operation == "Sum":
        return (g,)
    if operation == "Mean":
        return (d.over(g, _count(d, node)),)
    if operation == "LogSum":
        return (d.times(g, d.op("Exp", d.op("Minus", x, y))),)
    if operation == "Prod":
        return (d.times(g, d.over(y, x)),)
    return (d.times(g, d.op("Equal", x, y)),)


def repeated(d: DerivativeWriter, value: Node, like: Node) -> Node:
    """A value of each sequence, at each of its frames."""
    return d.op(RECONCILE_DYNAMIC_AXIS, value, like)


def _count(d: DerivativeWriter, node: Node) -> Term:
    """How many numbers became one, as the data of the reduction see it."""
    x, axis = node.inputs[0], node.attributes.axis
    if axis >= 0:
        return float(elements(x.known_shape) // max(1, elements(node.known_shape)))
    counted = d.op(REDUCE_ELEMENTS, d.fit(1.0, x), attributes=ReduceAttributes("Sum", axis, node.attributes.keeps))
    return repeated(d, counted, x) if axis == SEQUENCE_AXIS else counted


@derivative_rule("ReconcileDynamicAxis")
def _reconcile(d: DerivativeWriter, node: Node, g: Node, needs: Sequence[bool]) -> Gradients:
    value, _ = node.inputs
    if not value.framed or value.axis == node.axis:
        return g, None
    if not _is_single(d, value):
        raise NotDifferentiable("whether its sequences are as long or one frame each, minibatches tell")
    total = d.op(REDUCE_ELEMENTS, g, attributes=ReduceAttributes("Sum", SEQUENCE_AXIS))
    return repeated(d, total, value), None


def _is_single(d: DerivativeWriter, value: Node) -> bool:
    """Whether a value has one frame for each sequence, whatever the minibatch."""
    if value.axis == BATCH:
        return True
    makers = (node for node in d.network if node.axis == value.axis and node.inputs)
    return any(
        maker.op.form in _SINGLE and maker.op.makes_axis(maker.inputs[0].shape, maker.attributes) for maker in makers
    )


# -- memories and attention ---------------------------------------------------------------------------------


@derivative_rule("UnpackSequence")
def _unpack(d: DerivativeWriter, node: Node, g: Node, needs: Sequence[bool]) -> Gradients:
    shape = node.inputs[0].known_shape
    if node.attributes.with_mask:  # which stands behind the elements
        g = d.op(SLICE, g, attributes=SliceAttributes(0, elements(shape), 1))
    return (d.reshape(d.op(TO_SEQUENCE_LIKE, g, node.inputs[0]), shape),)


@derivative_rule("ToSequenceLike")
def _to_sequence_like(d: DerivativeWriter, node: Node, g: Node, needs: Sequence[bool]) -> Gradients:
    value, like = node.inputs
    if value.known_shape[0] != Longest(like.axis):
        raise NotDifferentiable("its axis may be longer than the longest sequence")
    return d.op(RECONCILE_DYNAMIC_AXIS, d.op(UNPACK_SEQUENCE, g), value), None


@derivative_rule("AttentionWeights")
def _attention_weights(d: DerivativeWriter, node: Node, g: Node, needs: Sequence[bool]) -> Gradients:
    memory, frames, *there = node.inputs
    shared = d.sum_axis(d.op("ElementTimes", g, node), len(node.known_shape) - 1)
    by_scores = d.node(d.times(d.op("ElementTimes", node, d.op("Minus", g, shared)), node.attributes.scale))
    return *_to_pair(d, memory, by_scores, frames, needs), *(None for _ in there)


@derivative_rule("AdditiveAttentionWeights")
def _additive(d: DerivativeWriter, node: Node, g: Node, needs: Sequence[bool]) -> Gradients:
    raise NotDifferentiable("no node has the sums of its pairs")


def _to_pair(
    d: DerivativeWriter, memory: Node, weights: Node, frames: Node, needs: Sequence[bool]
) -> tuple[Node | None, Node | None]:
    """The gradients of the products of a memory with frames, by both; ``weights`` is that of the products."""
    to_memory = d.op(ATTENTION_MEMORY, memory, weights, frames) if needs[0] else None
    to_frames = d.reshape(d.op(ATTENTION_SUM, memory, weights), frames.known_shape) if needs[1] else None
    return to_memory, to_frames


def _products(d: DerivativeWriter, memory: Node, frames: Node, like: Node) -> Node:
    """The products of a memory with frames, laid out as weights."""
    shape = like.known_shape
    if len(shape) == 2 and shape[0] == 1:
        raise NotDifferentiable("its weights have an axis for a single head")
    heads = shape[0] if len(shape) == 2 else 1
    return d.op(ATTENTION_PRODUCTS, memory, frames, attributes=ProductsAttributes(heads))


@derivative_rule("AttentionSum")
def _attention_sum(d: DerivativeWriter, node: Node, g: Node, needs: Sequence[bool]) -> Gradients:
    memory, weights = node.inputs
    to_memory = d.op(ATTENTION_MEMORY, memory, weights, g) if needs[0] else None
    return to_memory, _products(d, memory, g, weights) if needs[1] else None


@derivative_rule(ATTENTION_PRODUCTS)
def _attention_products(d: DerivativeWriter, node: Node, g: Node, needs: Sequence[bool]) -> Gradients:
    memory, frames = node.inputs
    return _to_pair(d, memory, g, frames, needs)


@derivative_rule(ATTENTION_MEMORY)
def _attention_memory(d: DerivativeWriter, node: Node, g: Node, needs: Sequence[bool]) -> Gradients:
    _, weights, frames = node.inputs
    to_weights = _products(d, g, frames, weights) if needs[1] else None
    to_frames = d.reshape(d.op(ATTENTION_SUM, g, weights), frames.known_shape) if needs[2] else None
    return None, to_weights, to_frames


# -- dropout ------------------------------------------------------------------------------------------------


@derivative_rule("Dropout")
def _dropout(d: DerivativeWriter, node: Node, g: Node, needs: Sequence[bool]) -> Gradients:
    """What was dropped is dropped again: nodes with the same seed draw the same numbers."""
    if node.attributes.seed < 0:
        raise NotDifferentiable("without a seed of its own nobody else can drop the same elements")
    if any(part.direction and node in part.nodes for part in components([node])):
        raise NotDifferentiable("in a loop it draws in the order of the time steps")
    return (d.op(node.op, g, attributes=node.attributes),)
