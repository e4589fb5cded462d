"""LambdaRank and NDCG1Eval, against sums over all pairs of answers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cntk_core.ops.families.ranking import LAMBDA_RANK, NDCG1_EVAL
from cntk_core.ops.language.framing import run_forward, run_gradient
from cntk_core.ops.language.layouts import sequence_layout
from cntk_core.ops.language.op import OpContext
from cntk_core.ops.language.reader_order import pack

# Two queries: the answers of the first in their best order, those of the second not.
GAINS = np.array([3.0, 1.0, 1.0, 0.0, 0.0, 2.0, 1.0])
SCORES = np.array([0.2, 0.9, 0.9, 0.4, 0.5, 0.1, 0.3])
QUERIES = np.array([4.0, 4.0, 4.0, 4.0, 7.0, 7.0, 7.0])
PARTS = (slice(0, 4), slice(4, 7))


def inputs(gains=GAINS, scores=SCORES, queries=QUERIES):
    return [np.asarray(value, float).reshape(-1, 1) for value in (gains, scores, queries)]


def context(count=7):
    return OpContext((True, True, True), count)


def forward(op, *values):
    return run_forward(op, np, list(values), None, context(len(values[0])))


def discounts_by_score(gains, scores):
    """The best score first; of equal ones the smaller gain."""
    order = sorted(range(len(gains)), key=lambda place: (-scores[place], gains[place]))
    return {answer: math.log(2 + place) for place, answer in enumerate(order)}


def ndcg(gains, scores):
    mine = discounts_by_score(gains, scores)
    ideal = sum(gain / math.log(2 + place) for place, gain in enumerate(gains))
    return sum(gain / mine[place] for place, gain in enumerate(gains)) / ideal if ideal else 0.0


def pushes(gains, scores):
    """For each pair of which the first is better than the last answer: the change of the NDCG, times a sigmoid."""
    mine = discounts_by_score(gains, scores)
    ideal = sum(gain / math.log(2 + place) for place, gain in enumerate(gains))
    found = np.zeros(len(gains))
    for first in range(len(gains)):
        for second in range(first + 1, len(gains)):
            if gains[first] > gains[-1] and gains[first] != gains[second]:
                change = (gains[first] - gains[second]) * (1 / mine[second] - 1 / mine[first]) / ideal
                push = abs(change) / (1 + math.exp(scores[first] - scores[second]))
                found[first] -= push
                found[second] += push
    return found


def test_the_value_is_what_is_missing_to_the_best_order():
    expected = np.mean([ndcg(GAINS[part], SCORES[part]) for part in PARTS])
    assert forward(LAMBDA_RANK, *inputs()) == pytest.approx((1 - expected) * 100 * 7)


def test_the_gradient_is_the_push_of_all_pairs():
    expected = np.concatenate([pushes(GAINS[part], SCORES[part]) for part in PARTS])
    assert np.count_nonzero(expected) == 6
    none, found, last = run_gradient(
        LAMBDA_RANK, np, np.array([2.0]), np.zeros(1), inputs(), None, context(), (False, True, False)
    )
    assert none is None
    assert last is None
    np.testing.assert_allclose(found, 2.0 * expected.reshape(-1, 1))


def test_gains_that_hardly_differ_count_as_equal():
    gains = [1.0 + 1e-8, 1.0, 0.0]
    found = run_gradient(
        LAMBDA_RANK,
        np,
        np.ones(1),
        np.zeros(1),
        inputs(gains, [0.1, 0.2, 0.3], [1, 1, 1]),
        None,
        context(3),
        (False, True, False),
    )[1]
    np.testing.assert_allclose(found.reshape(-1), pushes([1.0, 1.0, 0.0], [0.1, 0.2, 0.3]), rtol=1e-6)


def test_a_query_without_gains_pushes_nothing():
    values = inputs([0.0, 0.0], [0.1, 0.2], [1, 1])
    assert forward(LAMBDA_RANK, *values) == 200.0
    found = run_gradient(LAMBDA_RANK, np, np.ones(1), np.zeros(1), values, None, context(2), (False, True, False))[1]
    np.testing.assert_array_equal(found, [[0.0], [0.0]])


def test_the_gain_of_the_first_answer_by_that_of_the_best():
    # By their scores one with 1 of 3 comes first; in the other query one with nothing, where the best is 0, too.
    assert forward(NDCG1_EVAL, *inputs()) == pytest.approx(100 * 7 * (1 / 3 + 0) / 2)


def test_queries_are_told_apart_by_their_whole_numbers():
    apart = inputs([1, 1], [0, 0], [1.9, 1.1])
    assert forward(NDCG1_EVAL, *apart) == 200.0
    assert forward(NDCG1_EVAL, *inputs([2, 1], [0, 1], [1, 2])) == 200.0
    assert forward(NDCG1_EVAL, *inputs([2, 1], [0, 1], [1.2, 1.8])) == 100.0


def test_without_frames_there_is_nothing_to_rank():
    assert forward(LAMBDA_RANK, *inputs([], [], [])) == 0.0
    assert forward(NDCG1_EVAL, *inputs([], [], [])) == 0.0


def test_sequences_of_other_lengths_are_ranked_with_the_gaps_between_them():
    """What the original computes of four sequences of 4, 1, 3 and 2 frames, laid into three lines."""
    lengths = [4, 1, 3, 2]
    gains = [[2, 0, 3, 3], [0], [0, 0, 0], [3, 0]]
    scores = [[-0.5, 0.95, -0.1, 0.92], [0.07], [-0.32, 0.25, 0.66], [-0.58, -0.22]]
    layout = sequence_layout(lengths)
    values = [pack([np.array(one, float)[:, None] for one in each], layout) for each in (gains, scores)]
    given = [*values, np.ones((10, 1))]
    sequences = OpContext((True, True, True), 10, layout=layout, layouts=(layout, layout, layout))
    columns = [2, 0, 3, 0, 0, 0, 3, 0], [-0.5, 0.07, -0.58, 0.95, -0.32, -0.22, -0.1, 0.25]
    best = [ndcg(*columns), 0.0, ndcg([3, 0], [0.92, 0.66]), 0.0]
    found = run_forward(LAMBDA_RANK, np, given, None, sequences)
    np.testing.assert_allclose(found, [(1 - np.mean(best)) * 100 * 12])
    gradient = run_gradient(LAMBDA_RANK, np, np.ones(1), found, given, None, sequences, (False, True, False))[1]
    assert gradient.shape == (10, 1)
    places = pack([np.arange(count)[:, None] * 10.0 + each for each, count in enumerate(lengths)], layout)[
        :, 0
    ].tolist()
    # The last step of the first sequence, and that of the third, stand between two gaps.
    np.testing.assert_allclose(gradient[[places.index(30), places.index(22)], 0], pushes([3, 0], [0.92, 0.66]))
