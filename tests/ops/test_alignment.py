"""CTC against all alignments counted one by one, edit distances by hand, and sequences of a layout."""

from __future__ import annotations

from itertools import groupby, pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cntk_core.ops.families.alignment import (
    EDIT_DISTANCE_ERROR,
    FORWARD_BACKWARD,
    EditDistanceAttributes,
    ForwardBackwardAttributes,
    count_edits,
)
from cntk_core.ops.families.ctc import align_path, align_paths, phone_path, sequences_of
from cntk_core.ops.language.framing import run_forward, run_gradient
from cntk_core.ops.language.layouts import frame_layout, sequence_layout
from cntk_core.ops.language.op import OpContext


def log_chances(frames: int, classes: int, seed: int) -> np.ndarray:
    scores = np.random.default_rng(seed).normal(size=(frames, classes))
    return scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))


def labels_of(phones: list[int], frames: int, classes: int) -> np.ndarray:
    """Labels with the boundaries of the phones at the first frames."""
    labels = np.zeros((frames, classes))
    for frame in range(frames):
        labels[frame, phones[min(frame, len(phones) - 1)]] = 2.0 if frame < len(phones) else 1.0
    return labels


def brute_force(logs: np.ndarray, phones: list[int], blank: int) -> tuple[float, np.ndarray]:
    """Chance of the labels and occupation of the classes, over all paths."""
    frames, classes = logs.shape
    occupation = np.zeros_like(logs)
    for path in product(range(classes), repeat=frames):
        if [token for token, _ in groupby(path) if token != blank] == phones:
            chance = np.exp(sum(logs[frame, token] for frame, token in enumerate(path)))
            occupation[np.arange(frames), path] += chance
    total = occupation[0].sum()
    return total, occupation / total


@given(st.lists(st.integers(0, 1), min_size=1, max_size=3), st.integers(0, 2), st.integers(0, 100))
def test_forward_backward_sums_over_all_alignments(phones, more, seed):
    repeats = sum(one == other for one, other in pairwise(phones))
    frames = len(phones) + repeats + more
    logs = log_chances(frames, 3, seed)
    found = align_path(logs, phone_path(labels_of(phones, frames, 3), 2), -1)
    total, occupation = brute_force(logs, phones, 2)
    np.testing.assert_allclose(found.log_chance, np.log(total), rtol=1e-9)
    np.testing.assert_allclose(found.posterior, occupation, rtol=1e-8, atol=1e-12)


def test_a_sequence_without_labels_is_all_blank():
    logs = log_chances(4, 3, 0)
    found = align_path(logs, phone_path(np.zeros((4, 3)), 2), -1)
    np.testing.assert_allclose(found.log_chance, logs[:, 2].sum())


def test_more_labels_than_frames_teach_nothing():
    logs = log_chances(2, 3, 0)
    found = align_path(logs, phone_path(np.eye(3)[[0, 0]] * 2, 2), -1)
    assert found.log_chance < -1e10
    np.testing.assert_array_equal(found.posterior, np.exp(logs))


def test_a_delay_bars_late_alignments():
    labels = np.array([[2, 0, 0], [0, 2, 0], [0, 1, 0], [0, 1, 0], [0, 1, 0.0]])
    logs = log_chances(5, 3, 3)
    free = align_path(logs, phone_path(labels, 2), -1)
    near = align_path(logs, phone_path(labels, 2), 1)
    assert near.log_chance < free.log_chance
    # The first phone may stand until one frame after the begin of the second.
    assert near.posterior[3, 0] == 0.0
    assert free.posterior[3, 0] > 0.0


def context(layout=None, frames: int = 0) -> OpContext:
    return OpContext((True, True), layout.frames if layout is not None else frames, layout=layout)


def test_gradients_of_the_scores_by_differences():
    rng = np.random.default_rng(1)
    layout = sequence_layout([4, 2, 3])
    scores = rng.normal(size=(9, 3))
    labels = np.zeros((9, 3))
    labels[:, 0] = 1.0
    labels[[0, 1, 2], [0, 1, 0]] = [2.0, 2.0, 2.0]
    labels[[1], [0]] = 0.0
    attributes = ForwardBackwardAttributes()
    run = context(layout)
    output = run_forward(FORWARD_BACKWARD, np, [labels, scores], attributes, run)
    found = run_gradient(FORWARD_BACKWARD, np, np.ones(1), output, [labels, scores], attributes, run, [False, True])[1]
    for index in np.ndindex(*scores.shape):
        values = []
        for step in (1e-6, -1e-6):
            moved = scores.copy()
            moved[index] += step
            values.append(float(run_forward(FORWARD_BACKWARD, np, [labels, moved], attributes, context(layout))[0]))
        np.testing.assert_allclose(found[index], (values[0] - values[1]) / 2e-6, atol=1e-6)


def test_sequences_of_a_layout():
    rows = sequences_of(context(sequence_layout([2, 4, 1])))
    assert [len(part) for part in rows] == [4, 2, 1]
    assert sorted(np.concatenate(rows).tolist()) == list(range(7))
    assert [part.tolist() for part in sequences_of(context(frame_layout(3)))] == [[0], [1], [2]]
    assert [part.tolist() for part in sequences_of(context(frames=3))] == [[0, 1, 2]]


EDITS = [
    ([1, 2, 3], [1, 2, 3], EditDistanceAttributes(), 0),
    ([1, 2, 3], [1, 3], EditDistanceAttributes(), 1),
    ([1, 3], [1, 2, 3], EditDistanceAttributes(), 1),
    ([1, 2, 3], [1, 4, 3], EditDistanceAttributes(), 1),
    ([1, 2, 3], [1, 4, 3], EditDistanceAttributes(substitution_penalty=3.0), 2),
    ([], [1, 2], EditDistanceAttributes(), 2),
    ([1, 2], [], EditDistanceAttributes(), 2),
]


@pytest.mark.parametrize(("first", "second", "attributes", "count"), EDITS)
def test_edits(first, second, attributes, count):
    assert count_edits(first, second, attributes) == count


def test_edit_distance_of_squashed_sequences():
    one = np.eye(3)[[0, 0, 1, 2, 2, 1]]
    other = np.eye(3)[[0, 1, 1, 1, 1, 1]]
    layout = sequence_layout([6])
    attributes = EditDistanceAttributes(squash_inputs=True, tokens_to_ignore=(2,))
    # 0 1 1 against 0 1: one edit in three tokens of six frames.
    assert run_forward(EDIT_DISTANCE_ERROR, np, [one, other], attributes, context(layout)) == pytest.approx(2.0)


@pytest.mark.parametrize("delay", [-1, 0, 3])
def test_sequences_together_are_what_each_is_alone(delay: int) -> None:
    random = np.random.default_rng(4)
    logs, paths = [], []
    for frames in (7, 1, 12, 4, 30):
        scores = random.normal(size=(frames, 5))
        logs.append(scores - np.log(np.exp(scores).sum(axis=1, keepdims=True)))
        labels = np.eye(5)[random.integers(4, size=frames)]
        labels[random.random(frames) < 0.3] *= 2
        paths.append(phone_path(labels, 4))
    for found, one, path in zip(align_paths(logs, paths, delay), logs, paths, strict=True):
        alone = align_path(one, path, delay)
        assert found.log_chance == alone.log_chance
        np.testing.assert_array_equal(found.posterior, alone.posterior)
    assert align_paths([], [], delay) == []


@pytest.mark.parametrize(
    ("first", "second", "penalties", "edits"),
    [
        ([1, 2, 3], [], (1, 1, 1), 3),
        ([], [1, 2, 3], (1, 1, 1), 3),
        ([1, 2, 3], [1, 3], (1, 1, 1), 1),
        ([1, 2], [3, 1, 2], (1, 1, 1), 1),
        ([1, 2], [2, 1], (1, 1, 1), 2),
        ([1, 2], [3, 4], (1, 1, 1), 2),
        ([1, 2], [3, 4], (5, 1, 1), 4),  # to take two out and put two in is cheaper
        ([1, 2], [3, 4], (2, 1, 1), 2),
        ([1, 2], [2], (1, 9, 1), 1),
        ([1, 2, 3], [3], (2, 5, 1), 2),
        ([2], [1, 2], (1, 1, 9), 1),
        ([1, 2], [2, 3], (10, 1, 2), 2),
        ([1, 2, 2], [2, 2, 1], (3, 2, 1), 2),
    ],
)
def test_the_edits_of_the_cheapest_way(first, second, penalties, edits):
    assert count_edits(first, second, EditDistanceAttributes(*penalties)) == edits
