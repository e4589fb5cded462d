"""Criteria for large vocabularies: of the weights, only the words that take part are gathered.

A frame takes part with the words of its class (ClassBasedCrossEntropyWithSoftmax), or with its own word and its samples
of noise (NoiseContrastiveEstimation). The gathered weights of all frames together would be large; so they are gathered
for some frames at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cntk_core.api import TRAINS, UNNORMALIZED, Node, OpContext, check_word_classes, log_softmax, samples
from cntk_engine_xla.lowering import Array, Lowering, Trace, is_looked_at

FEWEST_WORDS = 16
GATHERED = 1 << 20
"""How many weights are gathered at a time."""


def words_bucket(count: int, vocabulary: int) -> int:
    """Return for how many words of a class a function is compiled: 16, 64, 256, ..., no more than there are."""
    found = FEWEST_WORDS
    while found < count:
        found *= 4
    return min(found, vocabulary)


def _in_parts(rows: int, size: int, body: Callable[[Array, Any], tuple[Array, Any]], begin: Any, *given: Array) -> Any:
    """Go over the rows of arrays, some at a time.

    Args:
        rows: of each array.
        size: weights that are gathered for a row.
        body: from a state and some rows of each array, to the new state and a result for the rows.
        begin: the first state.
        given: the arrays.
    """
    import jax
    import jax.numpy as jnp

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
    """The places of words in the largest class of the minibatch."""
    labels = np.asarray(samples(context.saved.pop("looked")[0], context.framed[0]), np.int64)
    check_word_classes(labels)
    largest = int((labels[:, 3] - labels[:, 2]).max(initial=1))
    return np.arange(words_bucket(largest, node.inputs[2].known_shape[0]), dtype=np.int32)


def _class_labels(trace: Trace, node: Node, inputs: list[Array]) -> tuple[Array, Array, Array]:
    """Labels as whole numbers, hidden values, and scores of classes, each with a row for each frame."""
    import jax.numpy as jnp

    framed = trace.context(node).framed
    labels, hidden, classes = (samples(inputs[place], framed[place]) for place in (0, 1, 3))
    rows = max(labels.shape[0], hidden.shape[0], classes.shape[0]) if labels.shape[0] else 0
    return tuple(jnp.broadcast_to(each, (rows, each.shape[1])) for each in (labels.astype(jnp.int32), hidden, classes))  # type: ignore[return-value]


def _class_based(trace: Trace, node: Node, inputs: list[Array]) -> Array:
    import jax.numpy as jnp

    labels, hidden, classes = _class_labels(trace, node, inputs)
    weights, places = inputs[2], trace.draws[node]
    if not labels.shape[0]:
        return jnp.zeros((1,), hidden.dtype)

    def part(state: Array, given: Any) -> tuple[Array, Array]:
        own, values = given
        words = own[:, 2:3] + places
        scores = jnp.einsum("rh,rwh->rw", values, weights[jnp.clip(words, 0, weights.shape[0] - 1)])
        return state, log_softmax(jnp, jnp.where(words < own[:, 3:4], scores, -jnp.inf))

    size = len(places) * weights.shape[1]
    _, logs = _in_parts(labels.shape[0], size, part, jnp.zeros(()), labels, hidden)
    log_classes = log_softmax(jnp, classes)
    own = jnp.take_along_axis(logs, labels[:, 0:1] - labels[:, 2:3], axis=1)
    of_class = jnp.take_along_axis(log_classes, labels[:, 1:2], axis=1)
    trace.context(node).saved = {"logs": logs, "log_classes": log_classes}
    return -jnp.sum(_kept(trace, node, own + of_class)).astype(hidden.dtype).reshape(1)


def _less_one(chances: Array, places: Array) -> Array:
    """Chances ``(rows, n)`` less 1 at a place in each row."""
    import jax.numpy as jnp

    return chances - (jnp.arange(chances.shape[1]) == places[:, None]).astype(chances.dtype)


def _class_based_gradient(
    trace: Trace, node: Node, arriving: Array, inputs: list[Array], needs: Sequence[bool]
) -> Sequence[Array | None]:
    import jax.numpy as jnp

    labels, hidden, _ = _class_labels(trace, node, inputs)
    weights, places, saved = inputs[2], trace.draws[node], trace.context(node).saved
    if not labels.shape[0]:
        return None, *(jnp.zeros_like(value) for value in inputs[1:])
    change = _kept(trace, node, _less_one(jnp.exp(saved["logs"]), labels[:, 0] - labels[:, 2])) * arriving

    def part(to_weights: Array, given: Any) -> tuple[Array, Array]:
        own, values, changes = given
        words = own[:, 2:3] + places
        chosen = jnp.clip(words, 0, weights.shape[0] - 1)
        to_values = jnp.einsum("rw,rwh->rh", changes, weights[chosen])
        return to_weights.at[chosen].add(changes[:, :, None] * values[:, None, :]), to_values

    size = len(places) * weights.shape[1]
    to_weights, to_hidden = _in_parts(
        labels.shape[0], size, part, jnp.zeros_like(weights), labels, hidden, change.astype(hidden.dtype)
    )
    to_classes = _kept(trace, node, _less_one(jnp.exp(saved["log_classes"]), labels[:, 1])) * arriving
    return None, _as_input(to_hidden, inputs[1]), to_weights, _as_input(to_classes, inputs[3])


def _as_input(change: Array, value: Array) -> Array:
    """A gradient with a row for each frame as that of an input, which may have one row for all."""
    import jax.numpy as jnp

    if change.size != value.size:
        change = jnp.sum(change, axis=0)
    return change.astype(value.dtype).reshape(value.shape)


# -- noise-contrastive estimation -------------------------------------------------------------------------


def _logistic(scores: Array) -> Array:
    import jax

    return jax.nn.sigmoid(scores)


def _told_apart(trace: Trace, node: Node, inputs: list[Array]) -> tuple[Array, Array]:
    """In training: the chosen words ``(rows, 1 + samples)``, and how far each lies above its chance as noise."""
    import jax.numpy as jnp

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
    import jax.numpy as jnp

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
    import jax.numpy as jnp

    mode = node.attributes.eval_mode
    if mode != TRAINS:
        return jnp.asarray(mode == UNNORMALIZED)
    return jnp.any(_kept(trace, node, labels[:, :1]) < 0)


def _normalized(inputs: list[Array], labels: Array, hidden: Array) -> Array:
    """Log chances of the words: ``(rows, 1)``."""
    import jax.numpy as jnp

    logs = log_softmax(jnp, hidden @ inputs[2].T + inputs[3].reshape(-1))
    return jnp.take_along_axis(logs, jnp.maximum(labels[:, :1].astype(jnp.int32), 0), axis=1)


def _unnormalized(inputs: list[Array], labels: Array, hidden: Array) -> Array:
    """Scores of the words: ``(rows, 1)``."""
    import jax.numpy as jnp

    words = jnp.maximum(-labels[:, 0].astype(jnp.int32), 0)
    found = inputs[3].reshape(-1)[words] + jnp.sum(hidden * inputs[2][words], axis=1)
    return found[:, None]


def _noise_contrastive_gradient(
    trace: Trace, node: Node, arriving: Array, inputs: list[Array], needs: Sequence[bool]
) -> Sequence[Array | None]:
    import jax.numpy as jnp

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
    import jax
    import jax.numpy as jnp

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


LOWERINGS = {
    "ClassBasedCrossEntropyWithSoftmax": Lowering(
        _class_based, _class_based_gradient, applies=_classes_known, draw=_draw_classes, looks=(0,)
    ),
    "NoiseContrastiveEstimation": Lowering(_noise_contrastive, _noise_contrastive_gradient, applies=_frames_together),
}
