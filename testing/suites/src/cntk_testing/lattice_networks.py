"""Recognisers trained on whole utterances, against lattices and against a graph, on which engines are compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.network.node import Input
from cntk_core.ops.families.lattice_free import LatticeFreeAttributes
from cntk_core.ops.families.sequence_training import SequenceTrainingAttributes
from cntk_core.ops.language.layouts import sequence_layout
from cntk_core.records.minibatch import Minibatch, StreamData
from cntk_kit_readers.lattice_rows import LATTICE_COLUMNS, LatticeRows, Segment, run_of
from cntk_testing.networks import Sample
from cntk_testing.sequence_networks import CLASSES, FEATURES, HIDDEN, SequenceSketch, sequences_for

LATTICES = "lattices"
"""The input for lattices, and its dynamic axis."""

GRAPH = Path(__file__).with_name("denominator.graph")


def _scored(made: SequenceSketch) -> Any:
    return made.weighted((made.elman(made.x, FEATURES), HIDDEN), size=CLASSES)


def against_lattices(dtype: Any) -> Sample:
    """A recurrent network that is trained by the paths of lattices (MMI, boosted), smoothed by cross entropy."""
    made = SequenceSketch(dtype)
    scores = _scored(made)
    logs = made.op("Minus", made.op("LogSoftmax", scores), made.given("prior", np.log([0.5, 0.3, 0.2])))
    lattices = made.network.add(Input.make(LATTICES, (LATTICE_COLUMNS,), axis=LATTICES))
    attributes = SequenceTrainingAttributes(
        h_smoothing_weight=0.9,
        frame_drop_thresh=0.0,
        seq_gammar_amf=2.0,
        seq_gammar_lmf=1.5,
        seq_gammar_bmmi_factor=0.2,
    )
    inputs = (made.input("labels", CLASSES), scores, logs, lattices)
    criterion = made.op("SequenceWithSoftmax", *inputs, attributes=attributes, name="mmi")
    return made.finish(criterion, scores, one_hot={"labels"})


def against_a_graph(dtype: Any) -> Sample:
    """The same with a graph of all that may be said in place of lattices."""
    made = SequenceSketch(dtype)
    scores = _scored(made)
    attributes = LatticeFreeAttributes(str(GRAPH), 0.05)
    criterion = made.op("LatticeFreeMMI", made.input("labels", CLASSES), scores, attributes=attributes, name="lfmmi")
    return made.finish(criterion, scores, one_hot={"labels"})


LATTICE_SAMPLES: Mapping[str, Callable[[Any], Sample]] = {
    made.__name__: made for made in (against_lattices, against_a_graph)
}
"""Name to function that makes the network in a precision."""


def utterances_for(sample: Sample, lengths: Sequence[int], seed: int = 0) -> Minibatch:
    """Return a minibatch of utterances of these lengths with their lattices, the same for the same seed."""
    made = sequences_for(sample, lengths, seed)
    if LATTICES not in made.streams:
        return made
    rng = np.random.default_rng([seed, 99])
    pieces = [_lattice(rng, length) for length in lengths]
    layout = sequence_layout([len(piece) for piece in pieces])
    rows = np.zeros((layout.frames, LATTICE_COLUMNS), sample.network.dtype)
    for slot, number in enumerate(layout.order.tolist()):
        steps = range(len(pieces[number]))
        rows[[layout.start[step] + slot for step in steps]] = pieces[number]
    return attrs.evolve(made, streams={**made.streams, LATTICES: StreamData(rows, layout)})


def _lattice(rng: np.random.Generator, frames: int) -> NDArray[Any]:
    """Two ways through each frame, and one past the last two."""
    made = LatticeRows()
    for frame in range(frames):
        for state in rng.choice(CLASSES, 2, replace=False).tolist():
            made.add_arc(frame, frame + 1, frame, [Segment(run_of(state), 1)], float(rng.normal()))
    if frames > 1:
        state = int(rng.integers(CLASSES))
        made.add_arc(frames - 2, frames, frames - 2, [Segment(run_of(state), 2)], float(rng.normal()))
    return made.array()
