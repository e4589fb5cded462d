"""Ops for large vocabularies: look-up, classes of words, noise-contrastive estimation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import numpy as np

from cntk_core.errors import DataError, ShapeError
from cntk_core.ops.families.softmax import log_softmax
from cntk_core.ops.language.define import define_op
from cntk_core.ops.language.framing import samples, scalar
from cntk_core.ops.language.op import Array, OpContext
from cntk_core.ops.language.shapes import Shape, elements, show
from cntk_core.ops.language.traits import MatrixProduct, Traits


def _infer_look_up(shapes: Sequence[Shape], attributes: Any) -> Shape:
    table, words = shapes
    columns = elements(table) // table[-1] if table and table[-1] else 0
    rows = elements(words)
    if not columns or rows % columns:
        raise ShapeError(f"the rows of {show(words)} must be a multiple of the columns of the table {show(table)}")
    return (table[-1] * (rows // columns),)


def _complete_look_up(shapes: Sequence[Shape], attributes: Any) -> Sequence[Shape]:
    table, words = shapes
    return [tuple(dim or elements(words) for dim in table[:-1]) + table[-1:], words]


def _words(table: Array, words: Any) -> Array:
    """The one-hot vectors of all words, one in each row; sparse ones stay sparse."""
    columns = elements(table.shape[:-1])
    return words if words.ndim == 2 and words.shape[1] == columns else words.reshape(-1, columns)


def _look_up_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: Any,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    table, words = inputs
    incoming = gradient.reshape(-1, table.shape[-1])
    to_table = (_words(table, words).T @ incoming).reshape(table.shape) if needs[0] else None
    to_words = (incoming @ table.reshape(-1, table.shape[-1]).T).reshape(words.shape) if needs[1] else None
    return to_table, to_words


@define_op(
    "LookupTable",
    inputs=2,
    infer=_infer_look_up,
    complete=_complete_look_up,
    gradient=_look_up_gradient,
    reads_output=False,
    unframed=frozenset({0}),
    sparse_inputs=frozenset({1}),
    traits=Traits(keeps_nothing=True, product=MatrixProduct(dense=False)),
)
def LOOKUP_TABLE(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
    """The columns of the first input that the one-hot vectors of the second choose, one word after the other."""
    table, words = inputs
    found = _words(table, words) @ table.reshape(-1, table.shape[-1])
    per_frame = elements(words.shape[1:]) // elements(table.shape[:-1]) * table.shape[-1]
    return found.reshape(words.shape[0], per_frame) if context.framed[1] else found.reshape(-1)


def _infer_class_based(shapes: Sequence[Shape], attributes: Any) -> Shape:
    labels, hidden, weights, _ = shapes
    if elements(labels) != 4:
        raise ShapeError(f"the labels must have 4 rows (word, class, first and past-the-end word), not {show(labels)}")
    if len(weights) != 2 or elements(hidden) != weights[-1]:
        raise ShapeError(f"the weights {show(weights)} must have a row for each element of {show(hidden)}")
    return (1,)


@attrs.frozen
class _ClassPart:
    """The frames whose words are of one class: rows, places of the words in the class, and chances of its words."""

    first: int
    end: int
    rows: Any
    places: Any
    chances: Any


def check_word_classes(labels: Array, words: int | None = None, classes: int | None = None) -> None:
    """Make sure that labels (word, class, first and past-the-end word of the class) have words in their classes.

    Args:
        labels: whole numbers. Shape ``(frames, 4)``.
        words, classes: how many there are, if that is known.

    Raises:
        DataError: a class is empty, a word is not of its class, or there is no such class or word.
    """
    first, end = labels[:, 2], labels[:, 3]
    empty = np.flatnonzero(end <= first)
    if len(empty):
        _, number, begin, stop = labels[empty[0]].tolist()
        raise DataError(f"the word class {number} has no words ({begin} to {stop})")
    wrong = np.flatnonzero((labels[:, 0] < first) | (labels[:, 0] >= end))
    if len(wrong):
        word, _, begin, stop = labels[wrong[0]].tolist()
        raise DataError(f"the word {word} is not in its class, which has the words {begin} to {stop - 1}")
    if words is not None:
        _check_numbers(labels[:, 2], words, "word")
        _check_numbers(end - 1, words, "word")
    if classes is not None:
        _check_numbers(labels[:, 1], classes, "word class")


def _check_numbers(numbers: Array, count: int, what: str) -> None:
    wrong = numbers[(numbers < 0) | (numbers >= count)]
    if len(wrong):
        raise DataError(f"there is no {what} {wrong[0]}: the network has {count}, which are 0 to {count - 1}")


def _classes_of(labels: Array) -> Iterator[tuple[int, int, Any]]:
    """The classes of the labels: first and past-the-end word, and the rows of the frames."""
    for first, end in np.unique(labels[:, 2:4], axis=0).tolist():
        yield first, end, np.flatnonzero((labels[:, 2] == first) & (labels[:, 3] == end))


def _class_based_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: Any,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    weights = inputs[2]
    hidden = samples(inputs[1], context.framed[1])
    to_hidden, to_weights = xp.zeros_like(hidden), xp.zeros_like(weights)
    for part in context.saved["parts"]:
        change = part.chances.copy()
        change[np.arange(len(part.rows)), part.places] -= 1.0
        change = change * gradient
        to_hidden[part.rows] = change @ weights[part.first : part.end]
        to_weights[part.first : part.end] += change.T @ hidden[part.rows]
    to_classes = xp.exp(context.saved["log_classes"])
    to_classes[np.arange(len(to_classes)), context.saved["classes"]] -= 1.0
    return (
        None,
        to_hidden.reshape(inputs[1].shape),
        to_weights,
        (to_classes * gradient).astype(gradient.dtype).reshape(inputs[3].shape),
    )


@define_op(
    "ClassBasedCrossEntropyWithSoftmax",
    inputs=4,
    infer=_infer_class_based,
    gradient=_class_based_gradient,
    reduces_frames=True,
    role="criterion",
    reads_output=False,
    differentiable=(False, True, True, True),
    unframed=frozenset({2}),
    aliases={"ndl": ("CBCEWithSM",)},
    traits=Traits(log_likelihood=True),
)
def CLASS_BASED_CROSS_ENTROPY_WITH_SOFTMAX(
    xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext
) -> Array:
    """-log(P(class) P(word of class)); inputs: labels (word, class, its first and past-the-end word), h, W, classes."""
    weights = inputs[2]
    labels = np.asarray(samples(inputs[0], context.framed[0]), np.int64)
    hidden = samples(inputs[1], context.framed[1])
    log_classes = log_softmax(xp, samples(inputs[3], context.framed[3]))
    check_word_classes(labels, len(weights), log_classes.shape[1])
    total = xp.sum(log_classes[np.arange(len(labels)), labels[:, 1]])
    parts = []
    for first, end, rows in _classes_of(labels):
        logs = log_softmax(xp, hidden[rows] @ weights[first:end].T)
        places = labels[rows, 0] - first
        total = total + xp.sum(logs[np.arange(len(rows)), places])
        parts.append(_ClassPart(first, end, rows, places, xp.exp(logs)))
    context.saved.update(parts=parts, log_classes=log_classes, classes=labels[:, 1])
    return scalar(xp, -total, hidden)


SOFTMAX, UNNORMALIZED, TRAINS = 0, 1, 2
"""What NoiseContrastiveEstimation computes: a softmax over all words, plain scores, or the training criterion."""


@attrs.frozen
class NoiseContrastiveAttributes:
    """Attributes of NoiseContrastiveEstimation: ``eval_mode`` is 0 (softmax), 1 (unnormalized) or 2 (train)."""

    eval_mode: int = 2


def _infer_noise_contrastive(shapes: Sequence[Shape], attributes: Any) -> Shape:
    labels, hidden, weights, biases = shapes
    if elements(labels) != 1 and elements(labels) % 2:
        raise ShapeError(f"the labels {show(labels)} must be pairs of a word and its log probability")
    if len(weights) != 2 or elements(hidden) != weights[-1]:
        raise ShapeError(f"the weights {show(weights)} must have a row for each element of {show(hidden)}")
    if elements(biases) != weights[0]:
        raise ShapeError(f"the biases {show(biases)} must have a number for each of the {weights[0]} words")
    if attributes.eval_mode not in (SOFTMAX, UNNORMALIZED, TRAINS):
        raise ShapeError(f"there is no evaluation mode {attributes.eval_mode}", hint="Modes: 0, 1, 2")
    return (1,)


def _logistic(xp: Any, score: Array) -> Array:
    """1 / (1 + exp(-score)), without overflow."""
    return xp.exp(-xp.logaddexp(xp.zeros_like(score), -score))


def _evaluates(labels: Array, attributes: NoiseContrastiveAttributes) -> int:
    """The mode: labels of one number evaluate, negative ones (the word's number negated) without normalizing."""
    if labels.shape[1] == 1 and attributes.eval_mode == TRAINS:
        return UNNORMALIZED if (labels < 0).any() else SOFTMAX
    return attributes.eval_mode


def _training_scores(xp: Any, labels: Array, hidden: Array, weights: Array, biases: Array, context: OpContext) -> Array:
    """-sum of log chances that the word is the word and that each noise sample is noise."""
    words = np.asarray(labels[:, 0::2], np.int64)
    _check_numbers(words.reshape(-1), len(weights), "word")
    # Log chances under the noise; those of the samples are given negated.
    noise = xp.concatenate([labels[:, 1:2], -labels[:, 3::2]], axis=1)
    samples_of_noise = max(words.shape[1] - 1, 1)
    scores = biases[words] + xp.sum(hidden[:, None, :] * weights[words], axis=2)
    beyond = scores - (noise + float(np.log(samples_of_noise)))
    slopes = _logistic(xp, beyond)
    slopes[:, 0] -= 1.0
    context.saved.update(words=words, slopes=slopes)
    zero = xp.zeros_like(beyond)
    return xp.sum(xp.logaddexp(zero[:, 0], -beyond[:, 0])) + xp.sum(xp.logaddexp(zero[:, 1:], beyond[:, 1:]))


def _noise_contrastive_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: NoiseContrastiveAttributes,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    hidden, weights = samples(inputs[1], context.framed[1]), inputs[2]
    words, slopes = context.saved["words"], context.saved["slopes"] * gradient
    if words is None:
        to_hidden, to_weights, to_biases = slopes @ weights, slopes.T @ hidden, xp.sum(slopes, axis=0)
    else:
        to_hidden = xp.sum(slopes[:, :, None] * weights[words], axis=1)
        to_weights, to_biases = xp.zeros_like(weights), xp.zeros((len(weights),), dtype=weights.dtype)
        np.add.at(to_weights, words, slopes[:, :, None] * hidden[:, None, :])
        np.add.at(to_biases, words, slopes)
    return None, to_hidden.reshape(inputs[1].shape), to_weights, to_biases.reshape(inputs[3].shape)


_NCE = ("NCEBasedCrossEntropyWithSoftmax",)


@define_op(
    "NoiseContrastiveEstimation",
    inputs=4,
    infer=_infer_noise_contrastive,
    gradient=_noise_contrastive_gradient,
    reduces_frames=True,
    role="criterion",
    reads_output=False,
    attributes=NoiseContrastiveAttributes,
    differentiable=(False, True, True, True),
    unframed=frozenset({2, 3}),
    aliases={"ndl": _NCE, "brainscript": _NCE, "model": _NCE},
    traits=Traits(log_likelihood=True),
)
def NOISE_CONTRASTIVE_ESTIMATION(
    xp: Any, inputs: Sequence[Array], attributes: NoiseContrastiveAttributes, context: OpContext
) -> Array:
    """Tells a word from samples of noise; inputs: labels (word, log chance, then the samples'), h, W, biases."""
    labels, hidden = samples(inputs[0], context.framed[0]), samples(inputs[1], context.framed[1])
    weights, biases = inputs[2], inputs[3].reshape(-1)
    mode = _evaluates(labels, attributes)
    if mode == TRAINS:
        return scalar(xp, _training_scores(xp, labels, hidden, weights, biases, context), hidden)
    words = np.asarray(labels[:, 0], np.int64)
    rows = np.arange(len(words))
    if mode == UNNORMALIZED:
        words = -words
    _check_numbers(words, len(weights), "word")
    if mode == UNNORMALIZED:
        score = biases[words] + xp.sum(hidden * weights[words], axis=1)
        context.saved.update(words=words[:, None], slopes=-xp.ones_like(score)[:, None])
        return scalar(xp, -xp.sum(score), hidden)
    logs = log_softmax(xp, hidden @ weights.T + biases)
    slopes = xp.exp(logs)
    slopes[rows, words] -= 1.0
    context.saved.update(words=None, slopes=slopes)
    return scalar(xp, -xp.sum(logs[rows, words]), hidden)


OPS = (LOOKUP_TABLE, CLASS_BASED_CROSS_ENTROPY_WITH_SOFTMAX, NOISE_CONTRASTIVE_ESTIMATION)
