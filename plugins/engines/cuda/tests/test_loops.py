"""Recurrent networks: sequences that go on from minibatch to minibatch, and code that serves many minibatches."""

from __future__ import annotations

import numpy as np
import pytest
from cntk_engine_cuda import CudaEngine, binder
from cntk_engine_cuda.delay_tables import Tail
from cntk_engine_cuda.gpu import Call

from cntk_core.api import Minibatch, StreamData
from cntk_core.api.readers import slot_layout
from cntk_testing.engine_contract import MOMENTUM, EngineContract, start
from cntk_testing.inside import BatchNormalizationAttributes, DelayAttributes, PoolingAttributes
from cntk_testing.reference import ReferenceEngine
from cntk_testing.sequence_networks import (
    CLASSES,
    FEATURES,
    HIDDEN,
    SEQUENCE_SAMPLES,
    SequenceSketch,
    learned_state,
    lstm,
    sequences_for,
)

pytestmark = pytest.mark.usefixtures("standin")

CHECK = EngineContract()


@pytest.fixture
def engine(standin):
    return CudaEngine()


def truncated(sample, seed=0):
    """Minibatches of three slots of which some go on in the next one, others begin or end inside; then of five."""
    layouts = [
        slot_layout([[4], [1, 2], [3]], continues=[True, False, True]),
        slot_layout([[4], [2, 2], [1, 3]], continued=[True, False, True], continues=[True, True, False]),
        slot_layout([[1], [4], [2, 1, 1]], continued=[True, True, False], continues=[True, True, True]),
        slot_layout([[4], [4], [4]], continued=[True, True, True], continues=[True, False, True]),
        slot_layout([[4], [4], [4], [2], [1]], continued=[True, False, True, False, False], continues=[True] * 5),
        slot_layout([[2], [1], [3], [2], [1]], continued=[True] * 5),
        slot_layout([[3], [2]]),
    ]
    return [_filled(sample, layout, [seed, number]) for number, layout in enumerate(layouts)]


def _filled(sample, layout, seed):
    rng = np.random.default_rng(seed)
    classes = rng.integers(CLASSES, size=layout.frames)
    data = {
        "x": rng.normal(size=(layout.frames, FEATURES)),
        "labels": np.eye(CLASSES)[classes],
    }
    dtype = sample.network.dtype
    return Minibatch({name: StreamData(rows.astype(dtype), layout) for name, rows in data.items()}, layout.frames)


def three_steps(dtype):
    """Delays by three steps: in a loop with a learned state, outside of loops, and ahead."""
    made = SequenceSketch(dtype)
    past = made.op("PastValue", attributes=DelayAttributes((HIDDEN,), 3, 0.1))
    h = made.op("Tanh", made.weighted((made.x, FEATURES), (past, HIDDEN)))
    past.inputs = [h, made.parameter("h0", HIDDEN)]
    later = made.op("FutureValue", h, attributes=DelayAttributes((HIDDEN,), 2, 0.3))
    before = made.op("PastValue", h, made.parameter("n0", 1), attributes=DelayAttributes((HIDDEN,), 1, 0.2))
    return made.classify(made.op("RowStack", later, before), 2 * HIDDEN)


def normalized_in_a_loop(dtype):
    """Batch normalization of each time step and a maximum over pairs, in one loop."""
    made = SequenceSketch(dtype)
    past, close = made.delay()
    sums = made.weighted((made.x, FEATURES), (past, HIDDEN), size=2 * HIDDEN)
    numbers = [
        made.parameter("scale", 2 * HIDDEN),
        made.parameter("bias", 2 * HIDDEN),
        made.given("mean", np.full(2 * HIDDEN, 0.1), multiplier=0.0),
        made.given("variance", np.full(2 * HIDDEN, 1.5), multiplier=0.0),
    ]
    attributes = BatchNormalizationAttributes(spatial=False, normalization_time_constant=100.0)
    h = made.op("BatchNormalization", sums, *numbers, attributes=attributes)
    pooling = PoolingAttributes((2,), stride=(2,), pool_kind="max")
    h = made.op("Pooling", made.op("Tanh", h), attributes=pooling)
    return made.classify(close(h))


def both(make, dtype, engine):
    return [start(each, make(dtype), rule=MOMENTUM) for each in (engine, ReferenceEngine())]


@pytest.mark.parametrize("make", [lstm, learned_state, three_steps], ids=lambda make: make.__name__)
@pytest.mark.sampled(3)
def test_state_is_carried_over_minibatches(engine, make):
    ours, reference = both(make, "float64", engine)
    before = ours.values()
    for step, data in enumerate(truncated(ours.sample) * 2):
        for run in (ours, reference):
            run.program.compute_gradients(data)
        CHECK.assert_same_roots(ours, reference, "float64")
        CHECK.assert_same_gradients(ours, reference, "float64")
        for run in (ours, reference):
            run.program.update(run.scalars(MOMENTUM, step))
    CHECK.assert_same_changes(ours, reference, before, "float64")


def test_ops_that_keep_something_for_the_gradient_keep_it_for_each_time_step(engine):
    ours, reference = both(normalized_in_a_loop, "float64", engine)
    for step in range(2):
        data = sequences_for(ours.sample, [4, 3, 3, 2], step)
        for run in (ours, reference):
            run.program.compute_gradients(data)
        CHECK.assert_same_roots(ours, reference, "float64")
        CHECK.assert_same_gradients(ours, reference, "float64")


def test_a_program_goes_on_from_what_another_has_carried(engine):
    whole, first, second = (start(engine, three_steps("float32"), rule=MOMENTUM) for _ in range(3))
    minibatches = truncated(whole.sample)[:5]
    for data in minibatches:
        whole.program.compute_gradients(data)
    for data in minibatches[:2]:
        first.program.compute_gradients(data)
    assert any(isinstance(each, Tail) for kept in first.program.carried.values() for each in kept.values())
    state = first.program.state()
    arrays = [each for kept in state.carried.values() for each in kept.values()]
    assert {type(each) for each in arrays} == {np.ndarray}
    assert {each.shape for each in arrays} == {(3, 3, HIDDEN), (3, 1, HIDDEN)}
    second.program.restore(state)
    second.program.compute_gradients(minibatches[4])  # needs more slots than were there: forgotten by the next line
    second.program.restore(state)
    for data in minibatches[2:]:
        second.program.compute_gradients(data)
    for node in whole.plan.roots:
        np.testing.assert_array_equal(second.program.value(node.name), whole.program.value(node.name))


def test_where_sequences_begin_does_not_matter_to_code(engine):
    run = start(engine, lstm("float32"), rule=MOMENTUM)
    layouts = [
        slot_layout([[4], [4]], continues=[True, True]),
        slot_layout([[2, 2], [4]], continued=[True, True], continues=[False, True]),
        slot_layout([[4], [1, 3]], continued=[False, True], continues=[True, True]),
    ]
    for number in range(6):
        data = _filled(run.sample, layouts[number % 3], number)
        run.program.train_step(data, run.scalars(MOMENTUM, number))
    assert len(run.program._binder.bound) == 1
    assert [runner.graphs for runner in run.program._binder.bound[0]._steps.values()] == [1]


def test_time_steps_of_equal_size_are_bound_once(engine):
    run = start(engine, lstm("float32"), rule=MOMENTUM)
    for step, lengths in enumerate([[9, 9, 9], [8, 8, 8, 2]]):
        run.program.train_step(sequences_for(run.sample, lengths, step), run.scalars(MOMENTUM, step))
    templates = run.program._binder._templates
    assert all(template is not None for template in templates.values())
    # Three rows that begin at four different places in 16 bytes, and four rows that begin at one.
    assert sorted({key[1:3] for key in templates}) == [(3, 0), (3, 1), (3, 2), (3, 3), (4, 0)]


@pytest.mark.parametrize("name", ["attention", "bidirectional", "gru", "normalized"])
@pytest.mark.sampled(4)
def test_moved_code_computes_the_same(engine, name, monkeypatch):
    """With and without templates, to the last bit."""
    with_templates = start(engine, SEQUENCE_SAMPLES[name]("float32"), rule=MOMENTUM)
    without = start(engine, SEQUENCE_SAMPLES[name]("float32"), rule=MOMENTUM)
    for step, lengths in enumerate([[5, 5, 4, 2], [4, 4, 1]]):
        data = sequences_for(with_templates.sample, lengths, step)
        with_templates.program.train_step(data, with_templates.scalars(MOMENTUM, step))
        with monkeypatch.context() as patch:
            patch.setattr("cntk_engine_cuda.loops.make_template", lambda *arguments: None)
            without.program.train_step(data, without.scalars(MOMENTUM, step))
    for one, other in zip(with_templates.values(), without.values(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_code_that_was_not_used_for_long_is_forgotten(engine, monkeypatch):
    monkeypatch.setattr(binder, "REMEMBERED", 3)
    run = start(engine, lstm("float32"), rule=MOMENTUM)
    kept = []

    def frames():
        return [next(iter(bound.site.frames.values())) for bound in run.program._binder.bound]

    for step, lengths in enumerate([[6, 2], [3], [2], [6, 2], [4]]):
        run.program.train_step(sequences_for(run.sample, lengths, step), run.scalars(MOMENTUM, step))
        kept.append(frames())
    assert kept == [[8], [8, 3], [8, 3, 2], [3, 2, 8], [2, 8, 4]]
    calls = [bound.calls for bound in run.program._binder.bound]
    monkeypatch.setattr(binder, "MOST_CALLS", calls[1] + calls[2])
    run.program.train_step(sequences_for(run.sample, [5], 5), run.scalars(MOMENTUM))
    assert frames() == [8, 4, 5]


def test_calls_are_moved_only_if_they_say_so(engine):
    from cntk_engine_cuda.templates import Cut, make_template

    with engine.gpu.current():
        xp = engine.gpu.cupy
        whole = xp.zeros((12,), dtype=np.float32)
        (call,) = engine.gpu.fill(whole[4:8], 1.0)
        cuts = {("values", None): Cut.of(("values", None), whole[4:8], 2)}
        template = make_template([call], cuts, xp.ndarray)
        (moved,) = template.at(4, lambda key: whole)
        moved()
        assert whole.get().tolist() == [0.0] * 8 + [1.0] * 4
        assert make_template([Call(call.function, call.arguments)], cuts, xp.ndarray) is None
        across = engine.gpu.fill(whole[2:6], 1.0)
        assert make_template(across, cuts, xp.ndarray) is None
