"""Which parameters have sparse gradients, and which inputs stay sparse."""

from __future__ import annotations

import numpy as np
import pytest

from cntk_core.network.node import Input, Node, Parameter
from cntk_core.ops.table import core_op
from cntk_core.plan.make import make_plan
from cntk_core.plan.sparse import is_sparse_product
from cntk_kit_engines.sparse_inputs import label_inputs, sparse_inputs
from cntk_testing.networks import classifier, multipliers
from cntk_testing.sparse_networks import SPARSE_SAMPLES


@pytest.mark.parametrize(
    ("name", "parameters", "inputs"),
    [
        ("product", {"W0": ["x"]}, {"x"}),
        ("two_products", {"E": ["y", "x"]}, {"x", "y"}),
        ("read_densely", {"W0": ["x"]}, set()),
        ("mixed", {}, {"x"}),
        ("labels", {"E": ["x"], "B": ["l"]}, {"x", "l"}),
        ("targets", {}, {"l"}),
    ],
)
def test_sparse_gradients(name, parameters, inputs):
    sample = SPARSE_SAMPLES[name](np.float32)
    plan = make_plan(sample.network, sample.roots, sample.criterion)
    found = {p.name: sorted(node.name for node in sources) for p, sources in plan.sparse.items()}
    assert found == {key: sorted(value) for key, value in parameters.items()}
    assert {node.name for node in sparse_inputs(plan.steps, plan.roots)} == inputs


def test_a_root_is_needed_dense():
    sample = SPARSE_SAMPLES["product"](np.float32)
    plan = make_plan(sample.network, [sample.network["x"], *sample.roots], sample.criterion)
    assert sparse_inputs(plan.steps, plan.roots) == frozenset()
    assert len(plan.sparse) == 1


def test_an_evaluation_has_no_gradients():
    sample = SPARSE_SAMPLES["product"](np.float32)
    assert not make_plan(sample.network, sample.roots).sparse


def test_labels_may_come_sparse_though_they_are_not_declared_so():
    sample = classifier(np.float32)
    plan = make_plan(sample.network, sample.roots, sample.criterion)
    assert {node.name for node in label_inputs(plan.steps, plan.roots)} == {"labels"}
    assert not sparse_inputs(plan.steps, plan.roots)
    wanted = make_plan(sample.network, [sample.network["labels"]], sample.criterion)
    assert not label_inputs(wanted.steps, wanted.roots)


def test_features_are_no_labels():
    sample = multipliers(np.float32)
    plan = make_plan(sample.network, sample.roots, sample.criterion)
    assert {node.name for node in label_inputs(plan.steps, plan.roots)} == {"target"}


@pytest.mark.parametrize(("shape", "whole"), [((4,), True), ((4, 2), False)])
def test_a_sparse_input_has_to_be_summed_up_whole(shape, whole):
    weights = Parameter.make("W", (4, 3), value=np.zeros((4, 3)))
    op = core_op("Times")
    node = Node("product", op, [weights, Input.make("x", shape, sparse=True)], op.attributes())
    assert is_sparse_product(node) is whole
    node.inputs[1].sparse = False
    assert not is_sparse_product(node)
