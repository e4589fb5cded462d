"""Criteria for large vocabularies: of the weights, only the words that take part are used.

A frame takes part with the words of its class (ClassBasedCrossEntropyWithSoftmax): frames of one class are put together
to blocks, for which the weights of the class are one slice. Or it takes part with its own word and its samples of noise
(NoiseContrastiveEstimation), whose weights are gathered, for some frames at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from cntk_core.api import Node, OpContext, elements
from cntk_core.api.engines import TRAINS, UNNORMALIZED, check_word_classes, kernels, log_softmax, samples
from cntk_engine_xla.lowering import Array, Trace, is_looked_at

TILE = 64
"""Words of a class whose scores are computed together."""

TOGETHER = 16
"""Frames of a class that are computed together."""

GATHERED = 1 << 20
"""How many weights are gathered at a time."""


def words_bucket(count: int) -> int:
    """Return for how many words of a class a function is compiled: a power of two, at least 64."""
    return max(TILE, 1 << (count - 1).bit_length())


def _in_parts(rows: int, size: int, body: Callable[[Array, Any], tuple[Array, Any]], begin: Any, *given: Array) -> Any:
    """Go over the rows of arrays, some at a time.

    Args:
        rows: of each array.
        size: weights that are gathered for a row.
        body: from a state and some rows of each array, to the new state and a result for the rows.
        begin: the first state.
        given: the arrays.
    """
    block = max(1, min(rows, GATHERED // max(1, size)))
    parts = -(-rows // block)
    shaped = [
        jnp.pad(each, [(0, parts * block - rows), *[(0, 0)] * (each.ndim - 1)]).reshape(parts, block, *each.shape[1:])
        for each in given
    ]
    state, found = jax.lax.scan(body, begin, tuple(shaped))
    return state, jax.tree.map(lambda part: part.reshape(parts * block, *part.shape[2:])[:rows], found)


def _kept(trace: Trace, node: Node, values: Array) -> Array:
    """Values of rows, zeros in those of the padding."""
    axis = trace.axis_of(node)
    return values if axis is None else trace.masked(values, axis)


# -- classes of words -------------------------------------------------------------------------------------


def _draw_classes(context: OpContext, node: Node, shape: tuple[int, ...], rows: int) -> Any:
    """Blocks of frames of one class: ``frames`` of each, a number behind the last where there are fewer; ``first`` and
    past-the-``end`` word; how many there are (``count``); for each frame its ``place`` in them; and for as many
    ``words`` as the largest class has, their numbers in the class.
    """
    labels = np.asarray(samples(context.saved.pop("looked")[0], context.framed[0]), np.int64)
    most = elements(node.inputs[3].known_shape)
    check_word_classes(labels, node.inputs[2].known_shape[0], most)
    room = rows // TOGETHER + min(rows, most)
    frames = np.full((room, TOGETHER), rows, np.int32)
    bounds = np.zeros((2, room), np.int32)
    place, count = np.zeros(rows, np.int32), 0
    classes, of_frame = np.unique(labels[:, 2:4], axis=0, return_inverse=True)
    for number, bound in enumerate(classes):
        own = np.flatnonzero(of_frame.reshape(-1) == number)
        blocks = -(-len(own) // TOGETHER)
        frames[count : count + blocks].reshape(-1)[: len(own)] = own
        place[own] = count * TOGETHER + np.arange(len(own))
        bounds[:, count : count + blocks] = bound[:, None]
        count += blocks
    largest = int((labels[:, 3] - labels[:, 2]).max(initial=1))
    words = np.arange(words_bucket(largest), dtype=np.int32)
    found = {"frames": frames, "first": bounds[0], "end": bounds[1], "place": place, "words": words}
    return {**found, "count": np.int32(count)}


class _Block:
    """Frames of one class, and the weights of its words, some words at a time.

    Args:
        drawn: what the host said.
        number: of the block.
        labels, hidden: of all frames.
        weights: of all words, and rows behind them for the last words of a class.
    """

    def __init__(self, drawn: dict[str, Array], number: Array, labels: Array, hidden: Array, weights: Array) -> None:
        frames, words = drawn["frames"][number], drawn["words"]
        self.exists = (frames < hidden.shape[0])[:, None]
        chosen = jnp.minimum(frames, hidden.shape[0] - 1)
        self.hidden = hidden[chosen]
        self._weights = weights
        self._first, size = drawn["first"][number], drawn["end"][number] - drawn["first"][number]
        self._tiles = (size + TILE - 1) // TILE
        self._inside = words < size
        self.own = words + self._first == labels[chosen, :1]

    def over_tiles(self, body: Callable[[Array, Array, Any], Any], begin: Any) -> Any:
        """Go over the words with ``body(place in the class, weights, state) -> state``."""

        def one(tile: Array, state: Any) -> Any:
            place = tile * TILE
            return body(place, jax.lax.dynamic_slice_in_dim(self._weights, self._first + place, TILE), state)

        return jax.lax.fori_loop(0, self._tiles, one, begin)

    def logs(self) -> Array:
        """Log chances of the words of the class, ``(frames, words)``."""

        def score(place: Array, weights: Array, scores: Array) -> Array:
            return jax.lax.dynamic_update_slice_in_dim(scores, self.hidden @ weights.T, place, 1)

        scores = self.over_tiles(score, jnp.zeros(self.own.shape, self.hidden.dtype))
        return log_softmax(jnp, jnp.where(self._inside, scores, -jnp.inf))

    def add_gradients(self, change: Array, to_weights: Array) -> tuple[Array, Array]:
        """Add the gradient of the weights to a sum, from that of the scores; return it and that of the frames."""

        def add(place: Array, weights: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
            total, to_hidden = state
            part = jax.lax.dynamic_slice_in_dim(change, place, TILE, 1)
            before = jax.lax.dynamic_slice_in_dim(total, self._first + place, TILE)
            summed = before + part.T @ self.hidden
            total = jax.lax.dynamic_update_slice_in_dim(total, summed, self._first + place, 0)
            return total, to_hidden + part @ weights

        found: tuple[Array, Array] = self.over_tiles(add, (to_weights, jnp.zeros_like(self.hidden)))
        return found


def _with_room(weights: Array) -> Array:
    """Weights with rows behind them, so that the last words of a class are a whole tile too."""
    return jnp.pad(weights, [(0, TILE), (0, 0)])


def _class_inputs(trace: Trace, node: Node, inputs: list[Array]) -> tuple[Array, Array, Array]:
    """Labels as whole numbers, hidden values, and log chances of the classes, each with a row for each frame."""
    framed = trace.context(node).framed
    labels, hidden, classes = (samples(inputs[place], framed[place]) for place in (0, 1, 3))
    rows = labels.shape[0]
    whole = labels.astype(jnp.int32)
    return whole, hidden, log_softmax(jnp, jnp.broadcast_to(classes, (rows, classes.shape[1])))


def _class_based(trace: Trace, node: Node, inputs: list[Array]) -> Array:
    labels, hidden, log_classes = _class_inputs(trace, node, inputs)
    drawn = trace.draws[node]
    if not labels.shape[0]:
        return jnp.zeros((1,), hidden.dtype)

    weights = _with_room(inputs[2])

    def one(number: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        total, kept = state
        block = _Block(drawn, number, labels, hidden, weights)
        logs = block.logs()
        return total + jnp.sum(jnp.where(block.own & block.exists, logs, 0.0)), kept.at[number].set(logs)

    room = (*drawn["frames"].shape, drawn["words"].shape[0])
    begin = jnp.zeros((), hidden.dtype), jnp.zeros(room, hidden.dtype)
    total, logs = jax.lax.fori_loop(0, drawn["count"], one, begin)
    of_class = jnp.take_along_axis(log_classes, labels[:, 1:2], axis=1)
    trace.context(node).saved = {"logs": logs}
    return -(total + jnp.sum(_kept(trace, node, of_class))).astype(hidden.dtype).reshape(1)


def _less_one(chances: Array, places: Array) -> Array:
    """Chances ``(rows, n)`` less 1 at a place in each row."""
    return chances - (jnp.arange(chances.shape[1]) == places[:, None]).astype(chances.dtype)


def _class_based_gradient(
    trace: Trace, node: Node, arriving: Array, inputs: list[Array], needs: Sequence[bool]
) -> Sequence[Array | None]:
    labels, hidden, log_classes = _class_inputs(trace, node, inputs)
    drawn, logs = trace.draws[node], trace.context(node).saved["logs"]
    if not labels.shape[0]:
        return None, *(jnp.zeros_like(value) for value in inputs[1:])

    weights = _with_room(inputs[2])

    def one(number: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        to_weights, to_hidden = state
        block = _Block(drawn, number, labels, hidden, weights)
        change = jnp.exp(logs[number]) - block.own.astype(logs.dtype)
        change = jnp.where(block.exists, change, 0.0) * arriving.astype(logs.dtype)
        to_weights, found = block.add_gradients(change, to_weights)
        return to_weights, to_hidden.at[number].set(found)

    begin = jnp.zeros_like(weights), jnp.zeros((*drawn["frames"].shape, hidden.shape[1]), hidden.dtype)
    to_weights, by_block = jax.lax.fori_loop(0, drawn["count"], one, begin)
    to_hidden = _kept(trace, node, by_block.reshape(-1, hidden.shape[1])[drawn["place"]])
    to_classes = _kept(trace, node, _less_one(jnp.exp(log_classes), labels[:, 1])) * arriving
    return None, _as_input(to_hidden, inputs[1]), to_weights[:-TILE], _as_input(to_classes, inputs[3])


def _as_input(change: Array, value: Array) -> Array:
    """A gradient with a row for each frame as that of an input, which may have one row for all."""
    if change.size != value.size:
        change = jnp.sum(change, axis=0)
    return change.astype(value.dtype).reshape(value.shape)


# -- noise-contrastive estimation -------------------------------------------------------------------------


def _logistic(scores: Array) -> Array:
    return jax.nn.sigmoid(scores)


def _told_apart(trace: Trace, node: Node, inputs: list[Array]) -> tuple[Array, Array]:
    """In training: the chosen words ``(rows, 1 + samples)``, and how far each lies above its chance as noise."""
    framed = trace.context(node).framed
    labels, hidden = samples(inputs[0], framed[0]), samples(inputs[1], framed[1])
    weights, biases = inputs[2], inputs[3].reshape(-1)
    words = labels[:, 0::2].astype(jnp.int32)
    # Log chances under the noise; those of the samples are given negated.
    noise = jnp.concatenate([labels[:, 1:2], -labels[:, 3::2]], axis=1)

    def part(state: Array, given: Any) -> tuple[Array, Array]:
        own, values = given
        return state, biases[own] + jnp.einsum("rh,rwh->rw", values, weights[own])

    size = words.shape[1] * weights.shape[1]
    _, scores = _in_parts(words.shape[0], size, part, jnp.zeros(()), words, hidden)
    return words, scores - (noise + float(np.log(max(words.shape[1] - 1, 1))))


def _trains(node: Node) -> bool:
    """Whether labels have samples of noise; those of one number evaluate."""
    wide = int(np.prod(node.inputs[0].known_shape)) > 1
    return wide and node.attributes.eval_mode == TRAINS


def _noise_contrastive(trace: Trace, node: Node, inputs: list[Array]) -> Array:
    framed = trace.context(node).framed
    labels, hidden = samples(inputs[0], framed[0]), samples(inputs[1], framed[1])
    if not labels.shape[0]:
        return jnp.zeros((1,), hidden.dtype)
    if _trains(node):
        _, beyond = _told_apart(trace, node, inputs)
        wrong = jnp.logaddexp(0.0, beyond.at[:, 0].multiply(-1.0))
        return jnp.sum(_kept(trace, node, wrong)).astype(hidden.dtype).reshape(1)
    normal, plain = _normalized(inputs, labels, hidden), _unnormalized(inputs, labels, hidden)
    found = jnp.where(_is_plain(trace, node, labels), plain, normal)
    return -jnp.sum(_kept(trace, node, found)).astype(hidden.dtype).reshape(1)


def _is_plain(trace: Trace, node: Node, labels: Array) -> Array:
    """Whether scores are not normalized: by the mode, or because the number of a word is negated."""
    mode = node.attributes.eval_mode
    if mode != TRAINS:
        return jnp.asarray(mode == UNNORMALIZED)
    return jnp.any(_kept(trace, node, labels[:, :1]) < 0)


def _normalized(inputs: list[Array], labels: Array, hidden: Array) -> Array:
    """Log chances of the words: ``(rows, 1)``."""
    logs = log_softmax(jnp, hidden @ inputs[2].T + inputs[3].reshape(-1))
    return jnp.take_along_axis(logs, jnp.maximum(labels[:, :1].astype(jnp.int32), 0), axis=1)


def _unnormalized(inputs: list[Array], labels: Array, hidden: Array) -> Array:
    """Scores of the words: ``(rows, 1)``."""
    words = jnp.maximum(-labels[:, 0].astype(jnp.int32), 0)
    found = inputs[3].reshape(-1)[words] + jnp.sum(hidden * inputs[2][words], axis=1)
    return found[:, None]


def _noise_contrastive_gradient(
    trace: Trace, node: Node, arriving: Array, inputs: list[Array], needs: Sequence[bool]
) -> Sequence[Array | None]:
    framed = trace.context(node).framed
    labels, hidden = samples(inputs[0], framed[0]), samples(inputs[1], framed[1])
    if not labels.shape[0]:
        return None, *(jnp.zeros_like(value) for value in inputs[1:])
    if not _trains(node):
        return _evaluation_gradient(trace, node, arriving, inputs, labels, hidden)
    weights = inputs[2]
    words, beyond = _told_apart(trace, node, inputs)
    slopes = _kept(trace, node, _less_one(_logistic(beyond), jnp.zeros(len(beyond), jnp.int32))) * arriving

    def part(state: Any, given: Any) -> tuple[Any, Array]:
        own, values, changes = given
        to_weights, to_biases = state
        to_weights = to_weights.at[own].add(changes[:, :, None] * values[:, None, :])
        return (to_weights, to_biases.at[own].add(changes)), jnp.einsum("rw,rwh->rh", changes, weights[own])

    size = words.shape[1] * weights.shape[1]
    begin = (jnp.zeros_like(weights), jnp.zeros(weights.shape[0], weights.dtype))
    (to_weights, to_biases), to_hidden = _in_parts(len(words), size, part, begin, words, hidden, slopes)
    return None, _as_input(to_hidden, inputs[1]), to_weights, to_biases.reshape(inputs[3].shape)


def _evaluation_gradient(
    trace: Trace, node: Node, arriving: Array, inputs: list[Array], labels: Array, hidden: Array
) -> Sequence[Array | None]:
    plain = _is_plain(trace, node, labels)

    def value(data: Array, weights: Array, biases: Array) -> Array:
        given = [labels, data, weights, biases]
        found = jnp.where(plain, _unnormalized(given, labels, data), _normalized(given, labels, data))
        return -jnp.sum(_kept(trace, node, found)).reshape(1)

    _, pull = jax.vjp(value, hidden, inputs[2], inputs[3])
    to_hidden, to_weights, to_biases = pull(arriving.astype(hidden.dtype))
    return None, _as_input(to_hidden, inputs[1]), to_weights, to_biases


def _frames_together(node: Node) -> bool:
    """Whether labels and hidden values have a frame each, and the labels come from a stream."""
    return bool(node.inputs[0].framed and node.inputs[1].framed)


def _classes_known(node: Node) -> bool:
    return _frames_together(node) and is_looked_at(node, 0)


KERNELS = (
    *kernels(
        "xla",
        ["ClassBasedCrossEntropyWithSoftmax"],
        _class_based,
        _class_based_gradient,
        applies=_classes_known,
        draw=_draw_classes,
        looks=(0,),
    ),
    *kernels(
        "xla",
        ["NoiseContrastiveEstimation"],
        _noise_contrastive,
        _noise_contrastive_gradient,
        applies=_frames_together,
    ),
)
