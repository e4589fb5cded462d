"""Ops that move frames from one dynamic axis to another; the host knows which row goes where, or an input says it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from cntk_core.api import Node, OpContext
from cntk_core.api.engines import gathered_places, kernels, reconciled_rows
from cntk_engine_xla.layouts import filled
from cntk_engine_xla.lowering import Array, Trace, is_looked_at


def _numbers(values: Array) -> Array:
    """Row numbers from values of an input."""
    return values.reshape(-1).astype(jnp.int32)


def _taken(table: Array, rows: Array) -> Array:
    """Rows of a table; zeros if it has none."""
    if not table.shape[0]:
        return jnp.zeros((len(rows), *table.shape[1:]), table.dtype)
    return table[jnp.clip(rows, 0, table.shape[0] - 1)]


def _added(values: Array, rows: Array, like: Array) -> Array:
    """Zeros like an array, with values added at rows; rows beyond it are left out."""
    return jnp.zeros(like.shape, values.dtype).at[rows].add(values, mode="drop")


def _framed(node: Node) -> bool:
    return all(child.framed for child in node.inputs)


def _gather(trace: Trace, node: Node, inputs: list[Array]) -> Array:
    return _taken(inputs[1], _numbers(inputs[0]))


def _gather_gradient(
    trace: Trace, node: Node, arriving: Array, inputs: list[Array], needs: Sequence[bool]
) -> Sequence[Array | None]:
    return None, _added(trace.masked(arriving, node.axis), _numbers(inputs[0]), inputs[1])


def _scatter(trace: Trace, node: Node, inputs: list[Array]) -> Array:
    rows, axis = _numbers(inputs[1]), node.inputs[1].axis
    beyond = trace.sizes[node.axis]
    places = jnp.where(trace.mask(axis, 1), rows, beyond)
    return jnp.zeros((beyond, *inputs[2].shape[1:]), inputs[2].dtype).at[places].set(inputs[2], mode="drop")


def _scatter_gradient(
    trace: Trace, node: Node, arriving: Array, inputs: list[Array], needs: Sequence[bool]
) -> Sequence[Array | None]:
    return None, None, trace.masked(_taken(arriving, _numbers(inputs[1])), node.inputs[1].axis)


def _draw_reconciled(context: OpContext, node: Node, shape: tuple[int, ...], rows: int) -> Any:
    """The row of the first input for each row; None if both have the same."""
    found = reconciled_rows(context) if all(context.framed) else None
    return None if found is None else filled(found, rows, 0)


def _reconciled(trace: Trace, node: Node, inputs: list[Array]) -> Array:
    value, rows = inputs[0], trace.draws.get(node)
    if not node.inputs[0].framed:
        return jnp.broadcast_to(value, trace.shape(node))
    if rows is not None:
        return _taken(value, rows)
    size = trace.shape(node)[0]
    return value if size == value.shape[0] else _taken(value, np.arange(size) * (np.arange(size) < value.shape[0]))


def _reconciled_gradient(
    trace: Trace, node: Node, arriving: Array, inputs: list[Array], needs: Sequence[bool]
) -> Sequence[Array | None]:
    value, rows = inputs[0], trace.draws.get(node)
    if not node.framed:
        return arriving, None
    arrived = trace.masked(arriving, node.axis)
    if not node.inputs[0].framed:
        return jnp.sum(arrived, axis=0).reshape(value.shape), None
    if rows is None and arrived.shape[0] == value.shape[0]:
        return arrived, None
    return _added(arrived, np.arange(arrived.shape[0]) if rows is None else rows, value), None


def _draw_slices(context: OpContext, node: Node, shape: tuple[int, ...], rows: int) -> Any:
    """The numbers of the slices, which lie in the table."""
    places = gathered_places(context.saved.pop("looked")[0], node.inputs[1].known_shape[0])
    if not node.framed:
        return places.astype(np.int32)
    found = np.zeros((rows, *places.shape[1:]), np.int32)
    found[: len(places)] = places
    return found


def _slices(trace: Trace, node: Node, inputs: list[Array]) -> Array:
    return inputs[1][trace.draws[node]].reshape(trace.shape(node))


def _slices_gradient(
    trace: Trace, node: Node, arriving: Array, inputs: list[Array], needs: Sequence[bool]
) -> Sequence[Array | None]:
    places, table = trace.draws[node], inputs[1]
    arrived = trace.masked(arriving, node.axis) if node.framed else arriving
    return None, jnp.zeros_like(table).at[places.reshape(-1)].add(arrived.reshape(-1, *table.shape[1:]))


def _slices_known(node: Node) -> bool:
    return is_looked_at(node, 0)


KERNELS = (
    *kernels("xla", ["Gather"], _slices, _slices_gradient, applies=_slices_known, draw=_draw_slices, looks=(0,)),
    *kernels("xla", ["GatherPacked"], _gather, _gather_gradient, applies=_framed),
    *kernels("xla", ["ScatterPacked"], _scatter, _scatter_gradient, applies=_framed),
    *kernels("xla", ["ReconcileDynamicAxis"], _reconciled, _reconciled_gradient, draw=_draw_reconciled),
)
