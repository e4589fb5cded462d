"""OptimizedRNNStack: layers of recurrent cells as compiled loops.

Products with the input are one for all frames, and so are all gradients of weights; a loop does the product with the
state and the cell. On the way back the cell of a time step is computed again, and JAX differentiates it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from cntk_core.api import Node, OpContext
from cntk_core.api.engines import StackWeights, delay_rows, kernels, split_weights, whole_sequences
from cntk_engine_xla.layouts import filled
from cntk_engine_xla.loops import Window, over_steps
from cntk_engine_xla.lowering import Array, Trace

State = tuple[Array, ...]
"""What goes from one time step to the next, each ``(slots, hidden)``; the first is the cell's value."""

Cell = Callable[[Array, Array, State], State]
"""``(sums of the input, sums of the state, state) -> state``; sums have all gates side by side."""


def _lstm(inputs: Array, recurrent: Array, state: State) -> State:
    i, f, g, o = jnp.split(inputs + recurrent, 4, axis=1)
    cell = jax.nn.sigmoid(f) * state[1] + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(cell), cell


def _gru(inputs: Array, recurrent: Array, state: State) -> State:
    (r, z, n), (by_r, by_z, by_n) = jnp.split(inputs, 3, axis=1), jnp.split(recurrent, 3, axis=1)
    kept = jax.nn.sigmoid(z + by_z)
    return ((1.0 - kept) * jnp.tanh(n + jax.nn.sigmoid(r + by_r) * by_n) + kept * state[0],)


def _tanh(inputs: Array, recurrent: Array, state: State) -> State:
    return (jnp.tanh(inputs + recurrent),)


def _relu(inputs: Array, recurrent: Array, state: State) -> State:
    return (jax.nn.relu(inputs + recurrent),)


CELLS: dict[str, tuple[Cell, int]] = {
    "lstm": (_lstm, 2),
    "gru": (_gru, 1),
    "rnntanh": (_tanh, 1),
    "rnnrelu": (_relu, 1),
}
"""By the recurrent op: the cell, and of how many arrays its state is."""


class _Direction:
    """A layer in one direction of time.

    Args:
        trace: of the program function.
        node: the stack.
        weights: of the layer in this direction.
        direction: 1 or -1.
    """

    def __init__(self, trace: Trace, node: Node, weights: StackWeights, direction: int) -> None:
        self._trace, self._axis, self._weights, self._direction = trace, node.axis, weights, direction
        self._before = trace.draws[node]["earlier" if direction > 0 else "later"]
        self._cell, self._parts = CELLS[node.attributes.recurrent_op.lower()]
        self._hidden = node.attributes.hidden_size

    def _zeros(self, rows: int, width: int | None = None) -> Array:
        return jnp.zeros((rows, width or self._hidden), self._trace.dtype)

    def _window(self, place: Array) -> Window:
        return Window(self._trace, self._axis, place)

    def _start(self, window: Window, state: State) -> State:
        """The state before a time step: zeros where sequences begin."""
        return tuple(window.inside(self._before, part, jnp.zeros((), part.dtype)) for part in state)

    def forward(self, x: Array) -> State:
        """Return the states of all frames."""
        rows, slots = x.shape[0], self._trace.slots[self._axis]
        weights = self._weights
        inputs = x @ weights.inputs.T + weights.input_bias

        def one(place: Array, given: tuple[list[Array], State]) -> tuple[list[Array], State]:
            buffers, state = given
            window = self._window(place)
            before = self._start(window, state)
            state = self._cell(window.of(inputs), before[0] @ weights.state.T + weights.state_bias, before)
            careful = self._direction < 0
            return [window.write(b, s, careful=careful) for b, s in zip(buffers, state, strict=True)], state

        buffers = [self._zeros(rows) for _ in range(self._parts)]
        state = tuple(self._zeros(slots) for _ in range(self._parts))
        buffers, _ = over_steps(self._trace, self._axis, self._direction, one, (buffers, state))
        return tuple(self._trace.masked(buffer, self._axis) for buffer in buffers)

    def backward(self, x: Array, states: State, arriving: Array) -> tuple[Array, list[Array]]:
        """Return the gradients of the input, and of the weights: two matrices and two biases."""
        rows, slots = x.shape[0], self._trace.slots[self._axis]
        weights = self._weights
        inputs = x @ weights.inputs.T + weights.input_bias
        has = (self._before >= 0)[:, None]
        earlier = tuple(jnp.where(has, part[jnp.maximum(self._before, 0)], 0.0).astype(x.dtype) for part in states)
        recurrent = earlier[0] @ weights.state.T + weights.state_bias

        def one(place: Array, given: tuple[Array, Array, State]) -> tuple[Array, Array, State]:
            by_inputs, by_recurrent, coming = given
            window = self._window(place)
            before = tuple(window.of(part) for part in earlier)
            _, pull = jax.vjp(self._cell, window.of(inputs), window.of(recurrent), before)
            first = window.own(coming[0] + window.of(arriving))
            changes, products, going = pull((first, *(window.own(part) for part in coming[1:])))
            by_inputs = window.write(by_inputs, changes, careful=True)
            by_recurrent = window.write(by_recurrent, products, careful=True)
            going = (going[0] + products @ weights.state, *going[1:])
            return by_inputs, by_recurrent, self._start(window, going)

        begin = (self._zeros(rows, inputs.shape[1]), self._zeros(rows, inputs.shape[1]))
        state = tuple(self._zeros(slots) for _ in range(self._parts))
        sums, products, _ = over_steps(self._trace, self._axis, -self._direction, one, (*begin, state))
        found = [sums.T @ x, products.T @ earlier[0], sums.sum(axis=0), products.sum(axis=0)]
        return sums @ weights.inputs, found


def _layers(trace: Trace, node: Node, weights: Array, size: int) -> list[list[_Direction]]:
    split = split_weights(weights, size, node.attributes)
    return [[_Direction(trace, node, each, 1 - 2 * k) for k, each in enumerate(layer)] for layer in split]


def _draw(context: OpContext, node: Node, shape: tuple[int, ...], rows: int) -> Any:
    """Which rows stand before each, in both directions of time."""
    layout = context.layouts[1]
    assert layout is not None, "a recurrent stack needs the sequences of its input"
    whole_sequences(layout)
    return {
        "earlier": filled(delay_rows(layout, 1).source, rows, -1),
        "later": filled(delay_rows(layout, -1).source, rows, -1),
    }


def _forward(trace: Trace, node: Node, inputs: list[Array]) -> Array:
    weights, x = inputs
    kept = []
    if not x.shape[0]:
        return jnp.zeros(trace.shape(node), trace.dtype)
    for layer in _layers(trace, node, weights, x.shape[-1]):
        found = [direction.forward(x) for direction in layer]
        kept.append((x, found))
        x = jnp.concatenate([states[0] for states in found], axis=1)
    trace.context(node).saved = {"layers": kept}
    return x


def _gradient(
    trace: Trace, node: Node, arriving: Array, inputs: list[Array], needs: Sequence[bool]
) -> Sequence[Array | None]:
    weights, x = inputs
    if not x.shape[0]:
        return jnp.zeros(weights.shape, trace.dtype), jnp.zeros(x.shape, trace.dtype)
    matrices: list[Array] = []
    biases: list[Array] = []
    layers = list(zip(_layers(trace, node, weights, x.shape[-1]), trace.context(node).saved["layers"], strict=True))
    for layer, (below, states) in reversed(layers):
        shares = jnp.split(arriving, len(layer), axis=1)
        parts = [each.backward(below, *given) for each, *given in zip(layer, states, shares, strict=True)]
        arriving = sum(to_input for to_input, _ in parts)
        matrices = [part.reshape(-1) for _, found in parts for part in found[:2]] + matrices
        biases = [part for _, found in parts for part in found[2:]] + biases
    return jnp.concatenate(matrices + biases).reshape(weights.shape), arriving


def _over_time(node: Node) -> bool:
    return node.attributes.axis == -1 and bool(node.inputs[1].framed)


KERNELS = kernels("xla", ["OptimizedRNNStack"], _forward, _gradient, applies=_over_time, draw=_draw, loops=True)
