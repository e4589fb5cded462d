"""CosDistanceWithNegativeSamples: each frame is compared with later frames too, round the end of the minibatch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from cntk_core.api import Node, OpContext
from cntk_core.api.engines import cosine_gradients, cosines, kernels, negative_partners, samples
from cntk_engine_xla.layouts import filled
from cntk_engine_xla.lowering import Array, Trace


def _draw(context: OpContext, node: Node, shape: tuple[int, ...], rows: int) -> Any:
    """The row that each row is compared with and that which is compared with it, by column; -1 for none."""
    partners, others = negative_partners(context, shape[0] if node.framed else 1, node.attributes.shifts)
    return filled(partners, rows, -1), filled(others, rows, -1)


def _pairs(trace: Trace, node: Node, inputs: Sequence[Array]) -> tuple[Array, Array]:
    """The two sides, with a row each for every frame."""
    left, right = (samples(value, bool(child.framed)) for value, child in zip(inputs[:2], node.inputs[:2], strict=True))
    rows = max(left.shape[0], right.shape[0]) if left.shape[0] and right.shape[0] else 0
    return jnp.broadcast_to(left, (rows, left.shape[1])), jnp.broadcast_to(right, (rows, right.shape[1]))


def _forward(trace: Trace, node: Node, inputs: list[Array]) -> Array:
    left, right = _pairs(trace, node, inputs)
    partners, _ = trace.draws[node]
    found = jnp.concatenate([cosines(jnp, left, right[partner]) for partner in partners.T], axis=1)
    return jnp.where(partners < 0, jnp.zeros((), found.dtype), found)


def _gradient(
    trace: Trace, node: Node, arriving: Array, inputs: list[Array], needs: Sequence[bool]
) -> Sequence[Array | None]:
    left, right = _pairs(trace, node, inputs)
    partners, others = trace.draws[node]
    incoming = arriving.reshape(left.shape[0], -1)
    incoming = jnp.where(partners < 0, jnp.zeros((), incoming.dtype), incoming)
    to_left, to_right = jnp.zeros_like(left), jnp.zeros_like(right)
    for index in range(partners.shape[1]):
        other = others[:, index]
        more_left, more_right = cosine_gradients(jnp, incoming[:, index : index + 1], left, right[partners[:, index]])
        to_left = to_left + more_left
        to_right = to_right + jnp.where(other[:, None] < 0, jnp.zeros((), right.dtype), more_right[other])
    gradients = [
        (found if child.framed else jnp.sum(found, axis=0)).reshape(value.shape)
        for found, child, value in zip((to_left, to_right), node.inputs[:2], inputs[:2], strict=True)
    ]
    return [*gradients, *[None] * len(inputs[2:])]


KERNELS = kernels("xla", ["CosDistanceWithNegativeSamples"], _forward, _gradient, draw=_draw)
