"""What an element-wise op gives while it is traced, and the layouts of roots."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from cntk_core.errors import Location, NetworkError, WrongResult
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node
from cntk_core.ops.language.expression import TraceMath, symbol
from cntk_core.ops.language.layouts import frame_layout
from cntk_core.ops.language.op import Elementwise, Op
from cntk_core.plan.make import make_plan
from cntk_core.plan.plan import derive_layout, derived_nodes, layout_of_root, makes_axis_by_values
from cntk_core.plan.traced import traced_forward, traced_gradient


def node_that_gives(value: Any) -> Node:
    """An element-wise node whose op gives the same value whatever it is asked."""

    def forward(m, attributes, x):
        return value

    def gradient(m, attributes, g, y, x):
        return value

    x = Input.make("x", (2,))
    return Node("z", Op("Own", (1, 1), lambda shapes, _: shapes[0], elementwise=Elementwise(forward, gradient)), [x])


X, G, Y = symbol("x"), symbol("g"), symbol("y")


@pytest.mark.parametrize("value", [X, X + 1.0, 2.0, 3, -X])
def test_expressions_and_numbers_are_fine(value: Any) -> None:
    assert traced_forward(node_that_gives(value), [X]) is value
    assert traced_gradient(node_that_gives((value,)), G, Y, [X]) == (value,)
    assert traced_gradient(node_that_gives([None]), G, Y, [X]) == [None]


WRONG = [(None, "None"), ("text", "'text'"), ((X, X), "2 values"), ({}, "{}")]


@pytest.mark.parametrize(("value", "shown"), WRONG)
def test_anything_else_is_told(value: Any, shown: str) -> None:
    node = node_that_gives(value)
    with pytest.raises(WrongResult) as caught:
        traced_forward(node, [X])
    assert caught.value.message == f"returned {shown}, not an expression over m"
    with pytest.raises(WrongResult) as caught:
        traced_gradient(node, G, Y, [X])
    assert caught.value.message == f"has a gradient that returned {shown}, not one for each of 1 inputs"
    assert caught.value.function is node.op.elementwise.forward  # type: ignore[union-attr]


def test_each_of_the_gradients_has_to_be_one() -> None:
    with pytest.raises(WrongResult) as caught:
        traced_gradient(node_that_gives([{}]), G, Y, [X])
    assert caught.value.message == "has a gradient that returned {}, not an expression over m"


def test_layouts_of_roots() -> None:
    network = Network()
    x = network.add(Input.make("X", (2,)))
    own = Op("Own", (1, 1), lambda shapes, _: shapes[0], elementwise=Elementwise(lambda m, a, x: x, None))  # type: ignore[arg-type]
    framed = network.add(Node("Framed", own, [x]))
    summed = network.add(
        Node("Summed", Op("Sum", (1, 1), lambda shapes, _: (1,), forward=lambda *_: None, reduces_frames=True), [x])
    )
    network.infer()
    plan = make_plan(network, [framed, summed], None)
    layout = frame_layout(3)
    assert layout_of_root(plan, "framed", {framed.axis: layout}) is layout
    for name in ("summed", "X"):
        with pytest.raises(NetworkError) as caught:
            layout_of_root(plan, name, {framed.axis: layout})
        assert str(caught.value) == f"the root '{name}' has no sequences"


def test_ops_are_given_the_functions_and_their_attributes() -> None:
    def forward(m, attributes, x):
        return m.exp(x) * attributes

    def gradient(m, attributes, g, y, x):
        return (g * m.log(y) * attributes * x,)

    op = Op("Own", (1, 1), lambda shapes, _: shapes[0], elementwise=Elementwise(forward, gradient))
    node = Node("z", op, [Input.make("x", (2,))], 3.0)
    math = TraceMath()
    assert repr(traced_forward(node, [X])) == repr(math.exp(X) * 3.0)
    (found,) = traced_gradient(node, G, Y, [X])
    assert repr(found) == repr(G * math.log(Y) * 3.0 * X)


@pytest.mark.parametrize("new", [True, False])
def test_which_nodes_make_an_axis(new: bool) -> None:
    def new_axis(shape, attributes):
        assert (shape, attributes) == ((2,), "attributes")
        return new

    def computed(*_):
        raise AssertionError("a plan computes nothing")

    def makes(**changes: Any) -> bool:
        op = attrs.evolve(by_values, **changes)
        return makes_axis_by_values(Node("z", op, [Input.make("x", (2,))], "attributes"))

    by_values = Op("Own", (0, 1), lambda shapes, _: (2,), forward=computed, new_axis=new_axis)
    assert makes() is new
    assert not makes(forward=None)
    assert not makes(relayout=lambda layout, shape, attributes: layout)
    assert makes_axis_by_values(Node("z", attrs.evolve(by_values, new_axis=new), [], "attributes")) is new


def test_layouts_that_follow_from_the_first_input() -> None:
    network = Network()
    x = network.add(Input.make("x", (2,)))
    layout, made = frame_layout(3), frame_layout(6)

    def relayout(given, shape, attributes):
        assert (given, shape, attributes) == (layout, (2,), "attributes")
        if made.frames == 6:
            return made
        raise NetworkError("they do not fit")

    def computed(*_):
        raise AssertionError("a plan computes nothing")

    op = Op("Own", (1, 1), lambda shapes, _: (1,), forward=computed, new_axis=True, relayout=relayout)
    node = network.add(Node("twice", op, [x], "attributes", where=Location("net.ndl", 3, 5)))
    network.add(Node("values", attrs.evolve(op, relayout=None), [x], "attributes"))
    network.infer()
    plan = make_plan(network, list(network), None)
    assert derived_nodes(plan) == (node,)
    assert derive_layout(node, {x.axis: layout}) is made
    made = frame_layout(4)
    with pytest.raises(NetworkError) as caught:
        derive_layout(node, {x.axis: layout})
    assert str(caught.value) == "net.ndl:3:5: Own 'twice': they do not fit"
