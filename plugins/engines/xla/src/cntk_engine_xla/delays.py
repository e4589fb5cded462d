"""PastValue and FutureValue: the host says which rows they read, the device moves the rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import Node, OpContext, SequenceLayout
from cntk_core.api.engines import (
    TAIL,
    align,
    delay_rows,
    initial_rows,
    kernels,
    last_sequence,
    reader_slots,
    shift_of,
    unbroadcast,
)
from cntk_engine_xla.layouts import filled, slots_bucket
from cntk_engine_xla.lowering import Array, Trace

Given = dict[str, Any]
"""What the host gives a delay. All row numbers are -1 where there is none, and there are as many as padded rows.

``source``: the row that each row reads. ``reader``: the row that reads it. ``initial``: the row of the initial state,
0 if that has no frames. Where sequences are cut into minibatches, moreover: ``carried``, the place in what was kept of
the minibatch before, ``tail``, that itself, ``(slots, steps, *shape)``; and ``keep``, where each of its new elements
comes from: rows of the value, of the initial state, and places of the old one.
"""


def _draw(context: OpContext, node: Node, shape: tuple[int, ...], rows: int) -> Given:
    layout, back = context.layout, shift_of(node)
    assert layout is not None, "a delay needs the sequences of its minibatch"
    reads = delay_rows(layout, back)
    given: Given = {
        "source": filled(reads.source, rows, -1),
        "reader": filled(delay_rows(layout, -back).source, rows, -1),
    }
    if len(node.inputs) > 1:
        initial = given["initial"] = np.full(rows, -1, np.int32)
        initial[reads.initial] = _initial(context, reads.sequence, reads.distance, back)
    if back > 0 and (layout.continues or len(reads.carried)):
        tail, carried = context.carried.get(TAIL), np.full(rows, -1, np.int32)
        if tail is not None:
            carried[reads.carried] = reads.carried_slot * back + reads.carried_back - 1
        slots = slots_bucket(layout.slots)
        given["carried"] = carried
        given["tail"] = np.zeros((slots, back, *shape[1:]), np.float32) if tail is None else tail
        given["keep"] = _sources_of_tail(context, layout, back, slots, old=tail is not None)
    return given


def _initial(context: OpContext, sequence: NDArray[np.int64], distance: NDArray[np.int64], back: int) -> Any:
    return initial_rows(sequence, distance, context.layouts[1], back) if context.framed[1] else 0


def _sources_of_tail(
    context: OpContext, layout: SequenceLayout, back: int, slots: int, *, old: bool
) -> NDArray[np.int32]:
    """Where the ends of slots that go on come from: ``(3, slots * back)``."""
    found = np.full((3, slots * back), -1, np.int32)
    rows, initial, kept = found
    places = reader_slots(layout)
    for slot in layout.continues:
        length = int(layout.lengths[slot])
        here, number = last_sequence(layout, slot)
        for step in range(1, back + 1):
            place = places[slot] * back + step - 1
            if step <= here:
                rows[place] = layout.start[length - step] + slot
            elif number >= 0:
                if len(context.framed) > 1:
                    initial[place] = _initial(context, np.array([number]), np.array([step - here]), back)
            elif old:
                kept[place] = places[slot] * back + step - here - 1
    return found


def _column(condition: Array, rank: int) -> Array:
    return condition.reshape(-1, *(1,) * (rank - 1))


def _chosen(table: Array, rows: Array, otherwise: Array) -> Array:
    """The rows of a table, or something else where the row number is negative."""
    if not table.shape[0]:
        return otherwise
    return jnp.where(_column(rows >= 0, table.ndim), table[jnp.maximum(rows, 0)], otherwise)


def _with_initial(node: Node, inputs: Sequence[Array], rows: Array, otherwise: Array, rank: int) -> Array:
    """The initial state for rows that begin with it, and something else for others."""
    state = inputs[1]
    if node.inputs[1].framed:
        if not state.shape[0]:
            return otherwise
        state = align(state[jnp.maximum(rows, 0)], framed=True, rank=rank - 1)
    return jnp.where(_column(rows >= 0, rank), state, otherwise)


def outside(trace: Trace, node: Node, inputs: Sequence[Array]) -> Array:
    """What a delay reads where no frame of the minibatch is: ``(rows, *shape)``, or a number for all rows.

    ``inputs`` are those of the delay; the first is not looked at.
    """
    given = trace.draws[node]
    found = jnp.asarray(node.attributes.default_hidden_activation, trace.dtype)
    rank = len(node.known_shape) + 1
    if len(inputs) > 1:
        found = _with_initial(node, inputs, given["initial"], found, rank)
    if "carried" in given:
        tail = given["tail"].astype(trace.dtype)
        found = _chosen(tail.reshape(-1, *tail.shape[2:]), given["carried"], found)
    return found


def keep_tail(trace: Trace, node: Node, inputs: Sequence[Array]) -> None:
    """Keep the ends of sequences that go on in the next minibatch, if there are any."""
    given = trace.draws[node]
    if "keep" not in given:
        return
    rows, initial, kept = given["keep"]
    tail, value = given["tail"].astype(trace.dtype), inputs[0]
    found = jnp.asarray(node.attributes.default_hidden_activation, trace.dtype)
    if len(inputs) > 1:
        found = _with_initial(node, inputs, initial, found, value.ndim)
    found = _chosen(tail.reshape(-1, *tail.shape[2:]), kept, found)
    found = _chosen(value, rows, found)
    slots = len(rows) // shift_of(node)
    trace.kept[node] = jnp.broadcast_to(found, (len(rows), *value.shape[1:])).reshape(slots, -1, *value.shape[1:])


def _keep(context: OpContext, kept: Array | None) -> None:
    """Note on the host what the device has kept of a delay's value."""
    assert context.layout is not None
    if kept is None or not context.layout.continues:
        context.carried.pop(TAIL, None)
    else:
        context.carried[TAIL] = kept


def _forward(trace: Trace, node: Node, inputs: list[Array]) -> Array:
    keep_tail(trace, node, inputs)
    found = _chosen(inputs[0], trace.draws[node]["source"], outside(trace, node, inputs))
    return jnp.broadcast_to(found, trace.shape(node))


def _gradient(
    trace: Trace, node: Node, arriving: Array, inputs: list[Array], needs: Sequence[bool]
) -> Sequence[Array | None]:
    given = trace.draws[node]
    zero = jnp.zeros((), arriving.dtype)
    found: list[Array | None] = [_chosen(arriving, given["reader"], zero) if needs[0] else None]
    if len(inputs) > 1:
        found.append(_by_initial(node, arriving, inputs[1], given["initial"]) if needs[1] else None)
    return found


def _by_initial(node: Node, arriving: Array, state: Array, rows: Array) -> Array:
    """The gradient of the initial state."""
    arrived = jnp.where(_column(rows >= 0, arriving.ndim), arriving, jnp.zeros((), arriving.dtype))
    if not node.inputs[1].framed:
        return unbroadcast(jnp, arrived, state.shape, framed=False, gradient_framed=True)
    to_rows = unbroadcast(jnp, arrived, (len(rows), *state.shape[1:]), framed=True, gradient_framed=True)
    places = jnp.where(rows >= 0, rows, state.shape[0])
    return jnp.zeros(state.shape, arriving.dtype).at[places].add(to_rows, mode="drop")


KERNELS = kernels("xla", ["PastValue", "FutureValue"], _forward, _gradient, draw=_draw, keep=_keep, in_loops=True)
