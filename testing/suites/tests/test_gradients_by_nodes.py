"""Gradients of any roots by any nodes, as the reference computes them: checked by differences, in double."""

from __future__ import annotations

import numpy as np
import pytest

from cntk_core.contract.store import ParameterStore
from cntk_core.errors import NetworkError, Problems
from cntk_core.network.node import Input, Parameter
from cntk_core.plan.make import make_plan
from cntk_testing.gradient_contract import roots_of
from cntk_testing.gradients import assert_close, check_gradients_by
from cntk_testing.networks import SAMPLES, Sketch
from cntk_testing.reference import ReferenceEngine
from cntk_testing.sequence_networks import SEQUENCE_SAMPLES, SequenceSketch, sequences_for
from cntk_testing.sparse_networks import product

NOT_SMOOTH = {"rectified", "reductions", "ctc", "word_classes", "attention"}
"""Networks whose values jump or bend, or whose inputs are numbers of classes or tell where sequences end."""


@pytest.mark.thinned(8)
@pytest.mark.parametrize("name", sorted({**SAMPLES, **SEQUENCE_SAMPLES}.keys() - NOT_SMOOTH))
def test_gradients_by_inputs_and_parameters_agree_with_differences(name):
    sample = {**SAMPLES, **SEQUENCE_SAMPLES}[name]("float64")
    data = sequences_for(sample, [3, 1, 2], 0) if name in SEQUENCE_SAMPLES else sample.minibatch(4)
    roots = [node for node in roots_of(sample) if node.op.name not in ("ClassificationError", "SequenceDecoder")]
    inside = sample.network.order(roots)
    leaves = [node for node in inside if node.op.role in ("input", "parameter") and node.name not in sample.one_hot]
    by = [node for node in leaves if not isinstance(node, Parameter) or node.learned]  # statistics have no gradient
    check_gradients_by(sample.network, roots, by, data)


def program_of(network, roots, by):
    return ReferenceEngine().compile(make_plan(network, roots, by=by), ParameterStore(network.parameters, "float64"))


def test_the_gradient_by_an_inner_node_is_that_by_what_is_added_to_it():
    def make(added):
        made = SequenceSketch("float64")
        past, close = made.delay()
        state = made.op("Tanh", made.weighted((made.x, 3), (past, 2)))
        if added:
            state = made.op("Plus", state, made.input("added", 2))
        close(state)
        made.network.rename(state, "state")
        z = made.weighted((past, 2), (state, 2), size=2)
        return made.finish(made.op("SumElements", made.op("Exp", z), name="total"))

    inner, outer = make(False), make(True)
    data = sequences_for(outer, [3, 1, 2])
    data.streams["added"].data[...] = 0.0
    found = []
    for sample, name in ((inner, "state"), (outer, "state"), (outer, "added")):
        program = program_of(sample.network, [sample.criterion], [sample.network[name]])
        program.forward(data)
        program.backward()
        found.append(program.gradient(name))
    assert np.abs(found[0]).min() > 0.0
    assert_close(found[0], found[1], "gradient by the state")
    assert_close(found[0], found[2], "gradient by what is added")


def test_a_root_may_feed_another_and_stand_in_a_loop():
    made = SequenceSketch("float64")
    past, close = made.delay(dim=3)
    state = close(made.op("Plus", made.x, made.op("ElementTimes", past, made.given("half", np.full(3, 0.5)))))
    sample = made.finish(None, state, made.op("ElementTimes", state, state, name="square"))
    check_gradients_by(sample.network, sample.roots, [made.x], sequences_for(sample, [4, 2, 1]))


def test_a_leaf_that_is_a_root_has_its_seed_for_a_gradient():
    made = Sketch("float64")
    x, weights = made.input("x", 2), made.parameter("W", 2, 2)
    sample = made.finish(None, x, weights, made.op("Times", weights, x, name="z"))
    program = program_of(sample.network, sample.roots, [x, weights])
    data = sample.minibatch(3)
    program.forward(data)
    program.backward({"x": np.full((3, 2), 2.0), "W": np.full((2, 2), 5.0)})
    assert_close(program.gradient("x"), np.full((3, 2), 2.0), "x")
    assert_close(program.gradient("W"), np.full((2, 2), 5.0), "W")
    program.backward({"W": 1, "z": 1.0})
    rows = data.streams["x"].data
    assert_close(program.gradient("W"), 1.0 + np.repeat(rows.sum(axis=0)[:, None], 2, axis=1), "W")


def test_what_no_gradient_reaches_gets_zeros():
    made = Sketch("float64")
    x, shift = made.input("x", 2), made.parameter("shift", 2)
    sample = made.finish(None, made.op("Floor", made.op("Plus", x, shift), name="whole"))
    program = program_of(sample.network, sample.roots, [x, shift])
    program.forward(sample.minibatch(3))
    program.backward()
    assert program.gradient("x").shape == (3, 2)
    assert not program.gradient("x").any()
    assert program.gradient("shift").tolist() == [0.0, 0.0]


def test_a_frozen_parameter_has_a_gradient_if_it_is_asked_for():
    sample = SAMPLES["multipliers"]("float64")
    check_gradients_by(sample.network, [sample.criterion], sample.network.parameters, sample.minibatch(3))


def test_nodes_without_a_gradient_are_refused_together():
    sample = product("float64")
    other = sample.network.add(Input.make("other", (2,)))
    with pytest.raises(Problems) as caught:
        make_plan(sample.network, [sample.criterion], by=[sample.network["x"], other])
    assert [str(error) for error in caught.value.errors] == [
        "there is no gradient by 'x': it is a sparse input\n"
        "    Declare the input dense, or ask for the gradient by a node that reads it.",
        "there is no gradient by 'other': 'se' does not depend on it",
    ]
    with pytest.raises(NetworkError, match="'se' does not depend on it"):
        make_plan(sample.network, [sample.criterion], by=[other])
