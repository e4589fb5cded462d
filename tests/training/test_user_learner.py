"""Learners in Python: what they are given, what is done around them, how they train."""

from __future__ import annotations

import attrs
import numpy as np
import pytest

from cntk_core.config import Schedule
from cntk_core.contract.host_program import HostProgram, compile_plan
from cntk_core.contract.learner import Learner, Slot, UpdateContext
from cntk_core.contract.store import ParameterStore
from cntk_core.contract.user_learner import ParameterUpdate, UserLearner
from cntk_core.errors import TrainingError
from cntk_core.plan.make import make_plan
from cntk_core.training.loop.update import compose_update, scalars_for
from cntk_core.training.settings import SGDSettings
from cntk_testing.networks import classifier
from cntk_testing.reference import ReferenceEngine


class Momentum(Learner):
    """As an expression."""

    slots = (Slot("smoothed"),)
    state = (Slot("steps", 1.0),)
    requires_api = "1.0"

    def advance(self, context):
        return {"steps": context.state["steps"] + 1}

    def scalars(self, context):
        return {"m": context.momentum, "r": context.learning_rate / context.state["steps"]}

    def rule(self, m, value, gradient, slots, scalars):
        smoothed = scalars["m"] * slots["smoothed"] + gradient
        return value - scalars["r"] * smoothed, {"smoothed": smoothed}


class PythonMomentum(UserLearner):
    """The same on arrays."""

    slots = (Slot("smoothed"),)
    state = (Slot("steps", 1.0),)
    requires_api = "1.0"
    seen: tuple[str, ...] = ()

    def advance(self, context):
        return {"steps": context.state["steps"] + 1}

    def update(self, parameters):
        self.seen = tuple(each.name for each in parameters)
        for each in parameters:
            smoothed = each.slots["smoothed"]
            smoothed[...] = each.context.momentum * smoothed + each.gradient
            each.value -= each.context.learning_rate / each.context.state["steps"] * smoothed


SMALL = Schedule.constant(0.01)
SETTINGS = {
    "plain": SGDSettings(max_epochs=1),
    "limited": SGDSettings(max_epochs=1, clipping_threshold_per_sample=0.01, gradient_clipping_with_truncation=True),
    "regularised": SGDSettings(max_epochs=1, l1_reg_weight=SMALL, l2_reg_weight=SMALL),
    "noisy": SGDSettings(max_epochs=1, gaussian_noise_inject_std=Schedule.constant(0.1)),
}


def train(learner, settings, steps=3):
    sample = classifier("float64")
    store = ParameterStore(sample.network.parameters, np.float64)
    plan = make_plan(sample.network, sample.roots, sample.criterion)
    rule = compose_update(learner, settings)
    program = compile_plan(ReferenceEngine(), plan, store, rule)
    program.begin_epoch(0)
    state = {slot.name: slot.initial for slot in learner.state}
    for step in range(steps):
        context = UpdateContext(8, 0.1, 0.5, step, 0, state, "float64")
        state = store.state = dict(learner.advance(context))
        for slot in store.slots:
            if slot == "injected_noise":
                store.slots[slot][...] = np.random.default_rng(step).normal(size=store.size)
        context = attrs.evolve(context, state=state)
        numbers = [scalars_for(learner, settings, parameter, context) for parameter in plan.trained]
        program.train_step(sample.minibatch(8, step), numbers)
    return store, program


@pytest.mark.parametrize("name", SETTINGS)
def test_a_rule_in_python_does_what_the_same_expression_does(name):
    learner = PythonMomentum()
    (ours, program), (expected, plain) = train(learner, SETTINGS[name]), train(Momentum(), SETTINGS[name])
    assert isinstance(program, HostProgram)
    assert not isinstance(plain, HostProgram)
    np.testing.assert_allclose(ours.values, expected.values, rtol=1e-12)
    np.testing.assert_allclose(ours.slots["smoothed"], expected.slots["smoothed"], rtol=1e-12)
    assert ours.state == {"steps": 4.0}
    assert sorted(learner.seen) == ["W0", "W1", "b0", "b1"]


def test_values_that_are_assigned_are_written_into_the_store():
    array, new = np.zeros(2), np.ones(2)
    update = ParameterUpdate("w", array, np.zeros(2), {}, UpdateContext(1, 0.1, 0.0))
    update.value = new
    assert array.tolist() == [1, 1]
    update.value += 1.0
    assert array.tolist() == [2, 2]
    assert new.tolist() == [1, 1]


def test_no_engine_compiles_it():
    learner = PythonMomentum()
    assert learner.everywhere
    with pytest.raises(TrainingError) as caught:
        learner.rule(np, 0, 0, {}, {})
    assert str(caught.value) == (
        "the learner PythonMomentum is a function in Python, which no engine can compile\n"
        "    Programs with it are made by compile_plan(engine, plan, store, rule)."
    )
