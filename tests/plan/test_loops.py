"""Loops of plans: what is in them and what is not, gradients, the text, and loops that are wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recurrent import Maker, elman

from cntk_core.errors import Location, NetworkError, Problems
from cntk_core.ops.families.recurrence import DelayAttributes
from cntk_core.plan.loops import components, direction_of
from cntk_core.plan.make import make_plan
from cntk_core.plan.plan import GradientStep, Loop, LoopGradient, Step
from cntk_kit_engines.explain import explain
from cntk_testing.examples import examples


def names(nodes) -> list[str]:
    return [node.name for node in nodes]


def steps(plan) -> list:
    """Names of the nodes of each step; those of a loop are a list of lists."""
    return [
        [names(part.nodes) for part in step.steps] if isinstance(step, Loop) else names(step.nodes)
        for step in plan.steps
    ]


def loop_gradient(plan) -> LoopGradient:
    (found,) = [step for step in plan.gradients if isinstance(step, LoopGradient)]
    return found


def problem_of(make: Maker, root: str = "h") -> str:
    with pytest.raises(NetworkError) as error:
        components([make.network[root]])
    return str(error.value)


# -- components -------------------------------------------------------------------------------------------


def test_a_loop_is_one_component_and_its_delay_comes_first():
    found = components([elman().network["ce"]])
    (loop,) = [item for item in found if item.direction]
    assert names(loop.nodes) == ["past", "Rh", "sum", "biased", "h"]
    assert all(len(item.nodes) == 1 for item in found if not item.direction)


@pytest.mark.parametrize(("op", "direction"), [("PastValue", 1), ("FutureValue", -1)])
def test_direction(op, direction):
    make = elman(op, step=2)
    (loop,) = [item for item in components([make.network["h"]]) if item.direction]
    assert loop.direction == direction == direction_of(make.network["past"])


@pytest.mark.parametrize(("op", "direction"), [("PastValue", -1), ("FutureValue", 1)])
def test_a_negative_step_turns_a_delay_round(op, direction):
    make = elman(op, step=-1)
    assert direction_of(make.network["past"]) == direction


def test_loops_in_a_row_are_apart_and_in_order():
    make = elman()
    make.delay("past2", op="FutureValue")
    make("h2", "Plus", "past2", "h")
    make.close("past2", "h2")
    loops = [item for item in components([make.network["h2"]]) if item.direction]
    assert [(names(loop.nodes), loop.direction) for loop in loops] == [
        (["past", "Rh", "sum", "biased", "h"], 1),
        (["past2", "h2"], -1),
    ]


def test_two_delays_through_one_node_are_one_loop():
    make = elman()
    make.delay("second", step=2)
    make("h2", "Plus", "h", "second")
    make.close("second", "h2")
    make.close("past", "h2")
    (loop,) = [item for item in components([make.network["h2"]]) if item.direction]
    assert set(names(loop.nodes)) == {"past", "second", "Rh", "sum", "biased", "h", "h2"}
    assert set(names(loop.nodes[:2])) == {"past", "second"}


def test_a_delay_of_itself_is_a_loop():
    make = Maker()
    make.delay("past", 4)
    make.close("past", "past")
    (loop,) = components([make.network["past"]])
    assert (names(loop.nodes), loop.direction) == (["past"], 1)


def test_a_delay_outside_of_a_loop_is_none():
    make = Maker()
    make("before", "PastValue", "x")
    assert [item.direction for item in components([make.network["before"]])] == [0, 0]


@examples(100)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=14))
def test_components_are_what_reaches_each_other(wires):
    """Against the definition, on random wirings where every node may read others, and itself through a delay."""
    make = Maker()
    for index in range(10):
        make(f"n{index}", "RowStack", "x")
    for number, (source, target) in enumerate(wires):
        make(f"d{number}", "PastValue", f"n{source}")
        make.network[f"n{target}"].inputs = [*make.network[f"n{target}"].inputs, make.network[f"d{number}"]]
    nodes = list(make.network)
    reach = {node: set(node.inputs) for node in nodes}
    for middle in nodes:
        for node in nodes:
            if middle in reach[node]:
                reach[node] |= reach[middle]
    found = components(nodes)
    place = {node: index for index, item in enumerate(found) for node in item.nodes}
    assert len(place) == sum(len(item.nodes) for item in found) == len(nodes)
    for node in nodes:
        assert bool(found[place[node]].direction) == (node in reach[node])
        for other in reach[node]:
            assert place[other] <= place[node]
            assert (place[other] == place[node]) == (other is node or node in reach[other])
    for item in found:  # the order of one time step
        done = set()
        for node in item.nodes:
            inside = [child for child in node.inputs if child in item.nodes and node.op.name != "PastValue"]
            assert done.issuperset(inside)
            done.add(node)


# -- loops that are wrong ---------------------------------------------------------------------------------


def test_a_cycle_without_delay_is_named():
    make = Maker()
    make("a", "Sigmoid", "x")
    make("b", "Tanh", "a")
    make("h", "Plus", "b", "x")
    make.network["a"].inputs = [make.network["h"]]
    make.network["a"].where = Location("net.ndl", 3, 5)
    message = problem_of(make)
    cycle = message.partition("the nodes ")[2].partition(" form a cycle without a delay")[0].split(" -> ")
    assert sorted(cycle[:-1]) == ["a", "b", "h"]
    assert cycle[0] == cycle[-1]
    assert message.endswith("A cycle is legal only through PastValue or FutureValue.")


def test_a_node_that_reads_itself():
    make = Maker()
    make("h", "Plus", "x", "x")
    make.network["h"].inputs = [make.network["x"], make.network["h"]]
    make.network["h"].where = Location("net.ndl", 3, 5)
    assert problem_of(make) == (
        "net.ndl:3:5: the nodes h -> h form a cycle without a delay\n"
        "    A cycle is legal only through PastValue or FutureValue."
    )


def test_a_cycle_without_delay_beside_one_with():
    make = elman()
    make("inner", "Plus", "h", "Rh")
    make.network["sum"].inputs = [make.network["Wx"], make.network["inner"]]
    message = problem_of(make)
    cycle = message.partition("the nodes ")[2].partition(" form")[0].split(" -> ")
    assert sorted(cycle[:-1]) == ["biased", "h", "inner", "sum"]


def test_both_directions_in_one_loop():
    make = elman()
    make.delay("ahead", op="FutureValue")
    make("h2", "Plus", "h", "ahead")
    make.close("ahead", "h2")
    make.close("past", "h2")
    make.network["ahead"].where = Location("net.ndl", 9, 1)
    make.network["past"].where = Location("net.ndl", 2, 1)
    message = problem_of(make, "h2")
    assert "goes in both directions of time: " in message
    assert "'past' is PastValue" in message
    assert "'ahead' is FutureValue" in message
    assert message.endswith("Nodes that depend on each other must all wait for the past, or all for the future.")


def test_a_delay_of_no_steps():
    make = elman()
    make.network["past"].attributes = DelayAttributes((3,), time_step=0)
    make.network["past"].where = Location("net.ndl", 2, 1)
    assert problem_of(make) == "net.ndl:2:1: the delay 'past' closes a loop, but waits for 0 time steps"


def test_what_needs_whole_sequences_is_in_no_loop():
    make = elman()
    make("flags", "Where", "past")
    make("mixed", "Plus", "flags", "biased")
    make.network["h"].inputs = [make.network["mixed"]]
    make.network["flags"].where = Location("net.bs", 4, 2)
    message = problem_of(make)
    assert message.startswith("net.bs:4:2: 'flags' (Where) cannot be in the loop of ")
    assert "it needs whole sequences, and a loop is computed one time step after the other" in message
    assert "The second input of PastValue is the state before the first step." in message


@pytest.mark.parametrize(("more", "listed"), [(2, "m0, m1, h"), (3, "m0, m1, m2 and 1 more")])
def test_of_long_loops_eight_nodes_are_named(more, listed):
    make = elman()
    make("flags", "Where", "past")
    before = "biased"
    for index in range(more):
        make(f"m{index}", "Plus", "flags", before)
        before = f"m{index}"
    make.network["h"].inputs = [make.network[before]]
    assert f"the loop of past, flags, Rh, sum, biased, {listed}: it needs" in problem_of(make)


def test_a_cycle_is_looked_for_once_behind_each_node():
    """Thirty sums of a node with itself by two ways: there are 2 ** 30 paths."""
    make = elman()
    before = "biased"
    for index in range(30):
        make(f"left{index}", "Tanh", before)
        make(f"right{index}", "Sigmoid", before)
        make(f"both{index}", "Plus", f"left{index}", f"right{index}")
        before = f"both{index}"
    make.network["h"].inputs = [make.network[before]]
    assert len(components([make.network["h"]])[-1].nodes) == 5 + 90


def test_nodes_of_a_loop_that_another_one_lies_between_are_apart():
    make = Maker()
    make.parameter("W", 4, 3)
    make.parameter("R", 3, 3)
    make.delay("past")
    make("Wx", "Times", "W", "x")
    make("low", "Plus", "Wx", "past")
    make("between", "Times", "R", "low")
    make("h", "Plus", "low", "between")
    make.close("past", "h")
    make.classify("h")
    assert [["past"], ["low"], ["between"], ["h"]] in steps(make.plan())


def test_reconciling_with_the_same_sequences_may_be_in_a_loop():
    make = elman()
    make("again", "ReconcileDynamicAxis", "biased", "x")
    make.network["h"].inputs = [make.network["again"]]
    assert "again" in names(components([make.network["h"]])[-1].nodes)
    make("other", "ReconcileDynamicAxis", "x", "biased")
    make("both", "Plus", "other", "biased")
    make.network["h"].inputs = [make.network["both"]]
    assert "'other' (ReconcileDynamicAxis) cannot be in the loop of " in problem_of(make)


def test_all_wrong_loops_are_told():
    make = elman(step=0)
    make("a", "Sigmoid", "x")
    make.network["a"].inputs = [make.network["a"]]
    make("both", "Plus", "a", "h")
    with pytest.raises(Problems) as error:
        components([make.network["both"]])
    assert len(error.value.errors) == 2


# -- what is in a loop ------------------------------------------------------------------------------------


def test_what_does_not_depend_on_the_loop_is_outside():
    plan = elman().plan()
    assert steps(plan) == [["Wx"], [["past"], ["Rh"], ["sum", "biased", "h"]], ["z"], ["ce"]]
    (loop,) = [step for step in plan.steps if isinstance(step, Loop)]
    assert names(loop.reads) == ["R", "Wx", "b"]
    assert names(loop.delays) == ["past"]
    assert {"past", "h"} <= set(names(loop.writes))


def test_what_only_reads_the_loop_is_outside():
    make = elman()
    make("square", "ElementTimes", "h", "h")
    make.network["z"].inputs = [make.network["V"], make.network["square"]]
    assert ["square"] in steps(make.plan())


def test_what_is_made_of_parameters_alone_is_outside():
    make = elman()
    make.parameter("s", 3)
    make("scale", "Exp", "s")
    make("scaled", "ElementTimes", "scale", "biased")
    make.network["h"].inputs = [make.network["scaled"]]
    plan = make.plan()
    assert ["scale"] in steps(plan)
    place = {
        name: index for index, part in enumerate(steps(plan)) for name in ["loop" if part[0] == ["past"] else part[0]]
    }
    assert place["scale"] < place["loop"]


def test_without_fusion_every_node_of_a_loop_is_a_step():
    plan = elman().plan(fuse=False)
    assert steps(plan)[1] == [["past"], ["Rh"], ["sum"], ["biased"], ["h"]]


def test_a_step_is_not_fused_over_a_delay():
    """What a delay reads is of another time step, though it is element-wise."""
    make = Maker()
    make.parameter("s", 4)
    make.delay("past", 4)
    make("scaled", "ElementTimes", "past", "s")
    make("h", "Plus", "scaled", "x")
    make.close("past", "h")
    make.classify("h", 4)
    assert steps(make.plan())[0] == [["past"], ["scaled", "h"]]


def test_a_constant_in_a_cycle_cuts_it():
    """A node that has its value needs no inputs: what feeds it is no loop."""
    make = elman()
    make.network["past"].value = make.network["b"].value
    assert not any(item.direction for item in components([make.network["h"]], stop_at_constants=True))
    assert any(item.direction for item in components([make.network["h"]]))


# -- gradients --------------------------------------------------------------------------------------------


def test_weights_come_after_the_loop():
    plan = elman().plan()
    loop = loop_gradient(plan)
    assert names(loop.sources) == ["h"]
    assert {target.node.name for target in loop.targets} >= {"Rh", "Wx", "past", "h"}
    assert not {target.node.name for target in loop.targets} & {"W", "R", "b"}
    after = plan.gradients[plan.gradients.index(loop) + 1 :]
    assert {target.node.name for step in after for target in step.targets} == {"W", "R", "b"}
    assert all(isinstance(step, GradientStep) for step in after)
    assert all(plan.sole_writer(plan.network[name]) for name in ("W", "R", "b"))


def test_a_loop_goes_back_against_its_direction_delays_last():
    loop = loop_gradient(elman().plan())
    assert [names(step.step.nodes) for step in loop.steps] == [["sum", "biased", "h"], ["Rh"], ["past"]]
    (target,) = loop.steps[-1].targets
    assert (target.node.name, target.accumulate) == ("h", True)


def test_what_a_later_time_step_adds_to_is_cleared_or_already_there():
    # The softmax layer has written the gradient of h before the loop.
    assert names(loop_gradient(elman().plan()).cleared) == []
    make = Maker()
    make.parameter("W", 4, 3)
    make.delay("past")
    make("Wx", "Times", "W", "x")
    make("h", "Plus", "Wx", "past")
    make("out", "Tanh", "past")  # only the delay is read from outside
    make.close("past", "h")
    make.classify("out")
    loop = loop_gradient(make.plan())
    assert names(loop.cleared) == ["h"]
    assert names(loop.sources) == ["past"]


def test_a_parameter_that_needs_the_time_loop_is_cleared_before():
    make = elman()
    make.parameter("c", 3)
    make("near", "CosDistance", "h", "c")
    make("joined", "Plus", "h", "near")
    make.close("past", "joined")
    make.network["z"].inputs = [make.network["V"], make.network["joined"]]
    plan = make.plan()
    loop = loop_gradient(plan)
    assert "c" in names(loop.cleared)
    (target,) = [target for step in loop.steps for target in step.targets if target.node.name == "c"]
    assert target.accumulate


def test_the_initial_state_comes_after_the_loop():
    plan = elman("PastValue", "h0").plan()
    loop = loop_gradient(plan)
    assert "h0" not in {target.node.name for target in loop.targets}
    after = plan.gradients[plan.gradients.index(loop) + 1 :]
    (step,) = [step for step in after if any(target.node.name == "h0" for target in step.targets)]
    assert names(step.sources) == ["past"]


def test_a_frozen_loop_has_no_gradients():
    make = elman()
    for name in ("W", "R", "b", "h0"):
        make.network[name].learning_rate_multiplier = 0.0
    plan = make.plan()
    assert names(plan.trained) == ["V"]
    assert not any(isinstance(step, LoopGradient) for step in plan.gradients)


def test_a_shared_matrix_is_summed():
    make = elman()
    make("again", "Times", "R", "h")
    make.network["z"].inputs = [make.network["V"], make.network["again"]]
    plan = make.plan()
    weights = [target for step in plan.gradients for target in step.targets if target.node.name == "R"]
    assert [(target.accumulate, target.last) for target in weights] == [(False, False), (True, True)]


def test_a_criterion_that_the_loop_looks_at_is_fed_back():
    assert not elman().plan().fed_back
    make = Maker()
    make.parameter("W", 4, 3)
    make.parameter("V", 3, 1)
    make.delay("past", 1)
    make("Wx", "Times", "W", "x")
    make("wide", "Plus", "Wx", "past")
    make("cost", "Times", "V", "wide")
    make.close("past", "cost")
    make.network.infer()
    assert make_plan(make.network, [make.network["Wx"]], make.network["cost"]).fed_back


def test_evaluation_has_no_gradients():
    plan = elman().plan(training=False)
    assert plan.gradients == ()
    assert steps(plan)[1] == [["past"], ["Rh"], ["sum", "biased", "h"]]


def test_buffers_of_a_loop_are_its_own_for_all_time_steps():
    plan = elman().plan()
    (loop,) = [step for step in plan.steps if isinstance(step, Loop)]
    used = [plan.value_buffer[node] for node in loop.writes]
    assert len(set(used)) == len(used)


# -- the text ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "forward", "back"),
    [("PastValue", "first to last", "last to first"), ("FutureValue", "last to first", "first to last")],
)
def test_explain_shows_the_loop(op, forward, back):
    lines = explain(elman(op).plan(), frames=10).splitlines()
    at = lines.index(f"    1  loop over the time steps, {forward}, 3 steps each:")
    assert lines[at + 1].startswith(f"         {op} past [3 x *] -> past in b")
    assert lines[at + 2].startswith("         Times Rh [3 x *] -> Rh in b")
    assert lines[at + 3].startswith("         fused: Plus sum + Plus biased + Tanh h [3 x *] -> h in b")
    assert any(f"loop over the time steps, {back}, 3 steps each:" in line for line in lines[at + 4 :])
    assert "  R [3 x 3]: one product, the update may be folded into it" in lines


def test_a_plan_of_a_wrong_loop_is_refused():
    make = elman()
    make.network.infer()
    make.network["Rh"].inputs = [make.network["R"], make.network["h"]]
    with pytest.raises(NetworkError, match="form a cycle without a delay"):
        make_plan(make.network, [make.network["z"]])


def test_steps_of_loops_are_ordinary_ones():
    plan = elman().plan()
    (loop,) = [step for step in plan.steps if isinstance(step, Loop)]
    assert all(isinstance(step, Step) for step in loop.steps)
    done = {*plan.inputs, *plan.parameters, plan.network["Wx"]}
    assert set(loop.reads) <= done
