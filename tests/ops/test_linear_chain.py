"""CRF and SequenceDecoder against all paths, one by one."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from cntk_core.errors import ShapeError
from cntk_core.ops.families.ctc import sequences_of
from cntk_core.ops.families.linear_chain import CRF, SEQUENCE_DECODER
from cntk_core.ops.language.framing import run_forward
from cntk_core.ops.language.layouts import sequence_layout, slot_layout
from cntk_core.ops.language.op import NoAttributes, OpContext
from cntk_testing.gradients import check_op_gradients

CLASSES = 3
LAYOUTS = {
    "random": sequence_layout([3, 0, 1, 4]),
    "one frame each": sequence_layout([1, 1]),
    "nothing": sequence_layout([0]),
    "several to a slot": slot_layout([[2, 3], [1]]),
    "cut": slot_layout([[2, 1], [2]], continued=[True, False], continues=[False, True]),
}


def context_of(layout: Any) -> OpContext:
    return OpContext((True, True, False), layout.frames, layout=layout, layouts=(layout, layout, None))


def values(layout: Any) -> list[Any]:
    rng = np.random.default_rng(2)
    labels = np.eye(CLASSES)[rng.integers(CLASSES, size=layout.frames)]
    return [labels, rng.normal(size=(layout.frames, CLASSES)), rng.normal(size=(CLASSES, CLASSES))]


def score(path: Any, first: int, scores: Any, transitions: Any) -> float:
    """Of a path; the transitions are CNTK's [to x from], here (from, to)."""
    total, before = 0.0, first
    for frame, label in enumerate(path):
        total += scores[frame, label] + transitions[before, label]
        before = label
    return total


@pytest.mark.parametrize("name", LAYOUTS)
def test_crf_is_the_sum_over_all_paths(name):
    labels, scores, transitions = values(LAYOUTS[name])
    context = context_of(LAYOUTS[name])
    expected = 0.0
    for rows in sequences_of(context):
        own = labels[rows].argmax(axis=1)
        paths = product(range(CLASSES), repeat=len(rows))
        mass = sum(np.exp(score(path, own[0], scores[rows], transitions)) for path in paths)
        expected += np.log(mass) - score(own, own[0], scores[rows], transitions)
    found = run_forward(CRF, np, [labels, scores, transitions], NoAttributes(), context)
    np.testing.assert_allclose(found, [expected], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", LAYOUTS)
def test_crf_gradients(name):
    check_op_gradients(
        CRF, values(LAYOUTS[name]), (True, True, False), NoAttributes(), context=lambda: context_of(LAYOUTS[name])
    )


def test_crf_of_large_scores_does_not_overflow():
    labels, scores, transitions = values(LAYOUTS["random"])
    found = run_forward(CRF, np, [labels, 1e4 * scores, transitions], NoAttributes(), context_of(LAYOUTS["random"]))
    assert np.isfinite(found).all()
    assert found[0] > 1e3


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_decoder_finds_the_best_of_all_paths(name):
    labels, scores, transitions = values(LAYOUTS[name])
    context = context_of(LAYOUTS[name])
    found = run_forward(SEQUENCE_DECODER, np, [labels, scores, transitions], NoAttributes(), context)
    np.testing.assert_array_equal(found.sum(axis=1), np.ones(len(found)))
    for rows in sequences_of(context):
        own = labels[rows].argmax(axis=1)
        between = [
            path for path in product(range(CLASSES), repeat=len(rows)) if path[0] == own[0] and path[-1] == own[-1]
        ]
        best = max(between, key=lambda path: score(path, own[0], scores[rows], transitions))
        assert found[rows].argmax(axis=1).tolist() == list(best)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((3,), (4,), (4, 4)), "the labels [3] and the scores [4] must have the same size"),
        (((4,), (4,), (3, 4)), "the transitions must be [4 x 4], not [4 x 3]"),
    ],
)
@pytest.mark.parametrize("op", [CRF, SEQUENCE_DECODER], ids=lambda op: op.name)
def test_mistakes(op, shapes, message):
    with pytest.raises(ShapeError) as caught:
        op.infer(shapes, NoAttributes())
    assert caught.value.message == message


def test_the_size_of_the_transitions_is_inferred():
    assert CRF.complete is not None
    assert CRF.complete([(4,), (4,), (0, 0)], NoAttributes()) == [(4,), (4,), (4, 4)]
