"""Criteria: sums over the frames of a minibatch, from which its padding is left out."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp

from cntk_core.api import Node
from cntk_core.api.engines import (
    SMALLEST_DIVISOR,
    clipped_log,
    kernels,
    log_softmax,
    math_of,
    paired,
    samples,
    unpaired,
)
from cntk_engine_xla.lowering import Array, SparseRows, Trace


class _Pair:
    """The two matrices that a criterion compares row by row, and which of the rows count.

    Args:
        trace: of the program function.
        node: the criterion.
        inputs: its inputs; the first two are compared.
    """

    def __init__(self, trace: Trace, node: Node, inputs: list[Array]) -> None:
        first, second = (value.dense() if isinstance(value, SparseRows) else value for value in inputs[:2])
        framed = trace.context(node).framed
        self.left, self.right = paired(first, second, framed)
        self.inputs = [first, second]
        self.rows = max(self.left.shape[0], self.right.shape[0]) if self.left.shape[0] and self.right.shape[0] else 0
        axis = trace.axis_of(node)
        self._mask = None if axis is None else trace.mask(axis, 2)
        self._jnp = jnp

    def keep(self, values: Array) -> Array:
        """Put zeros into the rows that are padding; a row that stands for all is repeated before."""
        if self._mask is None:
            return values
        wide = self._jnp.broadcast_to(values, (self.rows, *values.shape[1:]))
        return self._jnp.where(self._mask, wide, self._jnp.zeros((), values.dtype))

    def total(self, values: Array, like: Array) -> Array:
        """The sum of values ``(rows, n)`` over what counts, as a criterion's value."""
        wide = self._jnp.broadcast_to(values, (self.rows, *values.shape[1:]))
        return self._jnp.sum(self.keep(wide)).astype(like.dtype).reshape(1)

    def back(self, changes: Array, place: int) -> Array:
        """The gradient of an input from that of its matrix."""
        wide = self._jnp.broadcast_to(changes, (self.rows, *changes.shape[1:]))
        return unpaired(self._jnp, self.keep(wide), self.inputs[place])


def _guarded(divisor: Array) -> Array:
    floor = jnp.where(divisor > 0, SMALLEST_DIVISOR, -SMALLEST_DIVISOR).astype(divisor.dtype)
    return jnp.where(jnp.abs(divisor) < SMALLEST_DIVISOR, floor, divisor)


def _log(values: Array) -> Array:
    return clipped_log(math_of(jnp), values)


def _square_error(trace: Trace, node: Node, inputs: list[Array]) -> Array:
    pair = _Pair(trace, node, inputs)
    difference = pair.left - pair.right
    return pair.total(difference * difference, difference)


def _square_error_gradient(
    trace: Trace, node: Node, arriving: Array, inputs: list[Array], needs: Sequence[bool]
) -> Sequence[Array | None]:
    pair = _Pair(trace, node, inputs)
    change = (2.0 * arriving) * (pair.left - pair.right)
    return [pair.back(-change if place else change, place) if needed else None for place, needed in enumerate(needs)]


def _cross_entropy_with_softmax(trace: Trace, node: Node, inputs: list[Array]) -> Array:
    pair = _Pair(trace, node, inputs)
    return -pair.total(pair.left * log_softmax(jnp, pair.right), pair.right)


def _cross_entropy_with_softmax_gradient(
    trace: Trace, node: Node, arriving: Array, inputs: list[Array], needs: Sequence[bool]
) -> Sequence[Array | None]:
    pair = _Pair(trace, node, inputs)
    logarithms = log_softmax(jnp, pair.right)
    to_labels = pair.back(-arriving * logarithms, 0) if needs[0] else None
    if not needs[1]:
        return to_labels, None
    return to_labels, pair.back(arriving * (jnp.exp(logarithms) - pair.left), 1)


def _cross_entropy(trace: Trace, node: Node, inputs: list[Array]) -> Array:
    pair = _Pair(trace, node, inputs)
    return -pair.total(pair.left * _log(pair.right), pair.right)


def _cross_entropy_gradient(
    trace: Trace, node: Node, arriving: Array, inputs: list[Array], needs: Sequence[bool]
) -> Sequence[Array | None]:
    pair = _Pair(trace, node, inputs)
    return (
        pair.back(-arriving * _log(pair.right), 0) if needs[0] else None,
        pair.back(-arriving * (pair.left / _guarded(pair.right)), 1) if needs[1] else None,
    )


def _classification_error(trace: Trace, node: Node, inputs: list[Array]) -> Array:
    pair = _Pair(trace, node, inputs)
    best = jnp.floor(inputs[2].reshape(-1)[0]) if len(inputs) == 3 else 1
    scores = jnp.broadcast_to(pair.right, (pair.rows, pair.right.shape[1]))
    wanted = jnp.broadcast_to(jnp.argmax(pair.left, axis=1).reshape(-1, 1), (pair.rows, 1))
    score = jnp.take_along_axis(scores, wanted, axis=1)
    # Of equal scores the first counts as the best; what cannot be compared (NaN) counts as better.
    behind = (scores < score) | ((scores == score) & (jnp.arange(scores.shape[1]) >= wanted))
    ahead = scores.shape[1] - jnp.sum(behind, axis=1, keepdims=True)
    return pair.total((ahead >= best).astype(scores.dtype), scores)


def _weights(trace: Trace, node: Node, pair: _Pair, inputs: list[Array]) -> Array | float:
    """Weights of the samples, scaled so that their mean is 1."""
    if len(inputs) == 2:
        return 1.0
    axis = trace.axis_of(node)
    weights = samples(inputs[2], trace.context(node).framed[2])
    total = (pair.keep(weights) if trace.context(node).framed[2] else weights).sum()
    frames = 1.0 if axis is None else trace.counts[axis].astype(weights.dtype)
    return weights * (frames / total)


def _correct_chance(pair: _Pair) -> Array:
    """Probability of what the label says: y p + (1 - y)(1 - p)."""
    return 2.0 * pair.left * pair.right + 1.0 - pair.left - pair.right


def _logistic(trace: Trace, node: Node, inputs: list[Array]) -> Array:
    pair = _Pair(trace, node, inputs)
    return -pair.total(_log(_correct_chance(pair)) * _weights(trace, node, pair, inputs), pair.right)


def _logistic_gradient(
    trace: Trace, node: Node, arriving: Array, inputs: list[Array], needs: Sequence[bool]
) -> Sequence[Array | None]:
    pair = _Pair(trace, node, inputs)
    slope = (2.0 * pair.left - 1.0) / _guarded(_correct_chance(pair))
    if len(inputs) == 3:
        slope = slope * samples(inputs[2], trace.context(node).framed[2])
    change = pair.back(-arriving * slope, 1)
    return [None, change if needs[1] else None, None][: len(inputs)]


KERNELS = (
    *kernels("xla", ["SquareError"], _square_error, _square_error_gradient, takes_sparse=frozenset({0, 1})),
    *kernels(
        "xla",
        ["CrossEntropyWithSoftmax"],
        _cross_entropy_with_softmax,
        _cross_entropy_with_softmax_gradient,
        takes_sparse=frozenset({0}),
    ),
    *kernels("xla", ["CrossEntropy"], _cross_entropy, _cross_entropy_gradient, takes_sparse=frozenset({0})),
    *kernels("xla", ["ClassificationError"], _classification_error, takes_sparse=frozenset({0})),
    *kernels("xla", ["Logistic"], _logistic, _logistic_gradient),
)
