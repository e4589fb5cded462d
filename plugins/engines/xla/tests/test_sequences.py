"""Sequences on the XLA engine: compiled loops, delays of every kind, and few compilations for many lengths."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from cntk_engine_xla import XlaEngine

from cntk_core.api import Minibatch, Node, SequenceLayout, StreamData
from cntk_core.api.engines import sequence_layout
from cntk_core.api.readers import slot_layout
from cntk_testing.engine_contract import MOMENTUM, Run, start
from cntk_testing.inside import DelayAttributes
from cntk_testing.networks import Sample
from cntk_testing.reference import ReferenceEngine
from cntk_testing.sequence_networks import (
    CLASSES,
    FEATURES,
    HIDDEN,
    SEQUENCE_SAMPLES,
    SequenceSketch,
    sequences_for,
)

TOLERANCE = {"float32": 1e-4, "float64": 1e-10}
MOST_COMPILATIONS = 12


def _packed(lengths: Sequence[int], frames: int) -> Iterator[list[int]]:
    """Minibatches of whole sequences with at most so many frames, as readers make them."""
    found: list[int] = []
    for length in lengths:
        if found and sum(found) + length > frames:
            yield found
            found = []
        found.append(length)
    yield found


def _by_number(lengths: Sequence[int], counts: Iterator[int]) -> Iterator[list[int]]:
    place = 0
    while place < len(lengths):
        count = next(counts)
        yield list(lengths[place : place + count])
        place += count


@pytest.mark.parametrize("longest", [5, 30, 100, 700])
@pytest.mark.parametrize("minibatch", ["64 frames", "256 frames", "2048 frames", "8", "20", "1 to 32"])
def test_2000_random_lengths_have_few_sizes(minibatch: str, longest: int) -> None:
    """However minibatches are made of a corpus, their padded shapes are few."""
    from cntk_engine_xla.layouts import sequences_bucket, slots_bucket

    rng = np.random.default_rng(longest)
    lengths = rng.integers(1, longest + 1, size=2000).tolist()
    first, *unit = minibatch.split()
    if unit == ["frames"]:
        made = _packed(lengths, int(first))
    else:
        most = int(unit[-1]) if unit else int(first)
        made = _by_number(lengths, iter(lambda: int(rng.integers(int(first), most + 1)), 0))
    layouts = [sequence_layout(each) for each in made]
    assert len({(slots_bucket(x.slots), sequences_bucket(x, loops=True)) for x in layouts}) <= MOST_COMPILATIONS


@pytest.mark.parametrize(
    ("lengths", "rows"),
    [([20] * 16, 320), ([20] * 8, 160), ([20] * 15, 528), ([21] * 16, 528), ([20] * 15 + [19], 528), ([], 0)],
)
def test_sequences_that_are_all_as_long_have_no_padding(lengths: list[int], rows: int) -> None:
    """If length and number are sizes of buckets, so that few minibatches of random lengths have a size of their own."""
    from cntk_engine_xla.layouts import sequences_bucket

    assert sequences_bucket(sequence_layout(lengths), loops=True) == rows


def test_truncated_training_of_full_slots() -> None:
    """A window at the last time step ends where the rows do."""
    full = [slot_layout([[4]] * 8, continued=[True] * 8, continues=[True] * 8), slot_layout([[3, 1]] * 8)]
    ours, reference = (start(engine, _elman("float64")) for engine in (XlaEngine(), ReferenceEngine()))
    _compare(ours, reference, full, "float64")
    assert getattr(ours.program, "compilations", 0) == 2


def _elman(dtype: Any) -> Sample:
    made = SequenceSketch(dtype)
    return made.classify(made.elman(made.x, FEATURES))


@pytest.mark.slow
def test_training_on_2000_random_lengths_compiles_a_few_functions() -> None:
    """A corpus is trained with at most 12 compilations, and the program says how many there were."""
    run = start(XlaEngine(), _elman("float32"), rule=MOMENTUM)
    lengths = np.random.default_rng(7).integers(1, 60, size=2000).tolist()
    for step, each in enumerate(_packed(lengths, 512)):
        run.program.train_step(sequences_for(run.sample, each, step), run.scalars(MOMENTUM, step))
    count = getattr(run.program, "compilations", 0)
    assert 2 <= count <= MOST_COMPILATIONS
    assert run.program.remarks() == [f"XLA compiled {count} functions for the minibatches of this training."]
    assert np.isfinite(run.program.read_totals()["ce"])


def test_three_layers_of_lstm_are_one_function() -> None:
    """Loops do not cut a plan: forward, gradients and update are one unit."""
    from cntk_engine_xla.units import units_of

    made = SequenceSketch("float32")
    layer = made.x
    for place in range(3):
        layer = made.lstm(layer, HIDDEN if place else FEATURES)
    run = start(XlaEngine(), made.classify(layer), rule=MOMENTUM)
    (unit,) = units_of(run.plan, gradients=True, update=True)
    assert not unit.hosted


def _peepholes(dtype: Any) -> Sample:
    made = SequenceSketch(dtype)
    (past, close), (kept, close_cell) = made.delay(), made.delay(default=0.0)
    opened = made.op("Sigmoid", made.op("ElementTimes", made.parameter("p", HIDDEN), kept))
    candidate = made.op("Tanh", made.weighted((made.x, FEATURES), (past, HIDDEN)))
    cell = close_cell(made.op("Plus", made.op("ElementTimes", opened, kept), candidate))
    shown = made.op("Sigmoid", made.op("ElementTimes", made.parameter("q", HIDDEN), cell))
    return made.classify(close(made.op("ElementTimes", shown, made.op("Tanh", cell))))


def test_a_state_that_is_fused_with_its_users() -> None:
    """What flows to the state inside a fused step is not counted again for parameters that all frames share."""
    ours = start(XlaEngine(), _peepholes("float64"))
    _compare(ours, start(ReferenceEngine(), _peepholes("float64")), WHOLE, "float64")


@pytest.mark.parametrize("name", ["lstm", "stack"])
@pytest.mark.slow
def test_a_minibatch_without_sequences(name: str) -> None:
    """A rank may have no share of a minibatch: its gradients are zero."""
    ours, reference = (start(engine, SEQUENCE_SAMPLES[name]("float64")) for engine in (XlaEngine(), ReferenceEngine()))
    ours.program.compute_gradients(sequences_for(ours.sample, []))
    assert not any(ours.store.gradient(parameter).any() for parameter in ours.plan.trained)
    _compare(ours, reference, WHOLE[:1], "float64")


# -- delays ---------------------------------------------------------------------------------------------------


def _in_loop(made: SequenceSketch, attributes: DelayAttributes, name: str, *initial: Node) -> Node:
    past = made.op(name, attributes=attributes)
    state = made.op("Tanh", made.weighted((made.x, FEATURES), (past, HIDDEN)))
    past.inputs = [state, *initial]
    return state


def _outside(made: SequenceSketch, attributes: DelayAttributes, name: str, *initial: Node) -> Node:
    return made.op(name, made.op("Tanh", made.weighted((made.x, FEATURES))), *initial, attributes=attributes)


def _sample(place: Callable[..., Node], name: str, steps: int, initial: str, dtype: str) -> Sample:
    made = SequenceSketch(dtype)
    states: list[Node] = []
    if initial == "learned":
        states = [made.parameter("h0", HIDDEN)]
    elif initial == "of frames":
        states = [made.op("Sigmoid", made.weighted((made.x, FEATURES)))]
    delayed = place(made, DelayAttributes((HIDDEN,), steps, 0.3), name, *states)
    return made.classify(made.op("Plus", delayed, made.weighted((made.x, FEATURES))))


def _minibatch(sample: Sample, layout: SequenceLayout, seed: int) -> Minibatch:
    rng = np.random.default_rng(seed)
    streams = {
        "x": StreamData(rng.normal(size=(layout.frames, FEATURES)).astype(sample.network.dtype), layout),
        "labels": StreamData(
            np.eye(CLASSES, dtype=sample.network.dtype)[rng.integers(CLASSES, size=layout.frames)], layout
        ),
    }
    return Minibatch(streams, layout.frames)


CUT = (
    slot_layout([[4], [1, 3], [4]], continues=[True, True, True]),
    slot_layout([[2, 2], [4], [1]], continued=[True, True, True], continues=[True, True, False]),
    slot_layout([[1], [2], [3, 1]], continued=[True, True, False], continues=[False, False, False]),
    slot_layout([[2], [3]], continues=[False, True]),
)
"""Minibatches of sequences that are cut."""

WHOLE = (slot_layout([[4, 3], [5], [2, 2, 3]]), sequence_layout([6, 4, 4, 9]), sequence_layout([1, 1, 1]))
"""Minibatches of whole sequences, several to a slot and one."""


def _compare(ours: Run, reference: Run, layouts: Sequence[SequenceLayout], dtype: str) -> None:
    for seed, layout in enumerate(layouts):
        for run in (ours, reference):
            run.program.compute_gradients(_minibatch(run.sample, layout, seed))
        for node, other in zip(ours.plan.roots, reference.plan.roots, strict=True):
            np.testing.assert_allclose(
                ours.program.value(node.name), reference.program.value(other.name), atol=10 * TOLERANCE[dtype]
            )
        for one, other in zip(ours.plan.trained, reference.plan.trained, strict=True):
            np.testing.assert_allclose(
                ours.store.gradient(one), reference.store.gradient(other), atol=10 * TOLERANCE[dtype], err_msg=one.name
            )


@pytest.mark.thinned(2)
@pytest.mark.sampled(8)
@pytest.mark.parametrize("initial", ["default", "learned", "of frames"])
@pytest.mark.parametrize("name", ["PastValue", "FutureValue"])
@pytest.mark.parametrize("steps", [pytest.param(1, marks=pytest.mark.thorough), 2])
@pytest.mark.parametrize("place", [_in_loop, _outside])
@pytest.mark.parametrize("layouts", [pytest.param(WHOLE, marks=pytest.mark.thorough), CUT], ids=["whole", "cut"])
def test_delays(
    place: Callable[..., Node], name: str, steps: int, initial: str, layouts: Sequence[SequenceLayout]
) -> None:
    """Every kind of delay, in a loop and without one, is the reference's, for minibatches that go on too."""
    from cntk_engine_xla.units import units_of

    dtype = "float64" if steps == 2 else "float32"
    ours = start(XlaEngine(), _sample(place, name, steps, initial, dtype))
    _compare(ours, start(ReferenceEngine(), _sample(place, name, steps, initial, dtype)), layouts, dtype)
    assert not any(unit.hosted for unit in units_of(ours.plan, gradients=True))


def test_a_program_goes_on_from_cut_sequences() -> None:
    """What delays carry is in the state of a program, as arrays of NumPy, and another goes on from it."""
    made = [_sample(_in_loop, "PastValue", 2, "default", "float64") for _ in range(2)]
    first, second = (start(XlaEngine(), sample) for sample in made)
    for seed, layout in enumerate(CUT[:2]):
        first.program.compute_gradients(_minibatch(first.sample, layout, seed))
    state = first.program.state()
    assert state is not None
    (kept,) = [each["tail"] for each in state.carried.values()]
    assert isinstance(kept, np.ndarray)
    second.program.restore(state)
    for run in (first, second):
        run.program.compute_gradients(_minibatch(run.sample, CUT[2], 2))
    np.testing.assert_array_equal(first.program.value("ce"), second.program.value("ce"))
