"""What is made of whole sequences and minibatches: reductions, sums of products, attention; and what they refuse."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

from cntk_core.contract.store import ParameterStore
from cntk_core.errors import CntkError, DataError, NetworkError
from cntk_core.network.model_file import load_model, save_model
from cntk_core.network.network import Network
from cntk_core.network.node import BATCH, Input, Node, Parameter
from cntk_core.ops.language.layouts import sequence_layout, slot_layout
from cntk_core.ops.language.reader_order import pack
from cntk_core.ops.table import core_ops
from cntk_core.plan.make import make_plan
from cntk_core.records.layout import SequenceLayout
from cntk_core.records.minibatch import Minibatch, StreamData
from cntk_kit_recipes.recipe.sequences_begun import unpack_sequences
from cntk_testing.gradients import check_gradients
from cntk_testing.reference import ReferenceEngine, ReferenceProgram

TABLE = core_ops()
LENGTHS = [2, 3, 1, 4]
DIM = 3


def add(network: Network, name: str, op: str, *inputs: Node, **attributes: Any) -> Node:
    found = TABLE.find("ndl", op)
    assert found is not None
    return network.add(Node(name, found, inputs=list(inputs), attributes=found.attributes(**attributes)))


def start() -> tuple[Network, Node]:
    network = Network(np.float64)
    return network, network.add(Input.make("x", (DIM,)))


def sequences(lengths: Sequence[int] = LENGTHS) -> list[np.ndarray]:
    return [np.random.default_rng(number).normal(size=(length, DIM)) for number, length in enumerate(lengths)]


def data(layout: SequenceLayout, slots: Sequence[np.ndarray]) -> Minibatch:
    return Minibatch({"x": StreamData(pack(slots, layout), layout)}, layout.frames)


def run(network: Network, name: str, minibatch: Minibatch) -> tuple[np.ndarray, ReferenceProgram]:
    network.infer()
    program = ReferenceEngine().compile(
        make_plan(network, [network[name]]), ParameterStore(network.parameters, network.dtype)
    )
    program.evaluate(minibatch)
    return program.value(name), program


def whole() -> Minibatch:
    return data(sequence_layout(LENGTHS), sequences())


def several_to_a_slot() -> Minibatch:
    layout = slot_layout([LENGTHS[:2], LENGTHS[2:3], LENGTHS[3:]])
    one, two, three, four = sequences()
    return data(layout, [np.concatenate([one, two]), three, four])


def reduction(network: Network, x: Node) -> Node:
    return add(network, "y", "ReduceElements", x, reduction_op="Max", axis=-2)


def own_attention(network: Network, x: Node) -> Node:
    memory = add(network, "memory", "UnpackSequence", x)
    there = add(network, "there", "UnpackSequence", add(network, "one", "Equal", x, x))
    column = add(network, "column", "Slice", there, begin=0, end=1)
    weights = add(network, "weights", "AttentionWeights", memory, x, column, causal=True)
    return add(network, "y", "AttentionSum", memory, weights)


@pytest.mark.parametrize("make", [reduction, own_attention])
def test_slots_with_several_sequences(make: Callable[[Network, Node], Node]) -> None:
    found = []
    for minibatch in (whole(), several_to_a_slot()):
        network, x = start()
        make(network, x)
        value, program = run(network, "y", minibatch)
        layout = program.layout("y")
        numbers = np.argsort([layout.order[slot] for slot, _ in layout.begins.tolist()], kind="stable")
        parts = unpack_sequences(value, layout)
        found.append([parts[place] for place in numbers] if layout.steps > 1 else [value])
    if make is own_attention:  # sequences of a slot follow each other in the order of slots
        found[1] = sorted(found[1], key=len)
        found[0] = sorted(found[0], key=len)
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("lengths", [LENGTHS, [40, 0, 3]])
@pytest.mark.parametrize("operation", ["Sum", "LogSum", "Mean", "Max", "Min", "Prod", "Argmax", "Argmin"])
def test_few_sequences_of_many_steps_and_many_of_few(operation: str, lengths: list[int]) -> None:
    network, x = start()
    add(network, "y", "ReduceElements", x, reduction_op=operation, axis=-2)
    value, _ = run(network, "y", data(sequence_layout(lengths), sequences(lengths)))
    parts = [each for each in sequences(lengths) if len(each)]
    if operation == "LogSum":
        expected = [np.log(np.exp(each).sum(axis=0)) for each in parts]
    else:
        expected = [getattr(each, operation.lower())(axis=0) for each in parts]
    np.testing.assert_allclose(value, expected, rtol=1e-12)


def test_sums_of_products_of_the_steps_of_a_sequence() -> None:
    network, x = start()
    first = add(network, "first", "Slice", x, begin=0, end=2)
    add(network, "y", "Times", first, x, infer_input_rank_to_map=-2)
    value, program = run(network, "y", whole())
    assert network["y"].describe() == "y = Times (first, x) : [2 x 3 x *]"
    np.testing.assert_allclose(value, [each.T @ each[:, :2] for each in sequences()], rtol=1e-12)
    assert program.layout("y").lengths.tolist() == [1, 1, 1, 1]


def test_a_memory_without_dynamic_axis_is_learned() -> None:
    network, x = start()
    memory = network.add(Parameter.make("memory", (5, DIM), value=np.random.default_rng(3).normal(size=(5, DIM))))
    seen = add(network, "y", "AttentionSum", memory, add(network, "w", "AttentionWeights", memory, x, scale=0.5))
    square = add(network, "square", "ElementTimes", seen, seen)
    criterion = add(network, "c", "SumElements", square)
    value, _ = run(network, "y", whole())
    shares = np.exp(0.5 * (pack(sequences(), sequence_layout(LENGTHS)) @ np.asarray(memory.value).T))
    np.testing.assert_allclose(value, shares / shares.sum(axis=1, keepdims=True) @ np.asarray(memory.value), rtol=1e-12)
    check_gradients(network, criterion, whole())


@pytest.mark.parametrize("operation", ["Sum", "LogSum", "Mean", "Max", "Min", "Prod"])
@pytest.mark.parametrize("axis", [-1, -3])
def test_nothing_to_reduce(operation: str, axis: int) -> None:
    network, x = start()
    add(network, "y", "ReduceElements", x, reduction_op=operation, axis=axis)
    value, _ = run(network, "y", data(sequence_layout([0]), sequences([0])))
    neutral = {"Sum": 0, "LogSum": -np.inf, "Mean": 0, "Max": -np.inf, "Min": np.inf, "Prod": 1}[operation]
    np.testing.assert_array_equal(value, np.full(1 if axis == -1 else DIM, neutral))


def test_a_reduction_says_where_a_number_is_none() -> None:
    network, x = start()
    add(network, "y", "ReduceElements", x, reduction_op="Argmax", axis=-2)
    minibatch = whole()
    minibatch.streams["x"].data[1, 0] = np.nan  # the first step of the sequence that comes second in the packed order
    value, _ = run(network, "y", minibatch)
    expected = sequences()
    expected[1][0, 0] = np.nan
    np.testing.assert_array_equal(value, [each.argmax(axis=0) for each in expected])


def test_all_axes_may_stay_with_length_1() -> None:
    network, x = start()
    matrix = add(network, "m", "Reshape", x, dims=(1, 3))
    kept = add(network, "kept", "ReduceElements", matrix, axis=-1, keep_dimensions=True)
    value, _ = run(network, "kept", whole())
    assert kept.describe() == "kept = ReduceElements (m) : [1 x 1]"
    np.testing.assert_allclose(value, [[np.concatenate(sequences()).sum()]], rtol=1e-12)


def test_other_attributes_make_another_operation_of_a_node() -> None:
    network, x = start()
    node = reduction(network, x)
    network.infer()
    assert node.describe() == "y = ReduceElements (x) : [3 x *]"
    assert node.axis == "y"
    node.attributes = attrs.evolve(node.attributes, axis=-1)
    network.infer()
    assert node.describe() == "y = ReduceElements (x) : [1]"
    node.attributes = attrs.evolve(node.attributes, axis=1)
    network.infer()
    assert node.describe() == "y = ReduceElements (x) : [1 x *]"
    assert node.op is TABLE.find("", "ReduceElements")


@pytest.mark.parametrize("make", [reduction, own_attention])
def test_models_keep_it(make: Callable[[Network, Node], Node], tmp_path: Path) -> None:
    network, x = start()
    make(network, x)
    before, _ = run(network, "y", whole())
    save_model(network, tmp_path / "net.model")
    loaded = load_model(tmp_path / "net.model", TABLE.find)
    after, _ = run(loaded, "y", whole())
    np.testing.assert_array_equal(before, after)


def test_it_is_pickled_by_name() -> None:
    network, x = start()
    node = reduction(network, x)
    network.infer()
    assert pickle.loads(pickle.dumps(node.op)) is TABLE.find("", "ReduceElements")
    assert pickle.loads(pickle.dumps(network))["y"].op is node.op


def cut() -> Minibatch:
    layout = slot_layout([[2], [1]], continued=[True, False])
    return data(layout, sequences([2, 1]))


def batch_axis(network: Network, x: Node) -> Node:
    return add(network, "y", "ReduceElements", x, axis=-3)


def products(network: Network, x: Node) -> Node:
    return add(network, "y", "Times", x, x, infer_input_rank_to_map=-2)


def attention_to_frames(network: Network, x: Node) -> Node:
    return add(network, "y", "AttentionWeights", add(network, "m", "Reshape", x, dims=(1, 3)), first_of(network, x))


def first_of(network: Network, x: Node) -> Node:
    return add(network, "first", "Slice", x, begin=0, end=1)


def static_attention(network: Network, x: Node) -> Node:
    memory = network.add(Parameter.make("memory", (2, DIM), value=np.ones((2, DIM))))
    there = add(network, "there", "ReconcileDynamicAxis", first_of(network, x), x)
    ones = add(network, "ones", "RowRepeat", there, num_repeats=2)
    return add(network, "y", "AttentionWeights", memory, x, ones)


WRONG_DATA = [
    (
        reduction,
        cut,
        "ReduceElements needs whole sequences, and those of this minibatch are cut\n    Train without truncated=true.",
    ),
    (
        products,
        cut,
        "Times over the sequence axis needs whole sequences, and those of this minibatch are cut\n"
        "    Train without truncated=true.",
    ),
    (
        static_attention,
        cut,
        "attention needs whole sequences, and those of this minibatch are cut\n    Train without truncated=true.",
    ),
    (
        batch_axis,
        whole,
        "ReduceElements over the batch axis needs sequences of one frame, and there are some of 4\n"
        "    Reduce over the sequence axis (axis=-2) before, or over all axes (axis=-1).",
    ),
    (
        attention_to_frames,
        whole,
        "attention needs one memory for each sequence, and there are 4\n"
        "    UnpackSequence makes a memory of each sequence.",
    ),
]


@pytest.mark.parametrize(("make", "minibatch", "text"), WRONG_DATA)
def test_data_that_do_not_fit(
    make: Callable[[Network, Node], Node], minibatch: Callable[[], Minibatch], text: str
) -> None:
    network, x = start()
    make(network, x)
    with pytest.raises(DataError) as error:
        run(network, "y", minibatch())
    assert str(error.value) == text


def test_sequences_of_products_must_be_the_same() -> None:
    network, x = start()
    last = add(network, "last", "FutureValue", first_of(network, x), default_hidden_activation=9.0)
    nine = network.add(Parameter.make("nine", (1,), value=np.full(1, 9.0)))
    chosen = add(network, "chosen", "Where", add(network, "is_last", "Equal", last, nine))
    add(network, "y", "Times", x, chosen, infer_input_rank_to_map=-2)
    with pytest.raises(DataError) as error:
        run(network, "y", whole())
    assert str(error.value) == "Times over the sequence axis: the sequences of the operands differ in length"


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("ReduceElements", {"axis": -2}),
        ("Times", {"infer_input_rank_to_map": -2}),
        ("UnpackSequence", {}),
    ],
)
def test_what_has_no_sequences(op: str, attributes: dict[str, Any]) -> None:
    network, x = start()
    w = network.add(Parameter.make("w", (DIM,), value=np.ones(DIM)))
    add(network, "y", op, *[w, x][: 2 if op == "Times" else 1], **attributes)
    with pytest.raises(NetworkError) as error:
        network.infer()
    assert str(error.value) == f"{op} 'y' looks along sequences, but its input 'w' has no dynamic axis"


def test_values_of_samples_and_of_sequences() -> None:
    network, x = start()
    b = network.add(Input.make("b", (DIM,), axis=BATCH))
    both = add(network, "both", "Plus", reduction(network, x), b)
    add(network, "total", "ReduceElements", both, axis=-3)
    minibatch = whole()
    rows = np.arange(12.0).reshape(4, DIM)
    streams = {**minibatch.streams, "b": StreamData(rows, sequence_layout([1, 1, 1, 1]))}
    value, _ = run(network, "total", Minibatch(streams, minibatch.samples))
    np.testing.assert_allclose(value, (rows + [each.max(axis=0) for each in sequences()]).sum(axis=0), rtol=1e-12)
    add(network, "wrong", "ReduceElements", b, axis=-2)
    with pytest.raises(
        NetworkError, match=r"^ReduceElements 'wrong' looks along sequences, but its input 'b' has .*\[batch\]$"
    ):
        network.infer()


def test_what_has_no_batch() -> None:
    network, x = start()
    w = network.add(Parameter.make("w", (DIM,), value=np.ones(DIM)))
    add(network, "y", "Plus", x, add(network, "sum", "ReduceElements", w, axis=-3))
    with pytest.raises(DataError) as error:
        run(network, "y", whole())
    assert str(error.value) == "ReduceElements over the batch axis: its input has no dynamic axis"


@pytest.mark.parametrize("op", ["ReduceElements", "AttentionSum"])
def test_what_loops_cannot_have(op: str) -> None:
    """A reduction of the loop's own values, and a memory that is made in the loop."""
    network, x = start()
    past = add(network, "past", "PastValue", dims=(DIM,))
    if op == "ReduceElements":
        inside = add(network, "y", op, past, axis=-2)
    else:
        memory = add(network, "memory", "Reshape", past, dims=(1, 3))
        inside = add(network, "y", op, memory, add(network, "w", "AttentionWeights", memory, first_of(network, x)))
    past.inputs = [add(network, "h", "Plus", inside, x)]
    network.infer()
    with pytest.raises(CntkError, match=r"'(y|w)' \((ReduceElements|AttentionWeights|AttentionSum)\) cannot be in"):
        make_plan(network, [network["h"]])
