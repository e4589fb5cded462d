"""Networks written as Python expressions."""

from __future__ import annotations

import numpy as np
import pytest
from cntk_builder_python import (
    Dense,
    Dropout,
    Graph,
    Sequential,
    classification_error,
    cross_entropy_with_softmax,
    sigmoid,
)

from cntk_core.api import BuildError, Model, ShapeError, elementwise_op


def digits(graph: Graph, hidden: int = 16) -> None:
    features = graph.input("features", 64)
    labels = graph.label("labels", 10)
    z = Sequential(Dense(hidden, sigmoid), Dropout(), Dense(10))(features)
    graph.criterion(cross_entropy_with_softmax(z, labels), "ce")
    graph.evaluation(classification_error(z, labels), "errs")
    graph.output(z, "z")


def test_layers_make_named_parameters_of_inferred_shapes():
    graph = Graph()
    digits(graph)
    network = graph.finish()
    shapes = {parameter.name: parameter.shape for parameter in network.parameters}
    assert shapes == {"dense.W": (64, 16), "dense.b": (16,), "dense2.W": (16, 10), "dense2.b": (10,)}
    assert not network["dense.b"].value.any()
    assert network["dense.W"].value.std() > 0


def test_roles_are_marked():
    graph = Graph()
    digits(graph)
    network = graph.finish()
    marked = {role: [node.name for node in nodes] for role, nodes in network.roots.items()}
    assert marked == {
        "feature": ["features"],
        "label": ["labels"],
        "criterion": ["ce"],
        "evaluation": ["errs"],
        "output": ["z"],
    }


def test_a_layer_applied_twice_shares_its_parameters():
    graph = Graph()
    layer = Dense(8, name="same")
    x = graph.input("x", 8)
    layer(layer(x))
    assert [parameter.name for parameter in graph.network.parameters] == ["same.W", "same.b"]


def test_operators_make_cntk_operations():
    graph = Graph(np.float64)
    x = graph.input("x", 3)
    y = 1 - x * 2 + (-x) / x
    assert [node.op.name for node in graph.network.order([y.node]) if node.op.role == "operation"] == [
        "ElementTimes",
        "Minus",
        "Negate",
        "Reciprocal",
        "ElementTimes",
        "Plus",
    ]
    graph.network.infer()
    assert y.node.shape == (3,)


def test_a_numpy_operand_becomes_a_constant():
    graph = Graph(np.float64)
    x = graph.input("x", 3)
    y = np.arange(3.0) + x
    assert y.node.op.name == "Plus"
    assert [parameter.learned for parameter in graph.network.parameters] == [False]


def test_the_line_that_made_a_node_is_named():
    graph = Graph()
    x = graph.input("x", 3)
    _ = x + graph.input("y", 4)
    with pytest.raises(ShapeError) as error:
        graph.finish()
    assert "Plus 'Plus': the shapes [3] and [4] do not fit: axis 1 is 3 and 4" in str(error.value)
    assert error.value.where.file == __file__


def test_unknown_operations_and_attributes():
    graph = Graph()
    x = graph.input("x", 3)
    with pytest.raises(BuildError) as error:
        graph.apply("Sigmoidal", x)
    assert error.value.message == "there is no operation 'Sigmoidal'"
    assert error.value.hint == "An op of the program's own is given itself: graph.apply(my_op, x)."
    with pytest.raises(BuildError) as error:
        graph.apply("Sigmoid", x, slope=2)
    assert error.value.message == "Sigmoid has no attribute 'slope'"


def test_an_op_of_the_program_is_applied_itself() -> None:
    @elementwise_op("Twice", gradient=lambda m, attributes, g, y, x: g * 2)
    def twice(m, attributes, x):
        return 2 * x

    graph = Graph()
    graph.output(graph.apply(twice, graph.input("x", 2), name="y"))
    found = Model(graph.finish()).evaluate({"x": [[1.0, 2.0]]})
    assert found["y"].tolist() == [[2.0, 4.0]]
