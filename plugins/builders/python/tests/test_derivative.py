"""Derivatives as terms of a graph."""

from __future__ import annotations

import numpy as np
import pytest
from cntk_builder_python import Dense, Graph, Sequential, derivative, tanh

from cntk_core.api import NetworkError
from cntk_testing.inside import Model


def test_a_derivative_is_a_term_that_can_be_learned():
    graph = Graph(np.float64)
    x = graph.input("x", 3)
    value = Sequential(Dense(4, tanh, name="first"), Dense(1, name="last"))(x).named("value")
    slope = derivative(value, x)
    graph.output(slope * slope, "squares")
    network = graph.finish()
    rows = np.linspace(-1.0, 1.0, 6).reshape(2, 3)
    model = Model(network, engine="cpu")
    expected = model.gradients({"x": rows}, "x", "value")["x"] ** 2
    np.testing.assert_allclose(model.evaluate({"x": rows}, "squares")["squares"], expected)
    assert slope.node.name == "value.by.x"
    weights, step = network["first.W"], 1e-6
    by_weights = model.gradients({"x": rows}, "first.W", "squares")["first.W"]
    sums = []
    for change in (step, -2 * step):
        weights.value[1, 2] += change
        sums.append(model.evaluate({"x": rows}, "squares")["squares"].sum())
    assert by_weights[1, 2] == pytest.approx((sums[0] - sums[1]) / (2 * step), rel=1e-6)


def test_what_does_not_depend_has_no_derivative():
    graph = Graph()
    x, y = graph.input("x", 3), graph.input("y", 3)
    with pytest.raises(NetworkError, match="there is no gradient by 'y': 'Tanh' does not depend on it"):
        derivative(tanh(x), y)
