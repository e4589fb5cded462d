"""Loops as the interpreter computes them, against the recurrence written out by hand and against differences."""

from __future__ import annotations

import numpy as np
import pytest
from recurrent import Maker, elman

from cntk_core.contract.store import ParameterStore
from cntk_core.ops.language.layouts import sequence_layout
from cntk_core.records.minibatch import Minibatch, StreamData
from cntk_testing.gradients import check_gradients
from cntk_testing.reference import ReferenceEngine

LENGTHS = (4, 1, 3)


def by_hand(sequence, weights, *, ahead=False, step=1, initial=0.1):
    """The states of one sequence: h(t) = tanh(x(t) W + h(t - step) R + b)."""
    states = {}
    order = range(len(sequence))
    for t in reversed(order) if ahead else order:
        before = states.get(t + step if ahead else t - step, np.full(3, initial))
        states[t] = np.tanh(sequence[t] @ weights["W"] + before @ weights["R"] + weights["b"])
    return [states[t] for t in order]


def run(make: Maker, *, training=False):
    """A program of a network with random parameters, a minibatch, the sequences in it, and the parameters."""
    rng = np.random.default_rng(4)
    plan = make.plan(training=training)
    store = ParameterStore(plan.network.parameters, np.float64)
    store.values[...] = rng.normal(0, 0.5, store.values.shape)
    sequences = [rng.normal(size=(length, 4)) for length in LENGTHS]
    layout = sequence_layout(LENGTHS)
    labels = np.eye(2)[rng.integers(2, size=layout.frames)]
    streams = {
        "x": StreamData(np.concatenate(sequences)[_order()], layout),
        "l": StreamData(labels, layout),
    }
    weights = {parameter.name: store.value(parameter) for parameter in plan.network.parameters}
    return ReferenceEngine().compile(plan, store), store, Minibatch(streams, layout.frames), sequences, weights


def _order():
    """Rows of the sequences one after the other, time step by time step, the longest sequence first."""
    begins = np.cumsum([0, *LENGTHS[:-1]])
    longest_first = sorted(range(len(LENGTHS)), key=lambda each: -LENGTHS[each])
    return [begins[each] + t for t in range(max(LENGTHS)) for each in longest_first if t < LENGTHS[each]]


@pytest.mark.parametrize(("op", "step"), [("PastValue", 1), ("FutureValue", 1), ("PastValue", 2)])
def test_states_are_those_of_the_recurrence(op, step):
    program, _, minibatch, sequences, weights = run(elman(op, step=step))
    program.evaluate(minibatch)
    ahead = op == "FutureValue"
    states = np.concatenate([by_hand(one, weights, ahead=ahead, step=step) for one in sequences])
    np.testing.assert_allclose(program.value("z"), states[_order()] @ weights["V"], rtol=1e-12)


@pytest.mark.parametrize("op", ["PastValue", "FutureValue"])
def test_gradients_are_those_of_differences(op):
    """Through time; a bias in the loop has one value for all frames, and gets the sum of their gradients."""
    make = elman(op, "h0")
    _, store, minibatch, *_ = run(make, training=True)
    for parameter in store.parameters:
        parameter.value = store.value(parameter).copy()
    check_gradients(make.network, make.network["ce"], minibatch)
