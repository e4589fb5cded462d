"""CRF and SequenceDecoder: linear chains as compiled recursions over the time steps.

Formulas are those of ``cntk_core/ops/families/linear_chain.py``, in the log domain and in double precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import jax.numpy as jnp
from jax.nn import logsumexp, one_hot

from cntk_core.api import Node, OpContext
from cntk_core.api.engines import kernels, samples
from cntk_engine_xla.loops import Window, over_steps
from cntk_engine_xla.lowering import Array, Trace
from cntk_engine_xla.sequence_segments import Segments


def _draw(context: OpContext, node: Node, shape: tuple[int, ...], rows: int) -> Any:
    """What is known of each row, and which one stands ``before`` it."""
    segments = Segments.of(context)
    return {**segments.marks(rows), "before": segments.before(rows)}


@attrs.frozen(eq=False)
class _Chains:
    """The chains of a minibatch in a trace.

    Attributes:
        trace: of the program function.
        axis: the dynamic axis.
        drawn: what the host said.
        labels: of all rows.
        scores: of the labels, ``(rows, labels)``, in double precision.
        transitions: ``(from, to)``.
    """

    trace: Trace
    axis: str
    drawn: dict[str, Array]
    labels: Array
    scores: Array
    transitions: Array

    @classmethod
    def of(cls, trace: Trace, node: Node, inputs: Sequence[Array]) -> _Chains:
        """Read labels, scores and transitions."""
        labels, scores = (samples(value, True) for value in inputs[:2])
        transitions = inputs[2].reshape(scores.shape[1], scores.shape[1])
        return cls(
            trace,
            node.inputs[1].axis,
            trace.draws[node],
            jnp.argmax(labels, axis=1).astype(jnp.int32),
            scores.astype(jnp.float64),
            transitions.astype(jnp.float64),
        )

    def go(self, direction: int, body: Any, *begin: Array) -> Any:
        """Go over the time steps with ``body(window, state) -> state``, from a state."""
        return over_steps(
            self.trace,
            self.axis,
            direction,
            lambda place, state: body(Window(self.trace, self.axis, place), state),
            begin,
        )

    def zeros(self, dtype: Any = None) -> Array:
        """A state before: ``(slots, labels)``."""
        return jnp.zeros((self.trace.slots[self.axis], self.scores.shape[1]), dtype or self.scores.dtype)

    def marked(self, window: Window, name: str) -> Array:
        """Whether the rows of a time step are ``first`` or ``last``: ``(slots, 1)``."""
        return window.of(self.drawn[name])[:, None]

    def ahead(self) -> Array:
        """Log sums over all paths from the begin to each label of each frame."""

        def one(window: Window, state: tuple[Array, Array]) -> tuple[Array, Array]:
            buffer, before = state
            gone = logsumexp(before[:, :, None] + self.transitions, axis=1)
            begun = self.transitions[window.of(self.labels)]
            now = window.of(self.scores) + jnp.where(self.marked(window, "first"), begun, gone)
            return window.write(buffer, now, careful=False), now

        found: Array = self.go(1, one, jnp.zeros_like(self.scores), self.zeros())[0]
        return found

    def behind(self) -> Array:
        """Log sums over all paths from each label of each frame, itself not included, to the end."""

        def one(window: Window, state: tuple[Array, Array]) -> tuple[Array, Array]:
            buffer, after = state
            gone = logsumexp(self.transitions + after[:, None, :], axis=2)
            now = jnp.where(self.marked(window, "last"), 0.0, gone)
            return window.write(buffer, now, careful=True), now + window.of(self.scores)

        found: Array = self.go(-1, one, jnp.zeros_like(self.scores), self.zeros())[0]
        return found

    def kept(self, values: Array) -> Array:
        """Values of rows with zeros in the padding."""
        return self.trace.masked(values, self.axis)

    def path(self) -> Array:
        """The scores of the labels and of their transitions, summed over the frames."""
        own = jnp.take_along_axis(self.scores, self.labels[:, None], axis=1)[:, 0]
        return jnp.sum(self.kept(own + self.transitions[self.labels[self.drawn["before"]], self.labels]))

    def expected(self, ahead: Array, behind: Array, log_mass: Array) -> Array:
        """How often each transition is to be expected."""
        rest = self.scores + behind - log_mass
        earlier = ahead[self.drawn["before"]]

        def one(window: Window, state: tuple[Array]) -> tuple[Array]:
            pairs = window.of(earlier)[:, :, None] + self.transitions + window.of(rest)[:, None, :]
            inside = window.own(jnp.broadcast_to(~self.marked(window, "first"), pairs.shape[:2]), False)
            return (state[0] + jnp.sum(jnp.where(inside[:, :, None], jnp.exp(pairs), 0.0), axis=0),)

        (found,) = self.go(1, one, jnp.zeros_like(self.transitions))
        begun = jnp.exp(ahead + behind - log_mass)
        first = self.kept(jnp.where(self.drawn["first"][:, None], begun, 0.0))
        return found.at[self.labels].add(first)

    def actual(self) -> Array:
        """How often each transition is there."""
        ones = self.kept(jnp.ones(self.labels.shape, self.scores.dtype))
        return jnp.zeros_like(self.transitions).at[self.labels[self.drawn["before"]], self.labels].add(ones)


def _crf(trace: Trace, node: Node, inputs: list[Array]) -> Array:
    if not inputs[1].shape[0]:
        return jnp.zeros((1,), inputs[1].dtype)
    chains = _Chains.of(trace, node, inputs)
    ahead, behind = chains.ahead(), chains.behind()
    log_mass = logsumexp(ahead + behind, axis=1)
    trace.context(node).saved = {"ahead": ahead, "behind": behind}
    total = jnp.sum(chains.kept(jnp.where(chains.drawn["last"], log_mass, 0.0))) - chains.path()
    return total.astype(inputs[1].dtype).reshape(1)


def _crf_gradient(
    trace: Trace, node: Node, arriving: Array, inputs: list[Array], needs: Sequence[bool]
) -> Sequence[Array | None]:
    if not inputs[1].shape[0]:
        return None, jnp.zeros_like(inputs[1]), jnp.zeros_like(inputs[2])
    chains = _Chains.of(trace, node, inputs)
    ahead, behind = (trace.context(node).saved[name] for name in ("ahead", "behind"))
    log_mass = logsumexp(ahead + behind, axis=1, keepdims=True)
    to_scores = to_transitions = None
    if needs[1]:
        labels = one_hot(chains.labels, chains.scores.shape[1], dtype=chains.scores.dtype)
        change = chains.kept(jnp.exp(ahead + behind - log_mass) - labels)
        to_scores = (arriving * change).astype(inputs[1].dtype).reshape(inputs[1].shape)
    if needs[2]:
        found = chains.expected(ahead, behind, log_mass) - chains.actual()
        to_transitions = (arriving * found).astype(inputs[2].dtype).reshape(inputs[2].shape)
    return None, to_scores, to_transitions


def _decoder(trace: Trace, node: Node, inputs: list[Array]) -> Array:
    """Best path between the first and the last label."""
    if not inputs[1].shape[0]:
        return jnp.zeros(trace.shape(node), inputs[1].dtype)
    chains = _Chains.of(trace, node, inputs)
    size = chains.scores.shape[1]

    def score(window: Window, state: tuple[Array, Array]) -> tuple[Array, Array]:
        origins, best = state
        ways = best[:, :, None] + chains.transitions
        gone = window.of(chains.scores) + jnp.max(ways, axis=1)
        begins = one_hot(window.of(chains.labels), size, dtype=bool)
        begun = jnp.where(begins, window.of(chains.scores), -jnp.inf)
        found = jnp.argmax(ways, axis=1).astype(jnp.int32)
        now = jnp.where(chains.marked(window, "first"), begun, gone)
        return window.write(origins, found, careful=False), now

    origins, _ = chains.go(1, score, jnp.zeros(chains.scores.shape, jnp.int32), chains.zeros())

    def choose(window: Window, state: tuple[Array, Array]) -> tuple[Array, Array]:
        path, follower = state
        now = jnp.where(window.of(chains.drawn["last"]), window.of(chains.labels), follower)
        before = jnp.take_along_axis(window.of(origins), now[:, None], axis=1)[:, 0]
        return window.write(path, now, careful=True), before

    path, _ = chains.go(-1, choose, chains.labels, chains.labels[: chains.zeros().shape[0]])
    return one_hot(path, size, dtype=inputs[1].dtype).reshape(trace.shape(node))


def _framed(node: Node) -> bool:
    return all(child.framed for child in node.inputs[:2])


KERNELS = (
    *kernels("xla", ["CRF"], _crf, _crf_gradient, applies=_framed, draw=_draw, loops=True),
    *kernels("xla", ["SequenceDecoder"], _decoder, applies=_framed, draw=_draw, loops=True),
)
