"""Losses and metrics of one-hot labels are computed in one operation, and other labels as they are written."""

from __future__ import annotations

import cntk as C
import numpy as np
import pytest
from cntk.train._fused import fused, is_one_hot
from scipy.sparse import csr_matrix

HOT = np.eye(3, dtype=np.float32)[[0, 2, 1, 1]]
SOFT = np.array([[0.2, 0.8, 0.0], [0.5, 0.25, 0.25], [1.0, 0.0, 0.0], [0.0, 0.5, 0.5]], np.float32)
X = np.array([[0.5, -1.0], [2.0, 0.25], [-0.75, 1.5], [1.0, 1.0]], np.float32)


def trainer(loss=C.cross_entropy_with_softmax, *, plain=False):
    x, y = C.input_variable(2), C.input_variable(3)
    w = C.parameter((2, 3), init=np.array([[0.1, 0.2, 0.3], [-0.1, 0.4, 0.05]], np.float32))
    scores = C.times(x, w)
    criterion, metric = loss(scores, y), C.classification_error(scores, y)
    if plain:  # a sum is no form that is known
        criterion, metric = criterion + 0, metric + 0
    made = C.Trainer(scores, (criterion, metric), C.sgd([w], C.learning_parameter_schedule(0.5)))
    return made, x, y, w


@pytest.mark.parametrize("loss", [C.cross_entropy_with_softmax, C.squared_error])
@pytest.mark.parametrize("labels", [(HOT, HOT), (HOT, SOFT, HOT), (SOFT, HOT)])
def test_one_operation_learns_as_several(loss, labels):
    found = []
    for plain in (False, True):
        made, x, y, w = trainer(loss, plain=plain)
        steps = []
        for each in labels:
            made.train_minibatch({x: X, y: each})
            steps += [made.previous_minibatch_loss_average, made.previous_minibatch_evaluation_average]
        found.append((np.array(steps), np.array(made.test_minibatch({x: X, y: labels[0]})), w.value))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-6)


def test_what_is_known():
    x, y = C.input_variable(2), C.input_variable(3)
    scores = C.times(x, C.parameter((2, 3), init=1.0))
    known = {
        "CrossEntropyWithSoftmax": C.cross_entropy_with_softmax(scores, y),
        "ClassificationError": C.classification_error(scores, y),
        "SquareError": C.squared_error(scores, y),
    }
    assert [fused(each.output).op for each in known.values()] == list(known)
    gradient = C.input_variable(3, needs_gradient=True)
    others = (C.cross_entropy_with_softmax(scores, gradient), C.classification_error(scores, y, topN=2), scores, x)
    assert [fused(getattr(each, "output", each)) for each in others] == [None] * 4


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (HOT, True),
        (SOFT, False),
        (np.zeros((2, 3)), False),
        (np.full((1, 3), 1.0), False),
        (2 * HOT, False),
        ([HOT, HOT[:1]], True),
        ([HOT, SOFT], False),
        (csr_matrix(HOT), True),
        (csr_matrix(2 * HOT), False),
        ([csr_matrix(HOT), csr_matrix(SOFT)], False),
        (3, False),
    ],
)
def test_one_hot_data(given, expected):
    assert is_one_hot(given) is expected
