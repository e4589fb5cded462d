"""The operations that later networks brought: against NumPy's and SciPy's functions, on random shapes."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.special
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from cntk_core.errors import ShapeError
from cntk_core.ops.families.activations import (
    GeluAttributes,
    HardSigmoidAttributes,
    LeakyReLUAttributes,
    SELUAttributes,
    SoftPlusAttributes,
)
from cntk_core.ops.families.filling import CastAttributes, FillAttributes
from cntk_core.ops.families.layer_normalization import LAYER_NORMALIZATION, LayerNormalizationAttributes
from cntk_core.ops.families.ordering import TopKAttributes
from cntk_core.ops.families.padding import MODES, PadAttributes
from cntk_core.ops.families.rearranging import BlockAttributes, ExpandDimsAttributes, SqueezeAttributes
from cntk_core.ops.families.unary import ELUAttributes
from cntk_core.ops.language.expression import ArrayMath
from cntk_core.ops.language.framing import run_forward, run_gradient
from cntk_core.ops.language.op import NoAttributes, OpContext
from cntk_core.ops.table import core_ops
from cntk_testing.examples import examples
from cntk_testing.gradients import check_op_gradients

TABLE = core_ops()
NAN, INF = math.nan, math.inf

FUNCTIONS = {
    "Tan": np.tan,
    "Asin": np.arcsin,
    "Acos": np.arccos,
    "Atan": np.arctan,
    "Sinh": np.sinh,
    "Cosh": np.cosh,
    "Asinh": np.arcsinh,
    "Acosh": np.arccosh,
    "Atanh": np.arctanh,
    "Erf": scipy.special.erf,
    "SoftSign": lambda x: x / (1 + abs(x)),
    "StraightThrough": lambda x: np.where(x > 0, 1.0, -1.0),
}
SETTLED = {
    "Gelu": [
        (GeluAttributes(), lambda x: x * scipy.special.ndtr(x)),
        (
            GeluAttributes("tanh"),
            lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        ),
    ],
    "SoftPlus": [
        (SoftPlusAttributes(), lambda x: np.logaddexp(x, 0)),
        (SoftPlusAttributes(4.0), lambda x: np.logaddexp(4 * x, 0) / 4),
    ],
    "HardSigmoid": [(HardSigmoidAttributes(0.3, 0.4), lambda x: np.clip(0.3 * x + 0.4, 0, 1))],
    "LeakyReLU": [(LeakyReLUAttributes(0.2), lambda x: np.where(x < 0, 0.2 * x, x))],
    "ExponentialLinearUnit": [(ELUAttributes(0.5), lambda x: np.where(x < 0, 0.5 * np.expm1(x), x))],
    "SELU": [
        (SELUAttributes(), lambda x: np.where(x < 0, 1.7580993408473766 * np.expm1(x), 1.0507009873554805 * x)),
    ],
    "ConstantOp": [(FillAttributes(-2.5), lambda x: np.full_like(x, -2.5))],
}
SHAPES = arrays.array_shapes(min_dims=1, max_dims=3, max_side=4)


def forward(name, *inputs, attributes=None, framed=None):
    op = TABLE.find("", name)
    has = (True,) * len(inputs) if framed is None else framed
    context = OpContext(framed=has, frames=len(inputs[0]))
    return run_forward(op, np, list(inputs), op.attributes() if attributes is None else attributes, context)


def gradients(name, incoming, *inputs, attributes=None):
    op = TABLE.find("", name)
    context = OpContext(framed=(True,) * len(inputs), frames=len(inputs[0]))
    settings = op.attributes() if attributes is None else attributes
    output = run_forward(op, np, list(inputs), settings, context)
    return run_gradient(op, np, incoming, output, list(inputs), settings, context, [True] * len(inputs))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function(name, dtype):
    x = np.array([[-7.0, -1.0, -0.6, -1e-6, 0.0, 1e-30, 0.3, 1.0, 1.5, 40.0, INF, -INF]], dtype)
    with np.errstate(all="ignore"):
        expected = FUNCTIONS[name](x.astype(np.float64)).astype(dtype)
    found = forward(name, x)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=3e-7 if dtype == np.float32 else 1e-14, err_msg=name)
    assert np.isnan(forward(name, np.full((1, 1), NAN, dtype))).all()


def test_the_error_function_everywhere():
    """It is made of pieces, each of which is as precise as the numbers."""
    x = np.linspace(-7.0, 7.0, 1401).reshape(1, -1)
    np.testing.assert_allclose(forward("Erf", x), scipy.special.erf(x), rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(forward("Erf", x.astype(np.float32)), scipy.special.erf(x), rtol=3e-7, atol=1e-8)


SLOPES = {*FUNCTIONS, *SETTLED, "Sin", "Cosine", "Sigmoid", "Tanh", "Exp", "Reciprocal"} - {
    "StraightThrough",
    "ConstantOp",
}


@pytest.mark.parametrize("name", sorted(SLOPES))
def test_slopes_of_functions(name):
    """The gradient is the slope, as central differences tell it in the middle of pieces."""
    x = np.array([[-0.9, -0.45, -0.21, 0.21, 0.45, 0.9]]) + (2.0 if name == "Acosh" else 0.0)
    arriving = np.linspace(0.5, 2.0, x.size).reshape(x.shape)
    for attributes, _ in SETTLED.get(name, [(None, None)]):
        (found,) = gradients(name, arriving, x, attributes=attributes)
        steps = [forward(name, x + step, attributes=attributes) for step in (1e-6, -1e-6)]
        np.testing.assert_allclose(found, arriving * (steps[0] - steps[1]) / 2e-6, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", SETTLED)
@examples(15)
@given(SHAPES, st.integers(0, 9))
def test_a_function_with_settings(name, shape, seed):
    x = np.random.default_rng(seed).normal(size=(2, *shape)) * 3
    for attributes, function in SETTLED[name]:
        found = forward(name, x, attributes=attributes)
        np.testing.assert_allclose(found, function(x), rtol=1e-13, atol=1e-14)


def test_error_function_everywhere():
    x = np.concatenate(
        [np.linspace(-8, 8, 4001), 10.0 ** np.linspace(-300, 0, 301), [0.46875, np.nextafter(0.46875, 1)]]
    )
    np.testing.assert_allclose(ArrayMath(np).erf(x), scipy.special.erf(x), rtol=1e-15, atol=0)


def test_no_overflow():
    x = np.array([[-1000.0, 1000.0]])
    np.testing.assert_array_equal(forward("SoftPlus", x), [[0.0, 1000.0]])
    np.testing.assert_array_equal(gradients("SoftPlus", np.ones_like(x), x)[0], [[0.0, 1.0]])
    np.testing.assert_array_equal(forward("Gelu", x), [[-0.0, 1000.0]])
    np.testing.assert_array_equal(gradients("Gelu", np.ones_like(x), x)[0], [[0.0, 1.0]])


def test_the_slope_is_learned():
    x, slope = np.array([[-2.0, 3.0], [-4.0, -5.0]]), np.array([[0.25, 0.5], [0.25, 0.5]])
    np.testing.assert_array_equal(forward("PReLU", slope, x), [[-0.5, 3.0], [-1.0, -2.5]])
    to_slope, to_x = gradients("PReLU", np.ones_like(x), slope, x)
    np.testing.assert_array_equal(to_slope, [[-2.0, 0.0], [-4.0, -5.0]])
    np.testing.assert_array_equal(to_x, [[0.25, 1.0], [0.25, 0.5]])


def test_the_gradient_of_a_sign_passes_near_zero():
    x = np.array([[-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5]])
    np.testing.assert_array_equal(gradients("StraightThrough", x + 3, x)[0], [[0.0, 2.0, 2.5, 3.0, 3.5, 4.0, 0.0]])


@examples(40)
@given(st.data())
def test_padding(data):
    shape = data.draw(SHAPES)
    mode = data.draw(st.sampled_from(MODES))
    most = [{"constant": 3, "reflect": size - 1, "symmetric": size}[mode] for size in shape]
    widths = [tuple(data.draw(st.integers(0, limit)) for _ in range(2)) for limit in most]
    given_axes = data.draw(st.integers(1, len(shape)))
    widths[: len(shape) - given_axes] = [(0, 0)] * (len(shape) - given_axes)
    heads, feet = zip(*reversed(widths[len(shape) - given_axes :]), strict=True)
    attributes = PadAttributes(heads, feet, mode, 0.5)
    x = np.random.default_rng(1).normal(size=(2, *shape))
    how = {"constant_values": 0.5} if mode == "constant" else {}
    expected = np.pad(x, [(0, 0), *widths], mode=mode, **how)
    np.testing.assert_array_equal(forward("Pad", x, attributes=attributes), expected)
    check_op_gradients(TABLE.find("", "Pad"), [x], (True,), attributes)


@examples(30)
@given(SHAPES, st.integers(0, 9))
def test_layer_normalization(shape, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(3, *shape))
    for count in range(1, len(shape) + 1):
        axes = tuple(range(-count, 0))
        scale, bias = rng.normal(size=shape[-count:]), rng.normal(size=shape[-1:])
        attributes = LayerNormalizationAttributes(count, 1e-3)
        centred = x - x.mean(axes, keepdims=True)
        expected = centred / np.sqrt((centred**2).mean(axes, keepdims=True) + 1e-3) * scale + bias
        framed = (True, False, False)
        found = forward("LayerNormalization", x, scale, bias, attributes=attributes, framed=framed)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    check_op_gradients(LAYER_NORMALIZATION, [x, scale, bias], framed, attributes)


def test_scale_and_bias_are_completed():
    complete = LAYER_NORMALIZATION.complete
    assert complete([(2, 3), (0,), (0, 1)], LayerNormalizationAttributes()) == [(2, 3), (3,), (2, 1)]


@examples(30)
@given(SHAPES, st.data())
def test_largest_elements(shape, data):
    axis = data.draw(st.integers(1, len(shape)))
    k = data.draw(st.integers(1, shape[-axis]))
    x = np.random.default_rng(2).integers(0, 3, size=(2, *shape)).astype(np.float64)  # with equal ones
    order = np.argsort(-x, axis=-axis, kind="stable").take(range(k), axis=-axis)
    values = forward("TopK", x, attributes=TopKAttributes(k, axis))
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, -axis))
    np.testing.assert_array_equal(forward("TopK", x, attributes=TopKAttributes(k, axis, "indices")), order)
    incoming = np.random.default_rng(3).normal(size=values.shape)
    (to_x,) = gradients("TopK", incoming, x, attributes=TopKAttributes(k, axis))
    np.testing.assert_array_equal(np.take_along_axis(to_x, order, -axis), incoming)
    assert np.count_nonzero(to_x) == incoming.size
    assert gradients("TopK", incoming, x, attributes=TopKAttributes(k, axis, "indices")) == [None]


@examples(20)
@given(SHAPES)
def test_axes_of_length_one(shape):
    x = np.random.default_rng(4).normal(size=(2, *shape))
    np.testing.assert_array_equal(forward("Squeeze", x), x.reshape(2, *(size for size in shape if size > 1)))
    for axis in range(1, len(shape) + 2):
        wide = forward("ExpandDims", x, attributes=ExpandDimsAttributes(axis))
        np.testing.assert_array_equal(wide, np.expand_dims(x, -axis))
        np.testing.assert_array_equal(forward("Squeeze", wide, attributes=SqueezeAttributes(axis)), x)


@examples(20)
@given(*(st.integers(1, 3) for _ in range(4)))
def test_blocks_of_images(block, channels, height, width):
    x = np.random.default_rng(5).normal(size=(2, channels * block * block, height, width))
    attributes = BlockAttributes(block)
    large = forward("DepthToSpace", x, attributes=attributes)
    assert large.shape == (2, channels, height * block, width * block)
    for down in range(block):
        for right in range(block):
            first = (down * block + right) * channels
            np.testing.assert_array_equal(large[:, :, down::block, right::block], x[:, first : first + channels])
    np.testing.assert_array_equal(forward("SpaceToDepth", large, attributes=attributes), x)


def test_types():
    x = np.array([[1 / 3, 70000.0]])
    np.testing.assert_array_equal(forward("Cast", x, attributes=CastAttributes("float")), x.astype(np.float32))
    np.testing.assert_array_equal(forward("Cast", x, attributes=CastAttributes("float16")), [[0.333251953125, INF]])
    assert forward("Cast", x.astype(np.float32), attributes=CastAttributes("double")).dtype == np.float32


def test_a_diagonal_of_ones():
    np.testing.assert_array_equal(forward("EyeLikeOp", np.full((2, 2, 3), NAN)), [[[1, 0, 0], [0, 1, 0]]] * 2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GeluAttributes("tan"), "Gelu has no form 'tan'; did you mean 'tanh'?"),
        (lambda: TopKAttributes(1, 1, "index"), "TopK has no output 'index'; did you mean 'indices'?"),
        (lambda: PadAttributes(1, 1, "reflected"), "Pad has no mode 'reflected'; did you mean 'reflect'?"),
        (lambda: PadAttributes((1, 2), 1), "Pad needs as many heads as feet, not 2 and 1"),
        (lambda: CastAttributes("floats"), "numbers cannot be cast to 'floats'; did you mean 'float'?"),
    ],
)
def test_settings_that_there_are_not(make, message):
    with pytest.raises(ShapeError) as raised:
        make()
    assert raised.value.message == message


@pytest.mark.parametrize(
    ("name", "shapes", "attributes", "message"),
    [
        ("Pad", [(3,)], PadAttributes((1, 1), (1, 1)), "the input [3] has no axis 2 to pad"),
        ("Pad", [(3, 4)], PadAttributes(4, 0, "reflect"), "axis 1 of [4 x 3] cannot be padded by 4 and 0 (reflect)"),
        ("Pad", [(3, 4)], PadAttributes(-1, 0), "axis 1 of [4 x 3] cannot be padded by -1 and 0 (constant)"),
        ("TopK", [(3,)], TopKAttributes(1, 2), "the input [3] has no axis 2"),
        ("TopK", [(3,)], TopKAttributes(4), "there are no 4 largest of the 3 elements along axis 1"),
        ("Squeeze", [(1, 3)], SqueezeAttributes(3), "the input [3 x 1] has no axis 3"),
        ("Squeeze", [(1, 3)], SqueezeAttributes(1), "axis 1 of [3 x 1] cannot be taken out: it has 3 elements"),
        ("ExpandDims", [(3,)], ExpandDimsAttributes(3), "[3] cannot get a new axis 3"),
        ("DepthToSpace", [(4, 2)], BlockAttributes(2), "an image has width, height and channels; [2 x 4] has 2 axes"),
        (
            "DepthToSpace",
            [(6, 2, 2)],
            BlockAttributes(2),
            "6 channels cannot be divided among the 4 places of a block",
        ),
        (
            "SpaceToDepth",
            [(6, 3, 2)],
            BlockAttributes(2),
            "an image of 2 x 3 cannot be divided into blocks of 2 x 2",
        ),
        ("SpaceToDepth", [(6, 3, 2)], BlockAttributes(0), "blockSize is 0, less than 1"),
        ("EyeLikeOp", [(3,)], NoAttributes(), "only a matrix has a diagonal, not [3]"),
        (
            "LayerNormalization",
            [(3,)],
            LayerNormalizationAttributes(2),
            "the input [3] has no 2 axes to normalize",
        ),
        (
            "LayerNormalization",
            [(1, 3), (2, 3)],
            LayerNormalizationAttributes(),
            "the scale [3 x 2] does not fit the input [3 x 1]",
        ),
    ],
)
def test_inputs_that_do_not_fit(name, shapes, attributes, message):
    with pytest.raises(ShapeError) as raised:
        TABLE.find("", name).infer(shapes, attributes)
    assert raised.value.message == message
