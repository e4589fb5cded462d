"""The recurrent cells of OptimizedRNNStack, over all sequences of a minibatch and one direction.

Formulas are those of cuDNN (NVIDIA, "cuDNN API reference", ``cudnnRNNMode_t``), which the original calls: sigma is
the logistic function, ``W`` and ``b`` belong to the input, ``R`` and ``d`` to the state before, ``*`` goes element by
element::

    rnnReLU, rnnTanh   h_t = max(0, W x + b + R h + d), or tanh
    lstm               i, f, o = sigma(W x + b + R h + d);  g = tanh(W x + b + R h + d)
                       c_t = f * c + i * g;  h_t = o * tanh(c_t)
    gru                r, z = sigma(W x + b + R h + d);  n = tanh(W x + b + r * (R h + d))
                       h_t = (1 - z) * n + z * h

Gates follow each other in the order i, f, g, o and r, z, n. Products with the input are one for all frames, and so are
all gradients of weights; the loops over time do what cannot wait: a product with the state and element-wise work, whose
slopes are computed before for all frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from cntk_core.ops.language.op import Array


@attrs.frozen(eq=False)
class Weights:
    """The weights of one layer and direction, or their gradients; the gates of a matrix are blocks of rows.

    Attributes:
        inputs: ``(gates * hidden, input size)``.
        state: ``(gates * hidden, hidden)``.
        input_bias, state_bias: ``(gates * hidden,)``.
    """

    inputs: Array
    state: Array
    input_bias: Array
    state_bias: Array


@attrs.frozen
class Step:
    """Rows of one time step, and of the step that is computed before it.

    Attributes:
        rows: of the step.
        known: the first rows of the step that have a state before; the others begin.
        before: where these states stand.
    """

    rows: slice
    known: slice
    before: slice


def steps_of(start: Sequence[int], alive: Sequence[int], *, backward: bool) -> list[Step]:
    """Return the steps of packed sequences, one to a slot, in the order of computation."""
    order = range(len(start))[:: -1 if backward else 1]
    found = []
    last: int | None = None
    for now in order:
        shared = 0 if last is None else min(alive[now], alive[last])
        begin = start[last] if last is not None else 0
        found.append(
            Step(
                slice(start[now], start[now] + alive[now]),
                slice(start[now], start[now] + shared),
                slice(begin, begin + shared),
            )
        )
        last = now
    return found


def states_before(xp: Any, states: Array, steps: Sequence[Step]) -> Array:
    """Return for each row the state before it, 0 where a sequence begins."""
    found = xp.zeros_like(states)
    for step in steps:
        found[step.known] = states[step.before]
    return found


def _squash(xp: Any, values: Array, scale: Any, shift: Any) -> None:
    """Turn halved sums into logistic functions, and others into tanh, in place: sigma(x) = tanh(x / 2) / 2 + 1 / 2."""
    xp.tanh(values, out=values)
    values *= scale
    values += shift


class PlainCell:
    """rnnTanh and rnnReLU."""

    gates = 1

    def __init__(self, activation: str) -> None:
        self._tanh = activation == "tanh"

    def forward(self, xp: Any, x: Array, weights: Weights, steps: Sequence[Step]) -> tuple[Array, dict[str, Array]]:
        """Return the states of all frames, and what the gradient needs beside."""
        states = x @ weights.inputs.T
        states += weights.input_bias + weights.state_bias
        for step in steps:
            states[step.known] += states[step.before] @ weights.state.T
            now = states[step.rows]
            if self._tanh:
                xp.tanh(now, out=now)
            else:
                xp.maximum(now, 0.0, out=now)
        return states, {}

    def backward(
        self,
        xp: Any,
        gradient: Array,
        x: Array,
        states: Array,
        saved: dict[str, Array],
        weights: Weights,
        steps: Sequence[Step],
        into: Weights,
    ) -> Array:
        """Write the gradients of the weights into ``into``; return that of the input, ``(frames, input size)``."""
        slopes = 1.0 - states * states if self._tanh else (states > 0.0).astype(states.dtype)
        arriving = gradient.copy()
        for step in reversed(steps):
            now = slopes[step.rows]
            now *= arriving[step.rows]
            arriving[step.before] += slopes[step.known] @ weights.state
        return _finish(xp, slopes, slopes, x, states_before(xp, states, steps), weights, into)


class LongShortTermCell:
    """lstm."""

    gates = 4

    def forward(self, xp: Any, x: Array, weights: Weights, steps: Sequence[Step]) -> tuple[Array, dict[str, Array]]:
        """Return the states of all frames, and what the gradient needs beside."""
        hidden = weights.state.shape[1]
        scale, shift = _logistic_blocks(xp, (1, 1, 0, 1), hidden, x.dtype)
        gates = x @ (weights.inputs * scale[:, None]).T
        gates += (weights.input_bias + weights.state_bias) * scale
        recurrent = xp.ascontiguousarray((weights.state * scale[:, None]).T)
        states, cells, squashed = (xp.empty((len(x), hidden), x.dtype) for _ in range(3))
        for step in steps:
            gates[step.known] += states[step.before] @ recurrent
            _squash(xp, gates[step.rows], scale, shift)
            i, f, g, o = (gates[step.rows, k * hidden : (k + 1) * hidden] for k in range(4))
            now = xp.multiply(i, g, out=cells[step.rows])
            count = step.known.stop - step.known.start
            now[:count] += f[:count] * cells[step.before]
            xp.tanh(now, out=squashed[step.rows])
            xp.multiply(o, squashed[step.rows], out=states[step.rows])
        return states, {"gates": gates, "cells": cells, "squashed": squashed}

    def backward(
        self,
        xp: Any,
        gradient: Array,
        x: Array,
        states: Array,
        saved: dict[str, Array],
        weights: Weights,
        steps: Sequence[Step],
        into: Weights,
    ) -> Array:
        """Write the gradients of the weights into ``into``; return that of the input, ``(frames, input size)``."""
        frames, hidden = states.shape
        i, f, g, o = (saved["gates"][:, k * hidden : (k + 1) * hidden] for k in range(4))
        squashed = saved["squashed"]
        # What the gradients of the cell (for i, f and g) and of the state (for o) are multiplied with.
        slopes = xp.empty((frames, 4, hidden), states.dtype)
        slopes[:, 0] = g * i * (1.0 - i)
        slopes[:, 1] = states_before(xp, saved["cells"], steps) * f * (1.0 - f)
        slopes[:, 2] = i * (1.0 - g * g)
        slopes[:, 3] = squashed * o * (1.0 - o)
        to_cells = o * (1.0 - squashed * squashed)
        sums = slopes.reshape(frames, 4 * hidden)
        arriving = gradient.copy()
        cell_gradients = xp.zeros_like(states)
        for step in reversed(steps):
            state, cell = arriving[step.rows], cell_gradients[step.rows]
            cell += state * to_cells[step.rows]
            slopes[step.rows, :3] *= cell[:, None]
            slopes[step.rows, 3] *= state
            arriving[step.before] += sums[step.known] @ weights.state
            cell_gradients[step.before] += cell_gradients[step.known] * f[step.known]
        return _finish(xp, sums, sums, x, states_before(xp, states, steps), weights, into)


class GatedCell:
    """gru, with the reset gate behind the product."""

    gates = 3

    def forward(self, xp: Any, x: Array, weights: Weights, steps: Sequence[Step]) -> tuple[Array, dict[str, Array]]:
        """Return the states of all frames, and what the gradient needs beside."""
        frames, hidden = len(x), weights.state.shape[1]
        gated = 2 * hidden
        scale, shift = _logistic_blocks(xp, (1, 1, 0), hidden, x.dtype)
        gates = x @ (weights.inputs * scale[:, None]).T
        gates += weights.input_bias * scale
        gates[:, :gated] += weights.state_bias[:gated] * scale[:gated]
        recurrent = xp.ascontiguousarray((weights.state * scale[:, None]).T)
        # R h + d of the third gate.
        proposals = xp.empty((frames, hidden), x.dtype)
        proposals[...] = weights.state_bias[gated:]
        states = xp.empty((frames, hidden), x.dtype)
        for step in steps:
            product = states[step.before] @ recurrent
            gates[step.known, :gated] += product[:, :gated]
            proposals[step.known] += product[:, gated:]
            _squash(xp, gates[step.rows, :gated], scale[:gated], shift[:gated])
            r, z, n = (gates[step.rows, k * hidden : (k + 1) * hidden] for k in range(3))
            n += r * proposals[step.rows]
            xp.tanh(n, out=n)
            now = xp.multiply(1.0 - z, n, out=states[step.rows])
            count = step.known.stop - step.known.start
            now[:count] += z[:count] * states[step.before]
        return states, {"gates": gates, "proposals": proposals}

    def backward(
        self,
        xp: Any,
        gradient: Array,
        x: Array,
        states: Array,
        saved: dict[str, Array],
        weights: Weights,
        steps: Sequence[Step],
        into: Weights,
    ) -> Array:
        """Write the gradients of the weights into ``into``; return that of the input, ``(frames, input size)``."""
        frames, hidden = states.shape
        r, z, n = (saved["gates"][:, k * hidden : (k + 1) * hidden] for k in range(3))
        before = states_before(xp, states, steps)
        # Everything is in proportion to the gradient of the state: sums of r, z and n, and the product of n.
        slopes = xp.empty((frames, 4, hidden), states.dtype)
        slopes[:, 2] = (1.0 - z) * (1.0 - n * n)
        slopes[:, 0] = slopes[:, 2] * saved["proposals"] * r * (1.0 - r)
        slopes[:, 1] = (before - n) * z * (1.0 - z)
        slopes[:, 3] = slopes[:, 2] * r
        by_product = (0, 1, 3)
        arriving = gradient.copy()
        for step in reversed(steps):
            slopes[step.rows] *= arriving[step.rows, None]
            product = sum(
                slopes[step.known, gate] @ weights.state[k * hidden : (k + 1) * hidden]
                for k, gate in enumerate(by_product)
            )
            arriving[step.before] += product + arriving[step.known] * z[step.known]
        sums = slopes[:, :3].reshape(frames, 3 * hidden)
        products = slopes[:, by_product].reshape(frames, 3 * hidden)
        return _finish(xp, sums, products, x, before, weights, into)


Cell = PlainCell | LongShortTermCell | GatedCell

CELLS: dict[str, Cell] = {
    "lstm": LongShortTermCell(),
    "gru": GatedCell(),
    "rnntanh": PlainCell("tanh"),
    "rnnrelu": PlainCell("relu"),
}
"""By the name of the recurrent op, in lower case."""


def _logistic_blocks(xp: Any, logistic: Sequence[int], hidden: int, dtype: Any) -> tuple[Array, Array]:
    """Factors and offsets of :func:`_squash`: 1/2 and 1/2 in blocks with the logistic function, 1 and 0 in others."""
    halves = xp.repeat(xp.asarray(logistic, dtype=dtype), hidden) / 2
    return 1.0 - halves, halves


def _finish(xp: Any, sums: Array, products: Array, x: Array, before: Array, weights: Weights, into: Weights) -> Array:
    """Write the gradients of weights by those of the sums over the input and over the state; return the input's."""
    into.inputs[...] = sums.T @ x
    into.state[...] = products.T @ before
    into.input_bias[...] = sums.sum(axis=0)
    into.state_bias[...] = products.sum(axis=0)
    to_input: Array = sums @ weights.inputs
    return to_input
