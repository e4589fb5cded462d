"""SequenceWithSoftmax against all paths of small lattices, one by one, and against finite differences."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cntk_core.errors import DataError, ShapeError
from cntk_core.ops.families.sequence_training import SEQUENCE_WITH_SOFTMAX, SequenceTrainingAttributes
from cntk_core.ops.language.framing import run_forward, run_gradient
from cntk_core.ops.language.layouts import sequence_layout
from cntk_core.ops.language.op import OpContext
from cntk_testing.counted_lattices import BOOSTED, CLASSES, MBR, PLAIN, Batch, batch, criterion, random_lattice
from cntk_testing.examples import examples


def value(made: Batch, attributes: SequenceTrainingAttributes, logs: Any = None) -> float:
    inputs = made.inputs if logs is None else [*made.inputs[:2], logs, made.inputs[3]]
    return float(run_forward(SEQUENCE_WITH_SOFTMAX, np, inputs, attributes, made.context())[0])


def gradient(made: Batch, attributes: SequenceTrainingAttributes) -> Any:
    context = made.context()
    output = run_forward(SEQUENCE_WITH_SOFTMAX, np, made.inputs, attributes, context)
    needs = (False, True, False, False)
    found = run_gradient(SEQUENCE_WITH_SOFTMAX, np, np.ones(1), output, made.inputs, attributes, context, needs)
    assert [one is not None for one in found] == list(needs)
    return found[1]


@pytest.mark.parametrize("attributes", [PLAIN, BOOSTED, MBR], ids=["MMI", "boosted", "sMBR"])
@given(seed=st.integers(0, 10_000))
@examples(40)
def test_the_value_is_that_of_all_paths(attributes, seed):
    made = batch(seed, seed + 1, seed + 2)
    each = zip(made.lattices, made.by_utterance(made.inputs[2]), made.by_utterance(made.inputs[0]), strict=True)
    expected = sum(criterion(lattice, logs, labels.argmax(axis=1), attributes) for lattice, logs, labels in each)
    assert value(made, attributes) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_the_reference_is_aligned():
    attributes = attrs.evolve(PLAIN, do_reference_align=True)
    made = batch(5, 6, reference=True)
    each = zip(made.lattices, made.by_utterance(made.inputs[2]), strict=True)
    assert value(made, attributes) == pytest.approx(sum(criterion(one, logs, None, attributes) for one, logs in each))
    with pytest.raises(DataError) as caught:
        value(batch(5), attributes)
    assert str(caught.value.message) == (
        "SequenceWithSoftmax: doReferenceAlign=true, but the reader gives no phones of the reference"
    )


@pytest.mark.parametrize("attributes", [PLAIN, BOOSTED, MBR], ids=["MMI", "boosted", "sMBR"])
def test_the_gradient_is_that_by_the_log_likelihoods(attributes):
    made = batch(11, 12, 13)
    logs, step = made.inputs[2], 1e-6
    expected = np.zeros_like(logs)
    for place in np.ndindex(*logs.shape):
        either = []
        for sign in (1, -1):
            moved = logs.copy()
            moved[place] += sign * step
            either.append(value(made, attributes, moved))
        expected[place] = (either[0] - either[1]) / (2 * step)
    # CNTK takes the labels with the weight of the posteriors, so that MMI's gradient is amf times that of the value.
    scale = 1.0 if attributes.seq_gammar_uses_mbr else attributes.seq_gammar_amf
    np.testing.assert_allclose(gradient(made, attributes), scale * expected, atol=1e-6)


@pytest.mark.parametrize("mbr", [False, True])
def test_frame_smoothing_mixes_in_cross_entropy(mbr):
    made = batch(21, 22)
    attributes = MBR if mbr else PLAIN
    softmax = np.exp(made.inputs[1])
    softmax /= softmax.sum(axis=1, keepdims=True)
    found = gradient(made, attrs.evolve(attributes, h_smoothing_weight=0.6))
    expected = 0.4 * (softmax - made.inputs[0]) + 0.6 * gradient(made, attributes)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_frames_whose_label_is_not_in_the_lattice_are_dropped():
    made = batch(31, 32, 33)
    whole = gradient(made, PLAIN)
    posterior = (whole + made.inputs[0])[made.inputs[0] > 0]  # MMI's gradient: posterior less label
    dropped = posterior < 0.2
    assert dropped.any()
    assert not dropped.all()
    found = gradient(made, attrs.evolve(PLAIN, frame_drop_thresh=0.2))
    np.testing.assert_array_equal(found[dropped], 0.0)
    np.testing.assert_allclose(found[~dropped], whole[~dropped])


def test_words_without_a_score_of_the_language_model():
    lattice = random_lattice(3)
    made = batch(3)
    start = np.flatnonzero(made.inputs[3][:, 5])
    low, none = (made.inputs[3].copy() for _ in range(2))
    low[start, 4], none[start, 4] = -1000.0, 0.0
    assert len(lattice.arcs) == len(start)
    assert value(attrs.evolve(made, inputs=[*made.inputs[:3], low]), PLAIN) == pytest.approx(
        value(attrs.evolve(made, inputs=[*made.inputs[:3], none]), PLAIN)
    )


def test_an_impossible_utterance_counts_nothing():
    made = batch(41, 42)
    alone = batch(41)
    rows = made.inputs[3].copy()
    owners = np.concatenate([np.full(n, slot) for slot, n in enumerate(made.rows.lengths)])
    assert len(owners) == len(rows)
    number = [int(made.rows.order[slot]) for slot in range(2)].index(1)
    mine = [made.rows.start[step] + number for step in range(int(made.rows.lengths[number]))]
    rows[mine, 10:26] = -1e30
    logs = next(made.by_utterance(made.inputs[2]))
    labels = next(made.by_utterance(made.inputs[0])).argmax(axis=1)
    expected = criterion(alone.lattices[0], logs, labels, PLAIN)
    changed = attrs.evolve(made, inputs=[*made.inputs[:3], rows])
    assert value(changed, PLAIN) == pytest.approx(expected)
    np.testing.assert_array_equal(list(made.by_utterance(gradient(changed, PLAIN)))[1], 0.0)


def broken(kind: str) -> Batch:
    made = batch(51)
    rows = made.inputs[3].copy()
    if kind == "long":
        layout = sequence_layout([made.layout.frames + 1], ["u51"])
        inputs = [np.concatenate([one, one[:1]]) for one in made.inputs[:3]]
        return attrs.evolve(made, layout=layout, inputs=[*inputs, rows])
    if kind == "none":
        return attrs.evolve(made, rows=sequence_layout([0], ["u51"]), inputs=[*made.inputs[:3], rows[:0]])
    if kind == "class":
        rows[0, 7] = CLASSES
    if kind == "circle":
        rows[rows[:, 1] == rows[:, 1].max(), 1] = 0
    return attrs.evolve(made, inputs=[*made.inputs[:3], rows])


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("none", "SequenceWithSoftmax: sequence 0 of the minibatch has no lattice"),
        ("long", "SequenceWithSoftmax: a sequence has 7 frames, and its lattice 6"),
        ("class", "SequenceWithSoftmax: the lattices have the class 6, and there are 6 scores"),
        ("circle", "SequenceWithSoftmax: a lattice goes round in a circle"),
    ],
)
def test_mistakes_of_data(kind, message):
    with pytest.raises(DataError) as caught:
        value(broken(kind), PLAIN)
    assert caught.value.message == message


def test_without_lattices():
    made = batch(61)
    context = OpContext((True,) * 3, made.layout.frames, layout=made.layout, layouts=(made.layout,) * 3)
    with pytest.raises(DataError) as caught:
        run_forward(SEQUENCE_WITH_SOFTMAX, np, made.inputs[:3], PLAIN, context)
    assert caught.value.message == "SequenceWithSoftmax has no lattices"


@pytest.mark.parametrize(
    ("shapes", "attributes", "message"),
    [
        (((6,), (5,), (6,)), PLAIN, "the inputs [6], [5], [6] must have the same size"),
        (((6,), (6,), (6,), (7,)), PLAIN, "the lattices must be [26], not [7]"),
        (((6,),) * 3, attrs.evolve(PLAIN, seq_gammar_amf=0.0), "seqGammarAMF must be above 0, not 0"),
        (((6,),) * 3, attrs.evolve(PLAIN, h_smoothing_weight=2.0), "hSmoothingWeight must be in [0, 1], not 2"),
    ],
)
def test_mistakes_of_networks(shapes, attributes, message):
    with pytest.raises(ShapeError) as caught:
        SEQUENCE_WITH_SOFTMAX.infer(shapes, attributes)
    assert caught.value.message == message
