"""CosDistance and its form with negative samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from cntk_core.errors import ShapeError
from cntk_core.ops.language.define import define_op, fill_from_others
from cntk_core.ops.language.framing import samples
from cntk_core.ops.language.op import Array, OpContext
from cntk_core.ops.language.shapes import Shape, elements, show
from cntk_core.ops.language.traits import BY_ROWS, Traits

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
    """Return the gradients of :func:`cosines`: d/da = b / (|a| |b|) - cos a / |a|^2, and the same for b."""
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
        shift: how many frames after a sample its first negative partner stands.
        negatives: number of negative partners.
    """

    shift: int = 1
    negatives: int = 0

    @property
    def shifts(self) -> tuple[int, ...]:
        """For each row of the result, how many frames the second input is shifted."""
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
    for row, shift in enumerate(attributes.shifts):
        more_left, more_right = cosine_gradients(xp, incoming[:, row : row + 1], left, xp.roll(right, -shift, axis=0))
        to_left = to_left + more_left
        to_right = to_right + xp.roll(more_right, shift, axis=0)
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
    traits=Traits(pure_xp=True, keeps_nothing=True),
)
def COS_DISTANCE_WITH_NEGATIVE_SAMPLES(
    xp: Any, inputs: Sequence[Array], attributes: NegativeSamplesAttributes, context: OpContext
) -> Array:
    """Cosine with the partner, then with partners of later frames (round the minibatch's end) as negative samples."""
    left, right = _both_rows(xp, inputs, context)
    columns = [cosines(xp, left, xp.roll(right, -shift, axis=0)) for shift in attributes.shifts]
    result = xp.concatenate(columns, axis=1)
    return result if any(context.framed) else result.reshape(-1)


OPS = (COS_DISTANCE, COS_DISTANCE_WITH_NEGATIVE_SAMPLES)
