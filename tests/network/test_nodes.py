"""Nodes by themselves: what a parameter's value is once a program holds it, copies, placeholders, pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cntk_core.errors import NetworkError
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node, Parameter, Placeholder, copies_of
from cntk_core.network.unsound import unsound
from cntk_core.ops.table import core_op


def test_a_value_that_a_store_holds_is_changed_in_place():
    """Programs compute with what lies in the store, so an equal shape is written there."""
    made = Parameter.make("W", (2,), value=np.array([1.0, 2.0]))
    store, collected = np.array([5.0, 6.0]), []

    def collect():
        collected.append(1)
        made._value = store

    made.collect = collect
    assert made.value is store
    made.value = np.array([7.0, 8.0])
    assert store.tolist() == [7.0, 8.0]
    assert made.value is store
    assert collected
    made.collect = None
    other = np.array([9.0, 9.0, 9.0])
    made.value = other
    assert made.value is other
    assert store.tolist() == [7.0, 8.0]


def test_a_value_of_another_shape_takes_its_place():
    made = Parameter.make("W", (2,), value=np.zeros(2))
    made.collect = lambda: None
    before, other = made.value, np.ones(3)
    made.value = other
    assert made.value is other
    assert before.tolist() == [0, 0]
    made.value = None
    assert made.value is None
    made.value = other
    assert made.value is other


@pytest.mark.parametrize(
    ("multiplier", "needs", "learned"), [(1.0, True, True), (0.5, True, True), (0.0, True, False), (1.0, False, False)]
)
def test_what_is_learned(multiplier, needs, learned):
    made = Parameter.make("W", (2,), learning_rate_multiplier=multiplier)
    made.needs_gradient = needs
    assert made.learned is learned


def nodes():
    x, weights = Input.make("x", (2,)), Parameter.make("W", (2,), value=np.array([1.0, 2.0]))
    weights.collect = lambda: None
    first = Node("first", core_op("Plus"), [x, weights])
    second = Node("second", core_op("Plus"), [first, weights])
    return x, weights, first, second


def test_copies_are_linked_among_themselves():
    x, weights, first, second = nodes()
    copies = copies_of([weights, first, second])
    assert copies[second].inputs == [copies[first], copies[weights]]
    assert copies[first].inputs == [x, copies[weights]]
    assert copies[weights].collect is None
    assert copies[weights].value is not weights.value
    assert copies[weights].value.tolist() == [1, 2]
    assert (first.inputs, second.inputs) == ([x, weights], [first, weights])


def test_copies_may_share_parameters():
    x, weights, first, second = nodes()
    copies = copies_of([x, weights, first, second], share_parameters=True)
    assert copies[weights] is weights
    assert weights.collect is not None
    assert copies[x] is not x
    assert copies[second].inputs == [copies[first], weights]
    assert copies[first].inputs == [copies[x], weights]


@pytest.mark.parametrize(
    ("shape", "axis", "framed", "found"),
    [((3,), "", True, ""), ((3,), "text", True, "text"), ((3,), None, False, ""), (None, "text", None, "text")],
)
def test_placeholders(shape, axis, framed, found):
    made = Placeholder.make("p", shape, axis=axis)
    assert (made.shape, made.framed, made.axis, made.replacement) == (shape, framed, found, None)


def test_a_picture_is_what_some_wheel_draws(monkeypatch):
    class Point:
        def __init__(self, name, text=None):
            self.name, self.text = name, text

        def load(self):
            if self.text is None:
                raise ImportError
            return lambda network, depth: f"{self.text} of {len(network)} at {depth}"

    def there(*points):
        monkeypatch.setattr("cntk_core.network.network.entry_points", lambda group: points * (group == "cntk.pictures"))

    network = Network()
    network.add(Input.make("x", (2,)))
    there()
    assert Network.picture(network) == ""
    assert network._repr_svg_() is None
    there(Point("default", "ours"))
    assert network._repr_svg_() == "ours of 1 at 0"
    there(Point("default", "ours"), Point("z", "theirs"), Point("a"))
    assert Network.picture(network, 2) == "theirs of 1 at 2"


def test_what_only_feeds_a_value_that_is_there_can_be_left_out():
    x, weights, first, second = nodes()
    third = Node("third", core_op("Plus"), [second, x])
    assert Network().order([third], stop_at_constants=True) == [x, weights, first, second, third]
    second.value = np.zeros(2)
    assert Network().order([third], stop_at_constants=True) == [second, x, third]
    assert Network().order([third]) == [x, weights, first, second, third]


@pytest.mark.parametrize(("length", "shown"), [(300, 300), (301, 305)])
def test_messages_of_hostile_files_are_cut(length, shown):
    message = "".join(chr(ord("a") + place % 26) for place in range(length))
    found = unsound(Path("m"), NetworkError(message)).message.removeprefix("'m' holds no sound network: ")
    assert len(found) == shown
    assert (found[:150], found[-150:]) == (message[:150], message[-150:])
