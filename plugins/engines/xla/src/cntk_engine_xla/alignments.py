"""ForwardBackward, the criterion of connectionist temporal classification: the host reads labels, the device aligns.

Alignments are those of ``cntk_core/ops/ctc.py``: two recursions over the time steps, in the log domain and in double
precision. A place is one of a path of labels with blanks between them; the rows of a time step stand side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cntk_core.api import LOG_ZERO, Node, OpContext, latest_frames, log_softmax, phone_path, samples, skips_of
from cntk_engine_xla.loops import Window, over_steps
from cntk_engine_xla.lowering import Array, Lowering, Trace, is_looked_at
from cntk_engine_xla.pieces import Pieces

FEWEST_PLACES = 32


def places_bucket(count: int) -> int:
    """Return how many places compiled alignments have for so many: 32, 256, 2048, ...

    Few sizes, since those of the minibatch vary too, and a time step of an alignment is short work.
    """
    found = FEWEST_PLACES
    while found < count:
        found *= 8
    return found


def _draw(context: OpContext, node: Node, shape: tuple[int, ...], rows: int) -> Any:
    """The paths of the labels.

    By piece and place: ``tokens``, the class; ``skips``, whether it may be skipped to; ``latest``, the last frame at
    which an alignment may be there. ``places`` of each piece, ``begins``; and what is known of each row.
    """
    labels = samples(context.saved.pop("looked")[0], True)
    pieces = Pieces.of(context)
    classes, blank = labels.shape[1], node.attributes.blank_token_id
    paths = [phone_path(labels[each], blank if blank >= 0 else classes - 1) for each in pieces.rows]
    width = places_bucket(max((len(path.tokens) for path in paths), default=1))
    shaped = (pieces.room, width)
    tokens, skips, latest = np.zeros(shaped, np.int32), np.zeros(shaped, bool), np.full(shaped, -1, np.int32)
    places = np.zeros(pieces.room, np.int32)
    for number, (path, each) in enumerate(zip(paths, pieces.rows, strict=True)):
        count = places[number] = len(path.tokens)
        tokens[number, :count], skips[number, :count] = path.tokens, skips_of(path)
        latest[number, :count] = latest_frames(path, len(each), node.attributes.delay_constraint)
    found = {"tokens": tokens, "skips": skips, "latest": latest, "places": places, "begins": pieces.begins()}
    return {**found, **pieces.marks(rows)}


class _Step:
    """A time step of an alignment: what is known of its rows and places.

    Args:
        window: the time step.
        drawn: what the host said.
        logs: log chances of all rows, ``(rows, classes)``.
    """

    def __init__(self, window: Window, drawn: dict[str, Array], logs: Array) -> None:
        import jax.numpy as jnp

        piece = window.of(drawn["piece"])
        self.place = jnp.arange(drawn["tokens"].shape[1])[None, :]
        self.places = drawn["places"][piece][:, None]
        self.tokens = drawn["tokens"][piece]
        self.skips = drawn["skips"][piece]
        self._barred = window.of(drawn["step"])[:, None] > drawn["latest"][piece]
        self.piece = piece
        self.logs = window.of(logs)
        self.exists = self.place < self.places
        self.emitted = jnp.where(self.exists, jnp.take_along_axis(self.logs, self.tokens, axis=1), LOG_ZERO)

    def state(self, ways: Array, free: Array, start: Array) -> Array:
        """Log chances at the places: of the ways there, or of those that begin here (``free``), at ``start``."""
        import jax.numpy as jnp

        gone = jnp.where(self._barred, LOG_ZERO, jnp.maximum(ways + self.emitted, LOG_ZERO))
        return jnp.where(free[:, None], jnp.where(start, self.emitted, LOG_ZERO), gone)


def _later(state: Array, by: int) -> Array:
    """A state moved to later places, or to earlier ones by a negative number."""
    import jax.numpy as jnp

    rest = jnp.full((state.shape[0], abs(by)), LOG_ZERO, state.dtype)
    return jnp.concatenate([rest, state[:, :-by]] if by > 0 else [state[:, -by:], rest], axis=1)


def _behind(trace: Trace, axis: str, drawn: dict[str, Array], logs: Array) -> Array:
    """Log chances of all ways from each place at each frame, itself included, to the end: ``(rows, places)``."""
    import jax.numpy as jnp

    slots = trace.slots[axis]
    width = drawn["tokens"].shape[1]

    def one(place: Array, given: tuple[Array, Array]) -> tuple[Array, Array]:
        buffer, state = given
        window = Window(trace, axis, place)
        step = _Step(window, drawn, logs)
        ways = jnp.logaddexp(state, _later(state, -1))
        leaps = _later(jnp.where(step.skips, state, LOG_ZERO), -2)
        state = step.state(jnp.logaddexp(ways, leaps), window.of(drawn["last"]), step.place >= step.places - 2)
        return window.write(buffer, state, careful=True), state

    begin = jnp.zeros((logs.shape[0], width), logs.dtype), jnp.zeros((slots, width), logs.dtype)
    found: Array = over_steps(trace, axis, -1, one, begin)[0]
    return found


def _posterior(trace: Trace, axis: str, drawn: dict[str, Array], logs: Array, behind: Array, chances: Array) -> Array:
    """The chance of each class at each frame given the labels, ``(rows, classes)``.

    Args:
        trace: of the program function.
        axis: the dynamic axis.
        drawn: what the host said.
        logs: log chances of the classes.
        behind: of :func:`_behind`.
        chances: log of the chance of the labels of each piece.
    """
    import jax.numpy as jnp

    slots, width = trace.slots[axis], drawn["tokens"].shape[1]

    def one(place: Array, given: tuple[Array, Array]) -> tuple[Array, Array]:
        buffer, state = given
        window = Window(trace, axis, place)
        step = _Step(window, drawn, logs)
        ways = jnp.logaddexp(state, _later(state, 1))
        ways = jnp.where(step.skips, jnp.logaddexp(ways, _later(state, 2)), ways)
        state = step.state(ways, window.of(drawn["first"]), step.place < 2)
        chance = chances[step.piece][:, None]
        occupied = jnp.exp(jnp.minimum(state + window.of(behind) - step.emitted - chance, 0.0))
        occupied = jnp.where(step.exists, occupied, 0.0)
        found = jnp.zeros_like(step.logs).at[jnp.arange(slots)[:, None], step.tokens].add(occupied)
        total = jnp.sum(found, axis=1, keepdims=True)
        found = found / jnp.where(total > 0.0, total, 1.0)
        # More labels than frames: nothing is learned from such a sequence.
        found = jnp.where(chance <= LOG_ZERO / 2, jnp.exp(step.logs), found)
        return window.write(buffer, found, careful=False), state

    begin = jnp.zeros_like(logs), jnp.zeros((slots, width), logs.dtype)
    found: Array = over_steps(trace, axis, 1, one, begin)[0]
    return found


def _forward(trace: Trace, node: Node, inputs: list[Array]) -> Array:
    import jax.numpy as jnp

    scores = samples(inputs[1], True)
    context, axis, drawn = trace.context(node), node.inputs[1].axis, trace.draws[node]
    logs = log_softmax(jnp, scores)
    context.saved = {"change": jnp.zeros_like(scores)}
    if not scores.shape[0]:
        return jnp.zeros((1,), scores.dtype)
    exact = logs.astype(jnp.float64)
    behind = _behind(trace, axis, drawn, exact)
    begins = drawn["begins"]
    chances = jnp.where(begins >= 0, jnp.logaddexp(behind[:, 0], behind[:, 1])[jnp.maximum(begins, 0)], 0.0)
    posterior = _posterior(trace, axis, drawn, exact, behind, chances)
    context.saved["change"] = trace.masked(jnp.exp(logs) - posterior.astype(scores.dtype), axis)
    return -jnp.sum(chances).astype(scores.dtype).reshape(1)


def _gradient(
    trace: Trace, node: Node, arriving: Array, inputs: list[Array], needs: Sequence[bool]
) -> Sequence[Array | None]:
    return None, (arriving * trace.context(node).saved["change"]).reshape(inputs[1].shape)


def _can_be_read(node: Node) -> bool:
    """Whether the host can read the labels before anything is computed: those of a stream."""
    return is_looked_at(node, 0) and bool(node.inputs[1].framed)


LOWERINGS = {"ForwardBackward": Lowering(_forward, _gradient, applies=_can_be_read, draw=_draw, looks=(0,), loops=True)}
