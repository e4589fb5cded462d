"""The contract of builders holds for a small one, and notices builders that are wrong."""

from __future__ import annotations

import numpy as np
import pytest

from cntk_core.contract.builder import NetworkBuilder
from cntk_core.errors import BuildError, Location
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node, Parameter
from cntk_kit_builders.first_values.initializers import initializer
from cntk_testing.builder_contract import BuilderContract


class Linear(NetworkBuilder):
    """Builds W x, with a square error."""

    requires_api = "1.0"

    def build(self, block, context):
        config = block.config()
        size = config.integer("size")
        if size < 1:
            raise BuildError("the size must be positive", where=config.own("size").where)
        return self.make(size, context, config.own("size").where)

    def make(self, size, context, where):
        network = Network(context.dtype)
        x = network.add(Input.make("x", (size,), where=where))
        target = network.add(Input.make("target", (2,), where=where))
        weights = network.add(Parameter.make("W", (size, 2), initializer("uniform"), where=where))
        for name, op, inputs in (("z", "Times", [weights, x]), ("se", "SquareError", [target])):
            inputs = inputs if name == "z" else [*inputs, network["z"]]
            network.add(Node(name, context.find_op("ndl", op), inputs, context.find_op("ndl", op).attributes(), where))
        network.mark(network["se"], "criterion")
        return network


class TestLinear(BuilderContract):
    builder_class = Linear
    good = "size = 3"
    bad = ("size = 0", "size = many")


class Case(BuilderContract):
    good = "size = 3"
    bad = ("size = 0",)


def error_of(builder, test, tmp_path):
    with pytest.raises(AssertionError) as error:
        getattr(Case(), test)(builder(), tmp_path)
    return str(error.value)


def edited(change):
    """Linear, whose networks are changed."""

    class Edited(Linear):
        def make(self, size, context, where):
            network = super().make(size, context, where)
            change(network)
            return network

    return Edited


def test_lost_places_are_noticed(tmp_path):
    def lose(network):
        network["z"].where = None
        network["W"].where = Location("recipe.cntk")

    found = error_of(edited(lose), "test_every_node_has_a_place", tmp_path)
    assert found.startswith("nodes without a place: W, z")


def test_chance_is_noticed(tmp_path):
    values = np.random.default_rng()

    def gamble(network):
        network["W"].value = values.normal(size=(3, 2)).astype(network.dtype)

    assert "value of 'W'" in error_of(edited(gamble), "test_the_same_text_gives_the_same", tmp_path)


def test_a_wrong_precision_is_noticed(tmp_path):
    def widen(network):
        network["W"].value = np.zeros((3, 2))

    found = error_of(edited(widen), "test_every_node_has_shape_and_value", tmp_path)
    assert found.startswith("'W' is of float64")


def test_a_missing_criterion_is_noticed(tmp_path):
    found = error_of(edited(lambda network: network.roots["criterion"].clear()), "test_one_step_of_training", tmp_path)
    assert found.startswith("the network has no criterion")


def test_other_exceptions_and_errors_without_place_are_noticed(tmp_path):
    class Crashes(Linear):
        def build(self, block, context):
            raise KeyError("size")

    with pytest.raises(KeyError):
        Case().test_mistakes_have_a_place(Crashes(), tmp_path)

    class Vague(Linear):
        def build(self, block, context):
            raise BuildError("something is wrong")

    found = error_of(Vague, "test_mistakes_have_a_place", tmp_path)
    assert found.startswith("an error of [size = 0] has no place: something is wrong")
    silent = type("Silent", (Linear,), {"build": lambda self, block, context: self.make(3, context, block.where)})
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        Case().test_mistakes_have_a_place(silent(), tmp_path)
