"""When blocks end, what ranks with little data do, workers of several ranks, and going on from a checkpoint."""

from __future__ import annotations

import numpy as np
import pytest
from block_ranks import SIZE, Rank, first, models, run, store_of, targets
from cntk_parallel_bmuf import BlockMomentum, BlockMomentumOptions, ModelAveraging, ModelAveragingOptions
from hypothesis import given, settings
from hypothesis import strategies as st

from cntk_core.api import CntkError, ConfigError, GradientAggregation, TrainingError
from cntk_core.api.builders import parse_text
from cntk_core.api.parallel import StepCounts
from cntk_core.api.recipes import read_parallel
from cntk_testing import VirtualRanks

SETTINGS = settings(max_examples=25, deadline=None)


class Exact(GradientAggregation):
    """Sums in the order of the ranks, and remembers how often."""

    requires_api = "1.0"

    def begin(self, store, communicator):
        super().begin(store, communicator)
        self.count = 0

    def aggregate(self, gradients, header, communicator):
        self.count += 1
        communicator.allreduce(gradients)
        communicator.allreduce(header)

    def state(self):
        return {"count": np.array([self.count])}

    def restore(self, state):
        self.count = int(state["count"][0])

    def adopt(self, states):
        self.count = int(states[0]["count"][0])
        return "the count of rank 0 counts"


class Recording(ModelAveraging):
    """Notes what each merge is of."""

    def merge(self, store, samples, total):
        self.say(f"{samples} of {total}")
        super().merge(store, samples, total)


def recorded(minibatches, **options):
    """The merges of an epoch, as each rank sees them, for the samples of each rank's minibatches."""
    lines = [[] for _ in minibatches]
    ranks = [Rank(target, (tuple(own),)) for target, own in zip(targets(len(minibatches)), minibatches, strict=True)]
    models(run(lambda: Recording(ModelAveragingOptions(**options)), ranks, lines=lines))
    return [[line for line in own if " of " in line] for own in lines]


def momentum(**given_):
    return lambda: BlockMomentum(BlockMomentumOptions(**given_), {"full": Exact()})


def test_a_block_ends_when_all_have_learned_its_samples():
    found = recorded([[5, 5, 5, 5, 5], [4, 6, 4, 6, 1]], block_size_per_worker=10)
    assert found == [["10 of 20", "10 of 20", "5 of 6"], ["10 of 20", "10 of 20", "1 of 6"]]


def test_a_block_of_all_workers():
    assert recorded([[5] * 4, [5] * 4], block_size=21)[0] == ["10 of 20", "10 of 20", "0 of 0"]


def test_models_are_equal_even_if_nobody_counts():
    """Whatever changed parameters without samples, all ranks have the same ones after an epoch."""

    def work(communicator, make):
        store, strategy = store_of(first()), make()
        strategy.begin(store, communicator)
        strategy.begin_epoch(0)
        store.values += communicator.rank
        strategy.sync(store, StepCounts(0, {}), epoch_end=True)
        return store.values.copy()

    for make in (momentum(variant="paper"), lambda: ModelAveraging(ModelAveragingOptions())):
        for found in VirtualRanks(3).run(lambda communicator, make=make: work(communicator, make)):
            np.testing.assert_array_equal(found, first())


def test_samples_above_the_block_are_not_lost():
    assert recorded([[7, 7, 7], [3, 3, 5]], block_size_per_worker=5)[1] == ["6 of 13", "5 of 12", "0 of 7"]


def test_after_the_first_end_blocks_go_on_to_the_end_of_the_epoch():
    found = recorded([[5] * 2, [5] * 9, [5] * 9], block_size_per_worker=10)
    assert found == [["10 of 30", "0 of 70"], ["10 of 30", "35 of 70"], ["10 of 30", "35 of 70"]]


def test_a_rank_without_data():
    assert recorded([[], [5, 5, 5]], block_size_per_worker=5) == [["0 of 15"], ["15 of 15"]]


@SETTINGS
@given(st.lists(st.lists(st.integers(0, 9), max_size=7), min_size=1, max_size=5), st.integers(1, 30))
def test_any_shares_are_merged_completely(shares, block):
    """Every sample is in one merge, all ranks see the same merges, and each but the last is of whole blocks."""
    found = recorded(shares, block_size_per_worker=block)
    parts = [[int(line.split()[0]) for line in own] for own in found]
    totals = [[int(line.split()[2]) for line in own] for own in found]
    assert [sum(own) for own in parts] == [sum(own) for own in shares]
    assert all(own == totals[0] for own in totals)
    assert [sum(one) for one in zip(*parts, strict=True)] == totals[0]
    assert all(samples >= block for own in parts for samples in own[:-1])


def test_the_mean_is_weighted_with_samples():
    ranks = [Rank(target, ((samples,),)) for target, samples in zip(targets(3), (1, 6, 3), strict=True)]
    own = [rank.target * rank.rate + first() * (1 - rank.rate) for rank in ranks]
    expected = 0.1 * own[0] + 0.6 * own[1] + 0.3 * own[2]
    averaged = models(run(lambda: ModelAveraging(ModelAveragingOptions()), ranks))
    np.testing.assert_allclose(averaged, expected, rtol=1e-12)
    merged = models(run(momentum(variant="paper", block_momentum_per_sync=0.0), ranks))
    np.testing.assert_allclose(merged, expected, rtol=1e-12)


@pytest.mark.parametrize(("reset", "kept"), [(True, False), (False, True)])
def test_the_learner_begins_anew(reset, kept):
    ranks = [Rank(target, ((5, 5),), momentum=0.5) for target in targets(2)]
    found = run(momentum(block_size_per_worker=100, reset_sgd_momentum=reset), ranks)
    for _, (_, smoothed, _) in found:
        assert np.any(smoothed) == kept
    averaged = run(lambda: ModelAveraging(ModelAveragingOptions()), ranks)
    assert not np.array_equal(averaged[0][1][1], averaged[1][1][1])  # each keeps its own


# -- workers of several ranks -----------------------------------------------------------------------------


def pairs(samples=((5,) * 6,), count=4):
    return [Rank(target, samples) for target in targets(count)]


@pytest.mark.parametrize("variant", ["cntk", "paper"])
def test_a_worker_of_two_ranks_is_one_with_the_data_of_both(variant):
    ranks = pairs()
    together = models(run(momentum(ranks_per_worker=2, block_size_per_worker=20, variant=variant), ranks, group=True))
    middle = [Rank((a.target + b.target) / 2, ((10,) * 6,)) for a, b in zip(ranks[::2], ranks[1::2], strict=True)]
    apart = models(run(momentum(block_size_per_worker=20, variant=variant), middle))
    np.testing.assert_allclose(together, apart, rtol=1e-12)


def test_one_worker_of_all_ranks_is_data_parallel():
    ranks = pairs()
    found = models(run(momentum(ranks_per_worker=4, block_size=20, reset_sgd_momentum=False), ranks, group=True))
    model = first()
    for _ in range(6):
        model = model - 0.1 * (model - sum(rank.target for rank in ranks) / 4)
    np.testing.assert_allclose(found, model, rtol=1e-12)


def test_ranks_of_a_worker_with_uneven_data():
    samples = [((5, 5, 5),), ((5,),), ((),), ((2, 2),)]
    ranks = [Rank(target, own) for target, own in zip(targets(4), samples, strict=True)]
    found = models(run(momentum(ranks_per_worker=2, block_size=20, variant="paper"), ranks, group=True))
    assert np.isfinite(found).all()


def test_ranks_that_cannot_be_divided():
    with pytest.raises(TrainingError) as error:
        run(momentum(ranks_per_worker=2), pairs(count=3), group=True)
    assert str(error.value) == (
        "3 ranks cannot be divided into workers of 2\n    Start a multiple of ranksPerWorker = 2 ranks."
    )


def test_aggregations_inside_workers():
    kind = BlockMomentum
    assert kind.needs(BlockMomentumOptions()) == ()
    assert kind.needs(BlockMomentumOptions(ranks_per_worker=2)) == ("full",)
    bits = parse_text("bits=32*2:1").require("bits").schedule(int)
    assert kind.needs(BlockMomentumOptions(ranks_per_worker=2, gradient_bits=bits)) == ("full", "quantized")
    assert kind.needs(BlockMomentumOptions(ranks_per_worker=2, aggregation="mine")) == ("mine",)


def test_aggregations_inside_workers_go_on_where_they_were():
    def work(communicator):
        strategies = []
        for _ in range(2):
            strategies.append(momentum(ranks_per_worker=2)())
            store = store_of(first())
            strategies[-1].begin(store, communicator)
            inside = strategies[-1].aggregations["full"]
            assert (inside.store, inside.communicator) == (store, strategies[-1].group)
        for _ in range(3):
            strategies[0].begin_epoch(0)
            strategies[0].reduce(store, StepCounts(5, {}))
        strategies[1].restore(strategies[0].state())
        return strategies[1].aggregations["full"].count

    assert VirtualRanks(2, deadline=30.0).run(work) == [3, 3]


def test_an_empty_step_takes_nothing_from_residuals():
    """The last step of an epoch, in which no rank of a worker has data, leaves the aggregation as it was."""
    found = run(momentum(ranks_per_worker=2, block_size=20), pairs(((5,) * 3,)), group=True)
    assert [int(state["inside/full/count"][0]) for _, (_, _, state) in found] == [3] * 4


# -- going on ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", [False, True])
@pytest.mark.parametrize("variant", ["cntk", "paper"])
def test_a_restart_is_exact(variant, group):
    ranks = [Rank(target, ((5, 5, 3), (5,) * 4, (2, 5)), momentum=0.5) for target in targets(4)]
    given_ = {"block_size_per_worker": 10, "variant": variant, "reset_sgd_momentum": False}
    make = momentum(**given_, ranks_per_worker=2 if group else 1)
    through = models(run(make, ranks, group=group))
    kept = [state for _, state in run(make, ranks, epochs=[0], group=group)]
    np.testing.assert_array_equal(models(run(make, ranks, epochs=[1, 2], states=kept, group=group)), through)
    without = [(values, smoothed, {**state, "velocity": 0 * state["velocity"]}) for values, smoothed, state in kept]
    assert not np.array_equal(models(run(make, ranks, epochs=[1, 2], states=without, group=group)), through)


def test_a_checkpoint_has_the_velocity_once():
    found = run(momentum(block_size_per_worker=10), pairs())
    assert sum(state["velocity"].size for _, (_, _, state) in found) == SIZE


def test_the_same_ranks_in_other_workers():
    ranks = pairs(((5,) * 6, (5,) * 6))
    kept = [state for _, state in run(momentum(block_size=40), ranks, epochs=[0])]
    lines = [[] for _ in ranks]
    make = momentum(block_size=40, ranks_per_worker=2)
    again = run(make, ranks, epochs=[1], states=kept, group=True, lines=lines)
    models(again)
    assert "The ranks of the checkpoint were 4 workers, now they are 2." in lines[3]


def adopted(options, states, size, group=False):
    """What strategies of another number of ranks say, and the velocity that they have then."""

    def work(communicator):
        strategy = momentum(**options)()
        strategy.begin(store_of(first()), communicator)
        said = strategy.adopt(states)
        return said, strategy.gather(strategy.state(), "velocity")

    return VirtualRanks(size).run(work)


def test_another_number_of_ranks_takes_over_the_velocity():
    given_ = {"block_size": 30}
    states = [state for _, (_, _, state) in run(momentum(**given_), pairs(count=3))]
    velocity = np.concatenate([state["velocity"] for state in states])
    assert velocity.any()
    for said, found in adopted(given_, states, 2):
        assert said == (
            "a block has 15 samples of each worker instead of 10; there are 2 workers instead of 3; "
            "the block momentum is 0.5 instead of 0.6667"
        )
        np.testing.assert_array_equal(found, velocity)


def test_workers_are_adopted():
    given_ = {"block_size_per_worker": 20, "ranks_per_worker": 2, "block_momentum_per_sync": 0.5}
    states = [state for _, (_, _, state) in run(momentum(**given_), pairs(), group=True)]
    velocity = np.concatenate([states[0]["velocity"], states[2]["velocity"]])
    for said, found in adopted(given_, states, 6):
        assert said == "the count of rank 0 counts; there are 3 workers instead of 2"
        np.testing.assert_array_equal(found, velocity)


def test_there_is_no_velocity_after_going_back():
    """Where parameters are not those with which the last epoch ended, block momentum begins anew."""

    def work(communicator):
        store, strategy = store_of(first()), momentum(block_size=10)()
        strategy.begin(store, communicator)
        strategy.begin_epoch(0)
        store.values += 1
        strategy.sync(store, StepCounts(0, {}), epoch_end=True)
        kept = strategy.gather(strategy.state(), "velocity")
        strategy.begin_epoch(1)
        same = strategy.gather(strategy.state(), "velocity")
        store.values[...] = 0
        strategy.begin_epoch(0)
        return kept, same, strategy.gather(strategy.state(), "velocity")

    for kept, same, after in VirtualRanks(2).run(work):
        assert kept.any()
        np.testing.assert_array_equal(same, kept)
        assert not after.any()


# -- words ------------------------------------------------------------------------------------------------


def test_lines_of_the_log():
    lines = [[], []]
    run(momentum(block_size_per_worker=2048), pairs(count=2), lines=lines)
    assert lines[1] == [
        "Parallel training (2 workers) using BlockMomentumSGD with block momentum = 0.5000, "
        "block momentum time constant (per worker) = 2954.6394, block learning rate = 1.0000, "
        "block size per worker = 2048 samples, using Nesterov-style block momentum, "
        "resetting SGD momentum after sync."
    ]
    lines = [[], []]
    given_ = {"variant": "paper", "use_nesterov_momentum": False, "reset_sgd_momentum": False}
    run(momentum(**given_, block_momentum_per_sync=0.0, block_learning_rate=2.5), pairs(count=2), lines=lines)
    assert lines[0] == [
        "WARNING: the block momentum is 0: this is model averaging.",
        "WARNING: a block takes 2.5 times what its workers have learned on average; it is possible to overshoot. "
        "Reduce blockLearningRate.",
        "Parallel training (2 workers) using BlockMomentumSGD with block momentum = 0.0000, "
        "block momentum time constant (per worker) = 0.0000, block learning rate = 2.5000, "
        "block size per worker = 120000 samples, with the formulas of the paper.",
    ]
    lines = [[], []]
    run(lambda: ModelAveraging(ModelAveragingOptions()), pairs(count=2), lines=lines)
    assert lines[0] == [
        "Parallel training (2 workers) using ModelAveraging with block size per worker = 40000 samples."
    ]


def test_statistics():
    lines = [[], []]

    def make():
        strategy = ModelAveraging(ModelAveragingOptions(block_size_per_worker=5))
        strategy.show_every = 4
        return strategy

    run(make, [Rank(target, ((5,) * 9,)) for target in targets(2)], lines=lines)
    shown = [line.split("sync:")[0].split()[-1] for line in lines[0] if "seconds since last report" in line]
    assert shown == ["1-th", "2-th", "3-th", "4-th", "5-th", "8-th"]
    assert "15 samples" not in lines[0][-2]
    assert "; 30 samples processed by 2 workers (15 by me); " in lines[0][-2]


def test_throughput(monkeypatch):
    """Between two reports pass 0.25 seconds: 10000 samples of both workers are 40000 in a second."""
    lines = [[], []]

    class Timed(ModelAveraging):
        def _report(self, total, seconds):
            self._statistics.since = 100.0
            super()._report(total, seconds)

    def make():
        strategy = Timed(ModelAveragingOptions(block_size_per_worker=5000))
        strategy.show_every = 1
        return strategy

    monkeypatch.setattr("cntk_parallel_bmuf.blocks.time.monotonic", lambda: 100.25)
    run(make, [Rank(target, ((5000,) * 2,)) for target in targets(2)], lines=lines)
    shown = [line.split("sync: ")[1] for line in lines[0] if "totalThroughput" in line]
    assert shown[0] == "totalThroughput = 40.00k samplesPerSecond , throughputPerWorker = 20.00k samplesPerSecond"
    times = [line for line in lines[0] if "since last report" in line]
    assert all("    0.25 seconds since last report (0.00 seconds on comm.); " in line for line in times)
    assert all(line.endswith("; 0.00 seconds of this epoch waiting for others") for line in times)


class Strategies:
    """Finds the strategies of this plugin by their names in a recipe."""

    def get(self, name, where=None):
        return {"BlockMomentumSGD": BlockMomentum, "ModelAveragingSGD": ModelAveraging}[name]


def parsed(text):
    """Read a block parallelTrain with a strategy of this plugin."""
    config = parse_text(f"SGD=[\n parallelTrain=[\n{text}\n ]\n]").section("SGD")
    return read_parallel(config, Strategies(), Strategies())


def test_options_of_recipes():
    asked = parsed(
        "parallelizationMethod=BlockMomentumSGD\nBlockMomentumSGD=[ blockSize=96 ; blockMomentumAsTimeConstant=200\n"
        "blockLearningRate=0.75 ; useNesterovMomentum=false ; resetSGDMomentum=false ]"
    )
    assert asked.parallelizer.settings == BlockMomentumOptions(
        block_size=96,
        block_momentum_as_time_constant=200.0,
        block_learning_rate=0.75,
        use_nesterov_momentum=False,
        reset_sgd_momentum=False,
    )
    for key in ("blockSizePerWorker", "syncPeriod", "syncFrequencyInFrames"):
        asked = parsed(f"parallelizationMethod=ModelAveragingSGD\nModelAveragingSGD=[ {key}=48 ]")
        assert asked.parallelizer.settings == ModelAveragingOptions(block_size_per_worker=48)


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        (
            "blockSize=96 ; blockSizePerWorker=48",
            "blockSize and blockSizePerWorker are two ways to say the same; give one of them",
        ),
        (
            "blockMomentumPerSync=0.5 ; blockMomentumAsTimeConstant=48",
            "blockMomentumPerSync and blockMomentumAsTimeConstant are two ways to say the same; give one of them",
        ),
        ("blockSize=0", "a block has at least one sample"),
        ("blockMomentumPerSync=1", "blockMomentumPerSync must be at least 0 and less than 1"),
        ("blockMomentumAsTimeConstant=-1", "blockMomentumAsTimeConstant must not be negative"),
        ("blockLearningRate=0", "blockLearningRate must be more than 0"),
        ("ranksPerWorker=0", "ranksPerWorker must be at least 1"),
        ("gradientBits=1", "gradientBits and aggregation mean gradients inside a worker: give ranksPerWorker, too"),
        ("ranksPerWorker=2 ; gradientBits=3", "gradientBits must be one of 1, 2, 4, 8, 16, 32, 64, not 3"),
    ],
)
def test_options_that_make_no_sense(given_, message):
    with pytest.raises(ConfigError) as error:
        parsed(f"parallelizationMethod=BlockMomentumSGD\nBlockMomentumSGD=[ {given_} ]")
    assert error.value.message == f"parallelizer 'BlockMomentumSGD': {message}"


def test_unknown_options():
    with pytest.raises(CntkError) as error:
        parsed("parallelizationMethod=BlockMomentumSGD\nBlockMomentumSGD=[ blockMomentum=0.5 ]")
    assert "parallelizer 'BlockMomentumSGD' has no option 'blockMomentum'" in str(error.value)
    with pytest.raises(ConfigError) as error:
        parsed("parallelizationMethod=BlockMomentumSGD\nBlockMomentumSGD=[ variant=mine ]")
    assert str(error.value) == (
        "<text>:4:28: SGD:parallelTrain:BlockMomentumSGD:variant must be one of the names below, not 'mine'\n"
        "    Accepted: cntk, paper."
    )
