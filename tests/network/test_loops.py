"""Shapes and dynamic axes through delays, deep networks, and loops that are wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loop_networks import Maker, lstm, rnn

from cntk_core.errors import CntkError, Problems, ShapeError
from cntk_core.network.components import components, is_loop
from cntk_core.network.model_file import load_model, save_model
from cntk_core.network.node import Parameter
from cntk_core.ops.families.reshaping import ReshapeAttributes
from cntk_core.ops.families.slicing import SliceAttributes
from cntk_core.ops.table import core_ops
from cntk_core.plan.make import make_plan
from cntk_kit_builders.draw import to_svg
from cntk_kit_engines.explain import explain


@pytest.mark.parametrize("dims", [(), (0,), (3,)])
def test_dimensions_go_round_a_loop(dims):
    network = rnn(3, dims).network
    network.infer()
    assert {name: network[name].shape for name in ("past", "h", "W", "R", "b")} == {
        "past": (3,),
        "h": (3,),
        "W": (4, 3),
        "R": (3, 3),
        "b": (3,),
    }
    assert network["past"].framed
    assert network["h"].describe() == "h = Sigmoid (sum) : [3 x *]"


def test_declared_dimensions_give_way_to_the_inputs():
    make = rnn(3, (7,))
    make.network.infer()
    assert make.network["past"].shape == (3,)


def test_inferring_twice_changes_nothing():
    network = lstm(2).network
    network.infer()
    before = {node.name: node.shape for node in network}
    network.infer()
    assert before == {node.name: node.shape for node in network}


def test_eight_layers_are_completed():
    network = lstm(8).network
    network.infer()
    assert all(0 not in parameter.known_shape for parameter in network.parameters)
    assert network["iW0"].shape == (5, 8)
    assert network["iW7"].shape == (8, 8)
    assert network["fd3"].shape == (8,)


def test_components_come_after_what_they_read():
    network = lstm(3).network
    seen: set[object] = set()
    loops = 0
    for members in components(network):
        inside = set(members)
        assert all(child in seen or child in inside for node in members for child in node.inputs)
        seen |= inside
        loops += is_loop(members)
    assert loops == 3
    assert seen == set(network)


def test_the_order_has_what_only_a_delay_reads():
    network = rnn().network
    order = network.order([network["past"]])
    assert {node.name for node in order} == {node.name for node in network}
    place = {node: index for index, node in enumerate(order)}
    for node in order:
        for child in node.inputs[1:] if node.op.name == "PastValue" else node.inputs:
            assert place[child] < place[node]


def test_a_chain_of_thousands_of_nodes():
    make = Maker()
    node = make.input("x", 3)
    for index in range(5000):
        node = make(f"n{index}", "Sigmoid", node)
    make.network.infer()
    assert node.shape == (3,)


def test_a_loop_of_thousands_of_nodes():
    make = Maker()
    past = make.past("past")
    node = make("in", "Plus", make.input("x", 3), past)
    for index in range(5000):
        node = make(f"n{index}", "Sigmoid", node)
    past.inputs = [node]
    make.network.infer()
    assert past.shape == (3,)


def test_thousands_of_delays_in_one_loop():
    make = Maker()
    first = make.past("first")
    node = make("in", "Plus", make.input("x", 3), first)
    for index in range(3000):
        delay = make.past(f"d{index}")
        delay.inputs = [node]
        node = make(f"n{index}", "Sigmoid", delay)
    first.inputs = [node]
    make.network.infer()
    assert first.shape == (3,)


def test_a_counter_takes_its_dimension_from_a_constant():
    make = Maker()
    past = make.past("past")
    one = make("one", "Reciprocal", make.input("x", 1))
    past.inputs = [make("count", "Plus", past, one)]
    make.network.infer()
    assert past.shape == (1,)


def test_a_number_beside_an_unknown_value_does_not_decide():
    make = Maker()
    past = make.past("past")
    scale = make("scaled", "ElementTimes", make.parameter("s", 1), past)
    past.inputs = [make("h", "Plus", make.input("x", 5), scale)]
    make.network.infer()
    assert past.shape == (5,)


def test_four_gates_in_one_product():
    make = Maker()
    past = make.past("past")
    product = make("p", "Times", make.parameter("R", 0, 12), past)
    joined = make("j", "Plus", product, make("q", "Times", make.parameter("W", 0, 12), make.input("x", 5)))
    part = make("part", "Slice", joined, attributes=SliceAttributes(3, 6))
    past.inputs = [make("h", "Tanh", part)]
    make.network.infer()
    assert make.network["R"].shape == (3, 12)


@given(st.integers(1, 4), st.integers(1, 4))
def test_a_loop_over_a_matrix(rows, columns):
    make = Maker()
    past = make.past("past")
    past.inputs = [make("h", "Plus", make.input("x", columns, rows), make("r", "Sigmoid", past))]
    make.network.infer()
    assert past.shape == (columns, rows)


# -- what is wrong ----------------------------------------------------------------------------------------


def message(make: Maker) -> str:
    with pytest.raises(CntkError) as error:
        make.network.infer()
    return str(error.value)


def test_a_loop_that_nothing_feeds():
    make = Maker()
    past = make.past("past")
    past.inputs = [make("h", "Sigmoid", past)]
    assert message(make) == (
        "the dimensions of 'past', 'h' cannot be inferred: in their loop each depends on the others\n"
        "    Give the dimensions of PastValue 'past'."
    )


def test_a_loop_without_frames():
    make = Maker()
    past = make.past("past", 3)
    past.inputs = [make("h", "Sigmoid", past)]
    assert message(make) == "PastValue 'past' looks along sequences, but its input 'h' has no dynamic axis"


def test_a_loop_whose_operands_do_not_fit():
    make = Maker()
    past = make.past("past", 4)
    past.inputs = [make("h", "Plus", make("a", "Times", make.parameter("R", 4, 3), past), make.input("x", 5))]
    text = message(make)
    assert text.splitlines()[0] == "Plus 'h': the shapes [3] and [5] do not fit: axis 1 is 3 and 5"


def test_a_loop_that_grows():
    make = Maker()
    past = make.past("past", 2)
    past.inputs = [make("h", "RowStack", past, make.input("x", 2))]
    assert message(make).splitlines()[0] == "the dimensions of PastValue 'past' do not settle: [40], then [42]"


def test_a_cycle_without_delay_names_its_nodes():
    make = Maker()
    a = make("a", "Sigmoid")
    b = make("b", "Tanh", a)
    a.inputs = [b]
    assert message(make).splitlines()[0] == "the nodes a -> b -> a form a cycle without a delay"


def test_an_initial_state_closes_no_loop():
    make = Maker()
    x = make.input("x", 3)
    past = make.past("past")
    past.inputs = [x, make("h", "Sigmoid", past)]
    assert "form a cycle without a delay" in message(make)


def test_a_delay_without_input():
    make = Maker()
    make.past("past")
    assert message(make) == "PastValue 'past' takes 1 to 2 inputs, not 0"


def test_a_delay_of_itself_has_no_sequences():
    make = Maker()
    past = make.past("past", 3)
    past.inputs = [past]
    assert message(make) == "PastValue 'past' looks along sequences, but its input 'past' has no dynamic axis"


def test_a_delay_of_no_step():
    make = Maker()
    past = make.past("past", time_step=0)
    past.inputs = [make.input("x", 3)]
    assert message(make).splitlines()[0] == "PastValue 'past': timeStep must be at least 1, not 0"


def test_what_depends_on_a_broken_loop_is_not_complained_about():
    make = Maker()
    past = make.past("past")
    past.inputs = [make("h", "Sigmoid", past)]
    make("after", "Times", make.parameter("W", 0, 2), past)
    with pytest.raises(ShapeError):
        make.network.infer()


def test_two_broken_loops_are_named_at_once():
    make = Maker()
    for name in "ab":
        past = make.past(name)
        past.inputs = [make(f"{name}h", "Sigmoid", past)]
    with pytest.raises(Problems) as error:
        make.network.infer()
    assert len(error.value.errors) == 2


def test_different_dynamic_axes_are_named():
    make = Maker()
    x, y = make.input("x", 3, axis="text"), make.input("y", 3)
    make("sum", "Plus", make("s", "Sigmoid", x), y)
    assert message(make) == (
        "Plus 'sum': its inputs have different dynamic axes: 's' has the axes [batch, sequence 'text'], "
        "'y' has the axes [batch, sequence]\n"
        "    ReconcileDynamicAxis(s, y) gives the first the axis of the second, if their sequences are equally long."
    )


def test_weights_without_dynamic_axis_are_asked_for():
    make = Maker()
    make("y", "LookupTable", make.input("table", 5, 3), make.input("x", 5))
    assert message(make) == (
        "input 1 of LookupTable 'y', 'table', has a dynamic axis; it must be a parameter or a constant"
    )


def test_an_axis_that_the_data_decide_may_meet_another():
    make = Maker()
    x, y = make.input("x", 1, axis="text"), make.input("y", 1)
    last = make("last", "GatherPacked", make("index", "PackedIndex", x, make("where", "Where", x)), x)
    both = make("both", "Plus", make("s", "Sigmoid", last), y)
    make.network.infer()
    assert both.axis == "where"


def test_axes_that_ops_make_and_take():
    make = Maker()
    x, mask = make.input("x", 3), make.input("mask", 1)
    where = make("where", "Where", mask)
    index = make("index", "PackedIndex", mask, where)
    chosen = make("chosen", "GatherPacked", index, x)
    back = make("back", "ScatterPacked", mask, index, chosen)
    there = make("there", "ReconcileDynamicAxis", x, chosen)
    make("sum", "Plus", chosen, there)
    make.network.infer()
    assert [node.axis for node in (where, index, chosen, back, there)] == ["where", "where", "where", "", "where"]
    assert chosen.shape == (3,)


def test_a_delay_takes_its_axis_from_the_value_not_from_the_initial_state():
    make = Maker()
    past = make.past("past")
    past.inputs = [make.input("x", 3), make.input("start", 3, axis="one")]
    make.network.infer()
    assert past.axis == ""
    make("sum", "Plus", past, make.network["start"])
    assert "different dynamic axes" in message(make)


# -- what works on networks with loops ----------------------------------------------------------------------


def test_a_loop_is_saved_and_loaded(tmp_path):
    import numpy as np

    network = lstm(2).network
    network.infer()
    for parameter in network.parameters:
        parameter.value = np.ones(parameter.known_shape)
    network.mark(network["h1"], "output")
    save_model(network, tmp_path / "m")
    loaded = load_model(tmp_path / "m", core_ops().find)
    assert [node.describe() for node in loaded] == [node.describe() for node in network]
    assert loaded["ph0"].attributes == network["ph0"].attributes
    assert loaded["ph0"].inputs == [loaded["h0"]]


def test_a_loop_is_drawn_and_explained():
    network = rnn().network
    network.infer()
    assert to_svg(network).startswith("<svg")
    assert "PastValue past" in explain(make_plan(network, [network["h"]], runnable=False))


def test_a_reshape_in_a_loop():
    make = Maker()
    past = make.past("past")
    flat = make("flat", "Reshape", past, attributes=ReshapeAttributes((6,)))
    past.inputs = [make("h", "Plus", make.input("x", 6), flat)]
    make.network.infer()
    assert past.shape == (6,)
    assert not [node for node in make.network if isinstance(node, Parameter)]
