"""Small lattices whose paths are counted one by one: what sequence training is compared with."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, product
from typing import Any

import attrs
import numpy as np

from cntk_core.ops.families.sequence_training import SequenceTrainingAttributes
from cntk_core.ops.language.layouts import sequence_layout
from cntk_core.ops.language.op import OpContext
from cntk_core.records.layout import SequenceLayout
from cntk_kit_readers.lattice_rows import HiddenMarkovModel, LatticeRows, Segment

CLASSES = 6
"""Of the frames."""

PLAIN = SequenceTrainingAttributes(
    h_smoothing_weight=1.0, frame_drop_thresh=0.0, seq_gammar_amf=3.0, seq_gammar_lmf=2.0, seq_gammar_word_pen=0.5
)
MBR = attrs.evolve(PLAIN, seq_gammar_uses_mbr=True)
BOOSTED = attrs.evolve(PLAIN, seq_gammar_bmmi_factor=0.3)


@attrs.frozen(eq=False)
class Arc:
    """An arc of a lattice: a row of segments and a score."""

    begin: int
    end: int
    segments: tuple[Segment, ...]
    score: float

    @property
    def silence(self) -> bool:
        """Whether all of it is silence."""
        return bool(self.segments) and all(segment.model.silence for segment in self.segments)


@attrs.frozen(eq=False)
class Lattice:
    """A lattice by the times of its nodes, and perhaps the segments of what was said."""

    times: tuple[int, ...]
    arcs: tuple[Arc, ...]
    reference: tuple[Segment, ...] = ()

    def rows(self) -> Any:
        """Return the rows of the lattice."""
        made = LatticeRows()
        for arc in self.arcs:
            made.add_arc(arc.begin, arc.end, self.times[arc.begin], arc.segments, arc.score)
        if self.reference:
            made.add_arc(-1, -1, 0, self.reference)
        return made.array()

    def paths(self, node: int = 0) -> Iterator[list[Arc]]:
        """Return all ways from a node to the last one."""
        if node == len(self.times) - 1:
            yield []
        for arc in self.arcs:
            if arc.begin == node:
                yield from ([arc, *rest] for rest in self.paths(arc.end))


def random_model(rng: Any) -> HiddenMarkovModel:
    """Return a model of one to three states."""
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
    """Part some frames among segments, of which some may have none."""
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
    """Return all paths of a lattice."""
    found = []
    for path in lattice.paths():
        total = 0.0
        classes: list[int] = []
        counts: list[bool] = []
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
    """A minibatch of utterances with their lattices, and the inputs of the criterion."""

    lattices: list[Lattice]
    layout: SequenceLayout
    rows: SequenceLayout
    inputs: list[Any]

    def context(self) -> OpContext:
        """Return what the criterion sees beside its inputs."""
        layouts = (self.layout, self.layout, self.layout, self.rows)
        return OpContext((True,) * 4, self.layout.frames, layout=self.layout, layouts=layouts)

    def by_utterance(self, values: Any) -> Iterator[Any]:
        """Return the frames of each utterance."""
        for number in range(len(self.lattices)):
            slot = int(np.flatnonzero(self.layout.order == number)[0])
            yield values[self.layout.start[: self.layout.lengths[slot]] + slot]


def packed(pieces: list[Any], layout: SequenceLayout) -> Any:
    """Put the rows of sequences where a minibatch has them."""
    out = np.zeros((layout.frames, pieces[0].shape[1]))
    for slot, source in enumerate(layout.order.tolist()):
        for step, row in enumerate(pieces[source]):
            out[layout.start[step] + slot] = row
    return out


def batch(*seeds: int, reference: bool = False) -> Batch:
    """Return utterances with random lattices, scores and labels."""
    lattices = [random_lattice(seed, reference=reference) for seed in seeds]
    pieces = [lattice.rows() for lattice in lattices]
    layout = sequence_layout([lattice.times[-1] for lattice in lattices], [f"u{seed}" for seed in seeds])
    rows = sequence_layout([len(piece) for piece in pieces], [f"u{seed}" for seed in seeds])
    rng = np.random.default_rng(seeds[0])
    labels = np.eye(CLASSES)[rng.integers(CLASSES, size=layout.frames)]
    scores, logs = rng.normal(size=(2, layout.frames, CLASSES))
    return Batch(lattices, layout, rows, [labels, scores, logs, packed(pieces, rows)])
