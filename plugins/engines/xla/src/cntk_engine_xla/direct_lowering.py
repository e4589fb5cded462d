"""Ops whose own functions run on ``jax.numpy``, as their traits say: row by row, or as sums of rows.

Where the gradient writes in place, JAX finds it from the value.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import jax
import jax.numpy as jnp

from cntk_core.api import Node, Op
from cntk_core.api.engines import check_foreign_gradients, check_foreign_value, is_foreign, run_forward, run_gradient
from cntk_engine_xla.lowering import Array, Gradient, Lowering, Trace


def forward(trace: Trace, node: Node, inputs: list[Array]) -> Array:
    """Compute a value by the op's own description."""
    context = trace.context(node)
    result = run_forward(node.op, jnp, inputs, node.attributes, context)
    if is_foreign(node.op):
        rows = [value.shape[0] for value, framed in zip(inputs, context.framed, strict=True) if framed]
        check_foreign_value(node.op, result, (*rows[:1], *node.known_shape) if node.framed else node.known_shape)
    return result


def gradient(
    trace: Trace, node: Node, arriving: Array, inputs: list[Array], needs: Sequence[bool]
) -> Sequence[Array | None]:
    """Compute gradients by the op's own description."""
    context = trace.context(node)
    output = trace.value(node)
    found = run_gradient(node.op, jnp, arriving, output, inputs, node.attributes, context, needs)
    if is_foreign(node.op):
        check_foreign_gradients(node.op, found, inputs)
    return found


def differentiated(
    trace: Trace, node: Node, arriving: Array, inputs: list[Array], needs: Sequence[bool]
) -> Sequence[Array | None]:
    """Compute gradients by JAX's differentiation of the op's own description."""
    places = [index for index, needed in enumerate(needs) if needed]

    def compute(*chosen: Array) -> Array:
        values = list(inputs)
        for index, value in zip(places, chosen, strict=True):
            values[index] = value
        return forward(trace, node, values)

    _, pull = jax.vjp(compute, *(inputs[index] for index in places))
    found = dict(zip(places, pull(arriving), strict=True))
    return [found.get(index) for index in range(len(inputs))]


def _zeroed(trace: Trace, node: Node, inputs: list[Array]) -> list[Array]:
    """The inputs of a node with zeros in the rows that are no frames."""
    framed = trace.context(node).framed
    pairs = zip(node.inputs, inputs, framed, strict=True)
    return [trace.masked(value, child.axis) if has else value for child, value, has in pairs]


def _over_frames(trace: Trace, node: Node, inputs: list[Array]) -> Array:
    """Compute a value without frames, to which rows of zeros add nothing."""
    return forward(trace, node, _zeroed(trace, node, inputs))


def _of_frames(back: Gradient) -> Gradient:
    """The gradients of such a value: ``back`` of zeroed inputs, and nothing for the rows that are no frames."""

    def compute(
        trace: Trace, node: Node, arriving: Array, inputs: list[Array], needs: Sequence[bool]
    ) -> Sequence[Array | None]:
        found = back(trace, node, arriving, _zeroed(trace, node, inputs), needs)
        framed = trace.context(node).framed
        return [
            trace.masked(each.reshape(given.shape), child.axis) if each is not None and has else each
            for child, given, each, has in zip(node.inputs, inputs, found, framed, strict=True)
        ]

    return compute


_GRADIENTS = {"nothing": gradient, "gradient": differentiated}


@cache
def lowering_of(op: Op) -> Lowering | None:
    """Return how an op becomes XLA by its own functions; None if it does not say that it can."""
    traits = op.traits
    back = _GRADIENTS.get(traits.in_place)
    if not traits.pure_xp or back is None:
        return None
    if traits.row_wise:
        return Lowering(forward, back, in_loops=traits.in_loops)
    return Lowering(_over_frames, _of_frames(back)) if traits.ignores_zero_rows else None
