"""Building networks from the value of BrainScriptNetworkBuilder."""

from __future__ import annotations

import numpy as np
import pytest
from cntk_builder_brainscript import BrainScriptNetworkBuilder

from cntk_core.api import BuildContext, CntkError, Input, Network, Node, Parameter, core_ops
from cntk_core.api.builders import parse_text


def build_value(text, **context):
    """Build the network of a value, without shapes."""
    table = core_ops()
    block = parse_text(f"BrainScriptNetworkBuilder={text}", file="r.cntk").own("BrainScriptNetworkBuilder")
    made = BuildContext(find_op=table.find, op_names=lambda language: tuple(table.names(language)), **context)
    return BrainScriptNetworkBuilder().build(block, made)


@pytest.fixture
def build():
    """Build the network of a value and infer its shapes."""

    def inferred(text, **context):
        network = build_value(text, **context)
        network.infer()
        return network

    return inferred


@pytest.fixture
def describe():
    """Build the network of a value without shapes."""
    return build_value


@pytest.fixture
def error_of():
    """Return the text of the error that a value gives."""

    def text_of(text, **context):
        with pytest.raises(CntkError) as caught:
            build_value(text, **context).infer()
        return str(caught.value)

    return text_of


FIND = core_ops().find


def small_model():
    """``z = V * h + layer.b``, ``h = Tanh (W * x)``, with values."""
    network = Network()
    x = network.add(Input.make("x", (4,)))
    y = network.add(Input.make("y", (3,)))
    w = network.add(Parameter.make("W", (4, 3), value=np.arange(12.0, dtype=np.float32).reshape(4, 3)))
    v = network.add(Parameter.make("V", (3, 3), value=np.eye(3, dtype=np.float32)))
    b = network.add(Parameter.make("layer.b", (3,), value=np.ones(3, np.float32)))
    times = FIND("", "Times")
    t = network.add(Node("t", times, [w, x], times.attributes()))
    h = network.add(Node("h", FIND("", "Tanh"), [t]))
    p = network.add(Node("p", times, [v, h], times.attributes()))
    z = network.add(Node("z", FIND("", "Plus"), [p, b]))
    ce = network.add(Node("ce", FIND("", "SquareError"), [y, z]))
    network.mark(x, "feature")
    network.mark(y, "label")
    network.mark(z, "output")
    network.mark(ce, "criterion")
    return network


def models_of(**networks):
    """Return what loads models by name."""
    return lambda path, where: networks[path]


@pytest.fixture
def trained():
    """Make a small trained network."""
    return small_model


@pytest.fixture
def loader():
    """Make a function that loads the networks that it is given, by name."""
    return models_of
