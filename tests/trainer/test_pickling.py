"""Trainers, and programs with what is done on the host, are pickled, and go on to the byte."""

from __future__ import annotations

import copy
import multiprocessing
import pickle

import attrs
import numpy as np
import pytest

from cntk_core.contract.host_program import HostProgram, compile_plan
from cntk_core.contract.learner import Slot
from cntk_core.contract.store import ParameterStore
from cntk_core.contract.user_learner import UserLearner
from cntk_core.errors import UnsupportedError
from cntk_core.network.node import Node, Parameter
from cntk_core.ops.table import core_op
from cntk_core.plan.arrays import take_arrays
from cntk_core.plan.make import make_plan
from cntk_core.plan.plan import marked_assignments
from cntk_core.trainer import Parallel, piecewise
from cntk_core.training.loop.update import compose_update
from cntk_core.training.settings import SGDSettings
from cntk_testing import ReferenceEngine, VirtualRanks
from tests.trainer.driven import assert_same, learner, make_network, minibatches, trainer, values


@attrs.frozen
class _Options:
    """Options of the learner below."""

    factor: float = 1.0


class Smoothed(UserLearner):
    """Descent with a smoothed gradient, and a rate that falls with its steps."""

    requires_api = "1.0"
    options = _Options
    slots = (Slot("smoothed", 0.5),)
    state = (Slot("count"),)

    def advance(self, context):
        return {"count": context.state["count"] + 1.0}

    def update(self, parameters):
        for each in parameters:
            smoothed = each.slots["smoothed"]
            smoothed[...] = 0.5 * smoothed + each.gradient
            each.value -= self.settings.factor * each.context.learning_rate / each.context.state["count"] * smoothed


def network_that_assigns():
    """The network of the other tests, which keeps the mean of its hidden layer."""
    network = make_network()
    kept = network.add(Parameter.make("kept", (1, 5), value=np.zeros((1, 5)), learning_rate_multiplier=0.0))
    mean = network.add(Node("mean", core_op("EpochAccumulator"), [network["h"]]))
    network.mark(network.add(Node("assign", core_op("Assign"), [kept, mean])), "output")
    network.infer()
    return network


def several():
    falling = piecewise([0.0625, 0.03125], steps=3)
    python = learner(Smoothed, rate=0.01, parameters=["W0", "b*"], options={"factor": 0.5}, l2=0.01)
    return [python, learner("adagrad", rate=falling)]


AGAIN = [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))]


def go_on(made):
    """Learn what comes after four minibatches, and return all that is learned then."""
    for one in minibatches()[4:6]:
        made.train_minibatch(one)
    made.end_epoch()
    for one in minibatches(1)[:2]:
        made.train_minibatch(one)
    totals = {name: (one.total, one.samples) for name, one in made.read_totals().items()}
    return values(made.model.network), (totals, made.samples, made.epoch, made.steps)


@pytest.mark.parametrize("again", AGAIN, ids=["copied", "pickled"])
@pytest.mark.parametrize("learners", [several, lambda: learner("sgd"), lambda: learner(Smoothed())])
def test_a_trainer_goes_on_to_the_byte(learners, again):
    made = trainer(network_that_assigns(), learners(), seed=3)
    for one in minibatches()[:4]:
        made.train_minibatch(one)
    found = again(made)
    before = values(made.model.network)
    arrays, counted = go_on(found)
    assert_same(values(made.model.network), before)
    expected, expected_counted = go_on(made)
    assert_same(arrays, expected)
    assert counted == expected_counted
    assert not np.array_equal(arrays["kept"], before["kept"])


def test_only_a_trainer_of_one_rank_is_pickled():
    def work(communicator):
        made = trainer(parallel=Parallel(communicator, "DataParallelSGD"))
        with pytest.raises(UnsupportedError) as error:
            pickle.dumps(made)
        return str(error.value)

    for found in VirtualRanks(2, deadline=60.0).run(work):
        assert found == (
            "a trainer of several ranks cannot be pickled\n    Save it on all ranks, and restore it on all."
        )


def host_program(rule):
    network = network_that_assigns()
    learn = [network["W0"], network["b0"]]
    plan = make_plan(network, [network["ce"], *marked_assignments(network)], network["ce"], learn=learn)
    return compile_plan(ReferenceEngine(), plan, ParameterStore(network.parameters, network.dtype), rule, seed=5)


def step(program, number):
    """Make a step; return the bytes of all parameters afterwards, which tell of slots one step later."""
    scalars = dict.fromkeys(("rate", "samples", "learning_rate"), 0.01) | {"momentum": 0.5, "step": number, "epoch": 0}
    program.train_step(take_arrays(program.plan, minibatches()[number]).minibatch, [scalars | {"state.count": 1.0}] * 2)
    return program.store.values.tobytes()


@pytest.mark.parametrize("again", AGAIN, ids=["copied", "pickled"])
@pytest.mark.parametrize("rule", [None, Smoothed(), "sgd"])
def test_a_program_with_a_part_on_the_host(rule, again):
    if rule == "sgd":
        rule = trainer().model.plugins.registry.learners.get("sgd")()
    program = host_program(None if rule is None else compose_update(rule, SGDSettings(max_epochs=1)))
    assert isinstance(program, HostProgram)
    data = take_arrays(program.plan, minibatches()[0]).minibatch
    if rule is None:
        program.evaluate(data)
    else:
        step(program, 0)
    found = again(program)
    assert [one.name for one in found.plan.trained] == ["W0", "b0"]
    assert found.plan.network["kept"].value.tobytes() == program.plan.network["kept"].value.tobytes()
    assert found.read_totals() == program.read_totals()
    if rule is not None:
        assert [step(found, number) for number in (1, 2, 3)] == [step(program, number) for number in (1, 2, 3)]


def _trained(made):
    return go_on(made)


@pytest.mark.slow
def test_a_trainer_is_sent_to_another_process():
    made = trainer(network_that_assigns(), learner("adagrad", rate=piecewise([0.0625, 0.03125], samples=30)))
    for one in minibatches()[:4]:
        made.train_minibatch(one)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        arrays, counted = pool.apply(_trained, (made,))
    expected, expected_counted = go_on(made)
    assert_same(arrays, expected)
    assert counted == expected_counted
