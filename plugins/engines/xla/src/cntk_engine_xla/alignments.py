"""ForwardBackward, the criterion of connectionist temporal classification: the host reads labels, the device aligns.

Alignments are those of ``cntk_core/ops/families/ctc.py``: two recursions over the time steps, in the log domain.
Logarithms are in double precision; exponentials of their differences are in that of the program, which is what takes
the time. A place is one of a path of labels with blanks between them; the rows of a time step stand side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from cntk_core.api import Node, OpContext
from cntk_core.api.engines import LOG_ZERO, kernels, latest_frames, log_softmax, phone_path, samples, skips_of
from cntk_engine_xla.loops import Window, over_steps
from cntk_engine_xla.lowering import Array, Trace, is_looked_at
from cntk_engine_xla.sequence_segments import Segments

FEWEST_PLACES = 128


def places_bucket(count: int) -> int:
    """Return how many places compiled alignments have for so many: 128, 512, 2048, ...

    Few sizes, since those of the minibatch vary too, and a time step of an alignment is short work.
    """
    found = FEWEST_PLACES
    while found < count:
        found *= 4
    return found


def _draw(context: OpContext, node: Node, shape: tuple[int, ...], rows: int) -> Any:
    """The paths of the labels.

    By piece and place: ``tokens``, the class; ``skips``, whether it may be skipped to; ``latest``, the last frame at
    which an alignment may be there. By piece: the number of ``places``, ``begins``, the ``order`` of its places by
    class, and where in it each class ends (``ends``). And what is known of each row.
    """
    labels = samples(context.saved.pop("looked")[0], True)
    segments = Segments.of(context)
    classes, blank = labels.shape[1], node.attributes.blank_token_id
    paths = [phone_path(labels[each], blank if blank >= 0 else classes - 1) for each in segments.rows]
    width = places_bucket(max((len(path.tokens) for path in paths), default=1))
    shaped = (segments.room, width)
    tokens, skips, latest = np.zeros(shaped, np.int32), np.zeros(shaped, bool), np.full(shaped, -1, np.int32)
    order, ends = np.zeros(shaped, np.int32), np.zeros((segments.room, classes), np.int32)
    places = np.zeros(segments.room, np.int32)
    for number, (path, each) in enumerate(zip(paths, segments.rows, strict=True)):
        count = places[number] = len(path.tokens)
        tokens[number, :count], skips[number, :count] = path.tokens, skips_of(path)
        latest[number, :count] = latest_frames(path, len(each), node.attributes.delay_constraint)
        order[number, :count] = np.argsort(path.tokens, kind="stable")
        ends[number] = np.cumsum(np.bincount(path.tokens, minlength=classes))
    found = {"tokens": tokens, "skips": skips, "latest": latest, "order": order, "ends": ends, "places": places}
    return {**found, "begins": segments.begins(), **segments.marks(rows)}


class _Step:
    """A time step of an alignment: what is known of its rows and places.

    Args:
        window: the time step.
        drawn: what the host said.
        emitted: log chances of all rows at the places, ``(rows, places)``.
    """

    def __init__(self, window: Window, drawn: dict[str, Array], emitted: Array) -> None:
        self.piece = window.of(drawn["piece"])
        self.place = jnp.arange(emitted.shape[1])[None, :]
        self.places = drawn["places"][self.piece][:, None]
        self.skips = drawn["skips"][self.piece]
        self.emitted = window.of(emitted)
        self._barred = window.of(drawn["step"])[:, None] > drawn["latest"][self.piece]

    def state(self, ways: Array, free: Array, start: Array) -> Array:
        """Log chances at the places: of the ways there, or of those that begin here (``free``), at ``start``."""
        gone = jnp.where(self._barred, LOG_ZERO, jnp.maximum(ways + self.emitted, LOG_ZERO))
        return jnp.where(free[:, None], jnp.where(start, self.emitted, LOG_ZERO), gone)


def _later(state: Array, by: int) -> Array:
    """A state moved to later places, or to earlier ones by a negative number."""
    rest = jnp.full((state.shape[0], abs(by)), LOG_ZERO, state.dtype)
    return jnp.concatenate([rest, state[:, :-by]] if by > 0 else [state[:, -by:], rest], axis=1)


def _log_sum(dtype: Any, first: Array, second: Array, third: Array) -> Array:
    """log(exp(first) + exp(second) + exp(third)), without overflow."""
    top = jnp.maximum(jnp.maximum(first, second), third)
    parts = (jnp.exp((each - top).astype(dtype)) for each in (first, second, third))
    return top + jnp.log(sum(parts)).astype(top.dtype)


def _emitted(drawn: dict[str, Array], logs: Array) -> Array:
    """Log chances of the classes along the paths, ``(rows, places)``; none at places that a path does not have."""
    exists = jnp.arange(drawn["tokens"].shape[1]) < drawn["places"][drawn["piece"]][:, None]
    return jnp.where(exists, jnp.take_along_axis(logs, drawn["tokens"][drawn["piece"]], axis=1), LOG_ZERO)


def _behind(trace: Trace, axis: str, drawn: dict[str, Array], emitted: Array) -> Array:
    """Log chances of all ways from each place at each frame, itself included, to the end: ``(rows, places)``."""

    def one(place: Array, given: tuple[Array, Array]) -> tuple[Array, Array]:
        buffer, state = given
        window = Window(trace, axis, place)
        step = _Step(window, drawn, emitted)
        leaps = _later(jnp.where(step.skips, state, LOG_ZERO), -2)
        ways = _log_sum(trace.dtype, state, _later(state, -1), leaps)
        state = step.state(ways, window.of(drawn["last"]), step.place >= step.places - 2)
        return window.write(buffer, state, careful=True), state

    begin = jnp.zeros_like(emitted), emitted[: trace.slots[axis]]
    found: Array = over_steps(trace, axis, -1, one, begin)[0]
    return found


def _occupied(trace: Trace, axis: str, drawn: dict[str, Array], emitted: Array, behind: Array, chances: Array) -> Array:
    """The chance of each place at each frame given the labels, ``(rows, places)``.

    Args:
        trace: of the program function.
        axis: the dynamic axis.
        drawn: what the host said.
        emitted: of :func:`_emitted`.
        behind: of :func:`_behind`.
        chances: log of the chance of the labels of each piece.
    """

    def one(place: Array, given: tuple[Array, Array]) -> tuple[Array, Array]:
        buffer, state = given
        window = Window(trace, axis, place)
        step = _Step(window, drawn, emitted)
        leaps = jnp.where(step.skips, _later(state, 2), LOG_ZERO)
        ways = _log_sum(trace.dtype, state, _later(state, 1), leaps)
        state = step.state(ways, window.of(drawn["first"]), step.place < 2)
        return window.write(buffer, state, careful=False), state

    begin = jnp.zeros_like(emitted), emitted[: trace.slots[axis]]
    ahead, _ = over_steps(trace, axis, 1, one, begin)
    return jnp.exp(jnp.minimum(ahead + behind - emitted - chances[drawn["piece"]][:, None], 0.0))


def _posterior(drawn: dict[str, Array], logs: Array, occupied: Array, chances: Array) -> Array:
    """The chance of each class at each frame given the labels, ``(rows, classes)``."""
    piece = drawn["piece"]
    # Sums over the places of a class, as differences of sums over the places in the order of classes: adding at the
    # place of each class is slow on processors, and its order is not the same everywhere.
    exists = jnp.arange(occupied.shape[1]) < drawn["places"][piece][:, None]
    sorted_by_class = jnp.where(exists, jnp.take_along_axis(occupied, drawn["order"][piece], axis=1), 0.0)
    sums = jnp.cumsum(sorted_by_class, axis=1)
    ends = drawn["ends"][piece]
    upto = jnp.where(ends > 0, jnp.take_along_axis(sums, jnp.maximum(ends - 1, 0), axis=1), 0.0)
    found = jnp.maximum(jnp.diff(upto, axis=1, prepend=0.0), 0.0)
    total = jnp.sum(found, axis=1, keepdims=True)
    found = found / jnp.where(total > 0.0, total, 1.0)
    # More labels than frames: nothing is learned from such a sequence.
    return jnp.where(chances[piece][:, None] <= LOG_ZERO / 2, jnp.exp(logs), found)


def _forward(trace: Trace, node: Node, inputs: list[Array]) -> Array:
    scores = samples(inputs[1], True)
    context, axis, drawn = trace.context(node), node.inputs[1].axis, trace.draws[node]
    logs = log_softmax(jnp, scores)
    context.saved = {"change": jnp.zeros_like(scores), "logs": logs}
    if not scores.shape[0]:
        return jnp.zeros((1,), scores.dtype)
    exact = logs.astype(jnp.float64)
    emitted = _emitted(drawn, exact)
    behind = _behind(trace, axis, drawn, emitted)
    begins = drawn["begins"]
    chances = jnp.where(begins >= 0, jnp.logaddexp(behind[:, 0], behind[:, 1])[jnp.maximum(begins, 0)], 0.0)
    occupied = _occupied(trace, axis, drawn, emitted, behind, chances)
    posterior = _posterior(drawn, exact, occupied, chances)
    context.saved["change"] = trace.masked(jnp.exp(logs) - posterior.astype(scores.dtype), axis)
    return -jnp.sum(chances).astype(scores.dtype).reshape(1)


def _gradient(
    trace: Trace, node: Node, arriving: Array, inputs: list[Array], needs: Sequence[bool]
) -> Sequence[Array | None]:
    saved = trace.context(node).saved
    to_graph = (-arriving * saved["logs"]).reshape(inputs[0].shape) if needs[0] else None
    return to_graph, (arriving * saved["change"]).reshape(inputs[1].shape)


def _can_be_read(node: Node) -> bool:
    """Whether the host can read the labels before anything is computed: those of a stream."""
    return is_looked_at(node, 0) and bool(node.inputs[1].framed)


KERNELS = kernels(
    "xla", ["ForwardBackward"], _forward, _gradient, applies=_can_be_read, draw=_draw, looks=(0,), loops=True
)
