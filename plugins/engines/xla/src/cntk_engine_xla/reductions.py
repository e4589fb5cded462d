"""ReduceElements over everything, or over samples that are no sequences: rows that are no frames add nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cntk_core.api import Node, core_ops, elements
from cntk_core.api.engines import kernels
from cntk_engine_xla.lowering import Array, Trace

ALL_AXES, BATCH_AXIS = -1, -3
"""Numbers of axes that no sample has."""

BATCH = "#"
"""The dynamic axis of inputs without sequences."""

NEUTRAL = {"Sum": 0.0, "Mean": 0.0, "LogSum": -math.inf, "Max": -math.inf, "Min": math.inf, "Prod": 1.0}
"""What changes no result."""

SMALLEST = 1e-30
"""Divisors closer to 0 are moved away from it."""


def _applies(node: Node) -> bool:
    (child,) = node.inputs
    if not child.framed or node.attributes.operation not in NEUTRAL:
        return False
    return node.attributes.axis == ALL_AXES or child.axis == BATCH  # other samples may be sequences, which is refused


def _groups(trace: Trace, node: Node, value: Array) -> tuple[Array, Array]:
    """What is reduced along the first axis, and of how many numbers that is."""
    import jax.numpy as jnp

    (child,) = node.inputs
    fill = jnp.asarray(NEUTRAL[node.attributes.operation], value.dtype)
    rows = jnp.where(trace.mask(child.axis, value.ndim), value, fill)
    count = trace.counts[child.axis]
    if node.attributes.axis == ALL_AXES:
        rows, count = rows.reshape(-1), count * elements(child.known_shape)
    return rows, jnp.maximum(count, 1).astype(value.dtype)


def _forward(trace: Trace, node: Node, inputs: list[Array]) -> Array:
    import jax.numpy as jnp

    rows, count = _groups(trace, node, inputs[0])
    operation = node.attributes.operation
    if operation == "LogSum":
        largest = jnp.max(rows, axis=0)
        shift = jnp.where(jnp.isfinite(largest), largest, jnp.zeros_like(largest))
        found = jnp.log(jnp.sum(jnp.exp(rows - shift), axis=0)) + shift
    elif operation in ("Sum", "Mean"):
        found = jnp.sum(rows, axis=0) / (count if operation == "Mean" else 1)
    elif operation == "Prod":
        found = jnp.prod(rows, axis=0)
    else:
        found = jnp.max(rows, axis=0) if operation == "Max" else jnp.min(rows, axis=0)
    return found.reshape(node.known_shape)


def _gradient(
    trace: Trace, node: Node, arriving: Array, inputs: list[Array], needs: Sequence[bool]
) -> Sequence[Array | None]:
    import jax.numpy as jnp

    (value,) = inputs
    _, count = _groups(trace, node, value)
    whole = node.attributes.axis == ALL_AXES
    g, y = (each.reshape(() if whole else (1, *value.shape[1:])) for each in (arriving, trace.value(node)))
    operation = node.attributes.operation
    if operation == "LogSum":
        found = g * jnp.exp(value - y)
    elif operation == "Prod":
        floor = jnp.where(value > 0, SMALLEST, -SMALLEST).astype(value.dtype)
        found = g * (y / jnp.where(jnp.abs(value) < SMALLEST, floor, value))
    elif operation in ("Max", "Min"):
        found = jnp.where(value == y, g, jnp.zeros_like(g))
    else:
        found = g / count if operation == "Mean" else g
    return (trace.masked(jnp.broadcast_to(found, value.shape), node.inputs[0].axis),)


_REDUCE = core_ops().find("", "ReduceElements")
assert _REDUCE is not None
_FORMS = dict.fromkeys(
    _REDUCE.form_of(_REDUCE.attributes(name, axis)) for name in ("Sum", "Max") for axis in (ALL_AXES, BATCH_AXIS)
)
KERNELS = kernels("xla", _FORMS, _forward, _gradient, applies=_applies)
