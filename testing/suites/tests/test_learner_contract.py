"""The contract of learners holds for one with two slots, and notices learners that are wrong."""

from __future__ import annotations

import attrs
import numpy as np
import pytest

from cntk_core.contract.learner import Learner, Slot
from cntk_testing.learner_contract import LearnerContract


@attrs.frozen
class AdaOptions:
    epsilon: float = 1e-8


class Ada(Learner):
    """An adaptive learner for these tests."""

    options = AdaOptions
    requires_api = "1.0"
    slots = (Slot("mean"), Slot("squares", 0.1))

    def scalars(self, context):
        return {"rate": context.learning_rate, "decay": context.momentum}

    def rule(self, m, value, gradient, slots, scalars):
        mean = scalars["decay"] * slots["mean"] + (1.0 - scalars["decay"]) * gradient
        squares = slots["squares"] + gradient * gradient
        step = scalars["rate"] * mean / (m.sqrt(squares) + self.settings.epsilon)
        return value - step, {"mean": mean, "squares": squares}


class TestAda(LearnerContract):
    learner_class = Ada


class Changed(Ada):
    """Ada with the result of its rule changed."""

    def __init__(self, change):
        super().__init__()
        self.change = change

    def rule(self, m, value, gradient, slots, scalars):
        return self.change(value, *super().rule(m, value, gradient, slots, scalars))


FAULTS = {
    "test_rule_is_elementwise": (
        lambda old, new, slots: (new - np.mean(new), slots),
        "the new value depends on other positions",
    ),
    "test_slots_returned_are_those_declared": (
        lambda old, new, slots: (new, {"mean": slots["mean"]}),
        r"the rule returns the slots \['mean'\] instead of \['mean', 'squares'\]",
    ),
    "test_rate_0_changes_nothing": (lambda old, new, slots: (new * 0.999, slots), "learning rate 0 changes values"),
    "test_first_step_follows_the_gradient": (
        lambda old, new, slots: (old + (old - new), slots),
        "a value does not go against its gradient",
    ),
}


@pytest.mark.parametrize("test", FAULTS)
def test_faults_are_noticed(test):
    change, message = FAULTS[test]
    with pytest.raises(AssertionError, match=message):
        getattr(LearnerContract(), test)(Changed(change))


def test_a_change_of_precision_is_noticed():
    learner = Changed(lambda old, new, slots: (new.astype(np.float64), slots))
    with pytest.raises(AssertionError, match="the new value is float64 instead of float32"):
        LearnerContract().test_precision_is_kept(learner, np.float32)


def test_array_functions_are_noticed():
    learner = Changed(lambda old, new, slots: (np.sqrt(new), slots))
    with np.errstate(all="ignore"), pytest.raises((TypeError, AttributeError)):
        LearnerContract().test_rule_can_be_traced(learner)


def test_a_rule_that_counts_is_noticed():
    counted = []

    def count(old, new, slots):
        counted.append(0)
        return new + len(counted), slots

    with pytest.raises(AssertionError, match="the rule remembers something"):
        LearnerContract().test_inputs_stay_as_they_are(Changed(count))


def test_work_in_place_is_noticed():
    def overwrite(old, new, slots):
        old[...] = new
        return old, slots

    with pytest.raises(AssertionError, match="value is changed in place"):
        LearnerContract().test_inputs_stay_as_they_are(Changed(overwrite))


def test_scalars_that_come_and_go_are_noticed():
    class Sometimes(Ada):
        def scalars(self, context):
            return super().scalars(context) if context.step else {"rate": 0.0}

    with pytest.raises(AssertionError, match=r"scalars \('rate', 'decay'\) instead of \('rate',\)"):
        LearnerContract().test_names_of_scalars_never_change(Sometimes())


class Counting(Ada):
    """Ada with a mean and a number of its own."""

    state = (Slot("count", 1.0),)

    def advance(self, context):
        return {"count": context.state["count"] + 1.0}

    def scalars(self, context):
        return {**super().scalars(context), "share": 1.0 / context.state["count"]}

    def means(self, m, value, gradient, slots, scalars):
        return {"size": m.abs(gradient) + scalars["share"]}

    def rule(self, m, value, gradient, slots, scalars):
        return super().rule(m, value, gradient / scalars["size"], slots, scalars)


class TestCounting(LearnerContract):
    learner_class = Counting


class KeepsCount(Counting):
    """Counts beside the state."""

    count = 0

    def advance(self, context):
        self.count += 1
        return {"count": float(self.count)}


class CountsInPlace(Counting):
    """Changes the state that it is given."""

    def advance(self, context):
        context.state["count"] += 1.0
        return dict(context.state)


class CountsMore(Counting):
    """Returns what is not declared."""

    def advance(self, context):
        return {**context.state, "more": 1.0}


STATE_FAULTS = [
    (KeepsCount, "advance remembers something"),
    (CountsInPlace, "advance remembers something|advance changes the state"),
    (CountsMore, r"the state has \['count', 'more'\] instead of \['count'\]"),
]


@pytest.mark.parametrize(("learner", "message"), STATE_FAULTS)
def test_faults_of_the_state_are_noticed(learner, message):
    with pytest.raises(AssertionError, match=message):
        LearnerContract().test_state_advances_by_its_names(learner())


def test_a_mean_with_the_name_of_a_scalar_is_noticed():
    class Twice(Counting):
        def means(self, m, value, gradient, slots, scalars):
            return {"rate": m.abs(gradient)}

    with pytest.raises(AssertionError, match=r"both a mean and a scalar: \['rate'\]"):
        LearnerContract().test_means_have_names_of_their_own(Twice())


def test_missing_declarations_are_noticed():
    class NoVersion(Learner):
        scalars = Ada.scalars
        rule = Ada.rule

    with pytest.raises(AssertionError, match="NoVersion does not say for which interface it was written"):
        LearnerContract().test_component(NoVersion())
    newer = type("Newer", (Ada,), {"requires_api": "1.7"})
    with pytest.raises(AssertionError, match=r"Newer requires interface 1\.7, which 1\.0 is not"):
        LearnerContract().test_component(newer())
    plain = type("Plain", (Ada,), {"options": dict})
    with pytest.raises(AssertionError, match=r"Plain\.options is no attrs class"):
        LearnerContract().test_component(plain())
