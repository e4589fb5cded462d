"""Blocks made, called on other arguments, replaced, and carried along by copies and edits."""

from __future__ import annotations

import numpy as np
import pytest
from layer_networks import add, dense, names, placeholder, two_layers, value

from cntk_core.errors import NetworkError, Problems, ShapeError
from cntk_core.network.blocks import Block, nest
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Parameter, Placeholder
from cntk_kit_builders.blocks import as_block, call_block, describe_block, find_block, reads_of, replace_block
from cntk_kit_builders.derivatives.differentiate import differentiate
from cntk_kit_builders.edit import (
    check_links,
    complete_network,
    copy_nodes,
    copy_sub_tree,
    remove_nodes,
    replace_node,
    set_input,
)
from cntk_kit_builders.patterns import paired_names
from cntk_kit_builders.svd import reduce_network

# -- making -----------------------------------------------------------------------------------------------


def test_what_depends_on_the_arguments_is_inside() -> None:
    network = two_layers()
    one = find_block(network, "ONE")
    assert (one.kind, names(one.nodes), names(one.outputs)) == (
        "Dense",
        ["one.times", "one.sum", "one.out"],
        ["one.out"],
    )
    assert one.operands == {"x": network["x"]}
    assert describe_block(one) == "one = Dense (x) : [3 x *]"
    assert network.placeholders == []


def test_an_argument_given_twice_stays_two_arguments() -> None:
    network = two_layers()
    a, b = placeholder(network, "a"), placeholder(network, "b")
    minus = add(network, "minus", "Minus", a, b)
    made = as_block(network, [minus], {b: network["x"], a: network["x"]}, "Minus")
    assert made.name == "Minus"
    assert made.arguments == {"b": [(minus, 1)], "a": [(minus, 0)]}
    other = call_block(network, made, {"a": network["x"], "b": network["y"]}).outputs[0]
    assert other.inputs == [network["x"], network["y"]]


def test_values_from_around_are_read_and_not_owned() -> None:
    network = two_layers()
    inside = placeholder(network, "p")
    around = add(network, "around", "Tanh", network["y"])
    scale = network.add(Parameter.make("scale", (1,), value=np.ones(1)))
    factor = add(network, "factor", "Exp", scale)
    other = add(network, "other factor", "Exp", scale)
    add(network, "user", "ElementTimes", other, network["y"])
    product = add(network, "product", "ElementTimes", factor, inside)
    made = as_block(
        network,
        [add(network, "sum", "Plus", add(network, "p2", "ElementTimes", other, product), around)],
        {inside: network["x"]},
        "Odd",
    )
    # The one factor is for the block alone; the other one has another reader.
    assert set(names(made.nodes)) == {"factor", "product", "p2", "sum"}
    assert names(reads_of(made)) == ["scale", "other factor", "around"]


@pytest.mark.parametrize("source", ["the argument", "a parameter", "a value from around"])
def test_an_output_that_is_no_result_of_the_block_gets_a_node(source: str) -> None:
    network = two_layers()
    inside = placeholder(network, "p")
    result = add(network, "result", "Tanh", inside)
    passed = {"the argument": inside, "a parameter": network["one.b"], "a value from around": network["one.out"]}
    made = as_block(network, [result, passed[source]], {inside: network["y"]}, "Odd", "odd", ["z"])
    output = made.outputs[1]
    assert (output.name, output.op.name) == ("odd.output", "Pass")
    assert output.inputs == [network["y"] if source == "the argument" else passed[source]]
    assert made.operands == {"z": network["y"]}
    assert len(made.places("z")) == (2 if source == "the argument" else 1)


def test_a_block_inside_a_block_is_there_as_a_whole() -> None:
    """Also what of it does not reach the outputs."""
    network = two_layers()
    inside, argument = placeholder(network, "p"), placeholder(network, "q")
    first, second = (add(network, name, "Tanh", argument) for name in ("first", "second"))
    inner = as_block(network, [first, second], {argument: inside}, "Pair")
    outer = as_block(network, [add(network, "top", "Exp", first)], {inside: network["x"]}, "Top")
    assert names(outer.nodes) == ["first", "second", "top"]
    assert nest(network.blocks)[inner] is outer


def test_a_loop_through_a_block() -> None:
    """``h = f (x, PastValue (h))``: an argument is a value of the block itself."""
    network = Network()
    x = network.add(Input.make("x", (3,)))
    a, later = placeholder(network, "a"), placeholder(network, "later")
    h = add(network, "h", "Plus", a, add(network, "before", "PastValue", later))
    made = as_block(network, [h], {a: x, later: h}, "Sum")
    network.infer()
    assert set(names(made.nodes)) == {"h", "before"}
    assert made.operands == {"a": x, "later": h}


def test_what_is_no_function_of_its_arguments() -> None:
    network = two_layers()
    inside, other = placeholder(network, "p"), placeholder(network, "q")
    result = add(network, "result", "Tanh", inside)
    x, strange = network["x"], Input.make("x", (4,))
    for outputs, arguments, message in (
        ([result], {inside: x, other: x}, "the block 'f' does not read its argument 'q'"),
        ([], {inside: x}, "the block 'f' has no output"),
        ([result], {inside: strange}, "'x' is no node of this network"),
        ([strange], {}, "'x' is no node of this network"),
    ):
        with pytest.raises(NetworkError) as caught:
            as_block(network, outputs, arguments, "f")
        assert str(caught.value) == message
    for own in (["a"], ["a", "a"]):
        with pytest.raises(NetworkError) as caught:
            as_block(network, [result], {inside: x, other: x}, "f", names=own)
        assert str(caught.value) == f"the block 'f' needs a name for each of its 2 arguments, not {own}"
    size = len(network)
    said = Placeholder.make("said", (3,))
    network.add(said)
    with pytest.raises(ShapeError):
        as_block(network, [said, add(network, "r2", "Tanh", said)], {said: x}, "f")
    network.remove(network["r2"])
    network.remove(said)
    assert len(network) == size
    with pytest.raises(Problems) as both:
        as_block(network, [network["x"]], {inside: x, other: x}, "f")
    assert "2 problems found" in str(both.value)
    assert network.placeholders == [inside, other]
    assert len(network.blocks) == 2


def test_a_block_that_is_not_there() -> None:
    network = two_layers()
    with pytest.raises(NetworkError) as caught:
        find_block(network, "tow")
    assert str(caught.value) == "the network has no block 'tow'; did you mean 'two'?"
    find_block(network, "two").name = "one"
    with pytest.raises(NetworkError) as caught:
        find_block(network, "One")
    assert str(caught.value) == "the network has 2 blocks 'One'\n    Choose one from network.blocks."


# -- using ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parameters", ["shared", "learnable", "constant"])
def test_a_block_is_called_once_more(parameters: str) -> None:
    network = two_layers()
    one = find_block(network, "one")
    made = call_block(network, one, [network["x"]], parameters=parameters, name="again")
    before, after = value(network, one.outputs[0], made.outputs[0])
    np.testing.assert_array_equal(before, after)
    assert (made.name, made.kind, names(made.nodes)) == ("again", "Dense", ["again.times", "again.sum", "again.out"])
    shared = parameters == "shared"
    assert made.outputs[0].inputs[0].inputs[1] is (network["one.b"] if shared else network["again.b"])
    assert ("again.W" in network) is not shared
    if not shared:
        assert network["again.W"].value is not network["one.W"].value
        assert network["again.W"].learning_rate_multiplier == (0 if parameters == "constant" else 1)
    other = call_block(network, one, {"x": network["y"]}, parameters=parameters)
    assert other.name == "one"
    assert names(other.nodes)[0] == "one.times2"
    assert not np.array_equal(*value(network, one.outputs[0], other.outputs[0]))


def test_a_block_with_blocks_is_called_once_more() -> None:
    network = two_layers()
    both = dict.fromkeys(node for block in network.blocks for node in block.nodes)
    outer = network.add_block(Block("net", "Net", both, [network["two.out"]], {"x": [(network["one.times"], 1)]}))
    made = call_block(network, outer, [network["y"]], name="copy", parameters="learnable")
    assert [block.name for block in network.blocks] == ["one", "two", "net", "copy.one", "copy.two", "copy"]
    assert [nest(network.blocks)[block] for block in network.blocks[3:5]] == [made, made]
    assert names(made.nodes)[0] == "copy.one.times"
    assert network.blocks[4].operands["x"] is network.blocks[3].outputs[0]


def test_a_recurrence_is_called_on_something_wider() -> None:
    """What its loop was guessed from is forgotten."""
    network = Network(np.float64)
    x, wide = network.add(Input.make("x", (2,))), network.add(Input.make("wide", (5,)))
    inside, later = placeholder(network, "p"), placeholder(network, "later")
    h = add(network, "h", "Plus", inside, add(network, "before", "PastValue", later))
    network.replace_placeholders({later: h})
    made = as_block(network, [h], {inside: x}, "Sum")
    network.infer()
    other = call_block(network, made, [wide], name="wide sum").outputs[0]
    assert value(network, other)[0].shape == (3, 5)


def test_what_belongs_to_a_block_through_a_computed_value_is_copied() -> None:
    network = two_layers()
    inside = placeholder(network, "p")
    scale = network.add(Parameter.make("s.scale", (1,), value=np.ones(1)))
    factor = add(network, "s.factor", "Exp", scale)
    add(network, "user", "ElementTimes", factor, network["y"])  # so that the factor is not inside
    made = as_block(
        network, [add(network, "s.out", "ElementTimes", factor, inside)], {inside: network["x"]}, "Scale", "s"
    )
    assert names(made.nodes) == ["s.out"]
    other = call_block(network, made, [network["x"]], parameters="learnable", name="t")
    assert names(other.outputs[0].inputs) == ["t.factor", "x"]
    assert network["t.factor"].inputs == [network["t.scale"]]


def test_what_is_called_wrongly() -> None:
    network = two_layers()
    one = find_block(network, "one")
    x = network["x"]
    for operands, parameters, message in (
        ([], "shared", "the block 'one' has the arguments (x), not 0"),
        ([x, x], "shared", "the block 'one' has the arguments (x), not 2"),
        ({"y": x}, "shared", "the block 'one' has the arguments (x), not y"),
        ({}, "shared", "the block 'one' has the arguments (x), not none"),
        ([Input.make("x", (4,))], "shared", "'x' is no node of this network"),
        (
            [x],
            "share",
            "parameters of a copy cannot be 'share'; did you mean 'shared'?\n    Accepted: learnable, constant, shared",
        ),
    ):
        with pytest.raises(NetworkError) as caught:
            call_block(network, one, operands, parameters=parameters)
        assert str(caught.value) == message
    assert len(network.blocks) == 2
    for use in (lambda: call_block(two_layers(), one, [x]), lambda: replace_block(two_layers(), one, [])):
        with pytest.raises(NetworkError) as caught:
            use()
        assert str(caught.value) == (
            "the block 'one' is not in this network\n    Copy its nodes into it, with clone(...)."
        )


def test_a_block_is_replaced() -> None:
    network = two_layers()
    replace_block(network, find_block(network, "one"), [add(network, "new", "Slice", network["x"], begin=0, end=3)])
    assert names(find_block(network, "two").operands.values()) == ["new"]
    assert names(network) == ["x", "y", "two.W", "two.b", "two.times", "two.sum", "two.out", "new"]
    assert [block.name for block in network.blocks] == ["two"]
    network.infer()


def test_a_block_that_is_a_root_is_replaced() -> None:
    network = two_layers()
    replace_block(network, find_block(network, "two"), [network["one.out"]])
    assert network.roots["output"] == [network["one.out"]]
    assert "two.W" not in network


def test_a_block_is_replaced_by_what_is_made_of_it() -> None:
    network = two_layers()
    one = find_block(network, "one")
    replace_block(network, one, [add(network, "more", "Tanh", one.outputs[0])])
    assert one in network.blocks
    assert names(find_block(network, "two").operands.values()) == ["more"]
    assert network["more"].inputs == [one.outputs[0]]
    with pytest.raises(NetworkError) as caught:
        replace_block(network, one, [])
    assert str(caught.value) == "the block 'one' has 1 outputs, not 0"


def test_parameters_that_others_read_stay() -> None:
    network = two_layers()
    one = find_block(network, "one")
    call_block(network, one, [network["y"]], name="copy")
    replace_block(network, one, [network["copy.out"]])
    assert "one.W" in network
    assert [block.name for block in network.blocks] == ["two", "copy"]


# -- edits ------------------------------------------------------------------------------------------------


def test_copies_of_nodes_are_in_copies_of_blocks() -> None:
    network = two_layers()
    copy_nodes(paired_names(network, "one.*", "new.*"), network, source=network)
    made = network.blocks[-1]
    assert (made.kind, names(made.nodes)) == ("Dense", ["new.times", "new.sum", "new.out"])
    set_input(network, network["new.times"], 1, network["y"])  # the copy's argument comes with an edit
    check_links(network)
    assert made.operands == {"x": network["y"]}


def test_a_copied_tree_takes_blocks_along() -> None:
    network, other = two_layers(), Network(np.float64)
    copy_sub_tree([network["two.out"]], network, other, "c.")
    assert [(block.name, names(block.operands.values())) for block in other.blocks] == [
        ("c.one", ["c.x"]),
        ("c.two", ["c.one.out"]),
    ]
    assert len(network.blocks) == 2


def test_nodes_that_are_overwritten_stay_in_their_block() -> None:
    network, other = two_layers(), two_layers()
    copy_nodes(paired_names(network, "one.*", "one.*"), other, source=network)
    copy_nodes(paired_names(network, "*", "*"), other, source=network, values_only=True)
    assert [block.name for block in other.blocks] == ["one", "two"]


def test_a_part_of_a_block_is_copied() -> None:
    network, other = two_layers(), Network(np.float64)
    copy_nodes([(network["one.out"], "out")], other, source=network)
    assert [(block.name, names(block.nodes), block.operands) for block in other.blocks] == [("one", ["out"], {})]
    third = Network(np.float64)
    copy_nodes([(network["one.times"], "times")], third, source=network)
    assert third.blocks == []  # without an output there is no block


def test_the_inside_is_edited() -> None:
    network = two_layers()
    replace_node(network, network["one.out"], add(network, "tanh", "Tanh", network["one.sum"]))
    remove_nodes(network, [network["one.out"]])
    assert [block.name for block in network.blocks] == ["two"]
    complete_network(network)


def test_what_decomposes_a_matrix_stays_in_the_block() -> None:
    network = two_layers()
    reduce_network(network, {"one[.]W": 1.0})
    one = find_block(network, "one")
    assert names(one.nodes) == ["one.times", "one.sum", "one.out", "one.W_SVD"]
    assert one.operands == {"x": network["x"]}
    assert one.places("x") == [(network["one.W_SVD"], 1)]


def test_what_several_blocks_read_stays_where_it_is() -> None:
    """The same matrix times the same input, in two blocks: the new product cannot be inside of both."""
    network = two_layers()
    call_block(network, find_block(network, "one"), [network["x"]], name="other")
    reduce_network(network, {"one[.]W": 1.0})
    network.infer()
    nest(network.blocks)
    assert "one.W_SVD" in names(find_block(network, "one").nodes)
    assert find_block(network, "other").operands == {"x": network["one.W_SVD"]}


def test_a_derivative_has_the_blocks_of_what_is_derived() -> None:
    network = two_layers()
    made = differentiate(network, "two.out", "x")
    assert [(block.name, names(block.operands.values())) for block in made.blocks] == [
        ("one", ["x"]),
        ("two", ["one.out"]),
    ]
    assert made.blocks[0].operands["x"] is made["x"]


def test_layers_can_be_made_in_any_number() -> None:
    network = Network(np.float64)
    x = network.add(Input.make("x", (3,)))
    for number in range(30):
        x = dense(network, x, f"layer{number}").outputs[0]
    assert len(network.blocks) == 30
