"""Copies of a part of a network."""

from __future__ import annotations

import math

import numpy as np
import pytest
from layer_networks import two_layers

from cntk_core.errors import NetworkError, Problems
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node, Parameter
from cntk_core.ops.table import core_ops
from cntk_kit_builders.clone import clone, clone_nodes, duplicate, nodes_to_clone

FIND = core_ops().find


def add(network: Network, name: str, operation: str, *inputs: Node) -> Node:
    op = FIND("", operation)
    assert op is not None
    return network.add(Node(name, op, list(inputs), op.attributes()))


@pytest.fixture
def network() -> Network:
    """``z = V * h``, ``h = Tanh (W * x + y)``."""
    network = Network()
    x, y = (network.add(Input.make(name, (2,))) for name in "xy")
    w, v = (network.add(Parameter.make(name, (2, 2), value=np.eye(2))) for name in "WV")
    h = add(network, "h", "Tanh", add(network, "s", "Plus", add(network, "t", "Times", w, x), y))
    add(network, "z", "Times", v, h)
    return network


def names(nodes: list[Node]) -> set[str]:
    return {node.name for node in nodes}


@pytest.mark.parametrize(
    ("parameters", "wanted"),
    [
        ("learnable", {"t", "s", "h", "z", "W", "V"}),
        ("constant", {"t", "s", "h", "z", "W", "V"}),
        ("shared", {"t", "s", "h", "z"}),
    ],
)
def test_what_is_cloned(network: Network, parameters: str, wanted: set[str]) -> None:
    assert names(nodes_to_clone([network["x"]], [network["z"]], parameters)) == wanted


def test_what_is_below_an_input_is_left(network: Network) -> None:
    assert names(nodes_to_clone([network["h"]], [network["z"]], "learnable")) == {"z", "V"}


def test_nodes_that_do_not_depend_on_an_input_are_shared(network: Network) -> None:
    other = add(network, "other", "Exp", network["y"])
    top = add(network, "top", "Plus", network["h"], other)
    assert "other" not in names(nodes_to_clone([network["x"]], [top], "shared"))


def test_a_loop_is_cloned_as_a_whole(network: Network) -> None:
    before = add(network, "before", "PastValue")
    state = add(network, "state", "Plus", network["t"], before)
    before.inputs = [state]
    members = nodes_to_clone([network["x"]], [state], "shared")
    assert names(members) == {"t", "state", "before"}
    copies = clone_nodes(members, {network["x"]: network["y"]}, lambda name: f"c.{name}")
    assert copies[before].inputs == [copies[state]]
    assert copies[state].inputs == [copies[network["t"]], copies[before]]


def test_outputs_that_do_not_depend_on_the_inputs(network: Network) -> None:
    with pytest.raises(NetworkError) as caught:
        nodes_to_clone([network["z"]], [network["h"]], "learnable")
    assert caught.value.message == "no output of the cloned function depends on its input 'z'"
    with pytest.raises(Problems):
        nodes_to_clone([network["z"], network["V"]], [network["h"]], "learnable")


def test_copies_have_their_own_values_and_links(network: Network) -> None:
    members = nodes_to_clone([network["x"]], [network["z"]], "learnable")
    copies = clone_nodes(members, {network["x"]: network["y"]}, lambda name: f"c.{name}")
    copy = copies[network["W"]]
    assert copy.name == "c.W"
    assert copy.value is not network["W"].value
    assert copies[network["t"]].inputs == [copy, network["y"]]
    assert network["t"].inputs == [network["W"], network["x"]]


def test_frozen_copies_are_not_learned(network: Network) -> None:
    parameters = [network.add(Parameter.make(f"p{index}", (2,), value=np.ones(2))) for index in range(5)]
    normalized = add(network, "n", "BatchNormalization", network["h"], *parameters)
    members = nodes_to_clone([network["x"]], [normalized], "constant")
    copies = clone_nodes(members, {network["x"]: network["y"]}, lambda name: f"c.{name}", frozen=True)
    assert not any(isinstance(node, Parameter) and node.learned for node in map(copies.get, members))
    assert math.isinf(copies[normalized].attributes.normalization_time_constant)
    assert not math.isinf(normalized.attributes.normalization_time_constant)


def test_a_duplicate_shares_its_inputs(network: Network) -> None:
    copy = duplicate(network["t"])
    assert copy.name == "t"
    assert copy.inputs == network["t"].inputs
    assert copy.inputs is not network["t"].inputs


# -- whole parts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parameters", ["learnable", "constant", "shared"])
def test_a_part_is_cloned_with_other_inputs(network: Network, parameters: str) -> None:
    copies = clone(network, [network["z"]], {network["x"]: network["y"]}, parameters=parameters)
    z = copies[network["z"]]
    assert z.name == "z2"
    assert copies[network["t"]].inputs[1] is network["y"]
    assert network["z"].inputs[1] is network["h"]
    assert ("W2" in network) is (parameters != "shared")
    if parameters != "shared":
        assert network["V2"].value is not network["V"].value
        assert network["V2"].learning_rate_multiplier == (0 if parameters == "constant" else 1)
    network.infer()


def test_a_parameter_is_substituted(network: Network) -> None:
    new = network.add(Parameter.make("new", (2, 2), value=np.ones((2, 2))))
    copies = clone(network, [network["z"]], {network["W"]: new}, parameters="shared", rename=lambda name: f"c.{name}")
    assert network["c.t"].inputs == [new, network["x"]]
    assert copies[network["z"]].inputs[0] is network["V"]
    assert copies[network["W"]] is new


def test_a_part_is_cloned_into_another_network(network: Network) -> None:
    other = Network(np.float32)
    x = other.add(Input.make("x", (2,)))
    copies = clone(network, [network["z"]], {network["x"]: x}, parameters="constant", into=other)
    assert names(list(other)) == {"x", "y", "W", "V", "t", "s", "h", "z"}
    assert other["W"].value.dtype == np.float32
    assert not other["W"].learned
    assert network["W"].learned
    assert copies[network["y"]] is other["y"] is not network["y"]
    other.infer()


def test_blocks_are_cloned_with_their_nodes() -> None:
    network, other = two_layers(), Network(np.float64)
    x = other.add(Input.make("in", (4,)))
    clone(network, [network["two.out"]], {network["x"]: x}, into=other, rename=lambda name: f"net.{name}")
    assert [(block.name, list(block.operands.values())) for block in other.blocks] == [
        ("net.one", [x]),
        ("net.two", [other["net.one.out"]]),
    ]
    clone(network, [network["two.out"]], {network["x"]: network["y"]}, parameters="shared")
    assert [block.operands for block in network.blocks] == [
        {"x": network["x"]},
        {"x": network["one.out"]},
        {"x": network["y"]},
        {"x": network["one.out2"]},
    ]


def test_what_cannot_be_cloned(network: Network) -> None:
    stranger, other = Input.make("x", (2,)), Network()
    x, y, z = (network[name] for name in "xyz")
    there = other.add(Input.make("there", (2,)))
    for arguments, options, message in (
        (([z], {x: stranger}), {}, "'x' is no node of the network"),
        (([stranger], {x: y}), {}, "'x' is no node of the network"),
        (([z], {x: y}), {"into": other}, "'y' is no node of the network"),
        (
            ([z], {x: there}),
            {"into": other, "parameters": "shared"},
            "parameters can be shared within one network only\n"
            '    Copy them: parameters="learnable", or "constant" for what shall not learn.',
        ),
        (
            ([z], {x: y}),
            {"parameters": "freeze"},
            "parameters of a copy cannot be 'freeze'\n    Accepted: learnable, constant, shared",
        ),
    ):
        with pytest.raises(NetworkError) as caught:
            clone(network, *arguments, **options)
        assert str(caught.value) == message
    assert len(network) == 8
    assert list(other) == [there]
