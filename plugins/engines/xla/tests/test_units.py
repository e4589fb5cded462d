"""Units of plans: what is computed in one go, and what goes from one to the next; and the cache of values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cntk_engine_xla import XlaEngine

from cntk_core.api import Node, Plan
from cntk_core.api.engines import explain, make_plan
from cntk_testing.inside import ShiftAttributes
from cntk_testing.sequence_networks import FEATURES, HIDDEN, SEQUENCE_SAMPLES, SequenceSketch

CUT = {
    "attention",
    "whole_memory",
    "unpacked",
    "looking",
    "comparing",
    "heads",
    "gathered",
    "chosen",
    "opened",
    "reduced",
    "convolved",
    "side_by_side",
}
"""Networks with ops that the host computes: which these are is in the tests of the table."""


def _names(nodes: Any) -> list[str]:
    return [node.name for node in nodes]


def _plan(name: str) -> Plan:
    sample = SEQUENCE_SAMPLES[name]("float32")
    return make_plan(sample.network, sample.roots, sample.criterion)


@pytest.fixture
def shifted() -> Plan:
    """A product, a shift that the host does, and a criterion above both."""
    made = SequenceSketch("float32")
    lower = made.op("Times", made.parameter("W", FEATURES, HIDDEN), made.x, name="lower")
    edge = made.given("edge", np.zeros(1), multiplier=0.0)
    moved = made.op("Shift", lower, edge, attributes=ShiftAttributes(-1), name="moved")
    sample = made.classify(made.op("Plus", moved, made.op("Tanh", lower)))
    return make_plan(sample.network, sample.roots, sample.criterion)


def test_what_goes_around_a_step_of_the_host(shifted: Plan) -> None:
    """Five units: below the shift, the shift, above it and back, the shift's gradient, and the rest with the update."""
    from cntk_engine_xla.units import units_of

    below, shift, above, back, rest = units_of(shifted, gradients=True, update=True)
    assert [unit.hosted for unit in (below, shift, above, back, rest)] == [False, True, False, True, False]
    assert "lower" in _names(below.writes)
    assert _names(shift.writes) == ["moved"]
    assert "moved" in _names(above.reads)
    assert (above.seeds, back.seeds) == (True, False)
    assert _names(back.arrives)[0] == "moved"
    assert "lower" in _names(back.leaves)
    assert "lower" in _names(rest.arrives)
    assert [unit.update for unit in (below, shift, above, back, rest)] == [False] * 4 + [True]


def test_what_only_the_user_looks_at_comes_last() -> None:
    """An evaluation on the host does not cut training in two."""
    from cntk_engine_xla.units import units_of

    made = SequenceSketch("float32")
    sample = made.classify(made.elman(made.x, FEATURES))
    edits = made.op("EditDistanceError", *sample.roots, made.network["labels"], name="edits")
    made.network.infer()
    plan = make_plan(sample.network, (*sample.roots, edits), sample.criterion)
    training, evaluation = units_of(plan, gradients=True, update=True)
    assert (training.hosted, training.update, evaluation.hosted, evaluation.update) == (False, True, True, False)
    assert _names(evaluation.writes) == ["edits"]
    assert set(evaluation.reads) - set(training.writes) == {evaluation.steps[0].nodes[0].inputs[1]}


def test_an_evaluation_of_a_parameter_comes_before_its_update() -> None:
    """The host sees what the parameter was for this minibatch."""
    from cntk_engine_xla.units import units_of

    made = SequenceSketch("float32")
    trained = made.parameter("W", FEATURES, HIDDEN)
    sample = made.classify(made.op("Times", trained, made.x))
    seen = made.op("Trace", trained, name="seen")
    made.network.infer()
    plan = make_plan(sample.network, (*sample.roots, seen), sample.criterion)
    units = units_of(plan, gradients=True, update=True)
    assert [_names(unit.writes) for unit in units if unit.hosted] == [["seen"]]
    assert (units[-1].hosted, units[-1].update) == (False, True)
    assert trained in plan.trained


def test_gradients_are_looked_at_until_the_last_step_that_adds_to_them(shifted: Plan) -> None:
    from cntk_engine_xla.units import units_of

    unit = units_of(shifted, gradients=True, update=True)[2]
    everything = unit.looked_at(0, shifted.trained)
    assert {node for step in unit.backward for node in step.sources} <= everything
    assert unit.looked_at(len(unit.backward), shifted.trained) == frozenset(unit.leaves)


def test_an_evaluation_has_no_gradients_and_no_update(shifted: Plan) -> None:
    from cntk_engine_xla.units import units_of

    units = units_of(shifted, gradients=False)
    assert [unit.hosted for unit in units] == [False, True, False]
    assert not any(unit.backward or unit.update or unit.seeds or unit.keeps for unit in units)


def test_the_update_alone(shifted: Plan) -> None:
    from cntk_engine_xla.units import update_unit

    unit = update_unit(shifted)
    assert (unit.steps, unit.arrives, unit.axes) == ((), shifted.trained, ())


@pytest.mark.parametrize("name", sorted(set(SEQUENCE_SAMPLES) - CUT))
def test_networks_that_are_one_function(name: str) -> None:
    from cntk_engine_xla.units import units_of

    plan = _plan(name)
    (unit,) = units_of(plan, gradients=True, update=True)
    assert (unit.hosted, unit.update, unit.seeds) == (False, True, True)
    assert unit.timed == unit.axes
    assert not unit.arrives


@pytest.mark.parametrize("name", ["lstm", "attention", "whole_memory"])
def test_explain_marks_the_steps_of_the_host(name: str) -> None:
    """The engine says which steps these are without compiling anything."""
    from cntk_engine_xla.units import units_of

    plan = _plan(name)
    hosted = XlaEngine().on_host(plan)
    assert {unit.steps[0] for unit in units_of(plan, gradients=True) if unit.hosted} == hosted
    marked = [line for line in explain(plan, hosted=hosted).splitlines() if "(on the host)" in line]
    assert len(marked) == len(hosted)
    assert any("Where" in line for line in marked) == (name == "attention")


# -- the cache ------------------------------------------------------------------------------------------------


@pytest.fixture
def node() -> Node:
    """A node with frames."""
    return SequenceSketch("float32").x


def _cache(*, repeat: bool) -> Any:
    from cntk_engine_xla.value_cache import ValueCache

    return ValueCache(np.dtype(np.float32), lambda _: (2, 4), repeat=repeat)


@pytest.mark.parametrize("repeat", [True, False])
def test_what_the_host_puts_there_gets_a_padding(node: Node, repeat: bool) -> None:
    cache = _cache(repeat=repeat)
    cache[node] = np.array([[1.0], [2.0]])
    found = cache.take(node)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found[:, 0], [1, 2, 1, 1] if repeat else [1, 2, 0, 0])
    assert cache.take(node) is found


def test_what_the_device_puts_there_loses_its_padding(node: Node) -> None:
    cache = _cache(repeat=True)
    cache.put(node, np.arange(4.0)[:, None])
    assert node in cache
    np.testing.assert_array_equal(cache[node], [[0.0], [1.0]])
    cache[node][0] = 5.0  # the host's own copy
    np.testing.assert_array_equal(cache[node], [[5.0], [1.0]])


def test_a_change_in_place_has_to_be_said(node: Node) -> None:
    cache = _cache(repeat=False)
    cache.put(node, np.ones((4, 1)))
    cache[node][1] = 3.0
    np.testing.assert_array_equal(cache.take(node)[:, 0], [1, 1, 1, 1])
    cache.changed(node)
    np.testing.assert_array_equal(cache.take(node)[:, 0], [1, 3, 0, 0])


def test_the_newest_value_counts(node: Node) -> None:
    cache = _cache(repeat=True)
    cache[node] = np.zeros((2, 1))
    cache.put(node, np.ones((4, 1)))
    np.testing.assert_array_equal(cache[node], [[1.0], [1.0]])
    cache[node] = np.full((2, 1), 7.0)
    np.testing.assert_array_equal(cache.take(node)[:, 0], [7, 7, 7, 7])
    assert (len(cache), list(cache)) == (1, [node])
    cache.clear()
    assert (len(cache), list(cache), node in cache) == (0, [], False)


def test_a_sparse_input_stays_beside_its_elements(node: Node) -> None:
    cache = _cache(repeat=True)
    matrix, elements = np.eye(2), (np.arange(2),) * 3
    cache[node] = matrix
    cache.put_beside(node, elements)
    assert cache.take(node) is elements
    assert cache[node] is matrix


def test_what_is_on_one_side_alone_can_be_taken_off(node: Node) -> None:
    cache = _cache(repeat=True)
    for add in (lambda: cache.put(node, np.ones((4, 1))), lambda: cache.__setitem__(node, np.ones((2, 1)))):
        add()
        del cache[node]
        assert node not in cache
    with pytest.raises(KeyError):
        del cache[node]
