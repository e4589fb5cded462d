"""What a trainer takes, and what it says of each minibatch."""

from __future__ import annotations

import numpy as np
import pytest
from cntk_builder_python import Dense, Graph, sequence, squared_error
from cntk_engine_cpu import CpuEngine

from cntk_core.errors import CntkError, DataError, TrainingError
from cntk_core.model import Model
from cntk_core.network.node import Input, Parameter
from cntk_core.ops.language.layouts import frame_layout
from cntk_core.records.minibatch import Minibatch, StreamData
from cntk_core.trainer import LearnerSettings, Trainer
from cntk_testing import ReferenceEngine
from tests.trainer.driven import assert_same, learner, make_data, make_network, minibatches, train, trainer, values
from tests.training.small import operation


def rows(count, seed=5):
    return make_data(count, seed)


def test_the_loss_of_a_minibatch_is_that_before_its_update():
    made = trainer(make_network())
    one = minibatches()[0]
    before = made.test_minibatch(one)
    result = made.train_minibatch(one)
    assert result.samples == 8
    assert result.updated
    assert not result.ended
    assert result.loss == pytest.approx(before["ce"].average, rel=1e-12)
    assert result.criteria["errs"].total == before["errs"].total
    assert made.test_minibatch(one)["ce"].average < before["ce"].average


def test_the_values_of_a_minibatch_go_with_the_next_one():
    made = trainer(make_network())
    first, second = (made.train_minibatch(one) for one in minibatches()[:2])
    assert second.loss > 0
    with pytest.raises(TrainingError, match=r"^the criteria of this minibatch are not there any more: another one was"):
        first.criteria  # noqa: B018


def test_totals_since_they_were_read():
    made, losses = trainer(make_network()), []
    for one in minibatches():
        losses.append(made.train_minibatch(one).criteria["ce"])
    totals = made.read_totals()
    assert list(totals) == ["ce", "errs"]
    assert totals["ce"].samples == 43
    assert totals["ce"].total == pytest.approx(sum(loss.total for loss in losses), rel=1e-12)
    assert made.read_totals()["ce"].samples == 0
    one = minibatches()[0]
    loss = made.train_minibatch(one).criteria["ce"].total
    assert made.read_totals()["ce"].total == pytest.approx(loss, rel=1e-12)


@pytest.mark.parametrize("engine", [ReferenceEngine, CpuEngine])
def test_minibatches_of_changing_sizes(engine):
    made = trainer(make_network(), engine=engine())
    for count in (1, 17, 3, 64, 2, 17):
        result = made.train_minibatch(rows(count))
        assert result.samples == count
        assert np.isfinite(result.loss)
    assert made.samples == 104


def test_a_minibatch_without_samples_changes_nothing():
    network = make_network()
    made = trainer(network)
    made.train_minibatch(minibatches()[0])
    before, state = values(network), dict(made._stepper.store.slots)
    slots = {name: slot.copy() for name, slot in state.items()}
    for data in (None, Minibatch({}, 0), rows(0)):
        if isinstance(data, Minibatch):
            nothing = frame_layout(0)
            data = Minibatch({name: StreamData(array, nothing) for name, array in rows(0).items()}, 0)
        result = made.train_minibatch(data)
        assert (result.samples, result.updated, result.ended) == (0, False, False)
        assert result.criteria["ce"].total == result.loss == 0.0
    assert_same(values(network), before)
    assert all(np.array_equal(slot, slots[name]) for name, slot in made._stepper.store.slots.items())
    assert made.test_minibatch(rows(0))["ce"].samples == 0


def test_sequences_of_any_lengths():
    network = make_network()
    made = trainer(network, engine=CpuEngine())
    data = rows(12)
    cut = {name: np.split(array, [5, 6]) for name, array in data.items()}
    assert made.train_minibatch(cut).loss == pytest.approx(
        trainer(make_network()).train_minibatch(data).loss, rel=1e-12
    )


def test_what_is_given_wrongly():
    made = trainer(make_network())
    with pytest.raises(DataError):
        made.train_minibatch({"features": rows(3)["features"]})
    with pytest.raises(DataError):
        made.test_minibatch({"features": np.zeros((3, 7)), "labels": rows(3)["labels"]})


def test_a_model_sees_what_is_learned_and_trainers_share_it():
    network = make_network()
    made, model = trainer(network), Model(network, engine=ReferenceEngine())
    data = rows(6)
    first = model.evaluate({"features": data["features"]}, ["z"])["z"]
    made.train_minibatch(data)
    second = model.evaluate({"features": data["features"]}, ["z"])["z"]
    assert not np.array_equal(first, second)
    assert np.array_equal(made.model.evaluate({"features": data["features"]}, ["z"])["z"], second)
    other = trainer(network, engine=CpuEngine())
    loss = other.train_minibatch(data).loss
    assert loss == pytest.approx(made.test_minibatch(data)["ce"].average, rel=0.5)
    assert made.train_minibatch(data).loss < loss


@pytest.mark.parametrize("engine", [ReferenceEngine, CpuEngine])
def test_two_trainers_take_turns(engine):
    """As the two players of a game: each has parameters, a criterion and learners of its own."""
    network = make_network()
    game = operation(network, "game", "Negate", network["ce"])
    network.infer()
    data = rows(9)
    losses = []
    one = trainer(network, learner("adam", 0.01, parameters=["W1", "b1"]), engine=engine())
    other = Trainer(network, game, learner("adam", 0.01, parameters=["W0", "b0"]), engine=engine())
    for _ in range(4):
        before = values(network)
        losses.append(one.train_minibatch(data).loss)
        between = values(network)
        assert all(np.array_equal(before[name], between[name]) == (name in ("W0", "b0")) for name in before)
        assert other.train_minibatch(data).loss == pytest.approx(-one.test_minibatch(data)["ce"].average, rel=0.5)
        assert all(np.array_equal(values(network)[name], between[name]) == (name in ("W1", "b1")) for name in before)
    states = [made._stepper.store.state for made in (one, other)]
    assert states[0] == states[1]  # as many steps each, in numbers of its own
    assert len(set(map(id, states))) == 2
    # Neither has touched the other's slots.
    for made, names in ((one, ("W0", "b0")), (other, ("W1", "b1"))):
        store = made._stepper.store
        assert not any(store.slot(slot, network[name]).any() for slot in store.slots for name in names)


def test_values_that_were_put_into_parameters_count():
    network = make_network()
    trainer(network).train_minibatch(rows(3))
    network["W1"].value = np.ones((5, 3))
    made = trainer(network)
    assert np.array_equal(made.model.store.value(network["W1"]), np.ones((5, 3)))
    made.train_minibatch(rows(3))
    assert not np.array_equal(network["W1"].value, np.ones((5, 3)))


def test_a_parameter_that_was_not_learned_before():
    """It lies behind those that ranks exchange; a new trainer lays the buffers out anew."""
    network = make_network()
    network["W0"].learning_rate_multiplier = 0.0
    first = trainer(network)
    first.train_minibatch(rows(3))
    network["W0"].learning_rate_multiplier = 1.0
    before = values(network)
    made = trainer(network)
    store = made.model.store
    assert store.learned_size == store.size
    made.train_minibatch(rows(3))
    assert not np.array_equal(values(network)["W0"], before["W0"])
    assert np.array_equal(values(network)["W0"], store.value(network["W0"]))


def test_parameters_without_values_get_first_ones():
    network = make_network()
    kept = values(network)
    for parameter in network.parameters:
        assert isinstance(parameter, Parameter)
    made = train(trainer(network), epochs=1)
    assert set(values(network)) == set(kept)
    assert made.epoch == 1


def test_a_network_without_evaluations_and_other_criteria():
    network = make_network()
    squares = operation(network, "sq", "SquareError", network["labels"], network["z"])
    network.infer()
    made = Trainer(network, squares, LearnerSettings("sgd", 0.01), evaluations=["ce"], engine=ReferenceEngine())
    assert list(made.train_minibatch(rows(4)).criteria) == ["sq", "ce"]
    assert isinstance(network["features"], Input)
    with pytest.raises(CntkError, match=r"^the network has no node 'cee'; did you mean 'ce'"):
        Trainer(network, "cee", LearnerSettings("sgd", 0.01))


@pytest.mark.parametrize("engine", [ReferenceEngine, CpuEngine])
@pytest.mark.parametrize("parts", [1, 2])
def test_samples_on_an_axis_that_is_computed(engine, parts):
    graph = Graph()
    x = graph.input("x", 2)
    kept = sequence.slice(x, 1, 0)
    loss = graph.criterion(squared_error(Dense(2)(kept), kept), "loss")
    made = Trainer(graph.finish(), loss, LearnerSettings("sgd", rate=0.1, mean=True), engine=engine(), parts=parts)
    rng = np.random.default_rng(0)
    for lengths in ([4, 2, 6], [3, 2], [5, 5, 5]):
        data = {"x": [rng.normal(size=(length, 2)).astype(np.float32) for length in lengths]}
        before = made.test_minibatch(data)["loss"]
        result = made.train_minibatch(data)
        assert result.samples == before.samples == sum(lengths) - len(lengths)
        assert result.updated
        total = made.read_totals()["loss"]
        assert total.samples == before.samples
        assert total.average == pytest.approx(before.average, rel=1e-6)
    assert made.test_minibatch(data)["loss"].average < before.average
