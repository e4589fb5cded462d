"""Ops for large vocabularies: look-up, classes of words, noise-contrastive estimation, sampling of classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from cntk_core.errors import ShapeError
from cntk_core.ops.define import declare_op
from cntk_core.ops.shapes import Shape, elements, show


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


LOOKUP_TABLE = declare_op(
    "LookupTable",
    "The columns of the first input that the one-hot vectors of the second choose; several vectors are looked up "
    "one after the other.",
    inputs=2,
    infer=_infer_look_up,
    complete=_complete_look_up,
)


def _infer_class_based(shapes: Sequence[Shape], attributes: Any) -> Shape:
    labels, hidden, weights, _ = shapes
    if elements(labels) != 4:
        raise ShapeError(f"the labels must have 4 rows (word, class, first and past-the-end word), not {show(labels)}")
    if not weights or elements(hidden) != weights[-1]:
        raise ShapeError(f"the weights {show(weights)} must have a row for each element of {show(hidden)}")
    return (1,)


CLASS_BASED_CROSS_ENTROPY_WITH_SOFTMAX = declare_op(
    "ClassBasedCrossEntropyWithSoftmax",
    "-log(P(class) P(word | class)); inputs: labels (word, class, first word, past-the-end word of the class), "
    "hidden value, weights of the words, scores of the classes.",
    inputs=4,
    infer=_infer_class_based,
    reduces_frames=True,
    role="criterion",
    differentiable=(False, True, True, True),
    aliases={"ndl": ("CBCEWithSM",)},
)

EVALUATION_MODES = ("Softmax", "Unnormalized", "None")
"""What NoiseContrastiveEstimation computes: a softmax over all words, plain scores, or the training criterion."""


@attrs.frozen
class NoiseContrastiveAttributes:
    """Attributes of NoiseContrastiveEstimation: ``eval_mode`` is 0 (softmax), 1 (unnormalized) or 2 (train)."""

    eval_mode: int = 2


def _infer_noise_contrastive(shapes: Sequence[Shape], attributes: Any) -> Shape:
    _, hidden, weights, _ = shapes
    if not weights or elements(hidden) != weights[-1]:
        raise ShapeError(f"the weights {show(weights)} must have a row for each element of {show(hidden)}")
    return (1,)


_NCE = ("NCEBasedCrossEntropyWithSoftmax",)
NOISE_CONTRASTIVE_ESTIMATION = declare_op(
    "NoiseContrastiveEstimation",
    "Tells a word from samples of noise; inputs: labels (word and log probability, then those of the samples), hidden "
    "value, weights of the words, biases.",
    inputs=4,
    infer=_infer_noise_contrastive,
    reduces_frames=True,
    role="criterion",
    attributes=NoiseContrastiveAttributes,
    differentiable=(False, True, True, True),
    aliases={"ndl": _NCE, "brainscript": _NCE, "model": _NCE},
)

OPS = (LOOKUP_TABLE, CLASS_BASED_CROSS_ENTROPY_WITH_SOFTMAX, NOISE_CONTRASTIVE_ESTIMATION)
