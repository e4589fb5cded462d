"""Weights of samples and classes: a row of the weight 2 is a row that is there twice."""

import numpy as np
import pytest
from cntk_builder_python import (
    BATCH,
    Dense,
    Graph,
    binary_cross_entropy,
    classification_error,
    cross_entropy_with_softmax,
    sequence,
    sigmoid,
    softmax,
    squared_error,
)
from cntk_fit import Estimator
from fit_problems import CLASSES, SENTENCES, TAGS, X, Y, perceptron, tagger, values
from scipy.sparse import csr_array

from cntk_core.api import DataError, UnsupportedError, UsageError
from cntk_core.api.training import LearnerSettings

WEIGHTS = np.arange(120) % 3
TWICE = np.repeat(np.arange(120), WEIGHTS)


def network(criterion, *, sparse=False, axis=""):
    graph = Graph(seed=1)
    x, y = graph.input("x", 2, axis=axis), graph.label("y", 2, sparse=sparse, axis=axis)
    graph.criterion(criterion(graph, Dense(2)(x), y), "loss")
    return graph.finish()


CRITERIA = {
    "cross entropy with softmax": lambda graph, z, y: cross_entropy_with_softmax(z, y),
    "cross entropy": lambda graph, z, y: graph.apply("CrossEntropy", y, softmax(z)),
    "square error": lambda graph, z, y: squared_error(z, y),
    "logistic": lambda graph, z, y: graph.apply("Logistic", y, sigmoid(z)),
    "of each sample": lambda graph, z, y: graph.apply("SumColumnElements", binary_cross_entropy(sigmoid(z), y)),
}


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("axis", ["", BATCH])
def test_a_weight_is_how_often_a_row_is_there(criterion, axis):
    weighted, repeated = (network(CRITERIA[criterion], axis=axis) for _ in range(2))
    learner = LearnerSettings("sgd", 0.002, momentum=0.0)  # of the sum of the gradients
    one, other = Estimator(weighted, learner=learner), Estimator(repeated, learner=learner)
    before = one.evaluate(X, Y, sample_weight=WEIGHTS)
    assert before["loss"] * 120 == pytest.approx(other.evaluate(X[TWICE], Y[TWICE])["loss"] * len(TWICE), rel=1e-5)
    history = one.fit(X, Y, sample_weight=WEIGHTS, minibatch_size=120, epochs=2)
    other.fit(X[TWICE], Y[TWICE], minibatch_size=len(TWICE), epochs=2)
    assert history.training[0].keys() == {"loss"}
    for name, value in values(weighted).items():
        np.testing.assert_allclose(value, values(repeated)[name], rtol=1e-4, atol=1e-6)
    assert [node.name for node in weighted] == [node.name for node in repeated]


def test_sparse_labels_can_be_weighted():
    criterion = CRITERIA["cross entropy with softmax"]
    one, other = (Estimator(network(criterion, sparse=sparse)) for sparse in (True, False))
    expected = other.evaluate(X, Y, sample_weight=WEIGHTS)["loss"]
    assert one.evaluate(X, csr_array(Y), sample_weight=WEIGHTS)["loss"] == pytest.approx(expected)
    assert one.evaluate(X, CLASSES, sample_weight=WEIGHTS)["loss"] == pytest.approx(expected)


def test_evaluations_are_not_weighted():
    estimator = Estimator(perceptron())
    weighted, plain = estimator.evaluate(X, Y, sample_weight=WEIGHTS), estimator.evaluate(X, Y)
    assert weighted["ce"] != pytest.approx(plain["ce"])
    assert weighted["errs"] == plain["errs"]


def test_sequences_are_weighted_as_wholes_or_by_steps():
    estimator = Estimator(tagger())
    wholes = np.arange(24) % 2
    steps = [np.full(len(each), weight) for each, weight in zip(SENTENCES, wholes, strict=True)]
    one = estimator.evaluate(SENTENCES, TAGS, sample_weight=wholes)
    assert one == estimator.evaluate(SENTENCES, TAGS, sample_weight=steps)
    half = estimator.evaluate(SENTENCES[1::2], TAGS[1::2])["ce"] * sum(map(len, SENTENCES[1::2]))
    assert one["ce"] * sum(map(len, SENTENCES)) == pytest.approx(half, rel=1e-5)
    together = np.array([each[:1].repeat(4) for each in SENTENCES])
    weighted = estimator.evaluate(together, together % 3, sample_weight=wholes)["ce"]
    assert weighted == pytest.approx(estimator.evaluate(together[1::2], together[1::2] % 3)["ce"] / 2, rel=1e-5)


def test_a_weight_of_a_sequence_with_one_label():
    graph = Graph(seed=1)
    z = Dense(2)(sequence.last(graph.input("words", 20, sparse=True)))
    graph.criterion(cross_entropy_with_softmax(z, graph.label("y", 2, axis=BATCH)), "ce")
    estimator = Estimator(graph.finish())
    y = np.arange(24) % 2
    found = estimator.evaluate(SENTENCES, y, sample_weight=y)["ce"]
    assert found == pytest.approx(estimator.evaluate(SENTENCES[1::2], y[1::2])["ce"] / 2, rel=1e-5)


def test_minibatches_bring_weights():
    one, other = (Estimator(perceptron()) for _ in range(2))
    one.fit([{"x": X, "y": Y}], shuffle=False)
    batches = [(X[first : first + 40], Y[first : first + 40], WEIGHTS[first : first + 40]) for first in (0, 40, 80)]
    assert one.evaluate(iter(batches)) == pytest.approx(one.evaluate(X, Y, sample_weight=WEIGHTS))
    history = other.fit(iter(batches))
    assert history == Estimator(perceptron()).fit(X, Y, sample_weight=WEIGHTS, minibatch_size=40, shuffle=False)


def test_classes_have_weights():
    names = np.array(["no", "yes"])[CLASSES]
    factors = np.where(CLASSES == 1, 3.0, 1.0)

    def loss(y, **given):
        return Estimator(perceptron()).fit(X, y, **given).loss

    expected = loss(Y, sample_weight=factors)
    assert loss(Y, class_weight={1: 3.0}) == expected
    assert loss(CLASSES, class_weight={1: 3.0}) == expected
    assert loss(names, class_weight={"yes": 3.0}) == expected
    assert loss(csr_array(Y), class_weight={1: 3.0}) == expected
    assert loss(Y, class_weight={1: 3.0}, sample_weight=WEIGHTS) == loss(Y, sample_weight=factors * WEIGHTS)
    counts = np.bincount(CLASSES)
    assert loss(Y, class_weight="balanced") == loss(Y, sample_weight=120 / (2 * counts[CLASSES]))


def test_steps_of_sequences_have_classes():
    one, other = (Estimator(tagger()) for _ in range(2))
    steps = [np.where(each == 2, 0.5, 1.0) for each in TAGS]
    assert one.fit(SENTENCES, TAGS, class_weight={2: 0.5}) == other.fit(SENTENCES, TAGS, sample_weight=steps)


def test_a_criterion_that_has_no_value_for_each_sample():
    def both(graph, z, y):
        return cross_entropy_with_softmax(z, y) + classification_error(z, y)

    with pytest.raises(UnsupportedError) as caught:
        Estimator(network(both)).fit(X, Y, sample_weight=WEIGHTS)
    assert caught.value.message == (
        "samples cannot be weighted: the criterion 'loss' (Plus) has no value for each sample"
    )
    assert caught.value.hint == (
        "Weigh it in the network, with an input of weights; or take a criterion such as "
        "CrossEntropyWithSoftmax, SquareError or Logistic."
    )


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (WEIGHTS[:7], "the data differ in the number of rows: 'x' has 120, 'y' has 120, 'sample_weight' has 7"),
        (-1.0 * WEIGHTS, "sample_weight has numbers that are negative or not finite"),
        (WEIGHTS[:, None], "sample_weight has the shape (120, 1); it has to have one number for each row"),
        (["much"] * 120, "sample_weight has to be numbers, one for each row"),
    ],
)
def test_weights_that_are_wrong(weights, message):
    with pytest.raises(DataError) as caught:
        Estimator(perceptron()).fit(X, Y, sample_weight=weights)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("y", "given", "error", "message"),
    [
        (Y, "equal", UsageError, "class_weight is weights by class, or 'balanced', not 'equal'"),
        (Y, {2: 1.0}, UsageError, "class_weight: 'y' has no class 2\n    Classes: 0, 1"),
        (Y, {1: -1.0}, UsageError, "class_weight of 1 is -1.0; it must not be negative"),
        (X, "balanced", DataError, "class_weight: the rows of 'y' are no classes\n    Give sample_weight."),
    ],
)
def test_class_weights_that_are_wrong(y, given, error, message):
    with pytest.raises(error) as caught:
        Estimator(perceptron()).fit(X, y, class_weight=given)
    assert str(caught.value) == message
