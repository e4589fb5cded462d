"""Training on several ranks, which are threads of this process."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from types import SimpleNamespace

import attrs
import numpy as np
import pytest

from cntk_core.contract.parallel import Parallelizer, Watch
from cntk_core.contract.store import ParameterStore
from cntk_core.errors import CheckpointError, TrainingError
from cntk_core.training.files.checkpoint import load_checkpoint
from cntk_core.training.loop.ranks import ParallelSettings, Ranks
from cntk_core.training.loop.subminibatch import share
from cntk_core.training.rates.auto_adjust import AutoAdjust
from cntk_kit_recipes.session.evaluate import evaluate
from cntk_kit_recipes.session.run_log import RunLog
from cntk_testing import ReferenceEngine, VirtualRanks
from tests.training.small import FRAMES, Lines, ListReader, make_network, make_session, minibatch


class Sums(Parallelizer):
    """Adds gradients; counts its steps in its state."""

    requires_api = "1.0"

    def begin(self, store, communicator):
        self.communicator = communicator
        self.steps = 0

    def reduce(self, store, counts):
        self.steps += 1
        header = counts.header()
        self.communicator.allreduce(store.gradients)
        self.communicator.allreduce(header)
        return counts.summed(header)

    def state(self):
        return {"steps": np.array([self.steps])}

    def restore(self, state):
        self.steps = int(state["steps"][0])

    def adopt(self, states):
        self.steps = int(states[0]["steps"][0])
        return "the steps of rank 0 count"


class Averages(Parallelizer):
    """Averages the parameters every other step while all ranks have data, and at the end of an epoch."""

    requires_api = "1.0"
    reduces_gradients = False

    def begin(self, store, communicator):
        self.communicator = communicator

    def begin_epoch(self, epoch):
        self.count, self.someone_ended = 0, False

    def sync(self, store, counts, *, epoch_end=False):
        self.count += 1
        if not self.someone_ended and (epoch_end or self.count % 2 == 0):
            self.someone_ended = any(one[0] for one in self.communicator.allgather(np.array([epoch_end])))
            if self.someone_ended and not epoch_end:
                return
            if not self.someone_ended:
                self._average(store)
        if epoch_end:
            self._average(store)

    def _average(self, store):
        self.communicator.allreduce(store.values)
        store.values /= self.communicator.size


class SharingReader(ListReader):
    """Gives each rank every so many-th frame, and a rank without any frame of a minibatch nothing."""

    def minibatches(self, epoch):
        for whole in super().minibatches(attrs.evolve(epoch, rank=0, ranks=1)):
            streams = {name: data.data[epoch.rank :: epoch.ranks] for name, data in whole.streams.items()}
            if len(next(iter(streams.values()))):
                yield minibatch(streams)


def train(folder, size, strategy=Sums, *, distributed=True, lines=None, deadline=120.0, check=0, start=1, **changes):
    """Train on some ranks; return the parameters of each, by name, and what the session gave."""
    logs = lines if lines is not None else [Lines() for _ in range(size)]

    def work(communicator):
        given = ParallelSettings(start_epoch=start, distributed_reading=distributed, check_every=check)
        ranks = Ranks(communicator, strategy(), strategy.__name__, given)
        reader = SharingReader() if distributed else ListReader()
        made = changes.get("network", make_network)()
        session = make_session(
            folder, logs[communicator.rank], reader=reader, ranks=ranks, **{**changes, "network": made}
        )
        summary = session.run()
        return {p.name: np.array(p.value) for p in session.job.network.parameters}, summary

    return VirtualRanks(size, deadline=deadline).run(work)


def serial(folder, **changes):
    made = changes.pop("network", make_network)()
    summary = make_session(folder, network=made, **changes).run()
    return {p.name: np.array(p.value) for p in made.parameters}, summary


def assert_close(found, expected, tolerance=1e-12):
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("distributed", [True, False])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_sums_of_gradients_are_serial_training(tmp_path, size, distributed):
    expected, alone = serial(tmp_path / "serial")
    for values, summary in train(tmp_path / "together", size, distributed=distributed, cv_reader=None):
        assert_close(values, expected)
        assert summary.criteria == pytest.approx(alone.criteria, rel=1e-12)
        assert summary.epochs == 3


def test_validation_is_shared(tmp_path):
    _, alone = serial(tmp_path / "serial", cv_reader=ListReader())
    for _, summary in train(tmp_path / "together", 3, cv_reader=SharingReader()):
        assert summary.validation == pytest.approx(alone.validation, rel=1e-12)


def ranges(lines):
    found = [re.match(r"Minibatch\[(\d+)-(\d+)\]", line) for line in lines]
    return [(int(one[1]), int(one[2])) for one in found if one is not None]


@pytest.mark.parametrize("every", [1, 2, 4, 6, 100])
@pytest.mark.parametrize("size", [2, 5])
def test_evaluation_on_several_ranks(size, every):
    """The lines are those of serial evaluation; the step without data is counted at the end, as in the original."""
    network = make_network()
    roots = [*network.roots["criterion"], *network.roots["evaluation"]]

    def run(reader, ranks=None):
        lines = Lines()
        log = RunLog(lines, trace_level=1)
        found = evaluate(network, ReferenceEngine(), reader, roots, 8, log=log, show_every=every, ranks=ranks)
        return found, lines.all

    expected, alone = run(ListReader())
    points = sorted({*range(every, 8, every), 7})

    def work(communicator):
        return run(SharingReader(), Ranks(communicator))

    for found, together in VirtualRanks(size).run(work):
        assert {name: one.samples for name, one in found.items()} == dict.fromkeys(("ce", "errs"), 43)
        for name, one in expected.items():
            assert found[name].total == pytest.approx(one.total, rel=1e-12)
        assert ranges(together) == [(first + 1, last) for first, last in pairwise([0, *points])]
        assert {line for line in alone if "-6]" not in line} <= set(together)
        assert together[-1] == alone[-1].replace("-6]", "-7]")


@pytest.mark.parametrize(("distributed", "shown"), [(True, 7), (False, 6)])
def test_the_log_of_rank_0(tmp_path, distributed, shown):
    """As in the original, the step in which no rank has data is shown where each rank reads its share."""
    logs = [Lines(), Lines()]
    train(tmp_path, 2, distributed=distributed, lines=logs, max_epochs=1, num_mbs_to_show_result=1, deadline=60.0)
    lines = logs[0].with_text("-Minibatch[")
    assert len(lines) == shown
    assert ("errs = 0.000% * 0;" in lines[-1]) == distributed
    assert logs[0].with_text("Finished Epoch[ 1 of 1]: [Training] ce = ")[0].count("* 43") == 2
    ending = ", distributed reading is ENABLED." if distributed else "."
    assert f"Starting minibatch loop, Sums training (myRank = 0, numNodes = 2){ending}" in logs[0].all


def test_more_ranks_than_samples(tmp_path):
    expected, _ = serial(tmp_path / "serial", max_epochs=1, minibatch_size=4)
    for values, _ in train(tmp_path / "together", 6, max_epochs=1, minibatch_size=4):
        assert_close(values, expected)


def test_only_rank_0_writes(tmp_path):
    train(tmp_path, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "net.dnn",
        "net.dnn.0",
        "net.dnn.1",
        "net.dnn.2",
        "net.dnn.checkpoints",
        "net.dnn.ckp",
    ]


@pytest.mark.parametrize("strategy", [Sums, Averages])
def test_a_restart_is_exact(tmp_path, strategy):
    """The rest of a training from a checkpoint gives the same numbers, on every rank."""
    through = train(tmp_path / "through", 2, strategy)
    folder = tmp_path / "restarted"
    train(folder, 2, strategy, keep_check_point_files=True)
    for name in ("net.dnn", "net.dnn.ckp"):
        (folder / name).unlink()
    for (values, _), (expected, _) in zip(train(folder, 2, strategy), through, strict=True):
        assert_close(values, expected, 0.0)


def test_a_restart_inside_an_epoch_is_exact(tmp_path):
    expected = train(tmp_path / "through", 2, max_epochs=2)[0][0]
    folder = tmp_path / "stopped"

    class Stops(Sums):
        def reduce(self, store, counts):
            if self.steps == 10:
                raise ZeroDivisionError
            return super().reduce(store, counts)

    with pytest.raises(ZeroDivisionError):
        train(folder, 2, Stops, max_epochs=2, checkpoint_every_samples=16)
    Stops.__name__ = "Sums"
    (inside,) = folder.glob("net.dnn.1.*.ckp")
    checkpoint = load_checkpoint(inside)
    assert checkpoint.progress.ranks == {"ranks": 2, "strategy": "Stops"}
    logs = [Lines(), Lines()]
    Again = type("Stops", (Sums,), {})
    assert_close(train(folder, 2, Again, max_epochs=2, lines=logs)[0][0], expected, 0.0)
    assert logs[0].with_text("minibatches of the next epoch")
    assert not logs[0].with_text("of no use")


def test_a_restart_with_other_ranks(tmp_path):
    """Gradient schemes go on with any number of ranks; what is different is said."""
    expected, _ = serial(tmp_path / "serial")
    folder = tmp_path / "together"
    train(folder, 2, keep_check_point_files=True)
    for name in ("net.dnn", "net.dnn.ckp"):
        (folder / name).unlink()
    logs = [Lines() for _ in range(3)]
    assert_close(train(folder, 3, lines=logs, keep_check_point_files=True)[2][0], expected)
    said = "The checkpoint is of 2 ranks, now there are 3: the steps of rank 0 count."
    assert said in logs[0].all
    for name in ("net.dnn", "net.dnn.ckp"):
        (folder / name).unlink()
    alone = Lines()
    session = make_session(folder, alone)
    session.run()
    assert "The checkpoint is of 2 ranks; training goes on with one." in alone.all
    assert_close({p.name: np.array(p.value) for p in session.job.network.parameters}, expected)


def test_averages_agree(tmp_path):
    (first, one), (second, two) = train(tmp_path, 2, Averages)
    assert_close(second, first, 0.0)
    assert one.criteria == two.criteria
    assert one.criteria["ce"] < 1.2


def test_an_earlier_epoch_is_trained_by_each(tmp_path):
    expected, _ = serial(tmp_path / "serial", max_epochs=1)
    logs = [Lines(), Lines()]
    for values, _ in train(tmp_path / "together", 2, start=2, max_epochs=1, lines=logs):
        assert_close(values, expected, 0.0)
    assert "Starting minibatch loop." in logs[1].all


def test_ranks_draw_different_numbers(tmp_path):
    """Dropout differs between the ranks of a parallel epoch and is the same before it."""

    def masks(start):
        drawn = []

        class Reads(Sums):
            def reduce(self, store, counts):
                drawn.append(store.gradients.copy())
                return super().reduce(store, counts)

        network = lambda: make_network(dropout=True)  # noqa: E731
        results = train(
            tmp_path / str(start),
            2,
            Reads,
            start=start,
            max_epochs=1,
            network=network,
            distributed=False,
            dropout_rate=0.5,
        )
        return drawn, results

    (_, results) = masks(2)
    assert_close(results[1][0], results[0][0], 0.0)
    drawn, _ = masks(1)
    assert not np.array_equal(drawn[0], drawn[1])


def test_each_rank_has_streams_of_its_own_in_an_epoch():
    """Four million for each of a thousand ranks; a program counts 2**32 in an epoch."""
    firsts = [Ranks(SimpleNamespace(rank=rank, watch=Watch())).first_stream for rank in (0, 1, 999, 1000)]
    assert firsts[0] == 0
    assert firsts[1] >= 4_000_000
    assert firsts[3] - firsts[2] == firsts[1]
    assert firsts[3] <= 2**32


def test_parameters_that_differ_are_noticed(tmp_path):
    class Wrong(Sums):
        def reduce(self, store, counts):
            found = super().reduce(store, counts)
            if self.steps == 3 and self.communicator.rank == 1:
                store.gradients[0] += 1e-3
            return found

    with pytest.raises(TrainingError) as error:
        train(tmp_path, 3, Wrong, check=2)
    assert str(error.value).startswith(
        "after minibatch 4 of epoch 1 the parameters of rank 1 are not those of rank 0\n"
        "    The ranks do not compute the same"
    )


def test_ranks_that_see_other_files(tmp_path):
    train(tmp_path / "0", 2, max_epochs=2)

    def work(communicator):
        ranks = Ranks(communicator, Sums(), "Sums")
        return make_session(tmp_path / str(communicator.rank), reader=SharingReader(), ranks=ranks, max_epochs=2).run()

    with pytest.raises(TrainingError) as error:
        VirtualRanks(2).run(work)
    assert str(error.value) == (
        "the ranks do not have the same model files\n"
        "    All ranks need the same recipe, data and model files.\n"
        "    rank 0: [true, null]\n"
        "    rank 1: [false, null]"
    )


def test_an_error_on_one_rank_ends_all(tmp_path):
    class Fails(SharingReader):
        def minibatches(self, epoch):
            for index, one in enumerate(super().minibatches(epoch)):
                if epoch.rank == 1 and index == 2:
                    raise ArithmeticError("no more data")
                yield one

    def work(communicator):
        make_session(tmp_path, reader=Fails(), ranks=Ranks(communicator, Sums(), "Sums")).run()

    with pytest.raises(ArithmeticError, match="no more data"):
        VirtualRanks(3).run(work)
    assert (tmp_path / "net.dnn.0").is_file()


def test_no_data_is_an_error_of_all(tmp_path):
    class Empty(ListReader):
        def minibatches(self, epoch):
            return iter(())

    def work(communicator):
        make_session(tmp_path, reader=Empty(), ranks=Ranks(communicator, Sums(), "Sums")).run()

    with pytest.raises(Exception, match="there is no data to train on: the reader gave no minibatch in epoch 1"):
        VirtualRanks(2).run(work)


@pytest.mark.parametrize("strategy", [Sums, Averages])
def test_a_rank_without_a_share_of_one_minibatch_goes_on(tmp_path, strategy):
    """The second minibatch has one frame, which is rank 1's; rank 0 has its part of those behind it."""
    seen = Counter[int]()

    class Uneven(ListReader):
        def minibatches(self, epoch):
            for begin, end in pairwise((0, 8, 9, 17, 25)):
                yield minibatch({name: values[begin:end] for name, values in self.data.items()})

    class Counting(strategy):
        def reduce(self, store, counts):
            seen[self.communicator.rank] += counts.samples
            return super().reduce(store, counts)

        def sync(self, store, counts, **options):
            seen[self.communicator.rank] += 0 if self.reduces_gradients else counts.samples
            super().sync(store, counts, **options)

    def work(communicator):
        ranks = Ranks(communicator, Counting(), "Counting", ParallelSettings(distributed_reading=False))
        log = lines if communicator.rank == 0 else None
        make_session(tmp_path, log, reader=Uneven(), ranks=ranks, max_epochs=1).run()

    lines = Lines()
    VirtualRanks(2, deadline=120.0).run(work)
    assert seen == {0: 4 + 0 + 4 + 4, 1: 4 + 1 + 4 + 4}
    assert lines.with_text("totalSamplesSeen = 25")


def test_a_state_is_taken_back_when_parallel_training_begins_with_a_search():
    """Trials before the first epoch are made with the state of the checkpoint, not with that of a beginner."""

    def work(communicator):
        network = make_network()
        store = ParameterStore(network.parameters, network.dtype)
        ranks = Ranks(communicator, Sums(), "Sums")
        arrays = {f"rank/{rank}/strategy/steps": np.array([7 + rank]) for rank in range(2)}
        ranks.remember({"ranks": 2, "strategy": "Sums"}, arrays)
        said = ranks.begin(store)
        searched = ranks.strategy.steps
        with ranks.trial(0):
            ranks.strategy.steps += 3
        said += ranks.begin_epoch(store, 0)
        return searched, ranks.strategy.steps, said

    assert VirtualRanks(2).run(work) == [(7, 7, ""), (8, 8, "")]


def test_shares_of_a_minibatch():
    frames = np.arange(22.0).reshape(11, 2)
    whole = minibatch({"x": frames})
    for parts in (1, 2, 3, 11, 14):
        found = [share(whole, index, parts) for index in range(parts)]
        data = [part.streams["x"].data for part in found if part is not None]
        np.testing.assert_array_equal(np.concatenate(data), frames)
        assert sum(part.samples for part in found if part is not None) == 11
        sizes = [0 if part is None else part.samples for part in found]
        assert sizes == [11 * (index + 1) // parts - 11 * index // parts for index in range(parts)]


def test_damaged_state_of_a_rank(tmp_path):
    from cntk_core.training.loop.rank_state import take_back

    train(tmp_path, 2, Averages)
    checkpoint = load_checkpoint(tmp_path / "net.dnn.ckp")
    arrays = {name: array[:1] if "rank/0/session/slot" in name else array for name, array in checkpoint.arrays.items()}
    network = make_network()
    store = ParameterStore(network.parameters, network.dtype)
    store.slots["smoothed_gradient"] = store.values.copy()

    def work(communicator):
        take_back(attrs.evolve(checkpoint, arrays=arrays), store, Ranks(communicator, Averages(), "Averages"))

    with pytest.raises(CheckpointError, match="the state of a rank in the checkpoint has 1 elements, not "):
        VirtualRanks(2).run(work)


SEARCH = {"learning_rates_per_sample": None, "auto_adjust": AutoAdjust(auto_adjust_lr="searchBeforeEpoch")}


class Reading(SharingReader):
    """Counts the frames that it gives."""

    given = Counter[int]()

    def minibatches(self, epoch):
        for one in super().minibatches(epoch):
            self.given[epoch.rank] += one.samples
            yield one


def best(lines):
    """The rates that searches have found."""
    return re.findall(r"Best learningRatePerSample = (\S+),", "\n".join(lines.all))


@pytest.mark.parametrize("distributed", [True, False])
@pytest.mark.sampled(2)
def test_trials_are_made_together(tmp_path, monkeypatch, distributed):
    """Rates and parameters are those of a serial search, and each rank reads its share of each trial."""
    expected_lines, lines = Lines(), [Lines() for _ in range(3)]
    expected, alone = serial(tmp_path / "serial", lines=expected_lines, **SEARCH)
    monkeypatch.setattr("tests.training.test_together.SharingReader", Reading)
    monkeypatch.setattr(Reading, "given", Counter())
    found = train(tmp_path / "together", 3, lines=lines, distributed=distributed, **SEARCH)
    for values, summary in found:
        assert_close(values, expected, 1e-10)
        assert summary.criteria == pytest.approx(alone.criteria, rel=1e-10)
    assert len(best(expected_lines)) == 3
    assert all(best(one) == best(expected_lines) for one in lines)
    if distributed:
        trials = len(expected_lines.with_text(" Finished Mini-Epoch["))
        assert trials > 6
        assert sum(Reading.given.values()) == FRAMES * (trials + 3)


def test_a_strategy_remembers_nothing_of_trials(tmp_path):
    made = []

    class Remembering(Sums):
        def begin(self, store, communicator):
            super().begin(store, communicator)
            made.append(self)

    train(tmp_path, 2, Remembering, **SEARCH)
    assert [one.steps for one in made] == [3 * 7, 3 * 7]  # with the step that finds no data
