"""Forms of inputs and settings that ops take beside the usual ones, and what ops say of themselves."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from cntk_core.errors import PluginError, ShapeError
from cntk_core.ops.families.adjoints import BATCH_MOMENTS, MomentsAttributes
from cntk_core.ops.families.convolution import CONVOLUTION, ConvolutionAttributes
from cntk_core.ops.families.cropping import CropAttributes
from cntk_core.ops.families.lattice_free import LATTICE_FREE_MMI, LatticeFreeAttributes
from cntk_core.ops.families.ordering import TopKAttributes
from cntk_core.ops.families.outputs import MultiplexerAttributes
from cntk_core.ops.families.pooling import PoolingAttributes
from cntk_core.ops.kernel import kernel, kernels
from cntk_core.ops.language.framing import run_forward, run_gradient
from cntk_core.ops.language.layouts import sequence_layout
from cntk_core.ops.language.op import OpContext
from cntk_core.ops.language.traits import Traits
from cntk_core.ops.table import core_ops

TABLE = core_ops()


def moments(data, *, training):
    running = np.array([5.0, 6.0, 7.0]), np.array([1.0, 2.0, 3.0])
    context = OpContext((True, False, False), len(data), training=training)
    packed = BATCH_MOMENTS.forward(np, [data, *running], MomentsAttributes(), context)
    return np.split(np.asarray(packed).reshape(-1), [3, 6])


def test_moments_of_a_batch_in_training():
    data = np.random.default_rng(0).normal(size=(4, 3))
    mean, variance, share = moments(data, training=True)
    np.testing.assert_allclose(mean, data.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(variance, data.var(axis=0), rtol=1e-12)
    assert share == 0.25


@pytest.mark.parametrize(("frames", "training"), [(4, False), (0, True), (0, False)])
def test_running_moments_elsewhere(frames, training):
    mean, variance, share = moments(np.ones((frames, 3)), training=training)
    np.testing.assert_array_equal(mean, [5, 6, 7])
    np.testing.assert_array_equal(variance, [1, 2, 3])
    assert share == 0.0


@pytest.mark.parametrize("name", ["SquareError", "CosDistance"])
@pytest.mark.parametrize("constant", [0, 1])
def test_samples_of_two_axes_beside_a_constant(name, constant):
    rng = np.random.default_rng(2)
    data, fixed = rng.normal(size=(5, 2, 3)), rng.normal(size=(2, 3))
    op, inputs, framed = TABLE.find("", name), [data, data], [True, True]
    inputs[constant], framed[constant] = fixed, False
    found = run_forward(op, np, inputs, op.attributes(), OpContext(tuple(framed), 5))
    flat, other = data.reshape(5, 6), fixed.reshape(1, 6)
    if name == "SquareError":
        np.testing.assert_allclose(found, [((flat - other) ** 2).sum()], rtol=1e-12)
    else:
        cosine = (flat @ other[0]) / np.linalg.norm(flat, axis=1) / np.linalg.norm(other)
        np.testing.assert_allclose(found.reshape(-1), cosine, rtol=1e-7)


@pytest.mark.parametrize("sparse", [0, 1])
def test_the_square_error_of_sparse_values_flows_to_the_dense_ones(sparse):
    rng = np.random.default_rng(3)
    values = [rng.normal(size=(4, 3)), np.eye(3)[[0, 2, 2, 1]] * 2.0]
    inputs = [values[0], scipy.sparse.csr_array(values[1])]
    if sparse == 0:
        inputs.reverse()
    op, context = TABLE.find("", "SquareError"), OpContext((True, True), 4)
    output = run_forward(op, np, inputs, op.attributes(), context)
    np.testing.assert_allclose(output, [((values[0] - values[1]) ** 2).sum()], rtol=1e-12)
    needs = [index != sparse for index in range(2)]
    found = run_gradient(op, np, np.array([3.0]), output, inputs, op.attributes(), context, needs)
    assert found[sparse] is None
    np.testing.assert_allclose(found[1 - sparse], 6.0 * (values[0] - values[1]), rtol=1e-12)


@pytest.mark.parametrize("sparse", [0, 1])
def test_the_square_error_of_sparse_values_and_a_constant(sparse):
    labels, constant = np.eye(3)[[0, 2, 2, 1]] * 2.0, np.array([0.5, -1.0, 2.0])
    inputs, framed = [scipy.sparse.csr_array(labels), constant], [True, False]
    if sparse == 1:
        inputs.reverse()
        framed.reverse()
    op, context = TABLE.find("", "SquareError"), OpContext(tuple(framed), 4)
    output = run_forward(op, np, inputs, op.attributes(), context)
    np.testing.assert_allclose(output, [((labels - constant) ** 2).sum()], rtol=1e-12)
    needs = [index != sparse for index in range(2)]
    found = run_gradient(op, np, np.array([3.0]), output, inputs, op.attributes(), context, needs)
    np.testing.assert_allclose(found[1 - sparse], 6.0 * (constant - labels).sum(axis=0), rtol=1e-12)


def test_the_cross_entropy_of_sparse_labels_is_that_of_dense_ones():
    chances = np.random.default_rng(4).dirichlet(np.ones(3), 4)
    labels = np.eye(3)[[0, 2, 2, 1]] * np.array([[1.0], [0.5], [2.0], [1.0]])
    op, context = TABLE.find("", "CrossEntropy"), OpContext((True, True), 4)
    for given in (labels, scipy.sparse.csr_array(labels)):
        output = run_forward(op, np, [given, chances], op.attributes(), context)
        np.testing.assert_allclose(output, [-(labels * np.log(chances)).sum()], rtol=1e-12)
        needs = [given is labels, True]
        found = run_gradient(op, np, np.array([3.0]), output, [given, chances], op.attributes(), context, needs)
        np.testing.assert_allclose(found[1], -3.0 * labels / chances, rtol=1e-12)
        if given is labels:
            np.testing.assert_allclose(found[0], -3.0 * np.log(chances), rtol=1e-12)


def test_a_product_in_whole_numbers_of_nothing_but_zeros():
    op, context = TABLE.find("", "QuantizedTimes"), OpContext((False, True), 2)
    attributes = op.attributes(bit_smoothing_a=0, bit_smoothing_b=0)
    for left, right in ((np.zeros((3, 2)), np.ones((2, 3))), (np.ones((3, 2)), np.zeros((2, 3)))):
        np.testing.assert_array_equal(run_forward(op, np, [left, right], attributes, context), np.zeros((2, 2)))
    ones = run_forward(op, np, [np.full((3, 2), 0.5), np.full((2, 3), 2.0)], attributes, context)
    np.testing.assert_allclose(ones, np.full((2, 2), 3.0), rtol=1e-12)


def test_labels_of_lattice_free_mmi_may_be_sparse_or_have_two_axes(tmp_path):
    path = tmp_path / "den.graph"
    path.write_text("start 0 1\nclass 0 0\nclass 1 3\narc 0 0 0.5\narc 0 1 0.5\narc 1 1 1\n")
    rng, layout = np.random.default_rng(1), sequence_layout([2, 3])
    labels, scores = np.eye(4)[[0, 0, 3, 3, 1]], rng.normal(size=(5, 4))

    def value(labels, scores):
        context = OpContext((True, True), 5, layout=layout, layouts=(layout, layout))
        return run_forward(LATTICE_FREE_MMI, np, [labels, scores], LatticeFreeAttributes(str(path)), context)

    expected = value(labels, scores)
    np.testing.assert_array_equal(value(scipy.sparse.csr_array(labels), scores), expected)
    np.testing.assert_array_equal(value(labels.reshape(5, 2, 2), scores.reshape(5, 2, 2)), expected)


def test_of_equal_elements_the_first_are_the_largest():
    op = TABLE.find("", "TopK")
    value = np.repeat([[1.0, 2.0, 0.0]], 40, axis=0).reshape(1, 120)
    context = OpContext((True,), 1)
    found = run_forward(op, np, [value], TopKAttributes(50, output="indices"), context)
    np.testing.assert_array_equal(found[0], [*range(1, 120, 3), *range(0, 30, 3)])


@pytest.mark.parametrize(
    ("attributes", "shape", "expected"),
    [
        (MultiplexerAttributes(), (4,), {0: (0, 4)}),
        (MultiplexerAttributes(), (3, 4), {0: (0, 3)}),
        (MultiplexerAttributes(), (), {}),
        (MultiplexerAttributes(1, 2, 5, (3,)), (7,), {0: (2, 5)}),
        (MultiplexerAttributes(1, 2, 5, (3,)), (6, 7), {1: (2, 5)}),
    ],
)
def test_the_part_that_an_output_is(attributes, shape, expected):
    assert TABLE.find("", "OutputMultiplexer").traits.part(shape, attributes) == expected


@pytest.mark.parametrize(
    ("attributes", "shapes", "message"),
    [
        (CropAttributes(1, 2), [(2, 6, 5), (2, 4, 4)], None),
        (CropAttributes(2, 2), [(2, 6, 5), (2, 4, 4)], "[5 x 6 x 2] is too small for a part of 4 x 4 at 2, 2"),
        (CropAttributes(1, 3), [(2, 6, 5), (2, 4, 4)], "[5 x 6 x 2] is too small for a part of 4 x 4 at 1, 3"),
        (CropAttributes(), [(6, 5), (6, 6)], "[5 x 6] is too small for a part of 6 x 6 at 0, 0"),
        (CropAttributes(), [(6, 5), (5,)], "only values with width and height can be cropped, not [5 x 6] to [5]"),
        (CropAttributes(), [(5,), (6, 5)], "only values with width and height can be cropped, not [5] to [5 x 6]"),
    ],
)
def test_where_a_part_of_an_image_fits(attributes, shapes, message):
    op = TABLE.find("", "Crop")
    if message is None:
        assert op.infer(shapes, attributes) == (2, 4, 4)
        return
    with pytest.raises(ShapeError) as error:
        op.infer(shapes, attributes)
    assert error.value.message == message


def test_the_part_of_an_image_and_its_gradient():
    op, attributes, context = TABLE.find("", "Crop"), CropAttributes(1, 2), OpContext((True, True), 2)
    image = np.arange(60.0).reshape(2, 1, 6, 5)
    found = run_forward(op, np, [image, np.zeros((2, 1, 3, 4))], attributes, context)
    np.testing.assert_array_equal(found, image[:, :, 2:5, 1:5])
    flows = run_gradient(op, np, found, found, [image, np.zeros((2, 1, 3, 4))], attributes, context, [True, False])
    expected = np.zeros_like(image)
    expected[:, :, 2:5, 1:5] = found
    np.testing.assert_array_equal(flows[0], expected)


WINDOWS = ConvolutionAttributes((3, 3), 5)


@pytest.mark.parametrize(
    ("name", "attributes", "shapes", "shape", "expected"),
    [
        ("Times", None, [(4, 5), (4,)], (5,), 40),
        ("Times", None, [(4, 5), (7, 4)], (7, 5), 280),
        ("TransposeTimes", None, [(5, 4), (4,)], (5,), 40),
        ("Convolution", WINDOWS, [(5, 2, 3, 3), (2, 6, 7)], (5, 6, 7), 2 * 18 * 5 * 42),
        (
            "Convolution",
            ConvolutionAttributes((3, 3), 5, image_layout="HWC"),
            [(18, 5), (6, 7, 2)],
            (6, 7, 5),
            2 * 18 * 5 * 42,
        ),
        (
            "Convolution",
            ConvolutionAttributes((3, 3, 5), 2, (2, 2, 5), transpose=True),
            [(2, 5, 3, 3), (2, 6, 7)],
            (5, 11, 13),
            2 * 45 * 2 * 42,
        ),
    ],
)
def test_additions_and_multiplications_for_a_frame(name, attributes, shapes, shape, expected):
    op = TABLE.find("", name)
    assert op.traits.operations(shapes, shape, op.attributes() if attributes is None else attributes) == expected


@pytest.mark.parametrize(
    ("attributes", "shapes", "message"),
    [
        (
            ConvolutionAttributes((3,), 5, (1, 1), convolution_2d=True),
            [(18, 5), (2, 6, 6)],
            "a convolution of images needs width and height of kernel and stride",
        ),
        (
            ConvolutionAttributes((3, 3), 5, (1,), convolution_2d=True),
            [(18, 5), (2, 6, 6)],
            "a convolution of images needs width and height of kernel and stride",
        ),
        (
            ConvolutionAttributes((3, 3, 2), auto_padding=(True, True, False)),
            [(17, 5), (2, 6, 6)],
            "the number of output maps cannot be inferred from the weights [5 x 17]",
        ),
        (
            ConvolutionAttributes((3, 3, 2), auto_padding=(True, True, False)),
            [(0, 0), (2, 6, 6)],
            "the number of output maps cannot be inferred from the weights [0 x 0]",
        ),
    ],
)
def test_what_a_convolution_cannot_be(attributes, shapes, message):
    with pytest.raises(ShapeError) as error:
        CONVOLUTION.infer(shapes, attributes)
    assert error.value.message == message


def test_maps_that_follow_from_the_weights():
    padding = (True, True, False)
    shared = ConvolutionAttributes((3, 3, 2), auto_padding=padding)
    assert CONVOLUTION.infer([(18, 5), (2, 6, 6)], shared) == (5, 6, 6)
    own = ConvolutionAttributes((3, 3, 2), auto_padding=padding, sharing=False)
    assert CONVOLUTION.infer([(18 * 36, 5), (2, 6, 6)], own) == (5, 6, 6)
    back = ConvolutionAttributes((3, 3, 5), auto_padding=padding, transpose=True)
    assert CONVOLUTION.infer([(2, 5, 3, 3), (2, 6, 6)], back) == (5, 6, 6)


@pytest.mark.parametrize(
    ("left", "right"), [((1,), (1,)), ((2,), (3,)), ((3,), (1,)), ((4, 2), (3, 4)), ((4, 2), (4,))]
)
def test_gradients_of_sums_over_the_steps_of_sequences(left, right):
    """Times over the sequence axis: for each sequence the sum of the products of its frames."""
    op = TABLE.find("", "Times")
    attributes = op.attributes(infer_input_rank_to_map=-2)
    form, layout = op.form_of(attributes), sequence_layout([3, 1, 2])
    rng = np.random.default_rng(len(left))
    inputs = [rng.normal(size=(6, *left)), rng.normal(size=(6, *right))]
    context = OpContext((True, True), 6, layout=layout, layouts=(layout, layout))
    value = run_forward(form, np, inputs, attributes, context)
    arriving = rng.normal(size=value.shape)
    found = run_gradient(form, np, arriving, value, inputs, attributes, context, [True, True])
    for index, gradient in enumerate(found):
        for place in np.ndindex(inputs[index].shape):
            moved = [each.copy() for each in inputs]
            moved[index][place] += 1.0
            change = run_forward(form, np, moved, attributes, context) - value
            np.testing.assert_allclose(gradient[place], np.sum(change * arriving), rtol=1e-9, atol=1e-12)


def test_kernels_are_of_an_op_or_of_one_of_the_cores_by_name():
    times = TABLE.find("", "Times")
    made = kernel("XLA", "times", gradient=max, early=True)(min)
    assert (made.engine, made.op, made.forward, made.gradient, made.settings) == (
        "xla",
        times,
        min,
        max,
        {"early": True},
    )
    assert kernel("xla", times)(min).op is times
    assert [each.op.name for each in kernels("cpu", ["Plus", times], min, max)] == ["Plus", "Times"]
    assert [each.gradient for each in kernels("cpu", ["Plus"], min)] == [None]
    with pytest.raises(PluginError):
        kernel("xla", "Timez")


@pytest.mark.parametrize(("rows", "nothing"), [(True, True), (True, False), (False, True)])
def test_what_goes_row_by_row_and_keeps_nothing_can_be_in_loops(rows, nothing):
    assert Traits(row_wise=rows, keeps_nothing=nothing).in_loops == (rows and nothing)


POOLS = PoolingAttributes((2, 2), stride=2, auto_padding=False)
KERNELS = ConvolutionAttributes((3, 3), 5)


@pytest.mark.parametrize(
    ("name", "attributes", "shapes", "expected"),
    [
        ("PoolingTangent", POOLS, [(2, 6, 4), (2, 6, 4)], (2, 3, 2)),
        ("PoolingTangent", POOLS, [(2, 6, 4), (2, 4, 6)], "the change of the data is [6 x 4 x 2], not [4 x 6 x 2]"),
        ("PoolingGradient", POOLS, [(2, 6, 4), (2, 3, 2)], (2, 6, 4)),
        ("PoolingGradient", POOLS, [(2, 6, 4), (2, 6, 4)], "the gradient of the value is [4 x 6 x 2], not [2 x 3 x 2]"),
        ("MaxUnpoolingGradient", POOLS, [(2, 6, 4), (2, 6, 4)], (2, 3, 2)),
        ("MaxUnpoolingGradient", POOLS, [(6, 4), (3, 2)], "the gradient of the value is [2 x 3], not [4 x 6]"),
        ("ConvolutionData", KERNELS, [(5, 2, 3, 3), (2, 6, 4), (5, 6, 4)], (2, 6, 4)),
        (
            "ConvolutionData",
            KERNELS,
            [(5, 2, 3, 3), (2, 6, 4), (2, 6, 4)],
            "the gradient of the value is [4 x 6 x 2], not [4 x 6 x 5]",
        ),
        ("ConvolutionWeights", KERNELS, [(5, 2, 3, 3), (2, 6, 4), (5, 6, 4)], (5, 2, 3, 3)),
        (
            "ConvolutionWeights",
            KERNELS,
            [(5, 2, 3, 3), (2, 6, 4), (2, 6, 4)],
            "the convolution gives [4 x 6 x 5], not [4 x 6 x 2]",
        ),
        ("SumOfOuterProducts", None, [(4,), (5,)], (5, 4)),
        ("SumOfOuterProducts", None, [(2, 4), (2, 5)], (5, 4)),
        ("SumOfOuterProducts", None, [(3, 4), (2, 5)], "the vectors of [4 x 3] and [5 x 2] do not make pairs"),
        ("SumOfOuterProducts", None, [(), (5,)], "the vectors of [1] and [5] do not make pairs"),
        ("SumOfOuterProducts", None, [(5,), ()], "the vectors of [5] and [1] do not make pairs"),
        ("AttentionProducts", None, [(7, 4), (4,)], (7,)),
        ("AttentionMemory", None, [(7, 4), (7,), (4,)], (7, 4)),
        ("AttentionMemory", None, [(7, 4), (7,), (5,)], "a step of the memory [4 x 7] is [4], a frame [5]"),
        ("SumFrames", None, [(2, 3)], (2, 3)),
    ],
)
def test_shapes_of_what_derivatives_are_made_of(name, attributes, shapes, expected):
    op = TABLE.find("", name)
    settings = op.attributes() if attributes is None else attributes
    if isinstance(expected, tuple):
        assert op.infer(shapes, settings) == expected
        return
    with pytest.raises(ShapeError) as error:
        op.infer(shapes, settings)
    assert error.value.message == expected


@pytest.mark.parametrize("framed", [False, True])
def test_sums_over_frames(framed):
    op, value = TABLE.find("", "SumFrames"), np.arange(6.0).reshape(3, 2)
    found = run_forward(op, np, [value], op.attributes(), OpContext((framed,), 3))
    np.testing.assert_array_equal(found, [6, 9] if framed else value)
