"""Trainers on several ranks, which are threads of this process."""

from __future__ import annotations

import numpy as np
import pytest

from cntk_core.errors import CntkError, TrainingError
from cntk_core.trainer import Parallel, ParallelSettings
from cntk_core.training.loop.alone import OneRank
from cntk_testing import VirtualRanks
from tests.trainer.driven import assert_same, learner, make_network, minibatches, trainer, values

STRATEGIES = {
    "DataParallelSGD": "",
    "one bit": "gradientBits=1",
    "buffered": "useBufferedAsyncGradientAggregation=true",
    "BlockMomentumSGD": "blockSizePerWorker=8",
    "ModelAveragingSGD": "blockSizePerWorker=8",
    "DataParallelASGD": "syncPeriodPerWorker=2",
}
RANKS = 2


def parallel(communicator, name, **settings):
    strategy = name if name[0].isupper() else "DataParallelSGD"
    return Parallel(communicator, strategy, STRATEGIES[name], ParallelSettings(**settings))


def share(one, rank, ranks=RANKS):
    return {name: array[rank::ranks] for name, array in one.items()}


def train(made, rank, first=0, last=6, epoch=0):
    for one in minibatches(epoch)[first:last]:
        made.train_minibatch(share(one, rank))
    return made


def on_ranks(work):
    return VirtualRanks(RANKS, deadline=60.0).run(work)


def test_gradients_are_summed():
    """Two ranks make the step that one makes with both shares, its gradients computed in two parts."""

    def work(communicator):
        made = trainer(make_network(), parallel=parallel(communicator, "DataParallelSGD"))
        result = made.train_minibatch(share(minibatches()[0], communicator.rank))
        return result.samples, result.loss, values(made.model.network)

    network = make_network()
    alone = trainer(network)
    one = minibatches()[0]
    whole = {name: np.concatenate([share(one, rank)[name] for rank in range(RANKS)]) for name in one}
    expected = alone.train_minibatch(whole)
    for samples, loss, found in on_ranks(work):
        assert samples == expected.samples == 8
        assert loss == pytest.approx(expected.loss, rel=1e-12)
        for name, value in values(network).items():
            np.testing.assert_allclose(found[name], value, rtol=1e-12)


def test_two_ranks_are_one_that_sums_their_parts():
    """To the byte: the parts of a minibatch that one rank computes are the shares, and are added in their order."""

    def work(communicator):
        made = trainer(make_network(), parallel=parallel(communicator, "DataParallelSGD"))
        for one in minibatches()[:5]:
            made.train_minibatch({name: np.split(array, 2)[communicator.rank] for name, array in one.items()})
        return values(made.model.network)

    network = make_network()
    alone = trainer(network, parts=2)
    for one in minibatches()[:5]:
        alone.train_minibatch(one)
    for found in on_ranks(work):
        assert_same(found, values(network))


@pytest.mark.parametrize("name", STRATEGIES)
def test_all_have_the_same_parameters_after_an_epoch(name):
    def work(communicator):
        with trainer(make_network(), parallel=parallel(communicator, name), seed=communicator.rank) as made:
            for epoch in range(2):
                train(made, communicator.rank, epoch=epoch)
                made.end_epoch()
            return made.test_minibatch(minibatches()[0])["ce"].average, values(made.model.network)

    (loss, first), (_, second) = on_ranks(work)
    assert_same(second, first)
    assert loss < trainer(make_network()).test_minibatch(minibatches()[0])["ce"].average


@pytest.mark.parametrize("name", STRATEGIES)
def test_saved_and_restored(tmp_path, name):
    def straight(communicator):
        made = trainer(make_network(), parallel=parallel(communicator, name))
        train(made, communicator.rank)
        made.end_epoch()
        train(made, communicator.rank, epoch=1)
        made.end_epoch()
        return values(made.model.network)

    def stopped(communicator):
        made = train(trainer(make_network(), parallel=parallel(communicator, name)), communicator.rank)
        made.end_epoch()
        made.save(tmp_path / "net")

    def resumed(communicator):
        made = trainer(make_network(), parallel=parallel(communicator, name))
        made.restore(tmp_path / "net")
        train(made, communicator.rank, epoch=1)
        made.end_epoch()
        return values(made.model.network)

    expected = on_ranks(straight)
    on_ranks(stopped)
    for found, value in zip(on_ranks(resumed), expected, strict=True):
        assert_same(found, value)


@pytest.mark.parametrize("name", ["DataParallelSGD", "one bit", "buffered"])
def test_saved_inside_an_epoch(tmp_path, name):
    given = {"op_settings": {"dropoutRate": 0.5}}

    def straight(communicator):
        made = trainer(make_network(dropout=True), parallel=parallel(communicator, name), **given)
        return values(train(made, communicator.rank).model.network)

    def stopped(communicator):
        made = trainer(make_network(dropout=True), parallel=parallel(communicator, name), **given)
        train(made, communicator.rank, 0, 3).save(tmp_path / "net")

    def resumed(communicator):
        made = trainer(make_network(dropout=True), parallel=parallel(communicator, name), **given)
        made.restore(tmp_path / "net")
        return values(train(made, communicator.rank, 3).model.network)

    expected = on_ranks(straight)
    on_ranks(stopped)
    for found, value in zip(on_ranks(resumed), expected, strict=True):
        assert_same(found, value)


def test_where_models_have_not_met_nothing_is_saved(tmp_path):
    def work(communicator):
        made = trainer(make_network(), parallel=parallel(communicator, "ModelAveragingSGD"))
        train(made, communicator.rank, 0, 1)
        with pytest.raises(TrainingError) as caught:
            made.save(tmp_path / "net")
        made.end_epoch()
        made.save(tmp_path / "net")
        return caught.value.message, caught.value.hint

    message, hint = on_ranks(work)[0]
    assert message == ("a training by ModelAveragingSGD can be saved here only where all ranks have just come together")
    assert hint == "Call end_epoch on all ranks first."


def test_a_rank_without_data_goes_along():
    def work(communicator):
        made = trainer(make_network(), parallel=parallel(communicator, "DataParallelSGD"))
        one = minibatches()[0]
        found = [made.train_minibatch(one if communicator.rank else None)]
        found.append(made.train_minibatch())
        return [(each.samples, each.updated, each.ended) for each in found]

    assert on_ranks(work) == [[(8, True, False), (0, False, True)]] * RANKS


def test_several_learners_and_parameters_that_stay():
    def work(communicator):
        learners = [learner("adam", 0.01, parameters=["W1"]), learner(parameters=["b1"])]
        made = trainer(make_network(), learners, parallel=parallel(communicator, "DataParallelSGD"))
        store = made._stepper.store
        store.gradient(made.model.network["W0"])[...] = 7.0  # as another trainer leaves it
        before = values(made.model.network)
        train(made, communicator.rank)
        assert not store.gradient(made.model.network["W0"]).any()
        return before, values(made.model.network)

    (before, first), (_, second) = on_ranks(work)
    assert_same(second, first)
    assert [name for name in before if not np.array_equal(before[name], first[name])] == ["W1", "b1"]


def test_parameters_are_compared():
    def work(communicator):
        given = parallel(communicator, "DataParallelSGD", check_every=2)
        made = trainer(make_network(), parallel=given)
        made.train_minibatch(minibatches()[0])
        if communicator.rank:
            made.model.network["W0"].value[0, 0] += 1.0
        made.train_minibatch(minibatches()[0])

    with pytest.raises(TrainingError, match=r"^after minibatch 2 of epoch 1 the parameters of rank 1 are not those of"):
        on_ranks(work)


def test_together_from_a_later_epoch_on():
    def work(communicator):
        made = trainer(make_network(), parallel=parallel(communicator, "DataParallelSGD", start_epoch=2))
        one = minibatches()[0]
        alone = made.train_minibatch(one).samples
        made.end_epoch()
        return alone, made.train_minibatch(one).samples, values(made.model.network)

    (first, second, found), (_, _, other) = on_ranks(work)
    assert (first, second) == (8, 16)
    assert_same(found, other)


@pytest.mark.parametrize(
    ("strategy", "options", "message"),
    [
        ("DataParallel", "", "no parallelizer named 'DataParallel'"),
        ("DataParallelSGD", "gradientBit=1", "parallelizer 'DataParallelSGD' has no option 'gradientBit'"),
    ],
)
def test_what_is_not_there(strategy, options, message):
    with pytest.raises(CntkError) as caught:
        trainer(make_network(), parallel=Parallel(OneRank(), strategy, options))
    assert caught.value.message.partition(";")[0] == message
