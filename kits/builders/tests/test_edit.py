"""Editing a network: what changes, what stays, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cntk_core.errors import CntkError, DataError
from cntk_core.network.initializers import FixedValue
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node, Parameter
from cntk_core.ops.language.op import Op
from cntk_core.ops.language.traits import Traits
from cntk_core.ops.table import core_ops
from cntk_kit_builders.edit import (
    check_links,
    complete_network,
    copy_inputs,
    copy_nodes,
    copy_sub_tree,
    freeze_statistics,
    remove_nodes,
    rename_nodes,
    replace_node,
    revise_parameter,
    set_input,
    set_inputs,
    set_learning_rate,
    set_needs_gradient,
    set_role,
    sub_tree,
    users_of,
)
from cntk_kit_builders.first_values.initializers import initializer

OPS = core_ops()

PAST = Op("PastValue", (1, 1), lambda shapes, attributes: shapes[0], traits=Traits(delay=1))


def node(name: str, op: str, *inputs: Node) -> Node:
    found = OPS.find("model", op)
    assert found is not None
    return Node(name, found, list(inputs), attributes=found.attributes())


def make_network() -> Network:
    network = Network()
    x = network.add(Input.make("x", (4,)))
    y = network.add(Input.make("y", (3,)))
    w0 = network.add(Parameter.make("L1.W", (4, 3), value=np.arange(12.0).reshape(4, 3)))
    t0 = network.add(node("L1.T", "Times", w0, x))
    s0 = network.add(node("L1.S", "Sigmoid", t0))
    w1 = network.add(Parameter.make("L2.W", (3, 3), value=np.eye(3)))
    t1 = network.add(node("L2.T", "Times", w1, s0))
    ce = network.add(node("ce", "CrossEntropyWithSoftmax", y, t1))
    for member, role in ((x, "feature"), (y, "label"), (ce, "criterion"), (t1, "output")):
        network.mark(member, role)
    network.infer()
    return network


@pytest.fixture
def network() -> Network:
    return make_network()


def names(nodes: list[Node]) -> list[str]:
    return [item.name for item in nodes]


def links(network: Network, name: str) -> list[str]:
    return names(network[name].inputs)


def text_of(error: pytest.ExceptionInfo[CntkError]) -> str:
    return str(error.value)


# -- looking ----------------------------------------------------------------------------------------------


def test_sub_tree_and_users(network: Network) -> None:
    assert set(names(sub_tree([network["L1.S"]]))) == {"L1.S", "L1.T", "L1.W", "x"}
    assert set(names(sub_tree([network["L2.T"]], stop=[network["L1.S"]]))) == {"L2.T", "L2.W", "L1.S"}
    assert names(users_of(network, network["L1.S"])) == ["L2.T"]


def test_sub_tree_of_a_loop_ends(network: Network) -> None:
    delay = network.add(
        Node(
            "d",
            PAST,
            [network["L1.T"]],
        )
    )
    network["L1.T"].inputs.append(delay)
    assert set(names(sub_tree([delay]))) == {"d", "L1.T", "L1.W", "x"}


# -- copying ----------------------------------------------------------------------------------------------


def test_copy_links_what_is_copied_together(network: Network) -> None:
    pairs = [(network[f"L1.{part}"], f"N.{part}") for part in ("W", "T", "S")]
    copy_nodes(pairs, network)
    assert links(network, "N.S") == ["N.T"]
    assert network["N.T"].inputs[0] is network["N.W"]
    np.testing.assert_array_equal(network["N.W"].value, network["L1.W"].value)
    assert network["N.W"].value is not network["L1.W"].value
    with pytest.raises(CntkError) as error:
        check_links(network)
    assert text_of(error) == (
        "input 1 of Times 'N.T' leads nowhere: 'x' was not copied with it\n"
        "    Link input 1 of 'N.T' to another node, or remove 'N.T' too."
    )
    set_input(network, network["N.T"], 1, network["x"])
    complete_network(network)
    assert network["N.S"].shape == (3,)


def test_copy_over_existing_nodes_keeps_their_other_links(network: Network) -> None:
    network["L1.W"].learning_rate_multiplier = 0.5
    other = network.add(Input.make("x2", (4,)))
    w = network.add(Parameter.make("N.W", (4, 3), value=np.zeros((4, 3))))
    t = network.add(node("N.T", "Times", network["L1.W"], other))
    copy_nodes([(network["L1.W"], "N.W"), (network["L1.T"], "N.T")], network)
    assert t.inputs == [w, other]
    assert w.learning_rate_multiplier == 0.5
    np.testing.assert_array_equal(w.value, network["L1.W"].value)


def test_copy_of_values_keeps_all_links(network: Network) -> None:
    w = network.add(Parameter.make("N.W", (4, 3), FixedValue(0)))
    t = network.add(node("N.T", "Times", w, network["x"]))
    copy_nodes([(network["L1.W"], "N.W"), (network["L1.T"], "N.T")], network, values_only=True)
    assert t.inputs == [w, network["x"]]
    assert w.value is not None


def test_copy_into_another_network_converts_the_precision(network: Network) -> None:
    other = Network(np.float64)
    copies = copy_sub_tree([network["L1.S"]], network, other, "copy.")
    assert names(copies) == ["copy.x", "copy.L1.W", "copy.L1.T", "copy.L1.S"]
    complete_network(other)
    assert other["copy.L1.W"].value.dtype == np.float64
    assert all(item in list(other) for item in sub_tree([other["copy.L1.S"]]))
    assert [node.describe() for node in network] == [node.describe() for node in make_network()]


def test_copy_of_a_loop(network: Network) -> None:
    delay = network.add(
        Node(
            "d",
            PAST,
            [network["L1.T"]],
        )
    )
    network["L1.T"].inputs[1] = delay
    copy_sub_tree([network["L1.S"]], network, network, "c.")
    assert network["c.d"].inputs == [network["c.L1.T"]]
    assert network["c.L1.T"].inputs[1] is network["c.d"]


@pytest.mark.parametrize(
    ("source", "target", "values_only", "message"),
    [
        ("L1.W", "L1.w", False, "'L1.W' cannot be copied onto itself"),
        (
            "L1.W",
            "L1.T",
            False,
            "'L1.W' cannot be copied to 'L1.T': it is a LearnableParameter, and that is a Times\n"
            "    Remove 'L1.T' first, or choose another name.",
        ),
        (
            "L1.W",
            "L1.V",
            True,
            "the values of 'L1.W' cannot be copied: there is no node 'L1.V'; did you mean 'L1.W'?\n"
            "    Copy everything (copy=all) to make a new node.",
        ),
        ("L1.W", "L2.W", True, "the values of 'L1.W' [3 x 4] do not fit 'L2.W' [3 x 3]"),
    ],
)
def test_copies_that_are_refused(network: Network, source: str, target: str, values_only: bool, message: str) -> None:
    with pytest.raises(CntkError) as error:
        copy_nodes([(network[source], target)], network, values_only=values_only)
    assert text_of(error) == message


def test_two_copies_of_one_name(network: Network) -> None:
    with pytest.raises(CntkError) as error:
        copy_nodes([(network["L1.W"], "V"), (network["L2.W"], "v")], network)
    assert text_of(error) == "both 'L1.W' and 'L2.W' would be copied to 'v'"
    assert "V" not in network


# -- links ------------------------------------------------------------------------------------------------


def test_set_input(network: Network) -> None:
    set_input(network, network["L2.T"], 1, network["x"])
    assert links(network, "L2.T") == ["L2.W", "x"]
    with pytest.raises(CntkError) as error:
        complete_network(network)
    assert "Times 'L2.T'" in text_of(error)


@pytest.mark.parametrize(
    ("name", "index", "message"),
    [
        ("L1.S", 1, "Sigmoid 'L1.S' has the inputs 0 to 0, not 1"),
        ("L1.W", 0, "LearnableParameter 'L1.W' has no inputs, not 0"),
        ("L1.T", -1, "Times 'L1.T' has the inputs 0 to 1, not -1"),
        ("open", 1, "input 0 of Plus 'open' must be set before input 1"),
    ],
)
def test_inputs_that_are_not_there(network: Network, name: str, index: int, message: str) -> None:
    network.add(node("open", "Plus"))
    with pytest.raises(CntkError) as error:
        set_input(network, network[name], index, network["x"])
    assert text_of(error) == message


def test_set_inputs_checks_their_number(network: Network) -> None:
    with pytest.raises(CntkError) as error:
        set_inputs(network, network["L2.T"], [network["x"]])
    assert text_of(error) == "Times 'L2.T' takes 2 inputs, not 1"
    with pytest.raises(CntkError) as error:
        set_inputs(network, network["L2.T"], [network["L2.W"], make_network()["x"]])
    assert text_of(error) == "'x' is a node of another network\n    Copy it into this one first."


@pytest.mark.parametrize(
    ("op", "count", "message"),
    [
        ("RowStack", 0, "RowStack 'n' takes 1 or more inputs, not 0"),
        ("LayerNormalization", 4, "LayerNormalization 'n' takes 1 to 3 inputs, not 4"),
        ("AttentionWeights", 1, "AttentionWeights 'n' takes 2 to 3 inputs, not 1"),
    ],
)
def test_how_many_inputs_an_operation_takes(network: Network, op: str, count: int, message: str) -> None:
    made = network.add(node("n", op))
    with pytest.raises(CntkError) as error:
        set_inputs(network, made, [network["x"]] * count)
    assert text_of(error) == message
    set_inputs(network, made, [network["x"]] * 3)
    assert len(made.inputs) == 3


def test_an_input_right_behind_the_last_one_is_new(network: Network) -> None:
    stack = network.add(node("stack", "RowStack", network["x"]))
    set_input(network, stack, 1, network["y"])
    set_input(network, stack, 2, network["L1.S"])
    set_input(network, stack, 0, network["y"])
    assert links(network, "stack") == ["y", "y", "L1.S"]
    with pytest.raises(CntkError) as error:
        set_input(network, stack, -1, network["x"])
    assert text_of(error) == "RowStack 'stack' has inputs from 0 on, not -1"


def test_copy_inputs(network: Network) -> None:
    network.add(node("T2", "Times"))
    copy_inputs([(network["L1.T"], "T2")], network)
    assert links(network, "T2") == ["L1.W", "x"]


def test_a_cycle_without_delay_is_found(network: Network) -> None:
    set_input(network, network["L1.T"], 1, network["L1.S"])
    with pytest.raises(CntkError) as error:
        complete_network(network)
    assert "form a cycle without a delay" in text_of(error)


def test_a_loop_gets_other_dimensions() -> None:
    network = Network()
    x = network.add(Input.make("x", (4,)))
    w = network.add(Parameter.make("W", (4, 3), value=np.ones((4, 3))))
    r = network.add(Parameter.make("R", (3, 3), value=np.ones((3, 3))))
    t = network.add(node("t", "Times", w, x))
    delay = network.add(node("delay", "PastValue", t))
    u = network.add(node("u", "Times", r, delay))
    delay.inputs = [network.add(node("h", "Plus", t, u))]
    complete_network(network)
    copy_sub_tree([network["h"]], network, network, "c.")
    set_input(network, t, 0, network.add(Parameter.make("W2", (4, 5), value=np.ones((4, 5)))))
    set_input(network, u, 0, network.add(Parameter.make("R2", (5, 5), value=np.ones((5, 5)))))
    complete_network(network)
    assert [network[name].shape for name in ("h", "delay", "c.h", "c.delay")] == [(5,), (5,), (3,), (3,)]
    assert network["c.delay"].inputs == [network["c.h"]]


def test_replace_node(network: Network) -> None:
    new = network.add(node("relu", "RectifiedLinear", network["L1.S"]))
    replace_node(network, network["L1.S"], new)
    assert links(network, "L2.T") == ["L2.W", "relu"]
    assert links(network, "relu") == ["L1.S"]
    loss = network.add(node("se", "SquareError", network["y"], network["L2.T"]))
    replace_node(network, network["ce"], loss)
    assert names(network.roots["criterion"]) == ["se"]


# -- names and removal ------------------------------------------------------------------------------------


def test_rename_exchanges_names(network: Network) -> None:
    first, second = network["L1.W"], network["L2.W"]
    order = names(list(network))
    rename_nodes(network, [(first, "L2.W"), (second, "L1.W")])
    assert network["L2.W"] is first
    assert network["L1.W"] is second
    assert names(list(network)) == [{"L1.W": "L2.W", "L2.W": "L1.W"}.get(name, name) for name in order]


def test_rename_may_change_the_case(network: Network) -> None:
    rename_nodes(network, [(network["ce"], "CE")])
    assert network["ce"].name == "CE"


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([("x", "Y")], "cannot rename 'x' to 'Y': the name is already used"),
        ([("x", "a"), ("y", "A")], "both 'x' and 'y' would be called 'A'"),
        ([("x", "")], "the new name of 'x' is empty"),
    ],
)
def test_names_that_are_refused(network: Network, pairs: list[tuple[str, str]], message: str) -> None:
    with pytest.raises(CntkError) as error:
        rename_nodes(network, [(network[old], new) for old, new in pairs])
    assert text_of(error) == message
    assert "x" in network


def test_what_used_a_removed_node_is_named(network: Network) -> None:
    remove_nodes(network, [network["y"], network["L1.S"]])
    assert network.roots["label"] == []
    with pytest.raises(CntkError) as error:
        complete_network(network)
    assert text_of(error) == (
        "input 1 of Times 'L2.T' leads nowhere: 'L1.S' is not in the network any more\n"
        "    Link input 1 of 'L2.T' to another node, or remove 'L2.T' too.\n"
        "input 0 of CrossEntropyWithSoftmax 'ce' leads nowhere: 'y' is not in the network any more\n"
        "    Link input 0 of 'ce' to another node, or remove 'ce' too.\n"
        "2 problems found"
    )


# -- properties -------------------------------------------------------------------------------------------


def test_groups(network: Network) -> None:
    set_role(network, [network["L1.S"], network["L2.T"]], "output")
    assert names(network.roots["output"]) == ["L2.T", "L1.S"]
    set_role(network, [network["L2.T"]], "output", False)
    assert names(network.roots["output"]) == ["L1.S"]
    with pytest.raises(CntkError) as error:
        set_role(network, [network["L1.S"]], "feature")
    assert text_of(error) == "Sigmoid 'L1.S' cannot be a feature: it is no input of the network"
    with pytest.raises(CntkError) as error:
        set_role(network, [network["L1.S"]], "criteria")
    assert text_of(error) == (
        "there is no group 'criteria'; did you mean 'criterion'?\n"
        "    Groups: feature, label, criterion, evaluation, output"
    )


def test_learning_rates(network: Network) -> None:
    w = network["L1.W"]
    assert isinstance(w, Parameter)
    set_needs_gradient([w], False)
    assert not w.learned
    w.needs_gradient = False
    assert set_learning_rate(sub_tree([network["L1.S"]]), 0.25) == [w]
    assert w.learned
    assert w.learning_rate_multiplier == 0.25


@pytest.mark.parametrize(
    ("multiplier", "message"),
    [
        (-1.0, "a learning rate multiplier must be a number from 0 on, not -1"),
        (float("nan"), "a learning rate multiplier must be a number from 0 on, not nan"),
        (1.0, "only parameters learn, and there is none among 'x', 'y'"),
    ],
)
def test_learning_rates_that_are_refused(network: Network, multiplier: float, message: str) -> None:
    with pytest.raises(CntkError) as error:
        set_learning_rate([network["x"], network["y"]], multiplier)
    assert text_of(error) == message


@pytest.mark.parametrize(("count", "listed"), [(3, "'x', 'y', 'L1.T'"), (4, "'x', 'y', 'L1.T', ...")])
def test_what_does_not_learn_is_named_up_to_three(network: Network, count: int, listed: str) -> None:
    nodes = [network[name] for name in ("x", "y", "L1.T", "L1.S")][:count]
    with pytest.raises(CntkError) as error:
        set_needs_gradient(nodes, False)
    assert text_of(error) == f"only parameters learn, and there is none among {listed}"


def test_a_rate_of_zero_needs_no_gradient_and_another_one_does(network: Network) -> None:
    (parameter,) = set_learning_rate([network["L1.W"]], 0.0)
    parameter.needs_gradient = False
    set_learning_rate([parameter], 0.0)
    assert not parameter.needs_gradient


def test_freeze_statistics(network: Network) -> None:
    norm = network.add(node("n", "BatchNormalization", network["x"]))
    freeze_statistics([norm])
    assert norm.attributes.normalization_time_constant == norm.attributes.blend_time_constant == float("inf")
    with pytest.raises(CntkError) as error:
        freeze_statistics([norm, network["L1.S"]])
    assert text_of(error) == "Sigmoid 'L1.S' is not a BatchNormalization and cannot be frozen"


def test_revise_parameter(network: Network, tmp_path: Path) -> None:
    w = network["L1.W"]
    assert isinstance(w, Parameter)
    path = tmp_path / "w.txt"
    path.write_text("1 2 3 4\n5 6 7 8\n9 10 11 12\n")
    revise_parameter(network, w, path)
    assert w.value is not None
    assert w.value.dtype == np.float32
    np.testing.assert_array_equal(w.value, np.arange(1, 13).reshape(3, 4).T)
    path.write_text("1 2\n3 4\n")
    with pytest.raises(DataError) as error:
        revise_parameter(network, w, path)
    assert str(error.value).endswith("the file has 2 rows of 2 values, the parameter [3 x 4] needs 3 rows of 4 values")


# -- completing -------------------------------------------------------------------------------------------


def test_new_parameters_draw_other_numbers_than_old_ones(network: Network) -> None:
    complete_network(network)
    values = []
    for name in ("A", "B"):
        network.add(Parameter.make(name, (5, 5), initializer("uniform")))
        complete_network(network)
        values.append(network[name].value)
    again = make_network()
    again.add(Parameter.make("A", (5, 5), initializer("uniform")))
    complete_network(again)
    np.testing.assert_array_equal(again["A"].value, values[0])
    assert not np.array_equal(values[0], values[1])


def test_a_precomputed_value_that_does_not_fit_is_forgotten(network: Network) -> None:
    mean = network.add(node("m", "Mean", network["x"]))
    complete_network(network)
    mean.value = np.zeros(4, np.float32)
    complete_network(network)
    assert mean.value is not None
    set_input(network, mean, 0, network["y"])
    complete_network(network)
    assert mean.value is None
