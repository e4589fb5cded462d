"""Metrics: what is reported beside the loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cntk._inherited import inherit
from cntk.axis import Axis
from cntk.internal import sanitize_input
from cntk.ops import _elements as elements
from cntk.ops import _reductions as reductions
from cntk.ops import _shapes as shapes
from cntk.ops._making import block, made, operands, size
from cntk.ops.functions import Function
from cntk.variables import Variable


def classification_error(
    output_vector: Any,
    target_vector: Any,
    axis: Any = -1,
    topN: int = 1,
    name: str = "",
) -> Function:
    """1 where the largest element is not at the place of the label, else 0, for each sample.

    Args:
        output_vector: scores.
        target_vector: one-hot labels.
        axis: along which the classes lie; where one is said, the result is the mean over all others.
        topN: the label may be among the largest so many.
        name: of the user.
    """
    z, y = operands(output_vector, target_vector)
    if topN != 1:
        return made("ClassificationError", z, y, sanitize_input(float(topN), z._dtype or np.float32), name=name)

    def inside(a: Variable, b: Variable) -> Function:
        if axis == -1:
            return elements.minus(1, made("TransposeTimes", b, elements.hardmax(a).output, outputRank=size(1)))
        wrong = elements.not_equal(b, elements.equal(a, reductions.reduce_max(a, axis)))
        return reductions.reduce_mean(elements.greater_equal(reductions.reduce_sum(wrong, axis), 1))

    return block("ClassificationError", name, [z, y], inside)


def edit_distance_error(
    input_a: Any,
    input_b: Any,
    subPen: float = 1,
    delPen: float = 1,
    insPen: float = 1,
    squashInputs: bool = False,
    tokensToIgnore: Sequence[int] = (),
    name: str = "",
) -> Function:
    """The edit distance between sequences of one-hot vectors, summed over the minibatch.

    Args:
        input_a, input_b: sequences.
        subPen, delPen, insPen: what substitutions, deletions and insertions cost.
        squashInputs: equal numbers one after the other are one.
        tokensToIgnore: numbers that are left out.
        name: of the user.
    """
    first, second = operands(input_a, input_b)
    if first._axes is not None and len(first._axes) == 1:  # one step for each sample
        first = shapes.to_sequence(shapes.expand_dims(first, Axis.new_leading_axis())).output
        second = shapes.to_sequence_like(shapes.expand_dims(second, Axis.new_leading_axis()), first).output
    return made(
        "EditDistanceError", first, second, name=name, SubstitutionPenalty=float(subPen),
        DeletionPenalty=float(delPen), InsertionPenalty=float(insPen), SquashInputs=squashInputs,
        TokensToIgnore=[size(each) for each in tokensToIgnore],
    )  # fmt: skip


def ndcg_at_1(output: Any, gain: Any, group: Any, name: str = "") -> Function:
    """The normalized discounted cumulative gain of the first of each group, summed over the minibatch."""
    return made("NDCG", *operands(output, gain, group), name=name)


inherit(__name__)
