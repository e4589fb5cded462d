"""Criteria of ranking: LambdaRank and NDCG1Eval.

The frames of a query follow each other, the best answer first. The gain of an answer is divided by ``ln(2 + place)``,
places counted from 0; the sum over the places that the scores give, divided by that of the given order, is the NDCG.
Of sequences, frames follow each other as in the original's minibatch, step by step through all sequences; where those
are not equally long, the gaps in it are frames of the query 0 without gain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_core.errors import ShapeError
from cntk_core.ops.families.frame_moves import packed_columns
from cntk_core.ops.language.define import define_op
from cntk_core.ops.language.framing import scalar
from cntk_core.ops.language.op import Array, OpContext
from cntk_core.ops.language.shapes import Shape, elements, show
from cntk_core.records.layout import IntArray

Numbers = NDArray[np.float64]

SMALLEST_DIFFERENCE = 1e-7
"""Gains that differ less count as equal."""


def _infer_ranking(shapes: Sequence[Shape], attributes: Any) -> Shape:
    for name, shape in zip(("gain", "score", "query"), shapes, strict=True):
        if elements(shape) != 1:
            raise ShapeError(f"the {name} must be a single number for each frame, not {show(shape)}")
    return (1,)


def _in_columns(inputs: Sequence[Array], context: OpContext) -> tuple[IntArray, list[Numbers]]:
    """The row of each frame in the original's order, -1 of a gap, and the inputs in that order."""
    values = [np.asarray(value, np.float64).reshape(-1) for value in inputs]
    layout = context.layouts[1] if len(context.layouts) > 1 else None
    columns = packed_columns(layout) if layout is not None else np.arange(len(values[1]))
    return columns, [np.where(columns < 0, 0.0, value[columns]) if len(value) else value for value in values]


def _queries(given: Sequence[Numbers]) -> Iterator[tuple[slice, Numbers, Numbers]]:
    """The frames of each query, with their gains and scores."""
    gains, scores, queries = given
    starts = [0, *(np.flatnonzero(np.diff(queries.astype(np.int64))) + 1).tolist(), len(queries)]
    for begin, end in pairwise(starts):
        if end > begin:
            yield slice(begin, end), gains[begin:end], scores[begin:end]


def _discounts(count: int) -> Numbers:
    return np.asarray(np.log(2.0 + np.arange(count)))


def _places(gains: Numbers, scores: Numbers) -> NDArray[np.int64]:
    """The place of each answer by its score; of equal scores the smaller gain comes first."""
    places = np.empty(len(scores), np.int64)
    places[np.lexsort((gains, -scores))] = np.arange(len(scores))
    return places


def _ndcg(gains: Numbers, scores: Numbers) -> float:
    discounts = _discounts(len(gains))
    ideal = float(np.sum(gains / discounts))
    return float(np.sum(gains / discounts[_places(gains, scores)])) / ideal if ideal else 0.0


def _lambdas(gains: Numbers, scores: Numbers) -> Numbers:
    """The push on each score: for each pair how much swapping it changes the NDCG, times how wrong it is."""
    count = len(gains)
    discounts = _discounts(count)
    ideal = float(np.sum(gains / discounts))
    result = np.zeros(count)
    if ideal == 0.0:
        return result
    mine = discounts[_places(gains, scores)]
    for better in range(count):
        if gains[better] <= gains[-1]:
            continue
        others = slice(better + 1, count)
        difference = gains[better] - gains[others]
        change = np.abs(difference * (mine[better] - mine[others]) / (mine[better] * mine[others]) / ideal)
        change[np.abs(difference) < SMALLEST_DIFFERENCE] = 0.0
        push = -change * np.exp(-np.logaddexp(0.0, scores[better] - scores[others]))
        result[better] += push.sum()
        result[others] -= push
    return result


def _lambda_rank_gradient(
    xp: Any,
    gradient: Array,
    output: Array,
    inputs: Sequence[Array],
    attributes: Any,
    context: OpContext,
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    columns, given = _in_columns(inputs, context)
    found = np.zeros(len(columns))
    for frames, gains, scores in _queries(given):
        found[frames] = _lambdas(gains, scores)
    result = np.zeros(inputs[1].size)
    result[columns[columns >= 0]] = found[columns >= 0]
    return None, xp.asarray(result.reshape(inputs[1].shape), dtype=inputs[1].dtype) * gradient, None


@define_op(
    "LambdaRank",
    inputs=3,
    infer=_infer_ranking,
    gradient=_lambda_rank_gradient,
    reduces_frames=True,
    role="criterion",
    reads_output=False,
    differentiable=(False, True, False),
)
def LAMBDA_RANK(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
    """(1 - mean NDCG) * 100 for each sample, with lambdas as gradient; inputs: gain, score, query."""
    columns, given = _in_columns(inputs, context)
    values = [_ndcg(gains, scores) for _, gains, scores in _queries(given)]
    return scalar(xp, (1.0 - float(np.mean(values))) * 100.0 * len(columns) if values else 0.0, inputs[1])


@define_op("NDCG1Eval", inputs=3, infer=_infer_ranking, reduces_frames=True, role="criterion")
def NDCG1_EVAL(xp: Any, inputs: Sequence[Array], attributes: Any, context: OpContext) -> Array:
    """Mean gain of the first answer by that of the best, * 100 for each sample; inputs: gain, score, query."""
    values = []
    columns, given = _in_columns(inputs, context)
    for _, gains, scores in _queries(given):
        found = gains[np.argmin(_places(gains, scores))]
        values.append(float(found / gains[0]) if gains[0] else 0.0)
    return scalar(xp, float(np.mean(values)) * 100.0 * len(columns) if values else 0.0, inputs[1])


OPS = (LAMBDA_RANK, NDCG1_EVAL)
