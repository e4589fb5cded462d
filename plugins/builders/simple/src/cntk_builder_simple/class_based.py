"""What language models with classes of words share: the labels, the weights and the criteria."""

from __future__ import annotations

from cntk_builder_simple.criteria import Judged, add_criteria
from cntk_builder_simple.maker import Maker
from cntk_core.api import Node

LABEL_ROWS = 4
"""Rows of the labels: word, class, first word of the class, first word after the class."""


def class_based_criteria(maker: Maker, value: Node) -> tuple[Node, Node]:
    """Make the weights of words and classes, the labels and the criteria.

    Returns:
        The labels and the node that is evaluated. The weights of the words, ``W<n>``, have a column for each word.
    """
    size = maker.sizes[-2]
    words = maker.weights(f"W{maker.hidden}", size, maker.sizes[-1])
    labels = maker.input("labels", LABEL_ROWS)
    classes = maker.weights("WeightForClassPostProb", maker.chosen.nbr_class, size, key="nbrClass")
    scores = maker.node("Times", classes, value, name="ClassPostProb", key="nbrClass")
    judged = Judged(labels, value, words, (scores,))
    # The missing letter of the second name is the original's.
    result = add_criteria(maker, judged, "TrainNodeClassBasedCrossEntropy", "EvalNodeClassBasedCrossEntrpy")
    return labels, result
