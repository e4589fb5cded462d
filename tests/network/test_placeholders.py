"""Placeholders: nodes that stand for others, until these are known."""

from __future__ import annotations

import pytest
from block_networks import TABLE, add

from cntk_core.errors import Location, NetworkError, Problems, ShapeError
from cntk_core.network.model_file import save_model
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Parameter, Placeholder
from cntk_core.plan.make import make_plan

LEFT = (
    "the placeholder '{}' still stands for something that is not known\n"
    "    Say with replace_placeholders what takes its place."
)


def make() -> tuple[Network, Placeholder]:
    """``h = Tanh (p)``."""
    network = Network()
    network.add(Input.make("x", (4,)))
    placeholder = Placeholder.make("p", where=Location("net.py", 7))
    network.add(placeholder)
    network.mark(add(network, "h", "Tanh", placeholder), "output")
    return network, placeholder


def test_a_node_takes_the_place():
    network, placeholder = make()
    assert network.placeholders == [placeholder]
    network.mark(placeholder, "evaluation")
    network.replace_placeholders({placeholder: network["x"]})
    assert network["h"].inputs == [network["x"]]
    assert network.roots["evaluation"] == [network["x"]]
    assert network.placeholders == []
    assert "p" not in network
    assert placeholder.replacement is network["x"]
    network.infer()
    assert network["h"].describe() == "h = Tanh (x) : [4 x *]"


def test_a_loop_is_closed_late():
    """``h = Tanh (W * x + PastValue (h))``, written from its end."""
    network, x = Network(), Input.make("x", (4,))
    network.add(x)
    placeholder = Placeholder.make("later")
    network.add(placeholder)
    before = add(network, "before", "PastValue", placeholder)
    weights = network.add(Parameter.make("W", (0, 3)))
    total = add(network, "sum", "Plus", add(network, "product", "Times", weights, x), before)
    h = add(network, "h", "Tanh", total)
    network.replace_placeholders({placeholder: h})
    network.infer()
    assert before.inputs == [h]
    assert [node.describe() for node in (before, h)] == ["before = PastValue (h) : [3 x *]", "h = Tanh (sum) : [3 x *]"]
    assert weights.shape == (4, 3)


def test_a_cycle_without_a_delay_is_named():
    network, placeholder = make()
    network.replace_placeholders({placeholder: network["h"]})
    with pytest.raises(NetworkError) as caught:
        network.infer()
    assert str(caught.value) == (
        "the nodes h -> h form a cycle without a delay\n    A cycle is legal only through PastValue or FutureValue."
    )


def test_several_at_once_and_one_for_another():
    network, placeholder = make()
    other = Placeholder.make("q")
    network.add(other)
    add(network, "k", "Exp", other)
    network.replace_placeholders({placeholder: other, other: network["x"]})
    assert network["h"].inputs == network["k"].inputs == [network["x"]]
    assert placeholder.replacement is other.replacement is network["x"]


def test_what_cannot_take_the_place():
    network, placeholder = make()
    other, stranger = Placeholder.make("q"), Input.make("x", (4,))
    network.add(other)
    for substitutions, message in (
        ({placeholder: placeholder}, "net.py:7: placeholders stand for each other: p -> p"),
        ({placeholder: other, other: placeholder}, "net.py:7: placeholders stand for each other: p -> q -> p"),
        ({network["h"]: network["x"]}, "Tanh 'h' is no placeholder"),
        ({placeholder: stranger}, "InputValue 'x' is no node of this network"),
        ({Placeholder.make("p"): network["x"]}, "Placeholder 'p' is no node of this network"),
    ):
        with pytest.raises(NetworkError) as caught:
            network.replace_placeholders(substitutions)
        assert str(caught.value) == message
    assert network.placeholders == [placeholder, other]
    assert network["h"].inputs == [placeholder]


def test_a_shape_that_was_said_is_kept():
    network, _ = make()
    said = Placeholder.make("said", (3,), where=Location("net.py", 9))
    network.add(said)
    with pytest.raises(ShapeError) as caught:
        network.replace_placeholders({said: network["x"]})
    assert str(caught.value) == "net.py:9: the placeholder 'said' was said to be [3], but 'x' is [4]"
    network.replace_placeholders({said: network.add(Parameter.make("open", (0,)))})  # it may still become so
    assert network.placeholders == [network["p"]]


def test_all_that_are_left_are_reported():
    network, _ = make()
    other = network.add(Placeholder.make("q", (2,)))
    add(network, "wrong", "Plus", network["x"], other)
    with pytest.raises(Problems) as caught:
        network.infer()
    assert str(caught.value) == (
        "net.py:7: "
        + LEFT.format("p")
        + "\n"
        + LEFT.format("q")
        + "\nPlus 'wrong': the shapes [4] and [2] do not fit: axis 1 is 2 and 4\n    Inputs: x [4], q [2]\n"
        "3 problems found"
    )


def test_shapes_as_far_as_they_are_known():
    network, placeholder = make()
    said = network.add(Placeholder.make("said", (4,), axis=None))
    weights = network.add(Parameter.make("W", (0, 3)))
    product = add(network, "product", "Times", weights, placeholder)
    known = add(network, "known", "Plus", network["x"], said)
    network.infer(partial=True)
    assert network["h"].shape is None
    assert product.shape is None
    assert weights.shape == (0, 3)
    assert known.describe() == "known = Plus (x, said) : [4 x *]"
    assert add(network, "alone", "Exp", said).framed is None
    network.infer(partial=True)
    assert network["alone"].describe() == "alone = Exp (said) : [4]"
    network.replace_placeholders({placeholder: network["x"], said: network.add(Parameter.make("c", (4,)))})
    network.infer()
    assert weights.shape == (4, 3)


def test_partial_inference_still_reports_mistakes():
    network, _ = make()
    add(network, "wrong", "Plus", network["x"], network.add(Parameter.make("b", (3,))))
    with pytest.raises(ShapeError) as caught:
        network.infer(partial=True)
    assert str(caught.value).startswith("Plus 'wrong': the shapes [4] and [3] do not fit")


def test_a_loop_that_waits_for_a_placeholder():
    network, placeholder = make()
    delay = add(network, "delay", "PastValue", network["x"])
    total = add(network, "total", "Plus", delay, placeholder)
    delay.inputs = [total]
    network.infer(partial=True)
    assert (delay.shape, total.shape) == (None, None)


def test_a_network_with_one_is_not_saved(tmp_path):
    network, _ = make()
    with pytest.raises(NetworkError) as caught:
        save_model(network, tmp_path / "net.dnn")
    assert str(caught.value) == "net.py:7: " + LEFT.format("p")
    assert not (tmp_path / "net.dnn").exists()


def test_a_plan_with_one_is_refused():
    network = Network()
    placeholder = network.add(Placeholder.make("p", (2,)))
    h = add(network, "h", "Tanh", placeholder)
    network.infer(partial=True)
    with pytest.raises(NetworkError) as caught:
        make_plan(network, [h])
    assert str(caught.value) == LEFT.format("p")


def test_no_language_knows_the_operation():
    assert Placeholder.make("p").op.name == "Placeholder"
    assert all(TABLE.find(language, "Placeholder") is None for language in ("", "ndl", "brainscript", "model"))
