"""What asynchronous SGD is equal to: serial training, bulk-synchronous training, the paper's formulas, itself."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from cntk_parallel_asgd import SimulatedTime, WarmUp
from hypothesis import given, settings
from hypothesis import strategies as st
from workers import RATE, SIZE, Simulation, first, gradient, model, options, run, shares

FAST = settings(max_examples=15, deadline=None)

UNEVEN = SimulatedTime(jitter=0.7, slowness=(1.0, 2.5, 0.5), latency=0.002)


def constant(strength):
    """The paper's correction with a constant lambda."""
    return lambda slope, drift, memory: strength * slope * slope * drift


def adaptive(strength, decay):
    """The paper's correction with lambda divided by the root of the mean square."""

    def correct(slope, drift, memory):
        memory["mean"] = decay * memory.get("mean", np.zeros(SIZE)) + (1 - decay) * slope**2
        return strength / np.sqrt(memory["mean"] + 1e-7) * slope**2 * drift

    return correct


# -- one worker ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "mode",
    [
        {},
        {"staleness": 0},
        {"staleness": 2, "simulated_time": UNEVEN},
        {"use_pipeline": True},
        {"sim_model_average": True},
        {"delay_compensation": "constant"},
        {"delay_compensation": "adaptive", "simulated_time": UNEVEN},
    ],
)
def test_one_worker_is_serial(mode, dtype):
    """To the last bit, with momentum, over two epochs."""
    sizes = [3, 1, 4, 1, 5, 9, 2, 6]
    found = run(options(4, **mode), [[sizes, sizes]], dtype=dtype, momentum=0.9)
    values, smoothed = first(dtype=dtype), np.zeros(SIZE, dtype)
    for epoch in range(2):
        for step, samples in enumerate(sizes):
            smoothed = smoothed * dtype(0.9) + gradient(values, 0, 100 * epoch + step, samples)
            values = values - dtype(RATE) * smoothed
        np.testing.assert_array_equal(found[0].models[epoch], values)


# -- bulk-synchronous ---------------------------------------------------------------------------------------


def synchronous(minibatches, factor=1.0):
    """Each round all workers learn one minibatch of the same model, and all updates are added."""
    values = first()
    for step in range(max(map(len, minibatches))):
        updates = [
            RATE * gradient(values, rank, step, sizes[step])
            for rank, sizes in enumerate(minibatches)
            if step < len(sizes)
        ]
        values = values - factor * np.sum(updates, axis=0)
    return values


@pytest.mark.parametrize("count", [2, 3, 5])
def test_staleness_0_is_bulk_synchronous(count):
    """Whatever the timing: disturbed or simulated, to the last bit; workers that end early leave the rounds."""
    minibatches = [own[0] for own in shares(count, most=9)]
    minibatches[0] = [2, 3, 1, 4, 2, 5]
    whole = [[own] for own in minibatches]
    found = model(run(options(staleness=0), whole))
    np.testing.assert_allclose(found, synchronous(minibatches), rtol=1e-12, atol=1e-14)
    for seed in (1, 2):
        np.testing.assert_array_equal(model(run(options(staleness=0), whole, disturb=seed)), found)
    np.testing.assert_array_equal(model(run(options(staleness=0, simulated_time=UNEVEN), whole)), found)


def test_without_a_bound_it_is_not():
    minibatches = [own[0] for own in shares(3, seed=5, most=9)]
    found = model(run(options(simulated_time=UNEVEN), [[own] for own in minibatches]))
    assert np.max(np.abs(found - synchronous(minibatches))) > 1e-4


def test_model_averaging_through_the_server():
    """The server takes a worker's share of each update, so models are averaged; a pipeline makes no difference."""
    minibatches = [[2, 3, 1, 4], [1, 1, 5, 2], [4, 4, 4, 4]]
    whole = [[own] for own in minibatches]
    found = model(run(options(sim_model_average=True), whole, disturb=1))
    np.testing.assert_allclose(found, synchronous(minibatches, factor=1 / 3), rtol=1e-12, atol=1e-14)
    piped = model(run(options(sim_model_average=True, use_pipeline=True), whole))
    np.testing.assert_array_equal(piped, found)


def test_a_pipeline_goes_on_with_the_answer_to_the_push_before():
    """In rounds: a worker's k-th period begins with the server's model after round k - 2."""
    minibatches = [[2, 3, 1, 4, 2], [1, 1, 5, 2, 3]]
    found = model(run(options(staleness=0, use_pipeline=True), [[own] for own in minibatches]))
    history = [first(), first()]
    for step in range(5):
        start, now = history[-2], history[-1]
        updates = [RATE * gradient(start, rank, step, sizes[step]) for rank, sizes in enumerate(minibatches)]
        history.append(now - updates[0] - updates[1])
    np.testing.assert_allclose(found, history[-1], rtol=1e-12, atol=1e-14)


# -- the paper ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bound", [None, 1, 2, 5])
@pytest.mark.parametrize("period", [1, 6])
@pytest.mark.parametrize("count", [2, 4])
def test_events_are_those_of_a_simulation(count, period, bound):
    minibatches = [own[0] for own in shares(count, seed=7, most=12)]
    expected = Simulation(minibatches, UNEVEN, period=period, bound=bound)
    found = run(options(period, staleness=bound, simulated_time=UNEVEN), [[own] for own in minibatches])
    np.testing.assert_allclose(model(found), expected.now, rtol=1e-11, atol=1e-13)
    assert bound is None or max(expected.gaps) <= bound


@pytest.mark.slow
def test_32_workers():
    minibatches = [own[0] for own in shares(32, seed=6)]
    expected = Simulation(minibatches, UNEVEN, bound=3).now
    found = run(options(staleness=3, simulated_time=UNEVEN), [[own] for own in minibatches])
    np.testing.assert_allclose(model(found), expected, rtol=1e-10, atol=1e-12)


@FAST
@given(st.integers(1, 5), st.integers(0, 3), st.integers(0, 10**6))
def test_no_worker_is_further_ahead_than_allowed(count, bound, seed):
    """Without simulated time, whichever rank is faster: seen in the answers."""
    minibatches, seen = shares(count, seed=seed), []
    results = run(options(staleness=bound), minibatches, disturb=seed)
    model(results)
    for result in results:
        shard = result.strategy._server.shard
        seen.append(shard.staleness[1])
        assert shard.version == sum(len(own[0]) + 1 for own in minibatches)
    # Between a worker's read and its push each other worker makes at most 2 * bound + 1 pushes, and one that ends it.
    assert max(seen) <= (2 * bound + 2) * (count - 1)


@pytest.mark.parametrize(
    ("mode", "correct"),
    [
        ({"delay_compensation": "constant"}, constant(0.04)),
        ({"delay_compensation": "constant", "compensation_lambda": 0.7}, constant(0.7)),
        ({"delay_compensation": "adaptive"}, adaptive(2.0, 0.95)),
        ({"delay_compensation": "adaptive", "compensation_lambda": 0.5, "compensation_decay": 0.0}, adaptive(0.5, 0.0)),
    ],
)
@pytest.mark.parametrize("period", [1, 4])
def test_delay_compensation_is_the_papers(mode, correct, period):
    minibatches = [own[0] for own in shares(4, seed=8, most=12)]
    plain = Simulation(minibatches, UNEVEN, period=period).now
    expected = Simulation(minibatches, UNEVEN, period=period, correct=correct).now
    found = run(options(period, simulated_time=UNEVEN, **mode), [[own] for own in minibatches])
    np.testing.assert_allclose(model(found), expected, rtol=1e-10, atol=1e-12)
    assert np.max(np.abs(expected - plain)) > 1e-5


@pytest.mark.parametrize(
    ("kind", "correct"), [("none", None), ("constant", constant(0.9)), ("adaptive", adaptive(0.9, 0.95))]
)
def test_the_warm_up_scales_updates_with_their_compensation(kind, correct):
    minibatches = [own[0] for own in shares(3, seed=13, most=12)]
    warm_up = WarmUp(adjust_type="linearly", adjust_coefficient=0.1, adjust_per_minibatches=9)
    given_ = {} if correct is None else {"delay_compensation": kind, "compensation_lambda": 0.9}
    more = {} if correct is None else {"correct": correct}
    expected = Simulation(minibatches, UNEVEN, warm_up=lambda exchange: min(1.0, 0.1 + 0.1 * exchange), **more).now
    timed = options(simulated_time=UNEVEN, adjust_learning_rate_at_beginning=warm_up, **given_)
    np.testing.assert_allclose(model(run(timed, [[own] for own in minibatches])), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", ["constant", "adaptive"])
def test_lambda_0_is_plain_asynchronous_sgd(kind):
    minibatches = shares(4, epochs=2, seed=9)
    plain = run(options(simulated_time=UNEVEN), minibatches, momentum=0.5)
    found = run(
        options(simulated_time=UNEVEN, delay_compensation=kind, compensation_lambda=0.0), minibatches, momentum=0.5
    )
    other = run(options(simulated_time=UNEVEN, delay_compensation=kind), minibatches, momentum=0.5)
    np.testing.assert_array_equal(model(found), model(plain))
    assert np.any(model(other) != model(plain))


# -- the same every time ------------------------------------------------------------------------------------

MODES = [
    {},
    {"staleness": 1},
    {"use_pipeline": True},
    {"use_pipeline": True, "staleness": 1, "delay_compensation": "constant"},
    {"delay_compensation": "adaptive", "adjust_learning_rate_at_beginning": WarmUp(adjust_per_minibatches=2)},
]


@pytest.mark.parametrize("mode", MODES)
def test_simulated_time_makes_every_run_the_same(mode):
    minibatches = shares(4, epochs=2, seed=11)
    timed = options(2, simulated_time=UNEVEN, **mode)
    expected = model(run(timed, minibatches))
    for seed in range(1, 4):
        np.testing.assert_array_equal(model(run(timed, minibatches, disturb=seed)), expected)


@pytest.mark.parametrize("mode", [{"staleness": 0}, {"simulated_time": UNEVEN}])
@pytest.mark.sampled(2)
def test_a_worker_may_begin_the_next_epoch_before_others_know_that_this_one_is_over(mode):
    """Its push overtakes the last answer of another rank."""
    minibatches = [[[1] * (epoch % 2) for epoch in range(16)] for _ in range(4)]
    expected = model(run(options(**mode), minibatches))
    for seed in range(6):
        np.testing.assert_array_equal(model(run(options(**mode), minibatches, disturb=seed, pauses=0)), expected)


def test_without_it_runs_differ():
    """So the test above tells something."""
    minibatches = shares(4, epochs=2, seed=11)
    models = {model(run(options(2), minibatches, disturb=seed)).tobytes() for seed in range(1, 4)}
    assert len(models) > 1


def test_another_seed_is_another_run():
    minibatches = shares(4, seed=11)
    models = {model(run(options(2, simulated_time=SimulatedTime(seed=n)), minibatches)).tobytes() for n in range(3)}
    assert len(models) > 1


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.sampled(5)
def test_going_on_is_exact(mode):
    """After each epoch, with another timing of the ranks, to the last bit."""
    minibatches = shares(4, epochs=4, seed=12)
    timed = options(2, simulated_time=UNEVEN, **mode)
    through = run(timed, minibatches, momentum=0.9)
    for cut in (1, 2, 3):
        begun = run(timed, minibatches, momentum=0.9, epochs=range(cut), disturb=1)
        ended = run(timed, minibatches, momentum=0.9, epochs=range(cut, 4), after=begun, disturb=2)
        np.testing.assert_array_equal(model(ended), model(through))
        for one, other in zip(ended, through, strict=True):
            assert sorted(one.state) == sorted(other.state)
            for name, array in other.state.items():
                np.testing.assert_array_equal(one.state[name], array)


# -- meetings inside an epoch -------------------------------------------------------------------------------


MEETING = [
    {"staleness": 0},
    {"staleness": 2, "simulated_time": UNEVEN},
    {"use_pipeline": True, "simulated_time": UNEVEN},
    {"sim_model_average": True},
    {"delay_compensation": "adaptive", "simulated_time": UNEVEN},
]


@pytest.mark.parametrize("mode", MEETING)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_meeting_is_what_the_end_of_an_epoch_is(mode, count):
    """To the last bit, also where one worker comes to the end of its data before the others meet again."""
    sizes = [np.random.default_rng([7, rank]).integers(1, 6, size=15 - 2 * rank).tolist() for rank in range(count)]
    found = run(options(4, **mode), [[own] for own in sizes], momentum=0.5, meet_every=9, disturb=count)
    places = [[0, *(step for step, _ in one.met)] for one in found]
    assert len({len(own) for own in places}) == 1
    assert len(places[0]) > 2
    for own, steps in zip(sizes, places, strict=True):
        assert all(sum(own[a:b]) >= 9 > sum(own[a : b - 1]) for a, b in pairwise(steps))
    for met in zip(*(one.met for one in found), strict=True):
        for _, values in met:
            np.testing.assert_array_equal(values, met[0][1])
    in_vain = max(sum(own[steps[-1] :]) for own, steps in zip(sizes, places, strict=True)) >= 9
    parts = [
        [own[a:b] for a, b in zip(steps, [*steps[1:], len(own)], strict=True)]
        for own, steps in zip(sizes, places, strict=True)
    ]
    split = run(options(4, **mode), parts, momentum=0.5, number=lambda rank, epoch, step: places[rank][epoch] + step)
    last = len(places[0]) - 1
    for index in range(last):
        np.testing.assert_array_equal(found[0].met[index][1], model(split, index))
    if not in_vain:
        np.testing.assert_array_equal(model(found), model(split, last))
    assert np.isfinite(model(found)).all()


@pytest.mark.parametrize("disturb", [1, 2, 3])
def test_no_sample_is_lost_or_learned_twice_by_meetings(disturb):
    """With gradients that do not depend on the model, the sum of all updates is known whatever the order."""
    sizes = [[2, 3, 4, 1, 5, 2, 2], [1, 1, 4], [], [5, 5, 5, 5]]
    found = run(options(3), [[own] for own in sizes], meet_every=6, disturb=disturb, flat=True)
    total = sum(
        gradient(np.zeros(SIZE), rank, step, samples)
        for rank, own in enumerate(sizes)
        for step, samples in enumerate(own)
    )
    np.testing.assert_allclose(model(found), first() - RATE * total, rtol=1e-12)
