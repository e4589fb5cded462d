"""Recurrent loops as compiled loops: one time step after the other, each a window of as many rows as there are slots.

The rows of a time step follow those of the step before, so that a window may reach into later ones; what it has there
is never kept. What a delay reads is carried from one time step to the next, slot by slot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from cntk_core.api import Node, Parameter
from cntk_core.api.engines import Loop, LoopGradient, shift_of
from cntk_engine_xla import delays
from cntk_engine_xla.lowering import Array, SparseRows, Trace

Body = Callable[[Trace, Any], None]
"""Computes a step, or a gradient step, in the trace of one time step."""


class Window:
    """The rows of one time step.

    Args:
        trace: of the program function.
        axis: the dynamic axis of the loop.
        place: the number of the time step.
    """

    def __init__(self, trace: Trace, axis: str, place: Array) -> None:
        steps = trace.steps[axis]
        self.slots = trace.slots[axis]
        self._begin = steps.start[place]
        self._rest = trace.counts[axis] - steps.start[place] - steps.alive[place]
        self._alive = jnp.arange(self.slots) < steps.alive[place]
        self.trace = Trace(
            dtype=trace.dtype,
            training=trace.training,
            sizes={**trace.sizes, axis: self.slots},
            counts={**trace.counts, axis: steps.alive[place]},
            values={},
            lowerings=trace.lowerings,
            draws={},
        )

    def of(self, value: Array) -> Array:
        """The rows of the time step, and further ones."""
        return jax.lax.dynamic_slice_in_dim(value, self._begin, self.slots)

    def own(self, rows: Array, otherwise: Array | float = 0.0) -> Array:
        """Rows of the time step; something else in the further ones."""
        mask = self._alive.reshape(-1, *(1,) * (rows.ndim - 1))
        return jnp.where(mask, rows, jnp.asarray(otherwise, rows.dtype))

    def inside(self, source: Array, rows: Array, otherwise: Array) -> Array:
        """Rows where a delay finds something in this minibatch; something else where not."""
        mask = (self._alive & (self.of(source) >= 0)).reshape(-1, *(1,) * (rows.ndim - 1))
        return jnp.where(mask, rows, otherwise)

    def write(self, buffer: Array, rows: Array, *, careful: bool) -> Array:
        """The buffer with the rows of the time step; later rows may be spoilt unless it is ``careful``."""
        rows = rows.astype(buffer.dtype).reshape(self.slots, *buffer.shape[1:])
        if careful:
            rows = self.own(rows, self.of(buffer))
        return jax.lax.dynamic_update_slice_in_dim(buffer, rows, self._begin, 0)

    def put(self, buffer: Array, rows: Array, direction: int) -> Array:
        """A buffer of rows in the order in which they are computed, with those of the time step; the next one writes
        over what is spoilt behind them.

        It is never read in the loop: what is both read and written, XLA copies as a whole in each time step.
        """
        rows = rows.astype(buffer.dtype).reshape(self.slots, *buffer.shape[1:])
        place = self._begin if direction > 0 else self._rest
        return jax.lax.dynamic_update_slice_in_dim(buffer, rows, place, 0)

    def give_draws(self, outer: Trace, loop: Loop) -> None:
        """Let the time step have what the host drew for it: the numbers of a loop come in its own order of steps."""
        place = self._begin if loop.direction > 0 else self._rest
        for node in loop.nodes:
            drawn = outer.draws.get(node)
            if drawn is not None and node not in loop.delays:
                kept, share = drawn
                self.trace.draws[node] = jax.lax.dynamic_slice_in_dim(kept, place, self.slots), share

    def give(self, outer: Trace, nodes: Sequence[Node], axis: str) -> None:
        """Let the time step read values from outside."""
        for node in nodes:
            value = outer.values.get(node)
            if value is None:
                continue
            if isinstance(value, SparseRows):
                value = outer.dense(node, value)
            self.trace.values[node] = self.of(value) if node.framed and node.axis == axis else value


def in_order(trace: Trace, axis: str, direction: int, buffers: Sequence[Array]) -> list[Array]:
    """Buffers that :meth:`Window.put` has filled, with their rows in the order of memory; zeros in the padding."""
    if direction < 0:
        steps, frames = trace.steps[axis], trace.counts[axis]
        rows = jnp.arange(trace.sizes[axis])
        # Zeros follow the last time step.
        starts = jnp.where(jnp.arange(steps.start.shape[0]) < steps.count, steps.start, trace.sizes[axis])
        place = jnp.maximum(jnp.searchsorted(starts, rows, side="right") - 1, 0)
        begin = steps.start[place]
        source = jnp.clip(frames - begin - steps.alive[place] + rows - begin, 0, trace.sizes[axis] - 1)
        buffers = [buffer[source] for buffer in buffers]
    return [trace.masked(buffer, axis) for buffer in buffers]


def over_steps(trace: Trace, axis: str, direction: int, body: Callable[[Array, Any], Any], state: Any) -> Any:
    """Go over the time steps of a dynamic axis.

    Args:
        trace: of the program function.
        axis: the dynamic axis.
        direction: 1 from the first to the last, -1 from the last to the first.
        body: from the number of a time step, and the state, to the new state.
        state: before.
    """
    count = trace.steps[axis].count
    return jax.lax.fori_loop(0, count, lambda i, now: body(i if direction > 0 else count - 1 - i, now), state)


class StepMemory:
    """What time steps of a loop leave behind: running statistics for the next one, contexts for the way back.

    Args:
        trace: of the program function.
        loop: over whose time steps is gone.
    """

    def __init__(self, trace: Trace, loop: Loop) -> None:
        self._trace, self._loop = trace, loop
        self._keepers = [node for node in loop.nodes if node.op.updates] if trace.training else []
        inputs = [node.inputs[place] for node in self._keepers for place in node.op.updates if place < len(node.inputs)]
        self._parameters = [node for node in dict.fromkeys(inputs) if isinstance(node, Parameter)]

    def give_statistics(self, inner: Trace, statistics: Sequence[Array]) -> None:
        """Let a time step go on from those of the one before."""
        inner.values.update(zip(self._parameters, statistics, strict=True))

    def end(self, statistics: Sequence[Array]) -> None:
        """Take the running statistics after the last time step."""
        self._trace.updates.update(zip(self._parameters, statistics, strict=True))

    def statistics(self, trace: Trace) -> list[Array]:
        """The running statistics after a time step; those before the first one from the trace of the function."""
        values = [trace.value(node) for node in self._parameters]
        updated = [trace.updates.get(node, value) for node, value in zip(self._parameters, values, strict=True)]
        return [_like(each, value) for each, value in zip(updated, values, strict=True)]

    def kept(self, inner: Trace) -> list[Any]:
        """What a time step has kept for its gradients."""
        return [dict(inner.context(node).saved) for node in self._keepers]

    def over_steps(self, one: Callable[[Array, Any], tuple[Any, list[Any]]], begin: Any) -> Any:
        """Go over the time steps with a body that returns state and what it has kept; return the state."""
        trace, loop = self._trace, self._loop
        axis = loop.nodes[0].axis
        if not self._keepers:
            return over_steps(trace, axis, loop.direction, lambda place, state: one(place, state)[0], begin)
        steps = trace.sizes[axis]
        _, shapes = jax.eval_shape(one, jnp.zeros((), jnp.int32), begin)
        room = jax.tree.map(lambda shape: jnp.zeros((steps, *shape.shape), shape.dtype), shapes)

        def body(place: Array, given: Any) -> Any:
            state, all_kept = given
            state, kept = one(place, state)
            return state, jax.tree.map(lambda every, each: every.at[place].set(each), all_kept, kept)

        state, all_kept = over_steps(trace, axis, loop.direction, body, (begin, room))
        for node, kept in zip(self._keepers, all_kept, strict=True):
            trace.context(node).saved = kept
        return state

    def give_kept(self, inner: Trace, place: Array) -> None:
        """Let a time step on the way back have what it has kept."""
        for node in self._keepers:
            saved = self._trace.context(node).saved
            inner.context(node).saved = jax.tree.map(lambda every: every[place], saved)


def compute_loop(trace: Trace, loop: Loop, body: Body) -> None:
    """Compute the values of a loop."""
    axis = loop.nodes[0].axis
    rows, waiting = trace.sizes[axis], loop.delays
    tails = [delay.inputs[0] for delay in waiting if "keep" in trace.draws[delay]]
    written = tuple(dict.fromkeys([*loop.writes, *tails]))
    memory = StepMemory(trace, loop)
    if not rows:
        memory.end(memory.statistics(trace))
        trace.values.update({node: jnp.zeros(trace.shape(node), trace.dtype) for node in written})
        return
    inputs = {delay: [None, *(trace.value(child) for child in delay.inputs[1:])] for delay in waiting}
    outside = [delays.outside(trace, delay, inputs[delay]) for delay in waiting]

    def one(place: Array, state: Any) -> Any:
        buffers, histories, statistics = state
        window = Window(trace, axis, place)
        inner = window.trace
        window.give(trace, loop.reads, axis)
        window.give_draws(trace, loop)
        memory.give_statistics(inner, statistics)
        for delay, beyond, history in zip(waiting, outside, histories, strict=True):
            other = window.of(beyond) if beyond.ndim else beyond
            inner.values[delay] = window.inside(trace.draws[delay]["source"], history[-1], other)
        for step in loop.steps:
            if step.nodes[0] not in waiting:
                body(inner, step)
        histories = [
            (inner.values[delay.inputs[0]], *history[:-1]) for delay, history in zip(waiting, histories, strict=True)
        ]
        buffers = [
            window.put(buffer, inner.values[node], loop.direction)
            for node, buffer in zip(written, buffers, strict=True)
        ]
        return (buffers, histories, memory.statistics(inner)), memory.kept(inner)

    begin = (_zeros(trace, written), _histories(trace, loop), memory.statistics(trace))
    buffers, _, statistics = memory.over_steps(one, begin)
    memory.end(statistics)
    for node, buffer in zip(written, in_order(trace, axis, loop.direction, buffers), strict=True):
        # The padding repeats a frame: its numbers are as good as those of the minibatch.
        trace.values[node] = jnp.where(trace.mask(axis, buffer.ndim), buffer, buffer[:1])
    for delay in waiting:
        if "keep" in trace.draws[delay]:
            delays.keep_tail(trace, delay, [trace.values[delay.inputs[0]], *inputs[delay][1:]])


def _zeros(trace: Trace, nodes: Sequence[Node]) -> list[Array]:
    return [jnp.zeros(trace.shape(node), trace.dtype) for node in nodes]


def _histories(trace: Trace, loop: Loop) -> list[tuple[Array, ...]]:
    """For each delay, what it will read in the next time steps: the last is next."""
    slots = trace.slots[loop.nodes[0].axis]
    return [(jnp.zeros((slots, *delay.known_shape), trace.dtype),) * abs(shift_of(delay)) for delay in loop.delays]


def compute_loop_gradients(trace: Trace, step: LoopGradient, needed: frozenset[Node], body: Body) -> None:
    """Add the gradients that leave a loop to those that are there.

    Args:
        trace: of the program function.
        step: what to compute.
        needed: nodes whose gradients somebody looks at afterwards.
        body: computes a gradient step.
    """
    loop, gradients = step.loop, trace.gradients
    axis = loop.nodes[0].axis
    if not trace.sizes[axis]:
        return
    targets = [target.node for target in step.targets if target.node in needed]
    framed = [node for node in targets if node.framed]
    whole = [node for node in targets if not node.framed]
    read = [node for node in dict.fromkeys([*step.sources, *(t.node for t in step.targets)]) if node in gradients]
    read = [node for node in read if node.framed and node not in framed]
    flowing = {part.step.nodes[0] for part in step.steps}
    memory = StepMemory(trace, loop)
    arrived = _begin(trace, framed)

    def one(place: Array, state: Any) -> Any:
        buffers, totals, histories = state
        window = Window(trace, axis, place)
        inner = window.trace
        window.give(trace, step.reads, axis)
        window.give_draws(trace, loop)
        memory.give_kept(inner, place)
        local = inner.gradients
        local.update((node, window.own(window.of(gradients[node]))) for node in read)
        local.update((node, window.own(window.of(value))) for node, value in zip(framed, arrived, strict=True))
        local.update(zip(whole, totals, strict=True))
        for delay, history in zip(loop.delays, histories, strict=True):
            child = delay.inputs[0]
            if delay in flowing:
                local[child] = local[child] + history[-1] if child in local else history[-1]
        for part in step.steps:
            if part.step.nodes[0] not in loop.delays:
                body(inner, part)
        histories = [
            (_going_back(trace, window, delay, local, history), *history[:-1])
            for delay, history in zip(loop.delays, histories, strict=True)
        ]
        buffers = [
            window.put(buffer, local[node], -loop.direction) for node, buffer in zip(framed, buffers, strict=True)
        ]
        totals = [_like(local[node], total) for node, total in zip(whole, totals, strict=True)]
        return buffers, totals, histories

    begin = (_zeros(trace, framed), _begin(trace, whole), _histories(trace, loop))
    buffers, totals, _ = over_steps(trace, axis, -loop.direction, one, begin)
    gradients.update(zip(framed, in_order(trace, axis, -loop.direction, buffers), strict=True))
    gradients.update(zip(whole, totals, strict=True))


def _begin(trace: Trace, nodes: Sequence[Node]) -> list[Array]:
    """What has arrived of the gradients so far."""
    zeros = _zeros(trace, nodes)
    return [_like(trace.gradients.get(node, zero), zero) for node, zero in zip(nodes, zeros, strict=True)]


def _like(value: Array, other: Array) -> Array:
    return value.astype(other.dtype).reshape(other.shape)


def _going_back(trace: Trace, window: Window, delay: Node, local: dict[Node, Array], history: Sequence[Array]) -> Array:
    """What a delay passes on to the time step that it has read."""
    zeros = jnp.zeros_like(history[0])
    if delay not in local:
        return zeros
    return window.inside(trace.draws[delay]["source"], _like(local[delay], zeros), zeros)
