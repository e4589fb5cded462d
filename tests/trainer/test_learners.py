"""Learners of a trainer: several with parameters of their own, rates that change, means, and what is refused."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from cntk_engine_cpu import CpuEngine

from cntk_core.contract.learner import Learner, Slot
from cntk_core.errors import CntkError, OptionError, TrainingError
from cntk_core.trainer import LearnerSettings, Trainer, TrainingPoint, piecewise
from cntk_core.training.learner_settings import make_rule
from cntk_testing import ReferenceEngine
from tests.trainer.driven import assert_same, learner, make_network, minibatches, plugins, train, trainer, values

OUTER, INNER = ["W1", "b1"], ["W0", "b0"]


class Descent(Learner):
    """Plain descent, in a slot of the name that another learner has, with another first value."""

    requires_api = "1.0"
    slots = (Slot("smoothed_gradient", initial=1.0),)

    def scalars(self, context):
        return {"rate": context.learning_rate}

    def rule(self, m, value, gradient, slots, scalars):
        return value - scalars["rate"] * gradient, dict(slots)


@pytest.mark.parametrize("engine", [ReferenceEngine, CpuEngine])
def test_two_learners_are_as_one_with_all_parameters(engine):
    alone, apart = make_network(), make_network()
    train(trainer(alone, engine=engine()))
    train(trainer(apart, [learner(parameters=OUTER), learner()], engine=engine()))
    for name, value in values(alone).items():  # one learner's update may be part of a product
        np.testing.assert_allclose(values(apart)[name], value, rtol=0 if engine is ReferenceEngine else 1e-12)


def test_each_has_its_own_rule_rate_and_numbers():
    """The parameters of one layer are learned as if the other layer were given."""
    network = make_network()
    adams = [learner("adam", 0.01, parameters=OUTER), learner("adam", 0.02, options={"epsilon": 0.1})]
    made = trainer(network, adams)
    one = minibatches()[0]
    before = values(network)
    made.train_minibatch(one)
    after = values(network)
    for rate, options, names in ((0.01, {}, OUTER), (0.02, {"epsilon": 0.1}, INNER)):
        single = make_network()
        trainer(single, learner("adam", rate, options=options)).train_minibatch(one)
        for name in names:
            assert np.array_equal(values(single)[name], after[name])
            assert not np.array_equal(before[name], after[name])
    state = made._stepper.store.state
    assert {name.partition(".")[0] for name in state} == {"0", "1"}


def test_parameters_that_no_learner_has_stay():
    network = make_network()
    before = values(network)
    made = train(trainer(network, learner(parameters=["w1"])))
    after = values(network)
    assert [name for name in after if not np.array_equal(before[name], after[name])] == ["W1"]
    assert [parameter.name for parameter in made._stepper.program.plan.trained] == ["W1"]


def test_patterns_and_nodes_name_parameters():
    network = make_network()
    made = trainer(network, [learner(parameters=["w*"]), learner(parameters=[network["b0"], network["b1"]])])
    assert [[one.name for one in group.trained] for group in made._stepper.learners] == [["W1", "W0"], ["b0", "b1"]]


def test_a_rate_that_is_set_counts_from_the_next_step():
    network = make_network()
    made = trainer(network, learner(momentum=0.0))
    one = minibatches()[0]
    made.learners[0].rate = 0.0
    before = values(network)
    assert made.train_minibatch(one).updated
    assert_same(values(network), before)
    made.learners[0].rate = 0.1
    made.train_minibatch(one)
    assert not np.array_equal(values(network)["W1"], before["W1"])


def test_a_rate_may_go_by_the_point_in_training():
    points = []

    def rate(point):
        points.append(point)
        return 0.1

    made, given = trainer(make_network(), learner(rate=rate)), minibatches()
    counts = [made.train_minibatch(one).samples for one in given[:2]]
    made.end_epoch()
    made.train_minibatch(given[2])
    at = [(point.steps, point.samples, point.epoch) for point in points]
    assert at == [(0, 0, 0), (1, counts[0], 0), (2, sum(counts), 0), (2, sum(counts), 1)]


def test_the_mean_is_the_sum_by_the_samples():
    summed, mean = make_network(), make_network()
    given = {"momentum": 0.5, "momentum_unit": "minibatch"}
    one = minibatches()[0]
    trainer(summed, learner(rate=0.5 / 8, l2=0.01, clip=0.05, **given)).train_minibatch(one)
    trainer(mean, learner(rate=0.5, l2=0.01, clip=0.05, mean=True, **given)).train_minibatch(one)
    for name, value in values(summed).items():
        np.testing.assert_allclose(values(mean)[name], value, rtol=1e-12)


def test_the_mean_with_norms_that_are_limited():
    summed, mean = make_network(), make_network()
    one = minibatches()[0]
    trainer(summed, learner(rate=0.5 / 8, clip=0.02, clip_norm=True)).train_minibatch(one)
    trainer(mean, learner(rate=0.5, clip=0.02, clip_norm=True, mean=True)).train_minibatch(one)
    for name, value in values(summed).items():
        np.testing.assert_allclose(values(mean)[name], value, rtol=1e-12)


def test_gradients_are_seen_and_changed_before_the_update():
    seen, one = [], minibatches()[0]

    def watch(job, step, gradients):
        seen.append((step.step, step.samples, sorted(gradients), job.network is network))
        gradients["W0"][...] = 0.0
        return {"b0": np.zeros_like(gradients["b0"])}

    network = make_network()
    before = values(network)
    made = trainer(network, before_update=[watch])
    made.train_minibatch(one)
    made.train_minibatch(one)
    assert seen == [(step, 8, ["W0", "W1", "b0", "b1"], True) for step in (0, 1)]
    assert made.steps == 2
    assert [name for name, value in values(network).items() if not np.array_equal(value, before[name])] == ["W1", "b1"]


def test_units_of_momentum():
    one, found = minibatches()[0], []
    for unit, momentum in (("minibatch", 0.5), ("sample", 0.5 ** (1 / 8)), ("time", -8 / np.log(0.5))):
        network = make_network()
        made = trainer(network, learner(momentum=momentum, momentum_unit=unit))
        made.train_minibatch(one)
        made.train_minibatch(one)
        found.append(values(network)["W1"])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-12)
    np.testing.assert_allclose(found[2], found[0], rtol=1e-6)  # of single precision, as in recipes


def test_piecewise():
    by_samples, by_steps = piecewise([3.0, 2.0, 1.0], samples=10), piecewise([3.0, 2.0], steps=2)
    assert [by_samples(TrainingPoint(0, seen, 0)) for seen in (0, 9, 10, 25, 99)] == [3, 3, 2, 1, 1]
    assert [by_steps(TrainingPoint(steps, 0, 0)) for steps in range(4)] == [3, 3, 2, 2]


@pytest.mark.parametrize("given", [([], {"steps": 1}), ([1.0], {}), ([1.0], {"steps": 1, "samples": 1})])
def test_piecewise_needs_a_length(given):
    numbers, lengths = given
    with pytest.raises(CntkError, match=r"^a schedule has at least one value, and either samples or steps for which"):
        piecewise(numbers, **lengths)


WRONG = {
    "parameters": (
        [learner(parameters=["V1"])],
        "a learner is given 'V1', which is no learned parameter of the criterion",
        "These are: W0, W1, b0, b1.",
    ),
    "twice": (
        [learner(parameters=["W*"]), learner(parameters=["W1"])],
        "two learners are given the parameter 'W1'",
        None,
    ),
    "nothing left": (
        [learner(parameters=["*"]), learner()],
        "a learner is left without parameters",
        "Say which parameters each learner has; one may have all that no other has.",
    ),
    "no options": (
        [learner("adam", options={"epsilom": 1.0})],
        "the learner Adam has no option 'epsilom'; did you mean 'epsilon'?",
        "Its options are: beta1, beta2, epsilon, unit_gain.",
    ),
    "slots": (
        [learner(parameters=OUTER), learner(Descent)],
        "two learners have a slot 'smoothed_gradient' that begins with different values",
        "Give each of them a trainer of its own.",
    ),
    "l2": ([learner(l2=-1.0)], "l2 of a learner is -1; it must not be negative", None),
    "clip": ([learner(clip=0.0)], "clip of a learner is 0; it must be more than 0", None),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_refused(case):
    learners, message, hint = WRONG[case]
    with pytest.raises(CntkError) as caught:
        trainer(make_network(), learners)
    assert (caught.value.message, caught.value.hint) == (message, hint)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rate": -0.5}, "the learning rate of step 1 is -0.5; it must not be negative"),
        ({"rate": lambda point: float("nan")}, "the learning rate of step 1 is nan; it must not be negative"),
        ({"momentum": 1.0}, "the momentum of step 1 is 1; it must be in [0, 1)"),
    ],
)
def test_rates_that_make_no_sense(given, message):
    made = trainer(make_network(), learner(**given))
    with pytest.raises(CntkError) as caught:
        made.train_minibatch(minibatches()[0])
    assert caught.value.message == message


def test_a_rate_that_is_no_number():
    made = trainer(make_network(), learner(rate="fast"))
    with pytest.raises(CntkError) as caught:
        made.train_minibatch(minibatches()[0])
    assert caught.value.message == "the learning rate of step 1 is 'fast', which is no number"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"learners": "sgd"}, "a trainer takes LearnerSettings, one or several, not 'sgd'"),
        ({"learners": []}, "a trainer takes LearnerSettings, one or several, not ()"),
        ({"learners": learner(momentum_unit="hour")}, "momentum_unit is minibatch, sample or time, not 'hour'"),
        ({"network": "net.dnn"}, "a trainer takes a Network, not a str"),
        ({"criterion": 3}, "3 is no node of the network"),
        ({"criterion": make_network()["ce"]}, "<CrossEntropyWithSoftmax ce> is no node of the network"),
        (
            {"op_settings": {"dropoutrate": 0.5}},
            "no operation of the network asks for the number 'dropoutrate'; did you mean 'dropoutRate'?",
        ),
    ],
)
def test_what_a_trainer_is_not_made_of(given, message):
    made = {"network": make_network(dropout=True), "criterion": "ce", "learners": learner(), **given}
    with pytest.raises(CntkError) as caught:
        Trainer(**made, engine=ReferenceEngine())
    assert caught.value.message == message


def test_no_criterion():
    network = make_network()
    network.roots["criterion"].clear()
    with pytest.raises(CntkError) as caught:
        Trainer(network, None, LearnerSettings("sgd", 0.1))
    assert caught.value.message == "the network marks no criterion"
    assert caught.value.hint == "Name the node that is to be minimised."


@pytest.mark.parametrize(
    ("values", "length"),
    [([], {"samples": 3}), ([1.0], {}), ([1.0], {"samples": 3, "steps": 3}), ([1.0], {"steps": -1})],
)
def test_schedules_that_are_none(values, length):
    with pytest.raises(TrainingError) as caught:
        piecewise(values, **length)
    assert str(caught.value) == (
        "a schedule has at least one value, and either samples or steps for which each is taken"
    )


def test_a_schedule_of_samples_or_of_steps():
    points = [TrainingPoint(steps, samples, 0) for steps, samples in ((0, 0), (1, 2), (2, 3), (3, 9))]
    assert [piecewise([1.0, 0.5], samples=3)(point) for point in points] == [1.0, 1.0, 0.5, 0.5]
    assert [piecewise([1.0, 0.5, 0.25], steps=1)(point) for point in points] == [1.0, 0.5, 0.25, 0.25]
    assert [piecewise([1.0, 0.5, 0.25], samples=1)(point) for point in points] == [1.0, 0.25, 0.25, 0.25]


def test_options_of_a_learner_with_wrong_values():
    class Strict(Descent):
        @attrs.frozen
        class options:
            count: int = attrs.field(default=1, validator=attrs.validators.ge(1))

    with pytest.raises(OptionError) as caught:
        make_rule(LearnerSettings(Strict, 0.1, options={"count": 0}), plugins().registry.learners)
    assert str(caught.value) == "the options of the learner Strict: 'count' must be >= 1: 0"
