"""UnpackBatch: the samples of a minibatch as an axis, whose length every minibatch has its own of, and back."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cntk_core.contract.store import ParameterStore
from cntk_core.errors import CntkError, DataError
from cntk_core.network.model_file import load_model, save_model
from cntk_core.network.network import Network
from cntk_core.network.node import BATCH, Input, Node, Parameter
from cntk_core.ops.language.layouts import frame_layout, sequence_layout
from cntk_core.ops.language.shapes import Longest, longest_axes, samples_axis, show, with_lengths
from cntk_core.ops.table import core_ops
from cntk_core.plan.make import make_plan
from cntk_core.records.minibatch import Minibatch, StreamData
from cntk_kit_engines.step_program import StepProgram
from cntk_testing.examples import examples
from cntk_testing.gradients import check_gradients
from cntk_testing.reference import ReferenceEngine

TABLE = core_ops()
DIM = 3


def add(network: Network, name: str, op: str, *inputs: Node, **attributes: Any) -> Node:
    found = TABLE.find("ndl", op)
    assert found is not None
    return network.add(Node(name, found, inputs=list(inputs), attributes=found.attributes(**attributes)))


def unpacking(axis: str = BATCH) -> tuple[Network, Node, Node]:
    network = Network(np.float64)
    x = network.add(Input.make("x", (DIM,), axis=axis))
    return network, x, add(network, "u", "UnpackBatch", x)


def samples(count: int) -> Minibatch:
    data = np.random.default_rng(count).standard_normal((count, DIM))
    return Minibatch({"x": StreamData(data, frame_layout(count))}, count)


def sequences(lengths: Sequence[int]) -> Minibatch:
    """Steps that know the number of their sequence, and which they are."""
    layout = sequence_layout(lengths)
    rows = [(number, step, 1) for step in range(layout.steps) for number in layout.order[: layout.alive[step]]]
    return Minibatch({"x": StreamData(np.array(rows, float).reshape(-1, DIM), layout)}, layout.frames)


def program(network: Network, *names: str) -> StepProgram:
    network.infer()
    plan = make_plan(network, [network[name] for name in names])
    return ReferenceEngine().compile(plan, ParameterStore(network.parameters, network.dtype))


def refused(network: Network) -> CntkError:
    with pytest.raises(CntkError) as caught:
        network.infer()
    return caught.value


@examples(10)
@given(st.lists(st.integers(1, 6), min_size=2, max_size=4))
def test_each_minibatch_has_its_own_number(counts: list[int]) -> None:
    network, x, u = unpacking()
    mean = add(network, "mean", "ReduceElements", u, reduction_op="Mean", axis=2)
    add(network, "centred", "ToBatch", add(network, "less", "Minus", u, mean))
    add(network, "again", "Plus", network["centred"], x)
    run = program(network, "u", "centred", "again")
    assert show(u.known_shape, framed=bool(u.framed)) == "[3 x ?]"
    assert (network["centred"].axis, network["again"].axis) == (BATCH, BATCH)
    for count in counts:
        batch = samples(count)
        data = batch.streams["x"].data
        run.evaluate(batch)
        np.testing.assert_array_equal(run.value("u"), data)
        np.testing.assert_allclose(run.value("centred"), data - data.mean(0), atol=1e-15)
        np.testing.assert_allclose(run.value("again"), 2 * data - data.mean(0), atol=1e-15)


@examples(15)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=5).filter(any))
def test_samples_made_of_sequences_stand_in_their_order(lengths: list[int]) -> None:
    network = Network(np.float64)
    x = network.add(Input.make("x", (DIM,)))
    last = add(network, "sum", "ReduceElements", x, reduction_op="Sum", axis=-2)
    most = add(network, "most", "ReduceElements", x, reduction_op="Max", axis=-2)
    both = add(network, "both", "Plus", last, most)
    u = add(network, "u", "UnpackBatch", both)
    back = add(network, "back", "ToBatch", u)
    other = add(network, "other", "ToBatch", add(network, "all", "UnpackBatch", most))
    add(network, "zero", "Minus", back, both)
    add(network, "sums", "Minus", back, other)
    run = program(network, "u", "zero", "sums", "sum")
    run.evaluate(sequences(lengths))
    there = [(number, length) for number, length in enumerate(lengths) if length]
    expected = [[number * (n + 1), n * (n - 1) / 2 + n - 1, n + 1] for number, n in there]
    np.testing.assert_array_equal(run.value("u"), expected)
    assert not run.value("zero").any()
    np.testing.assert_array_equal(run.value("sums"), run.value("sum"))


@pytest.mark.parametrize("count", [1, 4])
def test_gradients(count: int) -> None:
    network, x, _ = unpacking()
    weights = network.add(Parameter.make("W", (DIM, DIM), value=np.linspace(-1, 1, DIM * DIM).reshape(DIM, DIM)))
    y = add(network, "y", "Times", weights, x)
    u = add(network, "all", "UnpackBatch", y)
    spread = add(network, "spread", "ReduceElements", u, reduction_op="LogSum", axis=2)
    back = add(network, "back", "ToBatch", add(network, "less", "ElementTimes", u, spread))
    add(network, "criterion", "SumElements", add(network, "both", "ElementTimes", back, y))
    network.infer()
    check_gradients(network, network["criterion"], samples(count))


def test_a_minibatch_without_samples() -> None:
    network, x, u = unpacking()
    most = add(network, "most", "ReduceElements", u, reduction_op="Max", axis=2)
    add(network, "back", "Minus", add(network, "same", "ToBatch", u), x)
    run = program(network, "most", "back", "u")
    assert most.known_shape == (1, DIM)
    for count in (2, 0, 3):
        run.evaluate(samples(count))
        assert run.value("back").tolist() == [[0.0] * DIM] * count
        assert run.value("u").shape == (max(1, count), DIM)


def test_ones_for_each_sample() -> None:
    network, _, u = unpacking()
    add(network, "eye", "ToBatch", add(network, "ones", "EyeLikeOp", u))
    run = program(network, "eye")
    for count in (2, 4):
        run.evaluate(samples(count))
        np.testing.assert_array_equal(run.value("eye"), np.eye(count, DIM))


def test_sequences_are_refused() -> None:
    network, _, _ = unpacking(axis="")
    run = program(network, "u")
    run.evaluate(sequences([1, 1]))
    with pytest.raises(DataError) as caught:
        run.evaluate(sequences([2, 1]))
    assert str(caught.value) == (
        "UnpackBatch makes an axis of samples, and those of this minibatch are sequences\n"
        "    UnpackSequence makes an axis of the steps of each; sequence.last takes one step of each."
    )


def test_what_has_no_samples_is_refused() -> None:
    network = Network(np.float64)
    add(network, "u", "UnpackBatch", network.add(Parameter.make("p", (4, DIM), value=np.ones((4, DIM)))))
    assert refused(network).message == "UnpackBatch 'u' makes an axis of samples, but its input 'p' has no dynamic axis"


def test_dimensions_that_cannot_follow() -> None:
    network, _, u = unpacking()
    add(network, "pair", "RowStack", add(network, "t", "TransposeDimensions", u, axis1=1, axis2=2), network["t"])
    assert refused(network).message == (
        "RowStack 'pair': its dimensions would depend on the number of samples of a minibatch in a way that it cannot"
    )
    network, _, u = unpacking()
    weights = network.add(Parameter.make("W", (0, 2)))
    add(network, "z", "Times", weights, add(network, "t", "TransposeDimensions", u, axis1=1, axis2=2))
    assert refused(network).message == (
        "Times 'z': a parameter would be as long as the number of samples of a minibatch"
    )


def test_a_slice_needs_its_samples() -> None:
    network, _, u = unpacking()
    add(network, "two", "Slice", u, begin=0, end=2, axis=2)
    run = program(network, "two")
    run.evaluate(samples(3))
    with pytest.raises(DataError) as caught:
        run.evaluate(samples(1))
    assert str(caught.value) == (
        "Slice 'two', in a minibatch with 1 sample: the range 0 to 2 of axis 2 is not inside [3 x 1]"
    )


def test_dimensions_of_samples() -> None:
    steps, count = Longest("words"), Longest("words", samples=True)
    assert len({steps, count, Longest("", samples=True)}) == 3
    assert (count.axis, samples_axis((count, 2)), samples_axis((steps, 2)), samples_axis(())) == (
        "words",
        "words",
        None,
        None,
    )
    assert longest_axes((steps, count)) == {steps.key, count.key}
    assert with_lengths((count, steps, 2), {steps.key: 5, count.key: 7}) == (7, 5, 2)
    again = pickle.loads(pickle.dumps(count))
    assert (again, again.samples) == (count, True)


def test_in_a_file(tmp_path: Path) -> None:
    network, _, u = unpacking()
    add(network, "back", "ToBatch", u)
    network.infer()
    network.roots["output"] = [network["back"]]
    save_model(network, tmp_path / "m.dnn")
    found = load_model(tmp_path / "m.dnn", TABLE.find)
    assert found["u"].shape == (Longest(BATCH, samples=True), DIM)
    assert found["back"].axis == BATCH
    run = program(found, "back")
    run.evaluate(samples(2))
    np.testing.assert_array_equal(run.value("back"), samples(2).streams["x"].data)
