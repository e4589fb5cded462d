"""Networks with declared operations are made and shown, but not run."""

from __future__ import annotations

import numpy as np
import pytest

from cntk_core.errors import Location, NetworkError, Problems, UnsupportedError
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node, Placeholder
from cntk_core.ops.language.define import declare_op, first_shape
from cntk_core.ops.table import core_op
from cntk_core.plan.make import make_plan
from cntk_core.plan.runnable import check_runnable
from cntk_kit_engines.explain import explain

FUTURE = declare_op("Future", "Not there.", infer=first_shape)


def make(count: int) -> Network:
    network = Network()
    node: Node = network.add(Input.make("x", (4,)))
    for index in range(count):
        place = Location("recipe.ndl", 10 + index, 3)
        node = network.add(Node(f"n{index}", FUTURE, [node], where=place))
    network.infer()
    return network


def test_every_node_is_named_at_once_with_its_place():
    network = make(2)
    with pytest.raises(Problems) as error:
        make_plan(network, [network["n1"]])
    assert str(error.value) == (
        "recipe.ndl:10:3: the node 'n0' cannot run yet: the operation Future is not there yet\n"
        "recipe.ndl:11:3: the node 'n1' cannot run yet: the operation Future is not there yet\n"
        "2 problems found"
    )


def test_one_node_alone_is_one_error():
    network = make(1)
    with pytest.raises(UnsupportedError, match="'n0' cannot run yet"):
        check_runnable(network, [network["n0"]])


def test_what_is_not_needed_does_not_count():
    network = make(2)
    check_runnable(network, [network["x"]])


def test_a_plan_to_look_at_may_have_declared_nodes():
    network = make(2)
    plan = make_plan(network, [network["n1"]], runnable=False)
    assert "Future n1 [4 x *]" in explain(plan)


def test_what_is_needed_through_others_counts():
    network = make(1)
    passed = network.add(Node("passed", core_op("Pass"), [network["n0"]]))
    root = network.add(Node("root", core_op("Pass"), [passed]))
    with pytest.raises(UnsupportedError) as error:
        check_runnable(network, [root])
    assert str(error.value) == ("recipe.ndl:10:3: the node 'n0' cannot run yet: the operation Future is not there yet")
    passed.value = np.zeros(4)  # it is computed already
    check_runnable(network, [root])


def test_placeholders_cannot_run():
    network = Network()
    hole = network.add(Placeholder.make("hole", (4,), where=Location("net.py", 7)))
    network.add(Input.make("x", (4,)))
    with pytest.raises(NetworkError) as error:
        check_runnable(network, [hole, network["x"]])
    assert str(error.value) == (
        "net.py:7: the placeholder 'hole' still stands for something that is not known\n"
        "    Say with replace_placeholders what takes its place."
    )
