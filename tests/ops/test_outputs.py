"""Ops with several outputs: how these lie side by side, what their functions have to give."""

from __future__ import annotations

import numpy as np
import pytest

from cntk_core.errors import NetworkError, WrongResult
from cntk_core.ops.families.outputs import (
    OUTPUT_MULTIPLEXER,
    MultiplexerAttributes,
    define_outputs,
    first_rows,
    pack,
    ranges_of,
    unpack,
)
from cntk_core.ops.language.framing import run_forward, run_gradient
from cntk_core.ops.language.layouts import sequence_layout
from cntk_core.ops.language.op import NoAttributes, OpContext
from cntk_core.ops.table import core_ops
from cntk_testing.op_cases import OpExample
from cntk_testing.op_contract import check_op

TABLE = core_ops()
OUTPUTS = {"ordered": lambda shapes, attributes: shapes[0], "largest": lambda shapes, attributes: (1,)}


def _gradient(xp, gradients, values, inputs, attributes, context, needs):
    by_ordered, by_largest = gradients
    order = np.argsort(-inputs[0], axis=-1)
    by_ordered = np.array(by_ordered)
    by_ordered[..., :1] += by_largest
    found = np.empty_like(inputs[0])
    np.put_along_axis(found, order, by_ordered, axis=-1)
    return (found,)


@define_outputs("Ordered", OUTPUTS, gradient=_gradient, reads_output=False)
def ORDERED(xp, inputs, attributes, context):
    """Elements from the largest to the smallest, and the largest."""
    found = -np.sort(-inputs[0], axis=-1)
    return found, found[..., :1]


def test_outputs_lie_side_by_side_and_come_apart_again():
    shapes = [(2, 3), (), (1,)]
    values = [np.arange(12.0).reshape(2, 2, 3), np.array([20.0, 21.0]), np.array([[30.0], [31.0]])]
    packed = pack(np, values, shapes)
    assert packed.tolist() == [[0, 1, 2, 3, 4, 5, 20, 30], [6, 7, 8, 9, 10, 11, 21, 31]]
    assert ranges_of(shapes) == [(0, 6), (6, 7), (7, 8)]
    for one, other in zip(unpack(packed, shapes), values, strict=True):
        np.testing.assert_array_equal(one, other)


def test_no_frames_are_packed_too():
    assert pack(np, [np.zeros((0, 2, 3)), np.zeros((0, 1))], [(2, 3), (1,)]).shape == (0, 7)


def test_an_op_with_several_outputs_keeps_the_contract_of_ops():
    check_op(ORDERED, OpExample(((4,),), values={0: [0.3, -1.0, 2.0, 0.7]}), OpExample(((3,),)))
    assert ORDERED.doc == "Elements from the largest to the smallest, and the largest."


def test_an_output_is_a_part_that_keeps_the_contract_of_ops():
    check_op(
        OUTPUT_MULTIPLEXER,
        OpExample(((5,),), MultiplexerAttributes(1, 2, 4, (2,)), nan=()),
        OpExample(((7,),), MultiplexerAttributes(1, 1, 7, (2, 3)), nan=()),
        OpExample(((2, 7),), MultiplexerAttributes(0, 0, 3, (3,)), nan=()),
    )


def test_the_gradients_of_all_outputs_come_together():
    x, context = np.array([[1.0, 3.0, 2.0]]), OpContext((True,), 1)
    y = run_forward(ORDERED, np, [x], NoAttributes(), context)
    assert y.tolist() == [[3, 2, 1, 3]]
    attributes = MultiplexerAttributes(1, 3, 4, (1,))
    assert run_forward(OUTPUT_MULTIPLEXER, np, [y], attributes, context).tolist() == [[3]]
    (by_vector,) = run_gradient(
        OUTPUT_MULTIPLEXER, np, np.array([[5.0]]), np.zeros(1), [y], attributes, context, [True]
    )
    assert by_vector is not None
    (found,) = run_gradient(ORDERED, np, by_vector + np.eye(4)[:1], y, [x], NoAttributes(), context, [True])
    assert found is not None
    assert found.tolist() == [[0, 6, 0]]


@pytest.mark.parametrize(
    ("results", "message"),
    [
        (None, "returned no sequence of 2 arrays, the outputs 'ordered', 'largest'"),
        ([np.zeros((1, 3))], "returned no sequence of 2 arrays, the outputs 'ordered', 'largest'"),
        ([np.zeros((1, 2)), np.zeros((1, 1))], "returned an array (1, 2) as output 'ordered', whose samples are (3,)"),
        ([np.zeros((1, 3)), 7], "returned an array () as output 'largest', whose samples are (1,)"),
    ],
    ids=["nothing", "too few", "another shape", "no array"],
)
def test_what_is_no_output_is_refused(results, message):
    op = define_outputs("Wrong", OUTPUTS)(lambda *arguments: results)
    with pytest.raises(WrongResult) as caught:
        run_forward(op, np, [np.zeros((1, 3))], NoAttributes(), OpContext((True,), 1))
    assert caught.value.message == message


def test_without_a_gradient_none_flows():
    op = define_outputs("Values", OUTPUTS)(lambda *arguments: None)
    assert not op.flows_to(0)
    assert op.gradient is None


AXES = {
    "doubled": lambda shapes, attributes: shapes[0],
    "firsts": lambda shapes, attributes: shapes[0],
    "total": lambda shapes, attributes: (1,),
}


def _sums_gradient(xp, gradients, values, inputs, attributes, context, needs):
    by_doubled, by_firsts, by_total = gradients
    assert values[1].shape == by_firsts.shape
    assert values[2].shape == by_total.shape == (1,)
    found = 2.0 * by_doubled + by_total
    found[first_rows(context.layout)] += by_firsts
    return (found,)


@define_outputs("Sums", AXES, gradient=_sums_gradient, axes={"firsts": "sequence", "total": "minibatch"})
def SUMS(xp, inputs, attributes, context):
    """Frames doubled, the first frame of each sequence, and the sum of all."""
    return 2.0 * inputs[0], inputs[0][first_rows(context.layout)], np.array([inputs[0].sum()])


def located(index):
    attributes = MultiplexerAttributes(index)
    return OUTPUT_MULTIPLEXER.located(attributes, SUMS, NoAttributes(), [(2,)])


def test_outputs_of_sequences_and_of_the_minibatch():
    layout = sequence_layout([1, 3, 2])
    x = np.random.default_rng(0).normal(size=(6, 2))
    context = OpContext((True,), 6, layout=layout, layouts=(layout,))
    y = run_forward(SUMS, np, [x], NoAttributes(), context)
    assert y.shape == (6, 5)
    attributes = [located(index) for index in range(3)]
    assert [(one.begin, one.end, one.dims, one.rows) for one in attributes] == [
        (0, 2, (2,), ""),
        (2, 4, (2,), "sequence"),
        (4, 5, (1,), "minibatch"),
    ]
    firsts = x[first_rows(layout)]
    expected = [2.0 * x, firsts, [x.sum()]]
    weights = [np.random.default_rng(index).normal(size=np.shape(each)) for index, each in enumerate(expected)]
    by_vector = np.zeros_like(y)
    for one, wanted, weight in zip(attributes, expected, weights, strict=True):
        own = OpContext((True,), 6, layout=layout, layouts=(layout,))
        form = OUTPUT_MULTIPLEXER.form_of(one)
        found = run_forward(form, np, [y], one, own)
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
        by_vector += run_gradient(form, np, weight, found, [y], one, own, [True])[0]
    (change,) = run_gradient(SUMS, np, by_vector, y, [x], NoAttributes(), context, [True])
    slope = 2.0 * weights[0] + weights[2]
    slope[first_rows(layout)] += weights[1]
    np.testing.assert_allclose(change, slope, rtol=1e-12)


def test_where_an_output_lies_is_known_with_the_shapes():
    attributes = OUTPUT_MULTIPLEXER.located(MultiplexerAttributes(1), SUMS, NoAttributes(), [None])
    assert attributes == MultiplexerAttributes(1, rows="sequence")
    plain = OUTPUT_MULTIPLEXER.located(MultiplexerAttributes(), TABLE.find("", "Tanh"), NoAttributes(), [(3,)])
    assert plain == MultiplexerAttributes()
    for op, index, hint in ((SUMS, 3, "0 is doubled, 1 is firsts, 2 is total"), (SUMS, -1, "0 is doubled")):
        with pytest.raises(NetworkError) as caught:
            OUTPUT_MULTIPLEXER.located(MultiplexerAttributes(index), op, NoAttributes(), [(2,)])
        assert caught.value.message == f"Sums has no output {index}"
        assert caught.value.hint.startswith(f"Outputs: {hint}")
    with pytest.raises(NetworkError) as caught:
        OUTPUT_MULTIPLEXER.located(MultiplexerAttributes(1), TABLE.find("", "Tanh"), NoAttributes(), [(2,)])
    assert str(caught.value) == "Tanh has no output 1\n    Outputs: 0 is its value."
