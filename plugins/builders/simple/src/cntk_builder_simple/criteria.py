"""The training and the evaluation criterion."""

from __future__ import annotations

import attrs

from cntk_builder_simple.maker import Maker
from cntk_core.api import Node

CLASS_BASED = "ClassBasedCrossEntropyWithSoftmax"
NOISE_CONTRASTIVE = "NoiseContrastiveEstimation"
CRF = "CRF"
ERROR_COUNT = "ClassificationError"

ON_SCORES = {
    "crossEntropyWithSoftmax": "CrossEntropyWithSoftmax",
    "squareError": "SquareError",
    "logistic": "Logistic",
}
"""Criteria that compare labels with scores of the same size, and their operations."""

ERROR_NAMES = ("classificationError", "errorPrediction")
"""Names of the error count, an evaluation criterion only."""

OPERATIONS = {
    **{name.lower(): op for name, op in ON_SCORES.items()},
    **{name.lower(): ERROR_COUNT for name in ERROR_NAMES},
    "classcrossentropywithsoftmax": CLASS_BASED,
    "noisecontrastiveestimation": NOISE_CONTRASTIVE,
    "crf": CRF,
}
"""Operations by the name of a criterion in small letters."""

_NAMES = {CLASS_BASED: "ClassCrossEntropyWithSoftmax", NOISE_CONTRASTIVE: "NoiseContrastiveEstimationNode"}
_EVALUATION_NAMES = {ERROR_COUNT: "EvalClassificationError", CRF: "EvalCRF"}


@attrs.frozen
class Judged:
    """What the criteria judge.

    Attributes:
        labels: the wanted result.
        value: the result, or the value of the last hidden layer if there is a matrix.
        matrix: weights that make scores of the value; made only if a criterion wants scores.
        more: further inputs of the operations that are no plain comparison: scores of classes, biases, transitions.
    """

    labels: Node
    value: Node
    matrix: Node | None = None
    more: tuple[Node, ...] = ()


def add_criteria(maker: Maker, judged: Judged, training_name: str = "", evaluation_name: str = "") -> Node:
    """Make both criteria and mark them and the labels; return the node that is evaluated.

    If both are the same operation there is one node for both.
    """
    network = maker.network
    network.mark(judged.labels, "label")
    trained = OPERATIONS[maker.chosen.training_criterion.lower()]
    evaluated = OPERATIONS[maker.chosen.eval_criterion.lower()]
    scores = judged.value
    if judged.matrix is not None and trained not in (CLASS_BASED, NOISE_CONTRASTIVE):
        scores = maker.node("Times", judged.matrix, judged.value)
    name = training_name or _NAMES.get(trained, trained)
    criterion = _criterion(maker, trained, judged, scores, name, "trainingCriterion")
    network.mark(criterion, "criterion")
    result = criterion
    if evaluated != trained:
        name = evaluation_name or _EVALUATION_NAMES.get(evaluated, _NAMES.get(evaluated, evaluated))
        result = _criterion(maker, evaluated, judged, scores, name, "evalCriterion")
    network.mark(result, "evaluation")
    return result


def _criterion(maker: Maker, op: str, judged: Judged, scores: Node, name: str, key: str) -> Node:
    if op == CRF:
        return maker.node(op, judged.labels, scores, *judged.more, name=name, key=key)
    if op in (CLASS_BASED, NOISE_CONTRASTIVE):
        assert judged.matrix is not None
        return maker.node(op, judged.labels, judged.value, judged.matrix, *judged.more, name=name, key=key)
    return maker.node(op, judged.labels, scores, name=name, key=key)
