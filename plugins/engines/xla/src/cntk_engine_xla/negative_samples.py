"""CosDistanceWithNegativeSamples: each frame is compared with later frames too, round the end of the minibatch."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp

from cntk_core.api import Node
from cntk_core.api.engines import cosine_gradients, cosines, kernels, samples
from cntk_engine_xla.lowering import Array, Trace


def _pairs(trace: Trace, node: Node, inputs: Sequence[Array]) -> tuple[Array, Array]:
    """The two sides, with a row each for every frame."""
    left, right = (samples(value, bool(child.framed)) for value, child in zip(inputs[:2], node.inputs[:2], strict=True))
    rows = max(left.shape[0], right.shape[0]) if left.shape[0] and right.shape[0] else 0
    return jnp.broadcast_to(left, (rows, left.shape[1])), jnp.broadcast_to(right, (rows, right.shape[1]))


def _partners(trace: Trace, node: Node, rows: int) -> list[Array]:
    """For each column of the result, the row that each row is compared with."""
    axis = trace.axis_of(node)
    count = 1 if axis is None else jnp.maximum(trace.counts[axis], 1)
    return [(jnp.arange(rows) + shift) % count for shift in node.attributes.shifts]


def _forward(trace: Trace, node: Node, inputs: list[Array]) -> Array:
    left, right = _pairs(trace, node, inputs)
    columns = [cosines(jnp, left, right[rows]) for rows in _partners(trace, node, left.shape[0])]
    return jnp.concatenate(columns, axis=1)


def _gradient(
    trace: Trace, node: Node, arriving: Array, inputs: list[Array], needs: Sequence[bool]
) -> Sequence[Array | None]:
    axis = trace.axis_of(node)
    left, right = _pairs(trace, node, inputs)
    incoming = arriving.reshape(left.shape[0], -1)
    to_left, to_right = jnp.zeros_like(left), jnp.zeros_like(right)
    for column, rows in enumerate(_partners(trace, node, left.shape[0])):
        changes = cosine_gradients(jnp, incoming[:, column : column + 1], left, right[rows])
        more_left, more_right = changes if axis is None else (trace.masked(change, axis) for change in changes)
        to_left, to_right = to_left + more_left, to_right.at[rows].add(more_right)
    gradients = [
        (found if child.framed else jnp.sum(found, axis=0)).reshape(value.shape)
        for found, child, value in zip((to_left, to_right), node.inputs[:2], inputs[:2], strict=True)
    ]
    return [*gradients, *[None] * len(inputs[2:])]


KERNELS = kernels("xla", ["CosDistanceWithNegativeSamples"], _forward, _gradient)
