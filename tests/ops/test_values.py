"""Values that the formulas of the project's reference give, and what happens at their edges."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from cntk_core.errors import NetworkError
from cntk_core.ops.families.dropout import dropout_mask
from cntk_core.ops.families.precompute import InvStdDevAccumulator, MeanAccumulator
from cntk_core.ops.families.reductions import ReduceAttributes
from cntk_core.ops.families.reshaping import TransposeAttributes
from cntk_core.ops.families.slicing import OneHotAttributes, RepeatAttributes, SliceAttributes
from cntk_core.ops.language.framing import run_forward, run_gradient
from cntk_core.ops.language.layouts import sequence_layout
from cntk_core.ops.language.op import OpContext
from cntk_core.ops.language.random import random_stream
from cntk_core.ops.table import core_ops
from cntk_testing.examples import examples
from cntk_testing.op_cases import OpExample
from cntk_testing.op_contract import check_shape_rule

TABLE = core_ops()
NAN, INF = math.nan, math.inf


def forward(name, *inputs, attributes=None, framed=None, dtype=np.float64, **fields):
    op = TABLE.find("", name)
    values = [np.asarray(value, dtype=dtype) for value in inputs]
    has = (True,) * len(values) if framed is None else framed
    frames = next((len(value) for value, one in zip(values, has, strict=True) if one), 1)
    context = OpContext(framed=has, frames=frames, **fields)
    return run_forward(op, np, values, op.attributes() if attributes is None else attributes, context)


def gradients(name, *inputs, attributes=None, framed=None, sparse=None, dtype=np.float64):
    op = TABLE.find("", name)
    values = [np.asarray(value, dtype=dtype) for value in inputs]
    if sparse is not None:
        values[sparse] = scipy.sparse.csr_array(values[sparse])
    has = (True,) * len(values) if framed is None else framed
    frames = next(value.shape[0] for value, one in zip(values, has, strict=True) if one)
    context = OpContext(framed=has, frames=frames)
    settings_ = op.attributes() if attributes is None else attributes
    output = run_forward(op, np, values, settings_, context)
    needs = [op.flows_to(index) and index != sparse for index in range(len(values))]
    return output, run_gradient(op, np, np.ones_like(output), output, values, settings_, context, needs)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("name", "inputs", "expected"),
    [
        ("Log", [[[1.0, 0.0, -3.0, 1e-38, math.e, NAN, INF]]], [[0.0, -85.1, -85.1, -85.1, 1.0, NAN, INF]]),
        ("Sqrt", [[[4.0, 0.0, -1.0, NAN, INF]]], [[2.0, 0.0, 0.0, NAN, INF]]),
        ("Reciprocal", [[[4.0, 0.0, -0.5, INF, NAN]]], [[0.25, 0.0, -2.0, 0.0, NAN]]),
        ("RectifiedLinear", [[[-1.0, 0.0, 2.0, NAN, -INF, INF]]], [[0.0, 0.0, 2.0, NAN, 0.0, INF]]),
        ("Sigmoid", [[[-1000.0, 0.0, 1000.0, NAN]]], [[0.0, 0.5, 1.0, NAN]]),
        ("StableSigmoid", [[[-1000.0, 0.0, 1000.0, NAN]]], [[0.0, 0.5, 1.0, NAN]]),
        ("Exp", [[[-INF, 0.0, INF, NAN]]], [[0.0, 1.0, INF, NAN]]),
        ("ExponentialLinearUnit", [[[-INF, 0.0, 2.0, NAN]]], [[-1.0, 0.0, 2.0, NAN]]),
        ("Floor", [[[-1.5, 1.5, NAN]]], [[-2.0, 1.0, NAN]]),
        ("Abs", [[[-1.5, NAN, -INF]]], [[1.5, NAN, INF]]),
        ("Clip", [[[-1.0]], [[1.0]], [[-3.0, 0.5, 3.0, NAN]]], [[-1.0, 0.5, 1.0, NAN]]),
        ("LogPlus", [[[0.0, -INF, 1000.0]], [[0.0, 3.0, 1000.0]]], [[math.log(2), 3.0, 1000.0 + math.log(2)]]),
        ("Pow", [[[0.0, 0.0, -2.0, -2.0, 0.0]], [[0.0, 2.0, 3.0, 0.5, -1.0]]], [[1.0, 0.0, -8.0, NAN, 0.0]]),
        ("If", [[[0.0, 1.0, -2.0]], [[1.0, 2.0, 3.0]], [[4.0, 5.0, 6.0]]], [[4.0, 2.0, 3.0]]),
        ("Less", [[[1.0, 2.0, NAN]], [[2.0, 2.0, 1.0]]], [[1.0, 0.0, 0.0]]),
        ("GreaterEqual", [[[1.0, 2.0, NAN]], [[2.0, 2.0, 1.0]]], [[0.0, 1.0, 0.0]]),
        ("NotEqual", [[[1.0, 2.0]], [[2.0, 2.0]]], [[1.0, 0.0]]),
        ("Softmax", [[[1000.0, 1000.0], [0.0, -INF], [0.0, NAN]]], [[0.5, 0.5], [1.0, 0.0], [NAN, NAN]]),
        ("LogSoftmax", [[[1000.0, 1000.0], [0.0, -2000.0]]], [[-math.log(2), -math.log(2)], [0.0, -2000.0]]),
        ("Hardmax", [[[1.0, 3.0, 3.0], [-1.0, -2.0, -3.0]]], [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]),
        ("SumElements", [[[1.0, 2.0], [3.0, 4.0]]], [10.0]),
        ("SumColumnElements", [[[1.0, 2.0], [3.0, 4.0]]], [[3.0], [7.0]]),
        ("MatrixL1Reg", [[[1.0, -2.0], [-3.0, 4.0]]], [10.0]),
        ("MatrixL2Reg", [[[1.0, -2.0], [2.0, 4.0]]], [5.0]),
        ("KhatriRaoProduct", [[[1.0, 2.0]], [[3.0, 5.0, 7.0]]], [[3.0, 6.0, 5.0, 10.0, 7.0, 14.0]]),
        ("CosDistance", [[[1.0, 0.0], [3.0, 4.0], [0.0, 0.0]], [[0.0, 2.0], [6.0, 8.0], [1.0, 1.0]]], [[0], [1], [0]]),
        ("SquareError", [[[1.0, 2.0]], [[3.0, 5.0]]], [13.0]),
        ("CrossEntropy", [[[1.0, 0.0]], [[0.5, 0.5]]], [math.log(2)]),
        ("CrossEntropyWithSoftmax", [[[0.0, 1.0]], [[1000.0, 0.0]]], [1000.0]),
        ("Logistic", [[[1.0, 0.0]], [[0.25, 0.25]]], [-math.log(0.25) - math.log(0.75)]),
        ("ClassificationError", [[[0.0, 1.0]] * 4, [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, NAN]]], [3.0]),
        ("ClassificationError", [[[1.0, 0.0]] * 3, [[1.0, 1.0], [NAN, 0.0], [1.0, NAN]]], [2.0]),
        ("DummyCriterion", [[[3.0], [4.0]], [[1.0], [2.0]], [[0.0], [0.0]]], [7.0]),
        ("PerDimMeanVarNormalization", [[[5.0]], [[3.0]], [[0.5]]], [[1.0]]),
        ("PerDimMeanVarDeNormalization", [[[1.0]], [[3.0]], [[0.5]]], [[5.0]]),
    ],
)
def test_value(name, inputs, expected, dtype):
    found = forward(name, *inputs, dtype=dtype)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, np.asarray(expected, dtype=dtype), rtol=1e-6, atol=1e-37)


@pytest.mark.parametrize(
    ("name", "inputs", "expected"),
    [
        ("Log", [[[2.0, 1e-40, NAN]]], [[0.5, 1e37, NAN]]),
        ("RectifiedLinear", [[[-1.0, 0.0, 2.0]]], [[0.0, 0.0, 1.0]]),
        ("Abs", [[[-3.0, 0.0, 2.0]]], [[-1.0, 0.0, 1.0]]),
        ("Reciprocal", [[[2.0, 0.0]]], [[-0.25, 0.0]]),
        ("ExponentialLinearUnit", [[[-1.0, 0.0, 2.0]]], [[math.exp(-1.0), 1.0, 1.0]]),
    ],
)
def test_gradient_at_the_edge(name, inputs, expected):
    _, found = gradients(name, *inputs)
    np.testing.assert_allclose(found[0], expected)


def test_gradient_of_largest_goes_to_all_equal_elements():
    _, found = gradients("ReduceElements", [[1.0, 3.0, 3.0]], attributes=ReduceAttributes("Max"))
    np.testing.assert_array_equal(found[0], [[0.0, 1.0, 1.0]])


def test_gradient_of_power_by_the_exponent_is_zero_for_bases_up_to_zero():
    _, found = gradients("Pow", [[-2.0, 0.0, 2.0]], [[2.0, 2.0, 2.0]])
    np.testing.assert_allclose(found[1], [[0.0, 0.0, 4.0 * math.log(2.0)]])
    np.testing.assert_allclose(found[0], [[-4.0, 0.0, 4.0]])


@pytest.mark.parametrize(
    ("reduction", "axis", "expected"),
    [
        ("Sum", 0, [[21.0]]),
        ("Sum", 1, [[[6.0], [15.0]]]),
        ("Sum", 2, [[[5.0, 7.0, 9.0]]]),
        ("Mean", 2, [[[2.5, 3.5, 4.5]]]),
        ("Prod", 1, [[[6.0], [120.0]]]),
        ("Argmax", 1, [[[2.0], [2.0]]]),
        ("argmin", 0, [[0.0]]),
        ("LogSum", 0, [[math.log(sum(math.exp(value) for value in range(1, 7)))]]),
    ],
)
def test_reduction(reduction, axis, expected):
    value = [[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]]
    found = forward("ReduceElements", value, attributes=ReduceAttributes(reduction, axis))
    np.testing.assert_allclose(found, expected)


def test_log_sum_of_infinities():
    found = forward("ReduceElements", [[-INF, -INF], [INF, 1.0], [NAN, 1.0]], attributes=ReduceAttributes("LogSum"))
    np.testing.assert_array_equal(found, [[-INF], [INF], [NAN]])


def test_softmax_of_a_constant_matrix_runs_along_its_columns():
    found = forward("Softmax", [[0.0, 0.0], [5.0, 5.0]], framed=(False,))
    np.testing.assert_allclose(found, np.full((2, 2), 0.5))


def test_times_of_a_matrix_and_frames_is_one_product():
    rng = np.random.default_rng(1)
    weight, x = rng.normal(size=(4, 5)), rng.normal(size=(7, 4))
    np.testing.assert_allclose(forward("Times", weight, x, framed=(False, True)), x @ weight)
    np.testing.assert_allclose(forward("TransposeTimes", weight.T, x, framed=(False, True)), x @ weight)


def test_sparse_operands_give_what_dense_ones_give():
    rng = np.random.default_rng(2)
    weight, x = rng.normal(size=(4, 5)), np.eye(4)[[1, 3, 1]]
    dense, dense_gradients = gradients("Times", weight, x, framed=(False, True))
    sparse, sparse_gradients = gradients("Times", weight, x, framed=(False, True), sparse=1)
    np.testing.assert_allclose(sparse, dense)
    np.testing.assert_allclose(sparse_gradients[0], dense_gradients[0])
    labels, logits = np.eye(5)[[0, 4, 2]], rng.normal(size=(3, 5))
    for name in ("CrossEntropyWithSoftmax", "SquareError"):
        dense, dense_gradients = gradients(name, labels, logits)
        sparse, sparse_gradients = gradients(name, labels, logits, sparse=0)
        np.testing.assert_allclose(sparse, dense)
        np.testing.assert_allclose(sparse_gradients[1], dense_gradients[1])


@pytest.mark.parametrize(("best", "errors"), [(1, 3.0), (2, 2.0), (3, 0.0)])
def test_label_among_the_best(best, errors):
    labels = np.eye(3)[[0, 1, 2, 0]]
    scores = [[3.0, 2.0, 1.0], [3.0, 2.0, 1.0], [3.0, 2.0, 1.0], [1.0, 3.0, 2.0]]
    assert forward("ClassificationError", labels, scores, [best], framed=(True, True, False)) == [errors]


def test_weights_of_logistic_are_scaled_to_a_mean_of_one():
    labels, chances = [[1.0], [0.0]], [[0.25], [0.5]]
    weighted = forward("Logistic", labels, chances, [[3.0], [1.0]])
    np.testing.assert_allclose(weighted, [-2 * (3 * math.log(0.25) + math.log(0.5)) / 4])
    np.testing.assert_allclose(
        forward("Logistic", labels, chances, [[5.0], [5.0]]), forward("Logistic", labels, chances)
    )


def test_gradient_by_scores_takes_labels_as_if_they_summed_to_one():
    labels, scores = np.array([[0.5, 0.9, 0.3], [2.0, 0.0, 0.0]]), np.array([[1.0, 2.0, 3.0], [0.5, 0.0, -1.0]])
    softmax = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    for sparse in (None, 0):
        _, found = gradients("CrossEntropyWithSoftmax", labels, scores, sparse=sparse)
        np.testing.assert_allclose(found[1], softmax - labels)


def test_scores_that_stand_for_all_samples_have_the_sum_of_their_gradients():
    labels, scores = np.array([[0.5, 0.9, 0.3], [0.0, 1.0, 0.0]]), np.array([1.0, 2.0, 3.0])
    softmax = np.exp(scores) / np.exp(scores).sum()
    for sparse in (None, 0):
        _, found = gradients("CrossEntropyWithSoftmax", labels, scores, framed=(True, False), sparse=sparse)
        np.testing.assert_allclose(found[1], 2 * softmax - labels.sum(axis=0))


def test_gradient_of_logistic_takes_the_weights_as_they_are():
    labels, chances = [[1.0], [0.0]], [[0.25], [0.5]]
    _, found = gradients("Logistic", labels, chances, [[3.0], [1.0]])
    np.testing.assert_allclose(found[1], [[-3.0 / 0.25], [1.0 / 0.5]])


def test_dummy_criterion_hands_on_the_given_gradient():
    _, found = gradients("DummyCriterion", [[1.0], [1.0]], [[2.0, 3.0], [4.0, 5.0]], [[0.0, 0.0], [0.0, 0.0]])
    np.testing.assert_array_equal(found[2], [[2.0, 3.0], [4.0, 5.0]])


def test_transposing_a_vector_gives_a_row():
    found = forward("TransposeDimensions", [[1.0, 2.0]], attributes=TransposeAttributes())
    np.testing.assert_array_equal(found, [[[1.0], [2.0]]])


def test_rows_repeat_block_by_block():
    found = forward("RowRepeat", [[1.0, 2.0]], attributes=RepeatAttributes(2))
    np.testing.assert_array_equal(found, [[1.0, 2.0, 1.0, 2.0]])


def test_slice_counts_from_the_end():
    found = forward("Slice", [[1.0, 2.0, 3.0, 4.0]], attributes=SliceAttributes(-3, -1))
    np.testing.assert_array_equal(found, [[2.0, 3.0]])


def test_one_hot_outside_the_range_is_all_zero():
    found = forward("OneHot", [[0.0], [2.0], [5.0], [-1.0], [NAN]], attributes=OneHotAttributes(3))
    np.testing.assert_array_equal(found[:, :, 0], [[1, 0, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0], [0, 0, 0]])


def test_negative_partners_go_round_the_end():
    op = TABLE.find("", "CosDistanceWithNegativeSamples")
    axes = np.eye(3)
    found = forward("CosDistanceWithNegativeSamples", axes, axes, attributes=op.attributes(shift=1, negatives=3))
    np.testing.assert_array_equal(found, [[1, 0, 0, 1]] * 3)


def test_negative_partners_are_columns_of_the_packed_minibatch():
    """The figures are those of CNTK 2.7, for sequences of three frames and one; two gaps follow that one."""
    op = TABLE.find("", "CosDistanceWithNegativeSamples")
    rows, layout = [[1.0, 0.0], [0.0, 2.0], [1.0, 2.0], [1.0, 1.0]], sequence_layout([3, 1])
    settings = op.attributes(shift=1, negatives=2)
    found = forward(op.name, rows, rows, attributes=settings, layouts=(layout, layout))
    expected = [[1, 0, 0.447213590], [1, 0.894427180, 0], [1, 0, 0.948683262], [1, 0, 0.707106769]]
    np.testing.assert_allclose(found, expected, atol=1e-7)


def test_dropout_scales_what_it_keeps_and_is_off_outside_training():
    x = np.ones((200, 50))
    fields = {"settings": {"dropoutRate": 0.2}, "random": lambda: random_stream(7, 1, 0)}
    found = forward("Dropout", x, training=True, **fields)
    assert set(np.unique(found)) == {0.0, 1.25}
    assert abs(found.mean() - 1.0) < 0.02
    assert forward("Dropout", x, training=False, **fields) is not found
    np.testing.assert_array_equal(forward("Dropout", x, training=False, **fields), x)
    np.testing.assert_array_equal(forward("Dropout", x, training=True), x)


def test_every_precision_drops_the_same_elements():
    single = dropout_mask(np, (40, 30), np.float32, 0.5, random_stream(1, 2, 3))
    double = dropout_mask(np, (40, 30), np.float64, 0.5, random_stream(1, 2, 3))
    assert (single.dtype, double.dtype) == (np.float32, np.float64)
    np.testing.assert_array_equal(single, double)


def test_random_streams_depend_on_seed_node_and_step_alone():
    first = random_stream(1, 2, 3).random(4)
    np.testing.assert_array_equal(first, random_stream(1, 2, 3).random(4))
    for other in ((2, 2, 3), (1, 3, 3), (1, 2, 4)):
        assert not np.array_equal(first, random_stream(*other).random(4))


@examples(30)
@given(st.lists(st.integers(0, 7), min_size=1, max_size=5), st.integers(0, 1000))
def test_accumulators_do_not_depend_on_the_minibatches(sizes, seed):
    total = sum(sizes)
    values = np.random.default_rng(seed).normal(3.0, 2.0, size=(total, 3))
    mean, inverse = MeanAccumulator((3,)), InvStdDevAccumulator((3,))
    begin = 0
    for size in sizes:
        mean.add(values[begin : begin + size].astype(np.float64))
        inverse.add(values[begin : begin + size])
        begin += size
    if total == 0:
        with pytest.raises(NetworkError) as error:
            mean.result()
        assert str(error.value) == "a value is to be computed over the data, but there is no data"
    else:
        # A sample's share is rounded to single precision.
        np.testing.assert_allclose(mean.result(), values.mean(axis=0), rtol=3e-7)
        expected = 1 / np.sqrt(np.maximum(values.var(axis=0), 1e-10))
        np.testing.assert_allclose(inverse.result(), expected, rtol=1e-4 if total == 1 else 1e-6)


def test_a_constant_feature_has_a_bounded_inverse_deviation():
    inverse = TABLE.find("", "InvStdDev").accumulator((1,))
    inverse.add(np.full((4, 1), 2.0))
    np.testing.assert_allclose(inverse.result(), [1e5])


@st.composite
def broadcast_shapes(draw):
    whole = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    shapes = []
    for _ in range(2):
        rank = draw(st.integers(1, len(whole)))
        shapes.append(tuple(draw(st.sampled_from((1, dim))) for dim in whole[-rank:]))
    return tuple(shapes)


@examples(40)
@given(broadcast_shapes())
def test_broadcasting_of_any_shapes_and_frames(shapes):
    plus = TABLE.find("", "ElementTimes")
    check_shape_rule(plus, [OpExample(shapes)])
    for framed in ((True, True), (True, False), (False, True)):
        rng = np.random.default_rng(0)
        left, right = (
            rng.normal(size=((3, *shape) if has else shape)) for shape, has in zip(shapes, framed, strict=True)
        )
        _, found = gradients("ElementTimes", left, right, framed=framed)
        # The product is linear in each operand, so that both give back the sum of all products.
        total = forward("ElementTimes", left, right, framed=framed).sum()
        np.testing.assert_allclose([np.sum(found[0] * left), np.sum(found[1] * right)], [total, total])
