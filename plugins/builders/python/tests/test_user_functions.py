"""Functions in Python in a graph: applied, taken apart, saved and loaded."""

from __future__ import annotations

import numpy as np
import pytest
from cntk_builder_python import Graph, output_of, outputs_of, user_function

from cntk_core.api import BuildError, ModelFormatError, register
from cntk_core.api.builders import UserFunction, op_of
from cntk_testing.inside import Model, fault_error, registrations_kept, save_model


class Above(UserFunction):
    """What is above a limit, and how much that is together."""

    outputs = ("kept", "total")
    limit: float = 0.0

    def infer_outputs(self, x):
        return x, (1,)

    def forward(self, context, x):
        kept = np.where(x > self.limit, x, 0.0)
        return kept, kept.sum(axis=-1, keepdims=True)


class Broken(UserFunction):
    def forward(self, context, x):
        return self.missing


DATA = {"x": [np.array([[1.0, 3.0, -2.0]])]}


def above():
    graph = Graph(np.float64)
    kept, total = outputs_of(user_function(Above(2.0), graph.input("x", 3), name="above"))
    graph.output(kept, "kept")
    graph.output(total, "total")
    return graph.finish()


def test_outputs_are_terms_of_their_own():
    network = above()
    assert [node.describe() for node in network] == [
        "x = InputValue () : [3 x *]",
        "above = Above (x) : [4 x *]",
        "kept = OutputMultiplexer (above) : [3 x *]",
        "total = OutputMultiplexer (above) : [1 x *]",
    ]
    found = Model(network).evaluate(DATA)
    assert found["kept"][0].tolist() == [[0, 3, 0]]
    assert found["total"][0].tolist() == [[3]]


def test_an_output_is_chosen_by_name_or_number():
    graph = Graph()
    source = user_function(Above(), graph.input("x", 3))
    assert output_of(source, "total").node.name == "Above.total"
    assert output_of(source, 0).node.name == "Above.kept"
    assert output_of(source, 0).node.name == "Above.kept1"
    assert [term.node.op.name for term in outputs_of(graph.input("y", 3))] == ["OutputMultiplexer"]


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("totals", "Above 'Above' has no output 'totals'; did you mean 'total'?"),
        (2, "Above 'Above' has no output 2"),
        (-1, "Above 'Above' has no output -1"),
    ],
)
def test_an_output_that_is_not_there_is_refused(output, message):
    source = user_function(Above(), Graph().input("x", 3))
    with pytest.raises(BuildError) as caught:
        output_of(source, output)
    assert caught.value.message == message
    assert caught.value.hint == "Outputs: kept, total."


def test_numbers_alone_have_no_graph():
    with pytest.raises(BuildError) as caught:
        user_function(Above(), 3.0)
    assert caught.value.message == "Above needs a term among its inputs"


def test_a_model_with_a_function_is_read_when_the_class_is_registered(tmp_path):
    save_model(above(), tmp_path / "net.dnn")
    with registrations_kept():
        register(Above)
        model = Model.load(tmp_path / "net.dnn")
    assert model.network["above"].attributes.limit == 2.0
    assert model.network["above"].op is op_of(Above)
    assert model.evaluate(DATA)["kept"][0].tolist() == [[0, 3, 0]]
    with pytest.raises(ModelFormatError, match="uses operations that are not there: Above"):
        Model.load(tmp_path / "net.dnn")


def test_an_error_in_a_registered_function_names_its_line():
    graph = Graph()
    graph.output(user_function(Broken(), graph.input("x", 3)), "z")
    model = Model(graph.finish())
    with pytest.raises(AttributeError) as caught:
        model.evaluate(DATA)
    with registrations_kept():
        register(Broken)
        told = fault_error(caught.value)
    assert told is not None
    assert told.message == (
        "Broken.forward of this program failed: AttributeError: 'Broken' object has no attribute 'missing'"
    )
    assert "test_user_functions.py:" in str(told)
