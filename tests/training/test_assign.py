"""Assign: parameters that get a value after each minibatch."""

from __future__ import annotations

import numpy as np
import pytest

from cntk_core.contract.host_program import compile_plan
from cntk_core.contract.learner import UpdateRule
from cntk_core.contract.store import ParameterStore
from cntk_core.errors import NetworkError, ShapeError
from cntk_core.network.network import Network
from cntk_core.network.node import Parameter
from cntk_core.plan.make import make_plan
from cntk_testing.networks import Sketch
from cntk_testing.reference import ReferenceEngine


def sketch():
    made = Sketch("float64")
    made.x = made.input("x", 2)
    made.total = made.op("EpochAccumulator", made.x, name="mean")
    return made


def program_of(network, roots, criterion=None, rule=None):
    network.infer()
    store = ParameterStore(network.parameters, network.dtype)
    program = compile_plan(ReferenceEngine(), make_plan(network, roots, criterion), store, rule)
    program.begin_epoch(0)
    return program, store


def frames(made, rows):
    from cntk_core.ops.language.layouts import frame_layout
    from cntk_core.records.minibatch import Minibatch, StreamData

    return Minibatch({"x": StreamData(np.array(rows, float), frame_layout(len(rows)))}, len(rows))


def test_the_value_is_assigned_after_each_minibatch():
    made = sketch()
    kept = made.given("kept", np.zeros(2), multiplier=0.0)
    before = made.op("Plus", kept, kept, name="before")
    assign = made.op("Assign", kept, made.total, name="a")
    program, store = program_of(made.network, [before, assign])
    program.evaluate(frames(made, [[1, 2], [3, 4]]))
    assert program.value("before").tolist() == [0, 0]  # nobody sees the new value in the same minibatch
    assert program.value("a").tolist() == [2, 3]
    assert store.value(kept).tolist() == [2, 3]
    program.evaluate(frames(made, [[5, 6]]))
    assert program.value("before").tolist() == [4, 6]
    assert kept.value.tolist() == [3, 4]


def test_an_assignment_comes_before_the_update():
    made = sketch()
    weights = made.given("weights", np.array([1.0, 1.0]))
    assign = made.op("Assign", weights, made.total, name="a")
    product = made.op("ElementTimes", weights, made.x)
    criterion = made.op("SumElements", made.op("Plus", product, assign), name="c")
    rule = UpdateRule((), (), lambda m, value, gradient, slots, scalars: (value - gradient, {}))
    program, store = program_of(made.network, [], criterion, rule)
    program.train_step(frames(made, [[1, 2], [3, 4]]), [{}])
    assert store.gradient(weights).tolist() == [4, 6]  # no gradient flows to what is assigned to
    assert store.value(weights).tolist() == [2 - 4, 3 - 6]


def test_all_assignments_are_of_the_values_before_and_the_last_one_counts():
    made = sketch()
    first, second = (made.given(name, np.full(2, value), multiplier=0.0) for name, value in (("p", 1.0), ("q", 2.0)))
    swapped = [made.op("Assign", first, second, name="a"), made.op("Assign", second, first, name="b")]
    again = made.op("Assign", first, made.total, name="c")
    program, store = program_of(made.network, [*swapped, again])
    program.evaluate(frames(made, [[7, 8]]))
    assert (store.value(first).tolist(), store.value(second).tolist()) == ([7, 8], [1, 1])


def test_a_target_whose_shape_is_not_given_gets_that_of_the_value():
    made = sketch()
    kept = made.network.add(Parameter.make("kept", (0,)))
    made.op("Assign", kept, made.total, name="a")
    made.network.infer()
    assert kept.shape == (2,)


def test_what_is_assigned_to_is_a_parameter():
    made = sketch()
    made.op("Assign", made.total, made.total, name="a")
    with pytest.raises(NetworkError) as caught:
        made.network.infer()
    assert str(caught.value) == (
        "input 1 of Assign 'a' is EpochAccumulator 'mean', which cannot keep what is counted\n"
        "    Give a parameter with learningRateMultiplier=0."
    )


def test_a_value_for_each_frame_cannot_be_assigned():
    made = sketch()
    made.op("Assign", made.given("kept", np.zeros(2)), made.x, name="a")
    with pytest.raises(NetworkError) as caught:
        made.network.infer()
    assert str(caught.value) == (
        "Assign 'a': 'x' has a value for each frame, and a parameter one\n"
        "    Reduce it first, to its sum or mean over the frames."
    )


def test_shapes_have_to_be_the_same():
    made = sketch()
    made.op("Assign", made.given("kept", np.zeros(3)), made.total, name="a")
    with pytest.raises(ShapeError, match=r"Assign 'a': \[2\] cannot be assigned to \[3\]"):
        made.network.infer()


def test_only_what_is_asked_for_is_assigned():
    made = sketch()
    kept = made.given("kept", np.zeros(2), multiplier=0.0)
    made.op("Assign", kept, made.total, name="a")
    program, store = program_of(made.network, [made.total])
    program.evaluate(frames(made, [[1, 2]]))
    assert store.value(kept).tolist() == [0, 0]
    assert isinstance(made.network, Network)
