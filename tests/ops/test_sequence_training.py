"""SequenceWithSoftmax against all paths of small lattices, one by one, and against finite differences."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, product
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
from cntk_core.records.layout import SequenceLayout
from cntk_kit_readers.lattice_rows import HiddenMarkovModel, LatticeRows, Segment
from cntk_testing.examples import examples

CLASSES = 6
PLAIN = SequenceTrainingAttributes(
    h_smoothing_weight=1.0, frame_drop_thresh=0.0, seq_gammar_amf=3.0, seq_gammar_lmf=2.0, seq_gammar_word_pen=0.5
)
MBR = attrs.evolve(PLAIN, seq_gammar_uses_mbr=True)
BOOSTED = attrs.evolve(PLAIN, seq_gammar_bmmi_factor=0.3)


@attrs.frozen(eq=False)
class Arc:
    begin: int
    end: int
    segments: tuple[Segment, ...]
    score: float

    @property
    def silence(self) -> bool:
        return bool(self.segments) and all(segment.model.silence for segment in self.segments)


@attrs.frozen(eq=False)
class Lattice:
    times: tuple[int, ...]
    arcs: tuple[Arc, ...]
    reference: tuple[Segment, ...] = ()

    def rows(self) -> Any:
        made = LatticeRows()
        for arc in self.arcs:
            made.add_arc(arc.begin, arc.end, self.times[arc.begin], arc.segments, arc.score)
        if self.reference:
            made.add_arc(-1, -1, 0, self.reference)
        return made.array()

    def paths(self, node: int = 0) -> Iterator[list[Arc]]:
        if node == len(self.times) - 1:
            yield []
        for arc in self.arcs:
            if arc.begin == node:
                yield from ([arc, *rest] for rest in self.paths(arc.end))


def random_model(rng: Any) -> HiddenMarkovModel:
    count = int(rng.integers(1, 4))
    states = tuple(rng.choice(CLASSES, count, replace=False).tolist())
    return HiddenMarkovModel(states, np.log(rng.dirichlet(np.ones(count + 1), count + 1)), rng.random() < 0.2)


def random_lattice(seed: int, *, reference: bool = False) -> Lattice:
    """A lattice in which each node has an arc from the one before, and some arcs go farther."""
    rng = np.random.default_rng(seed)
    times = np.concatenate([[0], np.cumsum(rng.integers(1, 4, int(rng.integers(1, 4))))]).tolist()
    pairs = [*pairwise(range(len(times))), *(pair for pair in pairwise(range(len(times))) if rng.random() < 0.5)]
    pairs += [(i, j) for i in range(len(times)) for j in range(i + 2, len(times)) if rng.random() < 0.6]
    arcs = [Arc(i, j, segments(rng, times[j] - times[i]), float(rng.normal())) for i, j in pairs]
    if rng.random() < 0.5:  # the original's arc without a word at the end
        arcs.append(Arc(len(times) - 1, len(times), (), -0.3))
        times.append(times[-1])
    return Lattice(tuple(times), tuple(arcs), segments(rng, times[-1]) if reference else ())


def segments(rng: Any, frames: int) -> tuple[Segment, ...]:
    cuts = sorted(rng.integers(0, frames + 1, int(rng.integers(0, 3))).tolist())
    return tuple(Segment(random_model(rng), end - begin) for begin, end in pairwise([0, *cuts, frames]))


def best_path(segment: Segment, first: int, logs: Any) -> tuple[float, tuple[int, ...]]:
    """All ways through a segment, one by one."""
    model, count = segment.model, len(segment.model.states)
    if not segment.frames:
        return float(model.logs[0, count]), ()
    found = []
    for way in product(range(count), repeat=segment.frames):
        score = model.logs[0, way[0]] + model.logs[1 + way[-1], count]
        score += sum(model.logs[1 + before, after] for before, after in pairwise(way))
        classes = tuple(model.states[state] for state in way)
        score += sum(logs[first + step, one] for step, one in enumerate(classes))
        found.append((float(score), classes))
    return max(found)


@attrs.frozen(eq=False)
class Way:
    """A path through a lattice: its score without boosting, its classes, and which of its frames may be correct."""

    score: float
    classes: tuple[int, ...]
    counts: tuple[bool, ...]


def ways(lattice: Lattice, logs: Any, attributes: SequenceTrainingAttributes) -> list[Way]:
    found = []
    for path in lattice.paths():
        total, classes, counts = 0.0, [], []
        for arc in path:
            acoustic, first = 0.0, lattice.times[arc.begin]
            for segment in arc.segments:
                score, own = best_path(segment, first, logs)
                acoustic += score
                classes += own
                counts += [not arc.silence] * segment.frames
                first += segment.frames
            weighed = acoustic + attributes.seq_gammar_lmf * arc.score + attributes.seq_gammar_word_pen
            total += weighed / attributes.seq_gammar_amf
        found.append(Way(total, tuple(classes), tuple(counts)))
    return found


def criterion(lattice: Lattice, logs: Any, labels: Any, attributes: SequenceTrainingAttributes) -> float:
    """The value for one utterance, by all paths one by one."""
    if attributes.do_reference_align:
        labels, first = [], 0
        for segment in lattice.reference:
            labels += best_path(segment, first, logs)[1]
            first += segment.frames
    paths = ways(lattice, logs, attributes)
    correct = [sum(a == b for a, b, c in zip(way.classes, labels, way.counts, strict=True) if c) for way in paths]
    scores = np.array([way.score for way in paths])
    scores -= attributes.seq_gammar_bmmi_factor * np.array(correct)
    total = float(np.logaddexp.reduce(scores))
    if attributes.seq_gammar_uses_mbr:
        return len(logs) - float(np.exp(scores - total) @ correct)
    return total - float(logs[np.arange(len(logs)), labels].sum()) / attributes.seq_gammar_amf


@attrs.frozen(eq=False)
class Batch:
    lattices: list[Lattice]
    layout: SequenceLayout
    rows: SequenceLayout
    inputs: list[Any]

    def context(self) -> OpContext:
        layouts = (self.layout, self.layout, self.layout, self.rows)
        return OpContext((True,) * 4, self.layout.frames, layout=self.layout, layouts=layouts)

    def by_utterance(self, values: Any) -> Iterator[Any]:
        for number in range(len(self.lattices)):
            slot = int(np.flatnonzero(self.layout.order == number)[0])
            yield values[self.layout.start[: self.layout.lengths[slot]] + slot]


def packed(pieces: list[Any], layout: SequenceLayout) -> Any:
    out = np.zeros((layout.frames, pieces[0].shape[1]))
    for slot, source in enumerate(layout.order.tolist()):
        for step, row in enumerate(pieces[source]):
            out[layout.start[step] + slot] = row
    return out


def batch(*seeds: int, reference: bool = False) -> Batch:
    lattices = [random_lattice(seed, reference=reference) for seed in seeds]
    pieces = [lattice.rows() for lattice in lattices]
    layout = sequence_layout([lattice.times[-1] for lattice in lattices], [f"u{seed}" for seed in seeds])
    rows = sequence_layout([len(piece) for piece in pieces], [f"u{seed}" for seed in seeds])
    rng = np.random.default_rng(seeds[0])
    labels = np.eye(CLASSES)[rng.integers(CLASSES, size=layout.frames)]
    scores, logs = rng.normal(size=(2, layout.frames, CLASSES))
    return Batch(lattices, layout, rows, [labels, scores, logs, packed(pieces, rows)])


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
