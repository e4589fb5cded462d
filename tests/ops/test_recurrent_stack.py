"""OptimizedRNNStack against its formulas, sequence by sequence and frame by frame; its weights; mistakes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cntk_core.errors import DataError, ShapeError
from cntk_core.ops.families.recurrent_stack import OPTIMIZED_RNN_STACK as STACK
from cntk_core.ops.families.recurrent_stack import RNNStackAttributes, stack_weights
from cntk_core.ops.language.framing import run_forward, run_gradient
from cntk_core.ops.language.layouts import frame_layout, sequence_layout, slot_layout
from cntk_core.ops.language.op import OpContext
from cntk_core.ops.language.rows import sequence_rows
from cntk_testing.examples import examples
from cntk_testing.gradients import check_op_gradients

KINDS = ("lstm", "gru", "rnnTanh", "rnnReLU")
INPUTS, HIDDEN = 3, 2


def sigma(x: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-x))


def cell(kind: str, x: Any, h: Any, c: Any, W: Any, R: Any, b: Any, d: Any) -> tuple[Any, Any]:
    """The state and the memory cell after one step, gate by gate."""
    w = [W[k * HIDDEN : (k + 1) * HIDDEN] @ x + b[k * HIDDEN : (k + 1) * HIDDEN] for k in range(len(b) // HIDDEN)]
    r = [R[k * HIDDEN : (k + 1) * HIDDEN] @ h + d[k * HIDDEN : (k + 1) * HIDDEN] for k in range(len(b) // HIDDEN)]
    if kind == "lstm":
        i, f, g, o = sigma(w[0] + r[0]), sigma(w[1] + r[1]), np.tanh(w[2] + r[2]), sigma(w[3] + r[3])
        c = f * c + i * g
        return o * np.tanh(c), c
    if kind == "gru":
        reset, z = sigma(w[0] + r[0]), sigma(w[1] + r[1])
        return (1 - z) * np.tanh(w[2] + reset * r[2]) + z * h, c
    return (np.tanh if kind == "rnnTanh" else lambda v: np.maximum(v, 0))(w[0] + r[0]), c


def one_sequence(x: Any, blob: Any, kind: str, layers: int, directions: int) -> Any:
    """The stack over one sequence ``(steps, inputs)``, from the weights as the page of cuDNN lays them out."""
    gates = {"lstm": 4, "gru": 3}.get(kind, 1)
    rows, place = gates * HIDDEN, 0
    matrices, biases = [], []
    size = x.shape[1]
    for _ in range(layers):
        for _ in range(directions):
            W = blob[place : place + rows * size].reshape(rows, size)
            place += rows * size
            R = blob[place : place + rows * HIDDEN].reshape(rows, HIDDEN)
            place += rows * HIDDEN
            matrices.append((W, R))
        size = directions * HIDDEN
    for _ in range(layers * directions):
        biases.append((blob[place : place + rows], blob[place + rows : place + 2 * rows]))
        place += 2 * rows
    assert place == len(blob)
    for layer in range(layers):
        found = []
        for direction in range(directions):
            (W, R), (b, d) = matrices[layer * directions + direction], biases[layer * directions + direction]
            h, c = np.zeros(HIDDEN), np.zeros(HIDDEN)
            states = []
            for frame in x[::-1] if direction else x:
                h, c = cell(kind, frame, h, c, W, R, b, d)
                states.append(h)
            found.append(np.array(states[::-1] if direction else states).reshape(-1, HIDDEN))
        x = np.concatenate(found, axis=1)
    return x


def context_of(layout: Any) -> OpContext:
    return OpContext(framed=(False, True), frames=layout.frames, layout=layout, layouts=(None, layout))


def check_by_sequences(layout: Any, kind: str, layers: int, bidirectional: bool) -> None:
    attributes = RNNStackAttributes(HIDDEN, layers, bidirectional, kind)
    rng = np.random.default_rng(3)
    x = rng.normal(size=(layout.frames, INPUTS))
    blob = rng.normal(size=(stack_weights(INPUTS, attributes) // HIDDEN, HIDDEN))
    found = run_forward(STACK, np, [blob, x], attributes, context_of(layout))
    rows = sequence_rows(layout)
    for number in np.unique(rows.number):
        own = np.flatnonzero(rows.number == number)
        own = own[np.argsort(rows.step[own])]
        expected = one_sequence(x[own], blob.reshape(-1), kind, layers, 1 + bidirectional)
        np.testing.assert_allclose(found[own], expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("layers", "bidirectional"), [(1, False), (2, True), (3, False)])
def test_formulas(kind, layers, bidirectional):
    check_by_sequences(sequence_layout([4, 0, 1, 6, 6]), kind, layers, bidirectional)


@examples(25)
@given(st.lists(st.lists(st.integers(0, 4), max_size=3), max_size=4), st.sampled_from(KINDS), st.booleans())
def test_any_lengths_several_to_a_slot(slots, kind, bidirectional):
    check_by_sequences(slot_layout(slots), kind, 2, bidirectional)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("slots", [[[3], [1], [0]], [[2, 1], [1, 1], [0]], [[1], [1]], [[]]])
@pytest.mark.sampled(4)
def test_differences(kind, slots):
    attributes = RNNStackAttributes(HIDDEN, 2, bidirectional=True, recurrent_op=kind)
    layout = slot_layout(slots)
    rng = np.random.default_rng(4)
    blob = rng.normal(size=stack_weights(INPUTS, attributes))
    x = rng.normal(size=(layout.frames, INPUTS))
    check_op_gradients(STACK, [blob, x], (False, True), attributes, context=lambda: context_of(layout))


def test_second_static_axis_is_a_sequence_of_its_own_in_each_frame():
    attributes = RNNStackAttributes(HIDDEN, 1, bidirectional=True, recurrent_op="gru", axis=2)
    rng = np.random.default_rng(5)
    x = rng.normal(size=(3, 4, INPUTS))
    blob = rng.normal(size=stack_weights(INPUTS, attributes))
    assert STACK.infer([blob.shape, (4, INPUTS)], attributes) == (4, 2 * HIDDEN)
    found = run_forward(STACK, np, [blob, x], attributes, context_of(frame_layout(3)))
    for frame, value in zip(x, found, strict=True):
        np.testing.assert_allclose(value, one_sequence(frame, blob, "gru", 1, 2), rtol=1e-12)


@pytest.mark.parametrize(
    ("kind", "layers", "bidirectional", "count"),
    # In the manner of: directions * gates * hidden * (inputs + hidden + 2), summed over the layers.
    [
        ("lstm", 1, False, 4 * 5 * (3 + 5 + 2)),
        ("gru", 2, False, 3 * 5 * (3 + 5 + 2) + 3 * 5 * (5 + 5 + 2)),
        ("rnnReLU", 3, True, 2 * 5 * (3 + 5 + 2) + 2 * (2 * 5 * (10 + 5 + 2))),
    ],
)
def test_number_of_weights(kind, layers, bidirectional, count):
    attributes = RNNStackAttributes(5, layers, bidirectional, kind)
    assert stack_weights(3, attributes) == count
    assert STACK.complete is not None
    assert STACK.complete([(0, 0), (3,)], attributes) == [(count // 5, 5), (3,)]
    assert STACK.complete([(0,), (3,)], attributes) == [(count,), (3,)]
    assert STACK.infer([(count // 5, 5), (3,)], attributes) == (5 * (1 + bidirectional),)


@pytest.mark.parametrize(
    ("shapes", "attributes", "message"),
    [
        (((41, 5), (3,)), RNNStackAttributes(5), "the weights [5 x 41] have 205 elements, not 200"),
        (((40, 5), (3,)), RNNStackAttributes(5, recurrent_op="lsmt"), "there is no recurrent op 'lsmt'"),
        (((40, 5), (2, 3)), RNNStackAttributes(5), "the input [3 x 2] must have 1 axes for axis -1"),
        (((40, 5), (3,)), RNNStackAttributes(5, axis=2), "the input [3] must have 2 axes for axis 2"),
        (((40, 5), (3,)), RNNStackAttributes(5, axis=1), "a recurrent stack cannot run along axis 1"),
        (((40, 5), (3,)), RNNStackAttributes(5, 0), "a recurrent stack of 0 layers with 5 values is empty"),
    ],
)
def test_mistakes(shapes, attributes, message):
    with pytest.raises(ShapeError) as caught:
        STACK.infer(shapes, attributes)
    assert caught.value.message == message


@pytest.mark.parametrize(
    "options", [{"continues": [True]}, {"continued": [True]}], ids=["goes on", "began in the minibatch before"]
)
def test_cut_sequences_are_an_error(options):
    layout = slot_layout([[3]], **options)
    attributes = RNNStackAttributes(HIDDEN)
    blob, x = np.zeros(stack_weights(INPUTS, attributes)), np.zeros((3, INPUTS))
    with pytest.raises(DataError) as caught:
        run_forward(STACK, np, [blob, x], attributes, context_of(layout))
    assert caught.value.message == "OptimizedRNNStack needs whole sequences, but those of this minibatch are cut"


def test_an_input_without_dynamic_axis_is_an_error():
    attributes = RNNStackAttributes(HIDDEN)
    blob = np.zeros(stack_weights(INPUTS, attributes))
    with pytest.raises(DataError) as caught:
        run_forward(STACK, np, [blob, np.zeros(INPUTS)], attributes, OpContext((False, False), 1))
    assert caught.value.message == "OptimizedRNNStack needs an input with a dynamic axis"


def test_single_precision_stays_single():
    attributes = RNNStackAttributes(HIDDEN, 2, bidirectional=True)
    layout = sequence_layout([3, 2])
    blob = np.zeros(stack_weights(INPUTS, attributes), np.float32)
    x = np.zeros((5, INPUTS), np.float32)
    context = context_of(layout)
    out = run_forward(STACK, np, [blob, x], attributes, context)
    assert out.dtype == np.float32
    gradients = run_gradient(STACK, np, np.ones_like(out), out, [blob, x], attributes, context, [True, True])
    assert [gradient.dtype for gradient in gradients if gradient is not None] == [np.float32, np.float32]
