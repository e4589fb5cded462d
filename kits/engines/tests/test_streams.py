"""Streams as engines take them in: which stay sparse, which rows they touch, and where open values lie."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from small_plans import Maker, layers, recurrent

from cntk_core.errors import DataError
from cntk_core.network.node import Input, Node
from cntk_core.ops.families.slicing import SliceAttributes
from cntk_core.ops.language.layouts import frame_layout
from cntk_core.ops.language.shapes import Longest
from cntk_core.ops.table import core_op
from cntk_core.plan.make import make_plan
from cntk_core.plan.plan import Plan
from cntk_core.records.minibatch import StreamData
from cntk_kit_engines.inlets import Inlets
from cntk_kit_engines.open_arrays import OpenArrays, reaches_open
from cntk_kit_engines.plan_values import ValueSizes
from cntk_kit_engines.remaking import is_fused
from cntk_kit_engines.sparse_inputs import is_product, is_transposed, label_inputs, sparse_inputs, takes_sparse
from cntk_kit_engines.streams import check_size, sparse_matrix


def stream(data: Any) -> StreamData:
    return StreamData(data, frame_layout(data.shape[0]))


def test_samples_have_the_size_of_the_input() -> None:
    node = Input.make("x", (2, 3))
    for good in (np.zeros((4, 2, 3)), np.zeros((4, 6)), csr_array((4, 6)), np.zeros((0, 5)), csr_array((0, 6))):
        check_size(node, stream(good))
    for wrong, shown in ((np.zeros((4, 5)), "[5]"), (csr_array((0, 5)), "[5]"), (np.zeros((1, 2, 2)), "[2 x 2]")):
        with pytest.raises(DataError) as caught:
            check_size(node, stream(wrong))
        assert str(caught.value) == f"the input 'x' is [3 x 2], but its stream gives samples of {shown}"


def test_streams_as_sparse_matrices() -> None:
    node = Input.make("x", (3,), sparse=True)
    there = csr_array(np.eye(3))
    assert sparse_matrix(node, stream(there), np.float64) is there
    other = sparse_matrix(node, stream(there), np.float32)
    assert (other.dtype, other.toarray().tolist()) == (np.float32, np.eye(3).tolist())
    dense = np.arange(6.0).reshape(2, 3, 1)
    assert sparse_matrix(node, stream(dense), np.float32).toarray().tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(DataError):
        sparse_matrix(node, stream(csr_array((2, 4))), np.float64)


def words(*, read: bool = False, labels: bool = True) -> Plan:
    """``CrossEntropyWithSoftmax(l, W x)`` of sparse words, which something else may read, too."""
    make = Maker()
    x = make.network.add(Input.make("x", (4,), sparse=True))
    label = make.input("l", 3)
    z = make("z", "Times", make.parameter("W", 4, 3), x)
    if read:
        z = make("z2", "Plus", z, make("part", "Slice", x, attributes=SLICE))
    criterion = make("ce", "CrossEntropyWithSoftmax", label, z if labels else make("both", "Plus", z, label))
    return make.plan(criterion)


SLICE = SliceAttributes(0, 3, 1)


def inputs_of(plan: Plan) -> tuple[Any, Any]:
    return plan.network["x"], plan.network["l"]


def names(nodes: Any) -> list[str]:
    return sorted(node.name for node in nodes)


@pytest.mark.parametrize(
    ("read", "labels", "sparse", "may"),
    [
        (False, True, ["x"], ["l"]),
        (True, True, [], ["l"]),
        (False, False, ["x"], []),
    ],
)
def test_inputs_that_stay_sparse_and_labels_that_may(
    read: bool, labels: bool, sparse: list[str], may: list[str]
) -> None:
    plan = words(read=read, labels=labels)
    assert names(sparse_inputs(plan.steps, plan.roots)) == sparse
    assert names(label_inputs(plan.steps, plan.roots)) == may
    assert names(sparse_inputs(plan.steps, [*plan.roots, plan.network["x"]])) == []


def test_what_takes_sparse_matrices() -> None:
    network = words().network
    z, ce = network["z"], network["ce"]
    assert [is_product(node) for node in (z, ce)] == [True, False]
    assert [is_transposed(node) for node in (z, ce)] == [False, False]
    assert [takes_sparse(z, index) for index in (0, 1)] == [False, True]
    assert [takes_sparse(ce, index) for index in (0, 1)] == [True, False]
    assert not takes_sparse(layers().network["Wx"], 1)
    transposed = Node("t", core_op("TransposeTimes"), [])
    assert (is_product(transposed), is_transposed(transposed)) == (True, True)


class Inlet:
    """Takes in an input in one way; its columns are those with something in them."""

    def __init__(self, way: str, node: Input) -> None:
        self.name = f"{way} {node.name}"

    def take(self, stream: StreamData) -> str:
        self.columns = np.flatnonzero(np.asarray(stream.data.sum(axis=0)))
        return self.name


def inlets(plan: Plan) -> Inlets[Any, Any]:
    return Inlets(plan, lambda node: Inlet("dense", node), lambda node: Inlet("sparse", node))


def test_inlets_of_a_minibatch() -> None:
    plan = words()
    x, label = inputs_of(plan)
    made = inlets(plan)
    assert (names(made.dense), made.read_dense) == (["l"], ())
    dense = {x: stream(csr_array(np.eye(4)[:2])), label: stream(np.eye(3)[:2])}
    sparse = {x: dense[x], label: stream(csr_array(np.eye(3)[:2]))}
    assert [made.note_labels(one) for one in (dense, dense, sparse, sparse, dense, sparse)] == [
        *(False, False, True, False, True, True)
    ]
    assert made.take(sparse) == ({}, ["sparse x", "sparse l"])
    assert names(made.sparse()) == ["l", "x"]
    made.note_labels(dense)
    assert made.take(dense) == ({label: "dense l"}, ["sparse x"])
    assert names(made.sparse()) == ["x"]
    plan = words(labels=False)
    assert not inlets(plan).note_labels({})


def test_an_input_that_is_read_in_both_ways() -> None:
    plan = words(read=True)
    x, label = inputs_of(plan)
    made = inlets(plan)
    assert names(made.dense) == ["l", "x"]
    assert names(plan.sparse) == names(made.read_dense) == ["W"]
    given = {x: stream(csr_array(np.eye(4)[:2])), label: stream(np.eye(3)[:2])}
    assert made.take(given) == ({x: "dense x", label: "dense l"}, ["sparse x"])


def test_rows_that_a_minibatch_has_come_to() -> None:
    plan = words()
    x, label = inputs_of(plan)
    made = inlets(plan)
    made.take({x: stream(csr_array(np.eye(4)[[1, 3]])), label: stream(np.eye(3)[:2])})
    (weights,) = plan.trained
    touched = np.zeros(4, np.bool_)
    store: Any = SimpleNamespace(touched=lambda parameter, rows: touched)
    made.mark(store, ())
    assert not touched.any()
    made.mark(store)
    assert touched.tolist() == [False, True, False, True]
    touched[...] = False
    made.mark(store, (weights,))
    assert touched.tolist() == [False, True, False, True]


def test_plans_that_compute_several_nodes_in_one_pass() -> None:
    for plan in (layers(), recurrent()):
        assert is_fused(plan)
        apart = make_plan(plan.network, plan.roots, plan.criterion, fuse=False)
        assert not is_fused(apart)


def open_node(name: str, *shape: Any, axis: str | None = None) -> Node:
    node = Node(name, core_op("Sigmoid"), [])
    node.shape, node.framed, node.axis = shape, axis is not None, axis or ""
    return node


def test_storage_of_values_whose_sizes_each_minibatch_has() -> None:
    value, framed = open_node("v", Longest("a"), 2), open_node("f", Longest("b"), axis="c")
    made: list[int] = []
    plan: Any = SimpleNamespace(open_values=(value, framed), open_gradients=(value,))
    arrays = OpenArrays(plan, lambda size: made.append(size) or np.zeros(size))
    assert arrays.axes == ["a", "b"]

    def shapes(longest: dict[str, int], frames: dict[str, int], before: Any = None) -> Any:
        sizes = ValueSizes()
        sizes.longest, sizes.frames = longest, frames
        values: dict[Node, Any] = {}
        gradients: dict[Node, Any] = {}
        arrays.add(sizes, values, gradients, before)
        return values, gradients

    values, gradients = shapes({"a": 3}, {"c": 5})
    assert ({node.name: one.shape for node, one in values.items()}, gradients[value].shape) == ({"v": (3, 2)}, (3, 2))
    assert values[value] is not gradients[value]
    assert (made, arrays.nbytes) == ([6, 6], 96)
    later, _ = shapes({"a": 3, "b": 4}, {"c": 5}, values)
    assert later[value] is values[value]
    assert later[framed].shape == (5, 4)
    assert names(shapes({"a": 3, "b": 4}, {})[0]) == ["v"]
    made.clear()
    values, gradients = shapes({"a": 2}, {})
    assert (made, values[value].shape) == ([], (2, 2))
    shapes({"a": 4}, {})
    assert made == [8, 8]
    made.clear()
    shapes({"a": 5}, {})
    assert made == [10, 10]
    shapes({"a": 50}, {})
    assert made[2:] == [100, 100]
    made.clear()
    shapes({"a": 51}, {})
    assert made == [125, 125]


def test_steps_with_such_values() -> None:
    closed, opened = open_node("c", 3), open_node("o", Longest("a"))
    for nodes, reads, found in (([closed], [closed], False), ([opened], [], True), ([closed], [opened], True)):
        step: Any = SimpleNamespace(nodes=tuple(nodes), reads=tuple(reads))
        assert reaches_open(step) is found
