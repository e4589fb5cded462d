"""Ops that move frames between dynamic axes, in networks, against the same done sequence by sequence."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cntk_core.contract.store import ParameterStore
from cntk_core.errors import DataError
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node, Parameter
from cntk_core.ops.families.frame_moves import (
    emissions,
    keyed_layout,
    packed_columns,
    reconciled_rows,
    to_sequences,
)
from cntk_core.ops.families.sequences import GATHER
from cntk_core.ops.language.framing import run_forward, run_gradient
from cntk_core.ops.language.layouts import frame_layout, sequence_layout, slot_layout
from cntk_core.ops.language.op import NoAttributes, OpContext
from cntk_core.ops.language.rows import sequence_rows, sequence_table
from cntk_core.ops.table import core_ops
from cntk_core.plan.make import make_plan
from cntk_core.records.minibatch import Minibatch, StreamData
from cntk_testing.examples import examples
from cntk_testing.gradients import check_gradients
from cntk_testing.reference import ReferenceEngine

TABLE = core_ops()
LENGTHS = st.lists(st.integers(0, 4), min_size=1, max_size=5).filter(any)


def add(network: Network, name: str, op: str, *inputs: Node, **attributes) -> Node:
    found = TABLE.find("", op)
    return network.add(Node(name, found, inputs=list(inputs), attributes=found.attributes(**attributes)))


def gathering(dim: int = 2) -> Network:
    """Frames of W * x where the condition holds, summed; and the same put back."""
    network = Network(np.float64)
    x = network.add(Input.make("x", (dim,)))
    condition = network.add(Input.make("condition", (1,)))
    weights = network.add(Parameter.make("W", (dim, dim), value=np.array([[0.5, -1.0], [2.0, 0.25]])))
    product = add(network, "product", "Times", weights, x)
    index = add(network, "index", "Where", condition)
    rows = add(network, "rows", "PackedIndex", product, index)
    gathered = add(network, "gathered", "GatherPacked", rows, product)
    squares = add(network, "squares", "ElementTimes", gathered, gathered)
    back = add(network, "back", "ScatterPacked", condition, rows, squares)
    add(network, "criterion", "SumElements", back)
    network.infer()
    return network


def minibatch(lengths, conditions, seed=0, dim=2) -> Minibatch:
    layout = sequence_layout(lengths)
    values = np.random.default_rng(seed).standard_normal((layout.frames, dim))
    rows = sequence_rows(layout)
    flags = [conditions[number][step] for number, step in zip(rows.number.tolist(), rows.step.tolist(), strict=True)]
    streams = {
        "x": StreamData(values, layout),
        "condition": StreamData(np.array(flags, np.float64).reshape(-1, 1), layout),
    }
    return Minibatch(streams, layout.frames)


@examples(40)
@given(LENGTHS, st.data())
def test_gathered_and_scattered_frames_are_those_of_the_condition(lengths, data):
    conditions = [[data.draw(st.integers(0, 1)) for _ in range(length)] for length in lengths]
    network, batch = gathering(), minibatch(lengths, conditions)
    roots = [network[name] for name in ("gathered", "back")]
    program = ReferenceEngine().compile(make_plan(network, roots), ParameterStore(network.parameters, network.dtype))
    program.evaluate(batch)
    product = batch.streams["x"].data @ network["W"].value
    flags = batch.streams["condition"].data
    np.testing.assert_allclose(program.value("back"), flags * product**2)
    made = program.layout("gathered")
    assert made.frames == int(flags.sum())
    source, own = sequence_rows(batch.streams["x"].layout), sequence_rows(made)
    for row, (number, place) in enumerate(zip(own.number.tolist(), (own.step - own.first).tolist(), strict=True)):
        step = [index for index, flag in enumerate(conditions[number]) if flag][place]
        (origin,) = np.flatnonzero((source.number == number) & (source.step == step))
        np.testing.assert_array_equal(program.value("gathered")[row], product[origin])


@examples(10)
@given(LENGTHS, st.data())
def test_gradients_flow_through_gathered_frames(lengths, data):
    conditions = [[data.draw(st.integers(0, 1)) for _ in range(length)] for length in lengths]
    network = gathering()
    check_gradients(network, network["criterion"], minibatch(lengths, conditions))


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([1, 0, 1], [0, 2]),
        ([0, 0], []),
        ([2, 1], [0, 0, 1]),
        ([0.5, 0.5, 0.5, 0.5], [0, 2]),
        ([1 / 3] * 6, [0, 3]),
        ([np.float32(1 / 3)] * 6, [0, 3]),
        ([1.5], [0, 0]),
        ([1.5] * 4, [0, 0, 1, 2, 2, 3]),
        ([1, -1, 1, 1], [0, 3]),
    ],
)
def test_conditions_that_are_counts_emit_when_they_add_up(counts, expected):
    assert emissions(np.array(counts)).tolist() == expected


def test_an_index_outside_its_sequence_is_named():
    network = Network(np.float64)
    x = network.add(Input.make("x", (2,)))
    condition = network.add(Input.make("condition", (1,)))
    add(network, "rows", "PackedIndex", x, condition)
    network.infer()
    program = ReferenceEngine().compile(
        make_plan(network, [network["rows"]]), ParameterStore(network.parameters, network.dtype)
    )
    with pytest.raises(DataError) as caught:
        program.evaluate(minibatch([2, 1], [[0, 1], [1]]))
    assert str(caught.value) == "PackedIndex: the index 1 lies outside a sequence of 1 frames"


@examples(10)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=4))
def test_a_static_axis_becomes_sequences(lengths):
    network = Network(np.float64)
    x = network.add(Input.make("x", (3, 2)))
    length = network.add(Input.make("length", (1,)))
    weights = network.add(Parameter.make("W", (2, 2), value=np.array([[0.5, -1.0], [2.0, 0.25]])))
    sequences = add(network, "sequences", "ToSequence", x, length)
    product = add(network, "product", "Times", weights, sequences)
    add(network, "criterion", "SumElements", add(network, "squares", "ElementTimes", product, product))
    network.infer()
    layout = sequence_layout([1] * len(lengths))
    values = np.random.default_rng(1).standard_normal((len(lengths), 3, 2))
    batch = Minibatch(
        {
            "x": StreamData(values, layout),
            "length": StreamData(np.array(lengths, np.float64).reshape(-1, 1), layout),
        },
        len(lengths),
    )
    program = ReferenceEngine().compile(
        make_plan(network, [sequences]), ParameterStore(network.parameters, network.dtype)
    )
    program.evaluate(batch)
    rows = sequence_rows(program.layout("sequences"))
    expected = [values[number, step] for number, step in zip(rows.number.tolist(), rows.step.tolist(), strict=True)]
    np.testing.assert_array_equal(program.value("sequences"), np.array(expected).reshape(-1, 2))
    if any(lengths):
        check_gradients(network, network["criterion"], batch)


@pytest.mark.parametrize(("lengths", "wrong"), [([3, 4, 1], 4), ([3, -1, 1], -1), ([0, 3], None)])
def test_lengths_beyond_the_axis_that_becomes_sequences(lengths, wrong):
    layout = sequence_layout([1] * len(lengths))
    context = OpContext((True, True), len(lengths), layout=layout, layouts=(layout, layout))
    if wrong is None:
        assert to_sequences(context, lengths, 3).frames == sum(lengths)
        return
    with pytest.raises(DataError) as caught:
        to_sequences(context, lengths, 3)
    assert caught.value.message == f"ToSequence: a length of {wrong} for an axis of 3"


@pytest.mark.parametrize("index", [5, -1])
def test_gather_of_a_row_that_is_not_there(index):
    values = [np.array([[0.0], [index]]), np.zeros((5, 2))]
    with pytest.raises(DataError) as caught:
        run_forward(GATHER, np, values, NoAttributes(), OpContext((True, False), 2))
    assert caught.value.message == f"Gather: the index {index} is not between 0 and 4"


def test_gather_adds_the_gradients_of_a_row_that_is_taken_twice():
    indices, table = np.array([[2.0, 0.0], [2.0, 2.0]]), np.arange(8.0).reshape(4, 2)
    context = OpContext((True, False), 2)
    found = run_forward(GATHER, np, [indices, table], NoAttributes(), context)
    assert found.tolist() == [[[4, 5], [0, 1]], [[4, 5], [4, 5]]]
    gradient = run_gradient(
        GATHER, np, np.ones_like(found), found, [indices, table], NoAttributes(), context, [False, True]
    )[1]
    assert gradient is not None
    assert gradient.tolist() == [[1, 1], [0, 0], [3, 3], [0, 0]]


def test_columns_of_the_original_have_gaps() -> None:
    """Sequences of 4, 1, 3 and 2 frames are three lines: the second and third share one."""
    layout = sequence_layout([4, 1, 3, 2])
    table = sequence_table(layout)

    def row(sequence: int, step: int) -> int:
        return int(table.rows(layout, np.array([sequence]), np.array([step]))[0])

    expected = [
        *(row(0, 0), row(1, 0), row(3, 0)),
        *(row(0, 1), row(2, 0), row(3, 1)),
        *(row(0, 2), row(2, 1), -1),
        *(row(0, 3), row(2, 2), -1),
    ]
    assert packed_columns(layout).tolist() == expected


def test_columns_of_frames_and_of_cut_sequences_are_rows() -> None:
    assert packed_columns(frame_layout(3)).tolist() == [0, 1, 2]
    cut = slot_layout([[2], [3]], continued=[True, False], continues=[False, True])
    assert packed_columns(cut).tolist() == [0, 1, 2, 3, 4]


def reconciled(source, wanted):
    context = OpContext((True, True), wanted.frames, layout=wanted, layouts=(source, wanted))
    rows = reconciled_rows(context)
    return None if rows is None else rows.tolist()


def test_one_frame_for_each_sequence_is_repeated():
    assert reconciled(sequence_layout([1, 1, 1]), sequence_layout([2, 3, 1])) == [1, 0, 2, 1, 0, 1]
    assert reconciled(sequence_layout([2, 3]), sequence_layout([2, 3])) is None
    layout = sequence_layout([3, 1])
    assert reconciled(None, layout) is None
    assert reconciled(layout, layout) is None
    with pytest.raises(DataError) as caught:
        reconciled(sequence_layout([2, 3]), sequence_layout([3, 3]))
    assert caught.value.message == ("ReconcileDynamicAxis: a sequence has 2 frames on one axis and 3 on the other")


def test_sequences_that_go_on_have_the_frame_of_their_slot():
    """Those of the minibatch before have no number here; each slot has one frame and one sequence."""
    wanted = slot_layout([[2], [3]], continued=[True, False])
    assert reconciled(frame_layout(2), wanted) == [1, 0, 1, 0, 1]
    with pytest.raises(DataError):  # which of two sequences of a slot would be meant?
        reconciled(frame_layout(2), slot_layout([[2, 1], [3]], continued=[True, False]))
    with pytest.raises(DataError):
        reconciled(frame_layout(3), wanted)


@pytest.mark.parametrize(("keys", "expected"), [(["a", "b", "c"], ["b", "a"]), ([], [])])
def test_keys_follow_their_sequences(keys, expected):
    layout = sequence_layout([1, 3, 2], keys)
    made = keyed_layout(layout, np.array([1, 2, 0]))
    assert list(made.keys) == expected
    assert made.lengths.tolist() == [2, 1, 0]
    assert list(keyed_layout(layout, np.array([1, 2])).keys) == []
