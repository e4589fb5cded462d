"""The contract of engines holds for the reference, and notices engines that are wrong."""

from __future__ import annotations

import numpy as np
import pytest

from cntk_testing.engine_contract import EngineContract
from cntk_testing.reference import ReferenceEngine, ReferenceProgram


@pytest.mark.thinned(3, test_gradients_by_any_nodes=12, test_op_gradients_by_inputs=30)
@pytest.mark.sampled(4)
class TestReference(EngineContract):
    engine_class = ReferenceEngine


def faulty(**methods):
    """An engine whose programs have these methods."""
    program = type("Faulty", (ReferenceProgram,), methods)

    class FaultyEngine(ReferenceEngine):
        def compile(self, plan, store, rule=None, *, seed=0):
            return program(plan, store, rule, seed)

    return FaultyEngine()


def test_a_wrong_value_is_noticed():
    engine = faulty(value=lambda self, name: ReferenceProgram.value(self, name) * 1.001)
    with pytest.raises(AssertionError, match=r"value of '.*': relative error"):
        EngineContract().test_values(engine, "classifier", "float32")


def test_a_hidden_nan_is_noticed():
    engine = faulty(value=lambda self, name: np.nan_to_num(ReferenceProgram.value(self, name)))
    with pytest.raises(AssertionError, match="value of"):
        EngineContract().test_nan_and_infinities_show(engine, "chain", np.nan, "float32")


def test_totals_that_stay_are_noticed():
    engine = faulty(read_totals=lambda self: self.totals)
    with pytest.raises(AssertionError, match="does not set the totals to zero"):
        EngineContract().test_values(engine, "classifier", "float64")


def test_a_wrong_gradient_is_noticed():
    def compute(self, minibatch):
        ReferenceProgram.compute_gradients(self, minibatch)
        self.store.gradients[0] *= 1.01

    with pytest.raises(AssertionError, match=r"gradient of 'W0': relative error"):
        EngineContract().test_gradients(faulty(compute_gradients=compute), "classifier", "float32", True)


def test_a_parameter_that_does_not_learn_is_noticed():
    def update(self, scalars):
        kept = self.store.value(self.plan.trained[-1]).copy()
        ReferenceProgram.update(self, scalars)
        self.store.value(self.plan.trained[-1])[...] = kept

    for whole in (True, False):
        with pytest.raises(AssertionError, match=r"the change of '.*' differs by"):
            EngineContract().test_updates(faulty(update=update), "shared", "momentum", "float64", whole)


def test_random_numbers_of_its_own_are_noticed():
    def begin_epoch(self, epoch, settings=None, *, minibatches_done=0):
        ReferenceProgram.begin_epoch(self, epoch, settings)

    with pytest.raises(AssertionError, match="value of 'd0'"):
        EngineContract().test_random_numbers_are_those_of_every_engine(faulty(begin_epoch=begin_epoch), "float64")


def test_a_value_that_changes_is_noticed():
    engine = faulty(
        value=lambda self, name: self.fetch(next(r for r in self.plan.roots if r.name.lower() == name.lower()))
    )
    with pytest.raises(AssertionError):
        EngineContract().test_a_value_is_a_copy(engine)


def test_silence_about_a_missing_stream_is_noticed():
    def evaluate(self, minibatch):
        if len(minibatch.streams) == 2:
            ReferenceProgram.evaluate(self, minibatch)

    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        EngineContract().test_mistakes(faulty(evaluate=evaluate))


def test_a_wrong_gradient_by_a_node_is_noticed():
    def gradient(self, name):
        return ReferenceProgram.gradient(self, name) * (1.01 if name == "h" else 1.0)

    with pytest.raises(AssertionError, match=r"gradient by 'h': relative error"):
        EngineContract().test_gradients_by_any_nodes(faulty(gradient=gradient), "classifier float64")


def test_values_that_gradients_spoil_are_noticed():
    def backward(self, seeds):
        ReferenceProgram.run_backward(self, seeds)
        self.values[self.plan.roots[1]] += 1.0

    with pytest.raises(AssertionError, match=r"value after gradients of '.*': relative error"):
        EngineContract().test_gradients_by_any_nodes(faulty(run_backward=backward), "classifier float64")
