"""CosDistance and its form with negative samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from cntk_core.errors import ShapeError
from cntk_core.ops.families.frame_moves import packed_columns
from cntk_core.ops.language.define import define_op, fill_from_others
from cntk_core.ops.language.framing import samples
from cntk_core.ops.language.op import Array, OpContext
from cntk_core.ops.language.shapes import Shape, elements, show
from cntk_core.ops.language.traits import BY_ROWS, Traits
from cntk_core.records.layout import IntArray

SMALLEST_NORM = 1e-30
"""Norms below this count as this."""


def _check_sizes(shapes: Sequence[Shape]) -> None:
    if elements(shapes[0]) != elements(shapes[1]):
        raise ShapeError(f"the inputs {show(shapes[0])} and {show(shapes[1])} must have the same number of elements")


def _inverse_norms(xp: Any, rows: Array) -> Array:
    norms = xp.sqrt(xp.sum(rows * rows, axis=1, keepdims=True))
    return 1.0 / xp.maximum(norms, SMALLEST_NORM)


def cosines(xp: Any, left: Array, right: Array) -> Array:
    """Return the cosine of each pair of rows, as a column."""
    return xp.sum(left * right, axis=1, keepdims=True) * (_inverse_norms(xp, left) * _inverse_norms(xp, right))


def cosine_gradients(xp: Any, gradient: Array, left: Array, right: Array) -> tuple[Array, Array]:
    """Return the gradients of :func:`cosines`, from that of its column, of the shape of the rows ``(pairs, elements)``.

    d/da = b / (|a| |b|) - cos a / |a|^2, and the same for b.
    """
    of_left, of_right = _inverse_norms(xp, left), _inverse_norms(xp, right)
    both = of_left * of_right
    cosine = xp.sum(left * right, axis=1, keepdims=True) * both
    to_left = gradient * (right * both - left * (cosine * of_left * of_left))
    to_right = gradient * (left * both - right * (cosine * of_right * of_right))
    return to_left, to_right


def _sum_if_repeated(xp: Any, gradient: Array, value: Array, framed: bool) -> Array:
    return (gradient if framed else xp.sum(gradient, axis=0)).reshape(value.shape)


def _infer_cosine(shapes: Sequence[Shape], attributes: Any) -> Shape:
    _check_sizes(shapes)
    return (1,)


def _cosine_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: Any,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    left, right = (samples(value, framed) for value, framed in zip(inputs, context.framed, strict=True))
    results = cosine_gradients(xp, gradient.reshape(-1, 1), left, right)
    return [
        _sum_if_repeated(xp, result, value, framed)
        for result, value, framed in zip(results, inputs, context.framed, strict=True)
    ]


@define_op(
    "CosDistance",
    inputs=2,
    infer=_infer_cosine,
    gradient=_cosine_gradient,
    complete=fill_from_others,
    reads_output=False,
    aliases={"ndl": ("CosDist",)},
    traits=BY_ROWS,
)
def COS_DISTANCE(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
    """Cosine of the angle between two vectors, sample by sample."""
    left, right = (samples(value, framed) for value, framed in zip(inputs, context.framed, strict=True))
    found = cosines(xp, left, right)
    return found if any(context.framed) else found.reshape(1)


@attrs.frozen
class NegativeSamplesAttributes:
    """Attributes of CosDistanceWithNegativeSamples.

    CNTK's recipes and files give them as constants, third and fourth input: nodes that a network may keep, since they
    have names and are dumped, and that say nothing more.

    Attributes:
        shift: how many columns of the minibatch after a sample its first negative partner stands.
        negatives: number of negative partners.
    """

    shift: int = 1
    negatives: int = 0

    @property
    def shifts(self) -> tuple[int, ...]:
        """For each row of the result, how many columns after a sample its partner stands."""
        return (0, *(self.shift + index for index in range(self.negatives)))


def _infer_negative(shapes: Sequence[Shape], attributes: NegativeSamplesAttributes) -> Shape:
    if len(shapes) == 3:
        raise ShapeError("takes 2 inputs, or 4 with the constants of its settings, not 3")
    _check_sizes(shapes)
    if attributes.negatives < 0:
        raise ShapeError(f"the number of negative samples must not be negative, but is {attributes.negatives}")
    return (attributes.negatives + 1,)


def _complete_negative(shapes: Sequence[Shape], attributes: NegativeSamplesAttributes) -> list[Shape]:
    return [*fill_from_others(shapes[:2], attributes), *shapes[2:]]


def _both_rows(xp: Any, inputs: Sequence[Array], context: OpContext) -> tuple[Array, Array]:
    left, right = (samples(value, framed) for value, framed in zip(inputs[:2], context.framed[:2], strict=True))
    rows = max(len(left), len(right))
    return xp.broadcast_to(left, (rows, left.shape[1])), xp.broadcast_to(right, (rows, right.shape[1]))


def negative_partners(context: OpContext, rows: int, shifts: Sequence[int]) -> tuple[IntArray, IntArray]:
    """Return the row that each row is compared with, and the row that is compared with it, for each shift.

    Partners are counted in the columns of the original's minibatch, in which sequences of different lengths leave gaps.

    Args:
        context: of the operation.
        rows: samples of the inputs.
        shifts: how many columns after a row its partners stand.

    Returns:
        Two tables ``(rows, shifts)``; -1 stands for a gap.
    """
    layout = next((one for one in context.layouts if one is not None), None)
    columns = np.arange(rows) if layout is None else packed_columns(layout)
    places = np.zeros((rows, 1), np.int64)
    places[columns[columns >= 0], 0] = np.flatnonzero(columns >= 0)
    steps, count = np.asarray(shifts, np.int64), max(len(columns), 1)
    return columns[(places + steps) % count], columns[(places - steps) % count]


def _negative_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: NegativeSamplesAttributes,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    left, right = _both_rows(xp, inputs, context)
    incoming = gradient.reshape(len(left), -1)
    to_left, to_right = xp.zeros_like(left), xp.zeros_like(right)
    partners, others = negative_partners(context, len(left), attributes.shifts)
    incoming = xp.where(xp.asarray(partners < 0), xp.zeros_like(incoming), incoming)
    for index in range(len(attributes.shifts)):
        arriving, partner, other = incoming[:, index : index + 1], partners[:, index], others[:, index : index + 1]
        more_left, more_right = cosine_gradients(xp, arriving, left, right[partner])
        to_left = to_left + more_left
        to_right = to_right + xp.where(xp.asarray(other < 0), xp.zeros_like(more_right), more_right[other[:, 0]])
    found = [
        _sum_if_repeated(xp, result, value, framed)
        for result, value, framed in zip((to_left, to_right), inputs[:2], context.framed[:2], strict=True)
    ]
    return [*found, *[None] * len(inputs[2:])]


@define_op(
    "CosDistanceWithNegativeSamples",
    inputs=(2, 4),
    infer=_infer_negative,
    gradient=_negative_gradient,
    attributes=NegativeSamplesAttributes,
    complete=_complete_negative,
    differentiable=(True, True, False, False),
    reads_output=False,
    aliases={"ndl": ("CosWithNegSamples",)},
    traits=Traits(keeps_nothing=True),
)
def COS_DISTANCE_WITH_NEGATIVE_SAMPLES(
    xp: Any, inputs: Sequence[Array], attributes: NegativeSamplesAttributes, context: OpContext
) -> Array:
    """Cosine with the partner, then with partners of later frames (round the minibatch's end) as negative samples."""
    left, right = _both_rows(xp, inputs, context)
    partners, _ = negative_partners(context, len(left), attributes.shifts)
    result = xp.concatenate([cosines(xp, left, right[partner]) for partner in partners.T], axis=1)
    result = xp.where(xp.asarray(partners < 0), xp.zeros_like(result), result)
    return result if any(context.framed) else result.reshape(-1)


OPS = (COS_DISTANCE, COS_DISTANCE_WITH_NEGATIVE_SAMPLES)
