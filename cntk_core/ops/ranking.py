"""Criteria of ranking: LambdaRank and NDCG1Eval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cntk_core.errors import ShapeError
from cntk_core.ops.define import declare_op
from cntk_core.ops.shapes import Shape, elements, show


def _infer_ranking(shapes: Sequence[Shape], attributes: Any) -> Shape:
    for name, shape in zip(("gain", "score", "query"), shapes, strict=True):
        if elements(shape) != 1:
            raise ShapeError(f"the {name} must be a single number for each frame, not {show(shape)}")
    return (1,)


LAMBDA_RANK = declare_op(
    "LambdaRank",
    "(1 - mean NDCG) * 100 for each sample; inputs: gain, score, query.",
    inputs=3,
    infer=_infer_ranking,
    reduces_frames=True,
    role="criterion",
    differentiable=(False, True, False),
)
NDCG1_EVAL = declare_op(
    "NDCG1Eval",
    "(1 - mean NDCG of the first place) * 100 for each sample; inputs: gain, score, query.",
    inputs=3,
    infer=_infer_ranking,
    reduces_frames=True,
    role="criterion",
    differentiable=(False,),
)

OPS = (LAMBDA_RANK, NDCG1_EVAL)
