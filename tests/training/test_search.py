"""searchBeforeEpoch and autoAdjustMinibatch: what they choose, and that trials leave nothing behind."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from cntk_engine_cpu import CpuEngine
from cntk_learner_sgd import SGD, SGDOptions
from hypothesis import given
from hypothesis import strategies as st
from small import Lines, ListReader, make_data, make_network, make_session, settings

from cntk_core.config import Schedule
from cntk_core.contract.events import Job
from cntk_core.contract.store import ParameterStore
from cntk_core.errors import TrainingError
from cntk_core.network.initializers import initialize_parameters
from cntk_core.plan.make import make_plan
from cntk_core.training.loop.update import compose_update
from cntk_core.training.rates.auto_adjust import AutoAdjust
from cntk_kit_recipes.session.epoch import EpochLoop
from cntk_kit_recipes.session.epoch_progress import Pace
from cntk_kit_recipes.session.minibatch_size_search import SizeRange, is_kept, rounded, search_size, size_range
from cntk_kit_recipes.session.rate_search import Search, search_rate, share_of_trial
from cntk_kit_recipes.session.run_log import RunLog
from cntk_testing.reference import ReferenceEngine
from cntk_testing.sparse_networks import SPARSE_SAMPLES, WORDS, with_sparse_streams

# -- the search of a rate ---------------------------------------------------------------------------------


class Trials:
    """Answers with a function of the rate, and remembers what was asked."""

    def __init__(self, criterion) -> None:
        self.criterion = criterion
        self.asked: list[tuple[float, str]] = []

    def __call__(self, rate: float, name: str) -> float:
        self.asked.append((rate, name))
        return self.criterion(rate)

    @property
    def names(self) -> list[str]:
        return [name for _, name in self.asked]


def bowl(best: float):
    """A criterion that is least at one rate and 1 at the rate 0."""
    return lambda rate: 1.0 + (rate - 2.0 * best) * rate


def test_the_largest_rate_that_is_no_worse_than_the_base_is_taken():
    trials = Trials(bowl(0.05))
    rate, base = search_rate(Search(minibatch_size=4), trials)
    assert base == 1.0
    assert rate == pytest.approx(0.0625)
    assert trials.names == ["BaseAdaptiveLearnRateSearch:", "AdaptiveLearnRateSearch:"]
    trials = Trials(bowl(0.01))
    rate, _ = search_rate(Search(minibatch_size=4), trials)
    assert rate == pytest.approx(0.0625 * 0.618**3)
    assert trials.criterion(rate) <= 1.0 < trials.criterion(rate / 0.618)


def test_a_rate_may_grow_from_epoch_to_epoch():
    rate, _ = search_rate(Search(8, earlier=(0.1, 0.5, 0.2)), Trials(lambda rate: 1.0 - rate))
    assert rate == pytest.approx(0.5 / 0.618)


def test_the_base_lies_between_the_epoch_before_and_this_one():
    def base(previous: float | None, share: float) -> float:
        return search_rate(Search(8, previous=previous, share=share), Trials(lambda rate: 1.0))[1]

    assert base(None, 0.5) == 1.0
    assert base(2.0, 0.25) == 1.25
    assert base(0.5, 0.25) == 1.0


def test_the_share_of_a_trial_is_the_root_of_its_samples():
    assert share_of_trial(100, 400) == 0.5
    assert share_of_trial(100, 0) == 0.3


def test_from_both_sides_the_best_rate_is_found():
    for best in (0.002, 0.01, 0.03, 0.05):
        trials = Trials(bowl(best))
        rate, _ = search_rate(Search(4, from_both_sides=True), trials)
        assert trials.criterion(rate) == min(trials.criterion(asked) for asked, _ in trials.asked)
        assert best / 1.7 < rate < best * 1.7
    assert trials.names[2] == "DetailBaseAdaptiveLearnRateSearch:"
    assert {"DetailRightAdaptiveLearnRateSearch:", "DetailLeftAdaptiveLearnRateSearch:"} & set(trials.names)


def test_rates_that_give_no_number_are_passed_over():
    def criterion(rate: float) -> float:
        return math.nan if rate > 0.02 else 1.0 - rate

    assert search_rate(Search(4), Trials(criterion))[0] == pytest.approx(0.0625 * 0.618**3)
    trials = Trials(lambda rate: math.nan if rate > 0.02 or 0 < rate < 0.003 else 1.0 - rate)
    assert 0.01 < search_rate(Search(4, from_both_sides=True), trials)[0] < 0.02


def test_the_search_ends_at_the_least_rate():
    rate, _ = search_rate(Search(4, least=1e-4), Trials(lambda rate: 1.0 if rate == 0 else 2.0))
    assert 1e-4 * 0.618 < rate <= 1e-4


def test_a_criterion_that_is_no_number_without_learning_is_an_error():
    with pytest.raises(TrainingError) as caught:
        search_rate(Search(4), Trials(lambda rate: math.nan))
    assert str(caught.value) == (
        "The training criterion is not a number (NAN).\n"
        "    It is so before anything was learned in this epoch: look at the data and at the first values."
    )


# -- the search of a size ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "result"), [(8, 8), (8.6, 9), (0.2, 1), (63.4, 63), (64, 64), (95, 64), (96, 128), (181.02, 192)]
)
def test_sizes_from_64_on_are_multiples_of_64(size, result):
    assert rounded(size) == result


def search(sizes: SizeRange, criterion, margin: float = 1.0, lines: Lines | None = None):
    asked = []

    def trial(size: int, name: str) -> float:
        asked.append((size, name))
        return criterion(size)

    log = RunLog(lines or Lines(), trace_level=1)
    return search_size(sizes, margin, 3, trial, log), asked


def test_sizes_grow_until_the_criterion_suffers():
    chosen, asked = search(SizeRange(256, 4096), lambda size: 1.0 if size < 1000 else 1.1)
    assert chosen == 704
    assert [size for size, _ in asked] == [256, 384, 512, 704, 1024]
    assert [name for _, name in asked[:2]] == ["BaseAdaptiveMinibatchSearch:", "AdaptiveMinibatchSearch:"]


def test_the_margin_is_a_percentage():
    assert search(SizeRange(64, 128), lambda size: size / 64 * 0.1 + 1.0, margin=10)[0] == 128
    assert search(SizeRange(64, 128), lambda size: size / 64 * 0.1 + 1.0, margin=9)[0] == 64


def test_no_number_is_no_good_size():
    assert search(SizeRange(64, 4096), lambda size: math.nan if size > 200 else 1.0)[0] == 192
    assert search(SizeRange(64, 4096), lambda size: math.nan)[0] == 64


def test_the_lines_are_those_of_the_original():
    lines = Lines()
    search(SizeRange(64, 128), lambda size: size / 100, lines=lines)
    lead = " AdaptiveMinibatchSearch Epoch[4]:"
    assert lines.all == [
        f"{lead} Evaluating minibatchSizes 64..128",
        f"{lead} Evaluating trial minibatchSize=64 (search range: 64..128)...",
        f"{lead} Computed baseCriterion 0.64000000 for minibatchSize=64",
        f"{lead} Evaluating trial minibatchSize=64 (search range: 64..128)...",
        f"{lead} Keep searching... epochCriterion = 0.64000000 vs. baseCriterion = 0.64000000",
        f"{lead} Evaluating trial minibatchSize=128 (search range: 64..128)...",
        f"{lead} Search successful. New minibatchSize is 64. epochCriterion = 0.64000000 vs baseCriterion = 0.64000000",
    ]


def test_nobody_keeps_searching_after_the_largest_size():
    lines = Lines()
    assert search(SizeRange(64, 128), lambda size: 0.5, lines=lines)[0] == 128
    assert len(lines.with_text("Evaluating trial")) == 3
    assert len(lines.with_text("Keep searching...")) == 1


@given(least=st.integers(1, 5000), doublings=st.integers(0, 6))
def test_the_largest_size_is_tried_where_it_is_a_power_of_two_away(least, doublings):
    chosen, _ = search(SizeRange(least, least << doublings), lambda size: 1.0)
    assert chosen == rounded(least << doublings)


def test_the_range_follows_the_rate_and_the_size_before():
    options = AutoAdjust(minibatch_size_tuning_max=1000)
    assert size_range(options, 100, 1.0, 0) == SizeRange(100, 1000)
    assert size_range(options, 100, 0.25, 0) == SizeRange(200, 1000)
    assert size_range(options, 100, 4.0, 0) == SizeRange(100, 1000)
    assert size_range(options, 100, 1.0, 300) == SizeRange(150, 600)
    assert size_range(options, 100, 1.0, 900) == SizeRange(450, 1000)
    assert search(SizeRange(200, 100), lambda size: 1.0) == (100, [])


def test_a_size_is_kept_between_two_searches():
    options = AutoAdjust(minibatch_size_tuning_frequency=3)
    assert [is_kept(options, epoch, 64) for epoch in range(8)] == [False, False, False, True, True, False, True, True]
    assert not is_kept(options, 3, 0)


def test_the_length_of_a_trial():
    sizes = Schedule.of([10, 20, 30])
    assert [AutoAdjust().trial_samples(epoch, sizes) for epoch in (0, 1, 9)] == [5000, 10000, 15000]
    given_samples = AutoAdjust(num_samples4_search=Schedule.of([7, 8]))
    assert [given_samples.trial_samples(epoch, sizes) for epoch in (0, 1, 9)] == [7, 8, 8]
    given_minibatches = AutoAdjust(num_mini_batch4_lr_search=Schedule.of([3, 4]))
    assert [given_minibatches.trial_samples(epoch, sizes) for epoch in (0, 1, 9)] == [30, 80, 80]


# -- whole trainings --------------------------------------------------------------------------------------

BEFORE = {"auto_adjust_lr": "searchBeforeEpoch", "num_samples4_search": Schedule.constant(24)}
SIZES = {
    "auto_adjust_minibatch": True,
    "num_samples4_search": Schedule.constant(24),
    "minibatch_search_criterion_error_margin": 30.0,
    "minibatch_size_tuning_max": 32,
}


def train(folder: Path, epochs: int, adjust: dict, lines: Lines | None = None, **changes):
    return make_session(folder, lines, max_epochs=epochs, auto_adjust=AutoAdjust(**adjust), **changes).run()


def rates(lines: Lines) -> list[float]:
    return [float(line.split("Sample = ")[1].split(";")[0]) for line in lines.with_text("[Training]")]


def test_a_search_works_before_the_first_epoch_already(tmp_path):
    lines = Lines()
    train(tmp_path, 2, BEFORE, lines, learning_rates_per_sample=None)
    assert lines.with_text("SearchForBestLearnRate Epoch[1]: Best learningRatePerSample = ")
    assert lines.with_text("SearchForBestLearnRate Epoch[2]: Best learningRatePerSample = ")
    first = lines.with_text(" Finished Mini-Epoch[1]: ce = ")
    assert "learningRatePerSample = 0; minibatchSize = 8" in first[0]
    assert all(rate > 0 for rate in rates(lines))


def test_trials_leave_nothing_behind(tmp_path):
    """A search ends in the bytes of a training that is given the rates; dropout, noise and momentum included."""
    same = {
        "network": lambda: make_network(dropout=True),
        "dropout_rate": 0.3,
        "gaussian_noise_inject_std": 0.01,
        "momentum_per_mb": 0.5,
        "epoch_size": 40,
    }
    found: list[float] = []

    class Hooks:
        def listeners(self, name):
            return (self.note,) if name == "cntk_epoch_begin" else ()

        def note(self, job, epoch):
            found.append(epoch.learning_rate)

    train(tmp_path / "search", 3, BEFORE, learning_rates_per_sample=None, hooks=Hooks(), **same)
    assert len(set(found)) == 3
    make_session(tmp_path / "given", max_epochs=3, learning_rates_per_sample=Schedule.of(found), **same).run()
    assert (tmp_path / "search/net.dnn").read_bytes() == (tmp_path / "given/net.dnn").read_bytes()


def test_a_search_of_sizes_leaves_nothing_behind(tmp_path):
    found: list[int] = []

    class Hooks:
        def listeners(self, name):
            return (self.note,) if name == "cntk_epoch_begin" else ()

        def note(self, job, epoch):
            found.append(epoch.minibatch_size)

    momentum = {"momentum_per_mb": None, "momentum_as_time_constant": 20.0}
    train(tmp_path / "search", 4, SIZES, hooks=Hooks(), **momentum)
    assert found[-1] > found[0] == 8
    make_session(tmp_path / "given", max_epochs=4, minibatch_size=Schedule.of(found), **momentum).run()
    assert (tmp_path / "search/net.dnn").read_bytes() == (tmp_path / "given/net.dnn").read_bytes()


@pytest.mark.parametrize("engine", [ReferenceEngine, CpuEngine])
def test_a_minibatch_without_learning_touches_no_rows(engine):
    """Otherwise the next update would let the momentum move rows of an embedding that are not in its minibatch."""
    sample = SPARSE_SAMPLES["two_products"](np.float64)
    initialize_parameters(sample.network, 0)
    plan = make_plan(sample.network, [], sample.criterion)
    store = ParameterStore(sample.network.parameters, np.float64)
    learner, chosen = SGD(SGDOptions()), settings()
    rule = compose_update(learner, chosen)
    store.add_slots(rule.slots)
    program = engine().compile(plan, store, rule)
    loop = EpochLoop(program, store, learner, chosen, (sample.criterion,), RunLog(Lines()), Job("t", "train"))
    before = store.values.copy()
    loop.step(with_sparse_streams(sample.minibatch(8), sample, 0), Pace(0, 0.0, 8), 0)
    (parameter,) = plan.sparse
    assert np.array_equal(store.values, before)
    assert store.take_touched(parameter, WORDS).size == 0
    assert loop.steps == 0
    loop.step(with_sparse_streams(sample.minibatch(8), sample, 0), Pace(0, 0.1, 8), 0)
    changed = np.flatnonzero((store.values != before)[slice(*store.range(parameter))].reshape(WORDS, -1).any(axis=1))
    assert 0 < changed.size < WORDS
    assert loop.steps == 1


def test_the_base_is_computed_with_dropout_as_all_trials_are(tmp_path):
    bases = []
    for rate in (0.0, 0.5):
        lines = Lines()
        network = make_network(dropout=True)
        train(
            tmp_path / str(rate), 1, BEFORE, lines, network=network, dropout_rate=rate, learning_rates_per_sample=None
        )
        bases.append(lines.with_text("Finished Mini-Epoch[1]")[0].split(" * ")[0])
    assert bases[0] != bases[1]


def test_nobody_is_told_of_trials(tmp_path):
    told: list[int] = []

    class Hooks:
        def listeners(self, name):
            return (lambda job, result: told.append(result.epoch),) if name == "cntk_minibatch_end" else ()

    train(tmp_path, 2, BEFORE, learning_rates_per_sample=None, hooks=Hooks())
    assert told == [0] * 6 + [1] * 6


def test_a_chosen_size_is_said_without_trace(tmp_path):
    lines = Lines()
    train(tmp_path, 2, SIZES, lines, trace_level=0)
    assert " Before Epoch[2], previous minibatchSize 8 is considered invalid -> resetting." in lines.all
    assert lines.with_text("Minibatch size adapted to ")
    assert not lines.with_text("Computed baseCriterion")


def test_a_chosen_size_is_not_said_twice(tmp_path):
    """With a trace, the line of the search says it."""
    lines = Lines()
    train(tmp_path, 2, SIZES, lines, trace_level=1)
    assert lines.with_text("Search successful. New minibatchSize is ")
    assert not lines.with_text("Minibatch size adapted to ")


def test_minibatches_of_trials_are_named(tmp_path):
    lines = Lines()
    train(tmp_path, 1, BEFORE, lines, learning_rates_per_sample=None)
    assert lines.with_text("  BaseAdaptiveLearnRateSearch: Epoch[ 1 of 1]-Minibatch[   1-   2]: ce = ")
    assert lines.with_text("  DetailLeftAdaptiveLearnRateSearch: Epoch[ 1 of 1]-Minibatch[   1-   2]: ce = ")


def test_the_time_of_a_search_is_told(tmp_path):
    lines = Lines()
    train(tmp_path, 1, BEFORE, lines, learning_rates_per_sample=None)
    trials = len(lines.with_text("Finished Mini-Epoch[1]"))
    (line,) = lines.with_text("searchTime=")
    assert line.startswith(f" Finished {trials} Mini-Epochs before Epoch[1]: searchTime=0.")


def test_a_trial_ends_with_the_minibatch_that_passes_its_samples(tmp_path):
    lines = Lines()
    train(tmp_path, 1, BEFORE, lines, learning_rates_per_sample=None)
    assert " * 32; errs" in lines.with_text("Finished Mini-Epoch[1]")[0]


def test_the_share_of_the_epoch_before_needs_a_known_epoch_size(tmp_path):
    lines = Lines()
    adjust = {**BEFORE, "num_samples4_search": Schedule.constant(500)}
    train(tmp_path, 2, adjust, lines, epoch_size=24)
    assert " * 24; errs" in lines.with_text("Finished Mini-Epoch[2]")[0], "a trial is no longer than an epoch"


def test_a_rate_need_only_be_better_than_learning_nothing(tmp_path):
    """The base is what a trial with rate 0 gives, whatever the epoch before was like."""
    lines = Lines()
    adjust = {**BEFORE, "better_than_unchanged": True}
    train(tmp_path, 3, adjust, lines, learning_rates_per_sample=None, epoch_size=40)
    trials = [line for line in lines.with_text(" Finished Mini-Epoch[") if "learningRatePerSample = 0;" in line]
    unchanged = [float(line.partition("ce = ")[2].split()[0]) for line in trials]
    bases = [float(line.partition("baseCriterion=")[2]) for line in lines.with_text("SearchForBestLearnRate Epoch[")]
    assert len(bases) == 3
    assert bases == pytest.approx(unchanged, abs=1e-7)


class Stop(BaseException):
    pass


class StopAt:
    """Ends a run, as a kill would, when the given epoch begins."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def listeners(self, name):
        return (self.stop,) if name == "cntk_epoch_begin" else ()

    def stop(self, job, epoch):
        if epoch.epoch == self.epoch:
            raise Stop


RESUMED = {
    "search": (BEFORE, {"learning_rates_per_sample": 0.05}),
    "best": ({**BEFORE, "num_best_search_epoch": 9, "num_prev_learn_rates": 2}, {"learning_rates_per_sample": None}),
    "sizes": (SIZES, {}),
    "frequency": ({**SIZES, "minibatch_size_tuning_frequency": 2}, {}),
    "both": ({**SIZES, **BEFORE}, {"learning_rates_per_sample": None}),
    "sizes and after": ({**SIZES, "auto_adjust_lr": "after", "learn_rate_decrease_factor": 0.25}, {
        "learning_rates_per_sample": 2.0,
    }),
}  # fmt: skip


@pytest.mark.parametrize(("adjust", "changes"), RESUMED.values(), ids=RESUMED)
@pytest.mark.sampled(5)
def test_a_run_that_was_stopped_ends_in_the_same_bytes(tmp_path, adjust, changes):
    epochs = 5
    train(tmp_path / "straight", epochs, adjust, **changes)
    for stop in (2, 4):
        folder = tmp_path / str(stop)
        with pytest.raises(Stop):
            train(folder, epochs, adjust, hooks=StopAt(stop), **changes)
        train(folder, epochs, adjust, **changes)
        assert (folder / "net.dnn").read_bytes() == (tmp_path / "straight/net.dnn").read_bytes(), f"stop {stop}"


def test_a_search_whose_data_are_no_numbers_says_so(tmp_path):
    data = make_data()
    data["features"][...] = math.nan
    with pytest.raises(TrainingError, match="before anything was learned"):
        train(tmp_path, 2, BEFORE, learning_rates_per_sample=None, reader=ListReader(data))
