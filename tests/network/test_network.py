"""Names, groups, order and the checks of a network."""

from __future__ import annotations

import pytest

from cntk_core.errors import Location, NetworkError, Problems, ShapeError
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node, Parameter
from cntk_core.ops.language.op import Op
from cntk_core.ops.language.shapes import broadcast
from cntk_core.ops.language.traits import Traits

PLUS = Op("Plus", (2, 2), lambda shapes, _: broadcast(shapes))
PASS = Op("Pass", (1, 1), lambda shapes, _: shapes[0])
DELAY = Op("PastValue", (1, 1), lambda shapes, _: shapes[0], traits=Traits(delay=1))


def at(line: int) -> Location:
    return Location("net.cntk", line, 3)


def make() -> Network:
    network = Network()
    network.add(Input.make("features", (4,), where=at(1)))
    network.add(Parameter.make("W", (3,), where=at(2)))
    return network


def test_names_ignore_case_and_both_places_are_named():
    network = make()
    with pytest.raises(NetworkError) as error:
        network.add(Node("w", PASS, [network["features"]], where=at(9)))
    assert str(error.value) == (
        "net.cntk:9:3: the node name 'w' is already used (first at net.cntk:2:3): 'W' differs only in case"
    )


def test_an_unknown_name_gets_a_hint():
    with pytest.raises(NetworkError) as error:
        make()["feature"]
    assert str(error.value) == "the network has no node 'feature'; did you mean 'features'?"


def test_all_shape_problems_are_reported_together():
    network = make()
    features, weights = network["features"], network["W"]
    network.add(Node("a", PLUS, [features, weights], where=at(3)))
    network.add(Node("b", PASS, [features, weights], where=at(4)))
    network.add(Node("c", PASS, [network["a"]], where=at(5)))
    with pytest.raises(Problems) as error:
        network.infer()
    assert str(error.value) == (
        "net.cntk:3:3: Plus 'a': the shapes [4] and [3] do not fit: axis 1 is 3 and 4\n"
        "    Inputs: features [4], W [3]\n"
        "net.cntk:4:3: Pass 'b' takes 1 inputs, not 2\n"
        "2 problems found"
    )


def test_a_dimension_that_nothing_determines_is_an_error():
    network = Network()
    network.add(Parameter.make("W", (3, 0), where=at(2)))
    with pytest.raises(ShapeError) as error:
        network.infer()
    assert str(error.value) == (
        "net.cntk:2:3: the dimensions [0 x 3] of parameter 'W' cannot be inferred\n"
        "    Give every dimension, or use it in a product whose other operand has a known shape."
    )


def test_a_cycle_without_a_delay_names_its_nodes():
    network = make()
    first = network.add(Node("a", PASS, [], where=at(3)))
    second = network.add(Node("b", PASS, [first], where=at(4)))
    first.inputs = [second]
    with pytest.raises(NetworkError) as error:
        network.order([first])
    assert str(error.value) == (
        "net.cntk:3:3: the nodes a -> b -> a form a cycle without a delay\n"
        "    A cycle is legal only through PastValue or FutureValue."
    )


def test_a_cycle_through_a_delay_is_legal():
    network = make()
    delay = network.add(Node("d", DELAY, []))
    after = network.add(Node("a", PASS, [delay]))
    delay.inputs = [after]
    assert [node.name for node in network.order([after])] == ["d", "a"]


def test_the_order_of_a_deep_network_needs_no_deep_stack():
    network = make()
    node = network["features"]
    for index in range(20_000):
        node = network.add(Node(f"n{index}", PASS, [node]))
    assert len(network.order([node])) == 20_001


def test_rename_keeps_the_place_and_refuses_a_taken_name():
    network = make()
    network.rename(network["features"], "x")
    assert [node.name for node in network] == ["x", "W"]
    with pytest.raises(NetworkError) as error:
        network.rename(network["x"], "w")
    assert str(error.value) == "net.cntk:1:3: cannot rename 'x' to 'w': the name is already used"


def test_renaming_all_may_exchange_names_and_takes_none_twice():
    network = make()
    features, weights = network["features"], network["W"]
    network.rename_all({features: "w", weights: "Features"})
    assert [(node, node.name) for node in network] == [(features, "w"), (weights, "Features")]
    assert network["W"] is features
    for wanted, name in (({features: "features"}, "features"), ({weights: "a", features: "A"}, "A")):
        with pytest.raises(NetworkError) as error:
            network.rename_all(wanted)
        assert str(error.value) == f"several nodes would have the name '{name}'"
        assert [node.name for node in network] == ["w", "Features"]


def test_remove_takes_the_node_out_of_its_groups():
    network = make()
    network.mark(network["features"], "feature")
    network.remove(network["features"])
    assert network.roots["feature"] == []
    assert "features" not in network
