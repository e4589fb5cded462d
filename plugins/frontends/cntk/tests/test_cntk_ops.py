"""Operators element by element, reductions, and what gives values another shape: their values beside NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cntk as C
import numpy as np
import pytest

ROW = np.array([[-1.5, -0.5, 0.0, 0.5, 1.25, 2.0]])
INSIDE = np.array([[-0.9, -0.25, 0.0, 0.25, 0.5, 0.75]])
ABOVE = np.array([[0.25, 0.5, 1.0, 1.5, 2.0, 4.0]])
OTHER = np.array([[2.0, -0.5, 1.0, 0.5, -3.0, 2.0]])
CUBE = np.array([[[[2.0, -1.0, 0.5], [1.0, 3.0, -2.0]], [[0.25, 1.5, -0.5], [4.0, -3.0, 1.0]]]])

SELU_SCALE, SELU_ALPHA = 1.0507009873554805, 1.6732632423543772


def _elu(x: np.ndarray, alpha: float = 1.0) -> np.ndarray:
    return np.where(x < 0, alpha * np.expm1(x), x)


OF_ONE: dict[str, tuple[Callable[[Any], Any], Callable[[np.ndarray], Any], np.ndarray]] = {
    "abs": (C.abs, np.abs, ROW),
    "acos": (C.acos, np.arccos, INSIDE),
    "asin": (C.asin, np.arcsin, INSIDE),
    "asinh": (C.asinh, np.arcsinh, ROW),
    "atan": (C.atan, np.arctan, ROW),
    "atanh": (C.atanh, np.arctanh, INSIDE),
    "ceil": (C.ceil, np.ceil, ROW),
    "cos": (C.cos, np.cos, ROW),
    "cosh": (C.cosh, np.cosh, ROW),
    "element_not": (C.element_not, lambda x: x <= 0, ROW),
    "elu": (C.elu, _elu, ROW),
    "elu of a size": (lambda x: C.elu(x, 0.5), lambda x: _elu(x, 0.5), ROW),
    "exp": (C.exp, np.exp, ROW),
    "floor": (C.floor, np.floor, ROW),
    "hard_sigmoid": (lambda x: C.hard_sigmoid(x, 0.5, 0.25), lambda x: np.clip(0.5 * x + 0.25, 0, 1), ROW),
    "hardmax": (C.hardmax, lambda x: x == x.max(), ROW),
    "leaky_relu": (C.leaky_relu, lambda x: np.where(x < 0, 0.01 * x, x), ROW),
    "leaky_relu of a slope": (lambda x: C.leaky_relu(x, 0.5), lambda x: np.where(x < 0, 0.5 * x, x), ROW),
    "log": (C.log, np.log, ABOVE),
    "negate": (C.negate, np.negative, ROW),
    "param_relu": (
        lambda x: C.param_relu(C.constant(0.25, dtype=np.float64), x),
        lambda x: np.where(x < 0, 0.25 * x, x),
        ROW,
    ),
    "reciprocal": (C.reciprocal, np.reciprocal, ABOVE),
    "relu": (C.relu, lambda x: np.maximum(x, 0), ROW),
    "round": (C.round, lambda x: np.floor(x + 0.5), ROW),
    "selu": (C.selu, lambda x: SELU_SCALE * _elu(x, SELU_ALPHA), ROW),
    "selu of sizes": (lambda x: C.selu(x, 2.0, 0.5), lambda x: 2 * _elu(x, 0.5), ROW),
    "sigmoid": (C.sigmoid, lambda x: 1 / (1 + np.exp(-x)), ROW),
    "sin": (C.sin, np.sin, ROW),
    "sinh": (C.sinh, np.sinh, ROW),
    "softplus": (C.softplus, lambda x: np.log1p(np.exp(x)), ROW),
    "softplus of a steepness": (lambda x: C.softplus(x, steepness=4), lambda x: np.log1p(np.exp(4 * x)) / 4, ROW),
    "softsign": (C.softsign, lambda x: x / (1 + np.abs(x)), ROW),
    "sqrt": (C.sqrt, np.sqrt, ABOVE),
    "square": (C.square, np.square, ROW),
    "stop_gradient": (C.stop_gradient, lambda x: x, ROW),
    "straight_through_impl": (C.straight_through_impl, lambda x: np.where(x > 0, 1, -1), ROW),
    "tan": (C.tan, np.tan, INSIDE),
    "tanh": (C.tanh, np.tanh, ROW),
    "clip": (lambda x: C.clip(x, -1, 1.5), lambda x: np.clip(x, -1, 1.5), ROW),
    "operator -": (lambda x: -x, np.negative, ROW),
    "operator abs": (abs, np.abs, ROW),
    "number +": (lambda x: 3 + x, lambda x: 3 + x, ROW),
    "number -": (lambda x: 3 - x, lambda x: 3 - x, ROW),
    "number *": (lambda x: 3 * x, lambda x: 3 * x, ROW),
    "number /": (lambda x: 3 / x, lambda x: 3 / x, ABOVE),
    "/ number": (lambda x: x / 4, lambda x: x / 4, ROW),
    "array @": (lambda x: np.eye(2, 6, dtype=np.float32) @ C.reshape(x, (6, 1)), lambda x: x[:, :2, None], ROW),
    "zeros_like": (C.zeros_like, np.zeros_like, ROW),
    "ones_like": (C.ones_like, np.ones_like, ROW),
    "log_softmax": (C.log_softmax, lambda x: x - np.log(np.exp(x).sum()), ROW),
    "one_hot": (lambda x: C.one_hot(x, 3), lambda x: np.eye(3)[x.astype(int)], np.array([[2.0, 0.0, 1.0]])),
    "one_hot in front": (
        lambda x: C.one_hot(x, 3, axis=0),
        lambda x: np.eye(3)[x.astype(int)].swapaxes(1, 2),
        np.array([[2.0, 0.0]]),
    ),
}


def value(made: Callable[..., Any], *arrays: np.ndarray) -> np.ndarray:
    """Return what a function that is made of inputs gives for arrays, in double precision."""
    inputs = [C.input_variable(each.shape[1:], dtype=np.float64) for each in arrays]
    return np.asarray(made(*inputs).eval(dict(zip(inputs, arrays, strict=True))))


@pytest.mark.parametrize("name", OF_ONE)
def test_of_one_operand(name: str) -> None:
    made, expected, data = OF_ONE[name]
    np.testing.assert_allclose(value(made, data), expected(data), rtol=1e-6, atol=1e-7)


OF_TWO: dict[str, tuple[Callable[[Any, Any], Any], Callable[[np.ndarray, np.ndarray], Any]]] = {
    "element_and": (C.element_and, lambda a, b: (a > 0) & (b > 0)),
    "element_divide": (C.element_divide, np.divide),
    "element_max": (C.element_max, np.maximum),
    "element_min": (C.element_min, np.minimum),
    "element_or": (C.element_or, lambda a, b: (a > 0) | (b > 0)),
    "element_select": (lambda a, b: C.element_select(a, b, 7), lambda a, b: np.where(a != 0, b, 7)),
    "element_times": (C.element_times, np.multiply),
    "element_xor": (C.element_xor, lambda a, b: (a > 0) ^ (b > 0)),
    "equal": (C.equal, np.equal),
    "greater": (C.greater, np.greater),
    "greater_equal": (C.greater_equal, np.greater_equal),
    "less": (C.less, np.less),
    "less_equal": (C.less_equal, np.less_equal),
    "log_add_exp": (C.log_add_exp, np.logaddexp),
    "mean": (lambda a, b: C.mean(a, b, a), lambda a, b: (2 * a + b) / 3),
    "minus": (C.minus, np.subtract),
    "not_equal": (C.not_equal, np.not_equal),
    "plus": (C.plus, np.add),
    "pow": (lambda a, b: C.pow(C.abs(a), b), lambda a, b: np.abs(a) ** b),
    "sum": (lambda a, b: C.ops.sum(a, b, b, 2), lambda a, b: a + 2 * b + 2),
    "splice": (C.splice, lambda a, b: np.concatenate([a, b], 1)),
    "splice in front": (lambda a, b: C.splice(a, b, axis=C.Axis.new_leading_axis()), lambda a, b: np.stack([a, b], 1)),
    "times_transpose": (C.times_transpose, lambda a, b: (a * b).sum(1, keepdims=True)),
    "per_dim_mean_variance_normalize": (
        lambda a, b: C.per_dim_mean_variance_normalize(a, b, C.constant(np.full(6, 2.0))),
        lambda a, b: (a - b) * 2,
    ),
}


@pytest.mark.parametrize("name", OF_TWO)
def test_of_two_operands(name: str) -> None:
    made, expected = OF_TWO[name]
    left = np.array([[2.0, -1.5, 0.0, 0.5, 1.0, -2.0]])
    np.testing.assert_allclose(value(made, left, OTHER), expected(left, OTHER), rtol=1e-6, atol=1e-7)


def test_operators_of_two_variables_are_those_of_numpy() -> None:
    found = value(lambda a, b: C.splice(a + b, a - b, a * b, a / b, axis=0), ROW, OTHER)
    np.testing.assert_allclose(found, np.concatenate([ROW + OTHER, ROW - OTHER, ROW * OTHER, ROW / OTHER], 1))


@pytest.mark.parametrize("count", range(1, 8))
def test_sums_of_any_number_of_operands(count: int) -> None:
    factors = [C.constant(float(10**place)) for place in range(count)]
    assert C.plus(*factors).eval() == int("1" * count)


def _log_sum_exp(x: np.ndarray, axis: Any, keepdims: bool) -> Any:
    return np.log(np.exp(x).sum(axis, keepdims=keepdims))


REDUCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sum": (C.reduce_sum, np.sum),
    "mean": (C.reduce_mean, np.mean),
    "max": (C.reduce_max, np.max),
    "min": (C.reduce_min, np.min),
    "prod": (C.reduce_prod, np.prod),
    "log_sum_exp": (C.reduce_log_sum_exp, _log_sum_exp),
    "l1": (C.reduce_l1, lambda x, axis, keepdims: np.abs(x).sum(axis, keepdims=keepdims)),
    "l2": (C.reduce_l2, lambda x, axis, keepdims: np.sqrt((x * x).sum(axis, keepdims=keepdims))),
    "sum_square": (C.reduce_sum_square, lambda x, axis, keepdims: (x * x).sum(axis, keepdims=keepdims)),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str) -> None:
    made, expected = REDUCTIONS[name]
    several = value(
        lambda x: C.splice(made(x, (1, 2), keepdims=False), made(x, [-1, -2], keepdims=False), axis=0), CUBE
    )
    np.testing.assert_allclose(several, np.concatenate([expected(CUBE, axis=(2, 3), keepdims=False)] * 2, 1), rtol=1e-6)
    np.testing.assert_allclose(value(lambda x: made(x, 1), CUBE), expected(CUBE, axis=2, keepdims=True), rtol=1e-6)
    whole = value(made, CUBE)
    np.testing.assert_allclose(whole.ravel(), [np.ravel(expected(CUBE[0], axis=None, keepdims=False))[0]], rtol=1e-6)


def test_reductions_over_samples_and_their_axes() -> None:
    data = np.arange(6.0).reshape(3, 2)
    assert value(lambda x: C.reduce_sum(x, C.Axis.all_axes()), data).tolist() == 15
    assert value(lambda x: C.reduce_mean(x, C.Axis.default_batch_axis()), data).tolist() == [2, 3]
    assert value(lambda x: C.reduce_max(x, (0, C.Axis.default_batch_axis())), data).tolist() == [5]


def test_places_of_the_largest_and_the_smallest() -> None:
    assert value(lambda x: C.argmax(x, 2), CUBE).tolist() == CUBE.argmax(3)[..., None].tolist()
    assert value(lambda x: C.argmin(x, 1), CUBE).tolist() == CUBE.argmin(2)[:, :, None].tolist()
    assert value(C.argmax, ROW).tolist() == [5]
    assert value(C.argmin, ROW).tolist() == [0]


def test_softmax_along_an_axis() -> None:
    raised = np.exp(CUBE)
    for axis in range(3):
        expected = raised / raised.sum(axis + 1, keepdims=True)
        np.testing.assert_allclose(value(lambda x, axis=axis: C.softmax(x, axis), CUBE), expected, rtol=1e-6)
        logs = value(lambda x, axis=axis: C.log_softmax(x, axis), CUBE)
        np.testing.assert_allclose(logs, np.log(expected), rtol=1e-6)
    np.testing.assert_allclose(value(C.softmax, ROW), np.exp(ROW) / np.exp(ROW).sum(), rtol=1e-6)


SHAPES: dict[str, tuple[Callable[[Any], Any], Callable[[np.ndarray], Any]]] = {
    "reshape": (lambda x: C.reshape(x, (3, -1)), lambda x: x.reshape(1, 3, 4)),
    "reshape from an axis": (lambda x: C.reshape(x, (6,), begin_axis=1), lambda x: x.reshape(1, 2, 6)),
    "reshape up to an axis": (lambda x: C.reshape(x, (4,), end_axis=2), lambda x: x.reshape(1, 4, 3)),
    "reshape up to an axis from the end": (lambda x: C.reshape(x, (4,), 0, -1), lambda x: x.reshape(1, 4, 3)),
    "reshape in front": (lambda x: C.reshape(x, (1,), C.Axis(0), 0), lambda x: x[:, None]),
    "reshape between": (lambda x: C.reshape(x, (1,), C.Axis(1), 1), lambda x: x[:, :, None]),
    "slice": (lambda x: C.slice(x, 2, 1, 3), lambda x: x[..., 1:3]),
    "slice to the end": (lambda x: C.slice(x, -1, -2, 0), lambda x: x[..., -2:]),
    "slice with steps": (lambda x: C.slice(x, 2, 0, 3, 2), lambda x: x[..., ::2]),
    "slice of axes": (lambda x: C.slice(x, [0, 2], [1, 0], [2, 2]), lambda x: x[:, 1:2, :, :2]),
    "slice backwards": (lambda x: C.slice(x, [1, 2], [0, 0], [2, 3], [-1, 2]), lambda x: x[:, :, ::-1, ::2]),
    "brackets": (lambda x: x[1, ..., 1:], lambda x: x[:, 1:2, :, 1:]),
    "brackets up to": (lambda x: x[:, :1], lambda x: x[:, :, :1]),
    "brackets with steps": (lambda x: x[..., ::2], lambda x: x[..., ::2]),
    "brackets of a list": (lambda x: x[:, :, [2, 0]], lambda x: x[..., [2, 0]]),
    "brackets of one": (lambda x: x[..., [1]], lambda x: x[..., [1]]),
    "swapaxes": (C.swapaxes, lambda x: x.swapaxes(1, 2)),
    "swapaxes of others": (lambda x: C.swapaxes(x, 0, -1), lambda x: x.swapaxes(1, 3)),
    "transpose": (lambda x: C.transpose(x, (2, 0, 1)), lambda x: x.transpose(0, 3, 1, 2)),
    "transpose from the end": (lambda x: C.transpose(x, (-1, 0, -2)), lambda x: x.transpose(0, 3, 1, 2)),
    "expand_dims behind the first": (lambda x: C.expand_dims(x, 0), lambda x: x[:, :, None]),
    "expand_dims": (lambda x: C.expand_dims(x, 1), lambda x: x[:, :, :, None]),
    "expand_dims of an axis": (lambda x: C.expand_dims(x, C.Axis(2)), lambda x: x[..., None]),
    "expand_dims at the end": (lambda x: C.expand_dims(x, -1), lambda x: x[..., None]),
    "expand_dims before the last": (lambda x: C.expand_dims(x, -2), lambda x: x[:, :, :, None]),
    "expand_dims of a leading axis": (lambda x: C.expand_dims(x, C.Axis.new_leading_axis()), lambda x: x[:, None]),
    "flatten": (C.flatten, lambda x: x.reshape(1, 1, 12)),
    "flatten from an axis": (lambda x: C.flatten(x, 2), lambda x: x.reshape(1, 4, 3)),
    "flatten behind the last axis": (lambda x: C.flatten(x, C.Axis(-1)), lambda x: x.reshape(1, 12, 1)),
    "flatten from the last axis": (lambda x: C.flatten(x, -2), lambda x: x.reshape(1, 4, 3)),
    "squeeze": (lambda x: C.squeeze(C.reshape(x, (1, 12, 1))), lambda x: x.reshape(1, 12)),
    "squeeze of an axis": (lambda x: C.squeeze(C.reshape(x, (1, 12, 1)), 0), lambda x: x.reshape(1, 12, 1)),
    "squeeze of axes": (lambda x: C.squeeze(C.reshape(x, (1, 12, 1)), [0, 2]), lambda x: x.reshape(1, 12)),
    "pad": (
        lambda x: C.pad(x, [(0, 0), (1, 0), (0, 2)], constant_value=5),
        lambda x: np.pad(x, [(0, 0), (0, 0), (1, 0), (0, 2)], constant_values=5),
    ),
    "pad with zeros": (
        lambda x: C.pad(x, [(1, 1), (0, 0), (0, 0)]),
        lambda x: np.pad(x, [(0, 0), (1, 1), (0, 0), (0, 0)]),
    ),
    "pad by reflection": (
        lambda x: C.pad(x, [(0, 0), (0, 0), (2, 1)], C.REFLECT_PAD),
        lambda x: np.pad(x, [(0, 0), (0, 0), (0, 0), (2, 1)], mode="reflect"),
    ),
    "pad symmetrically": (
        lambda x: C.pad(x, [(0, 0), (0, 1), (0, 0)], C.SYMMETRIC_PAD),
        lambda x: np.pad(x, [(0, 0), (0, 0), (0, 1), (0, 0)], mode="symmetric"),
    ),
    "top_k": (lambda x: C.top_k(x, 2).outputs[0], lambda x: -np.sort(-x, 3)[..., :2]),
    "places of top_k": (lambda x: C.top_k(x, 2).outputs[1], lambda x: np.argsort(-x, 3)[..., :2]),
    "top_k of an axis": (lambda x: C.top_k(x, 1, axis=1).outputs[0], lambda x: x.max(2, keepdims=True)),
    "cast": (lambda x: C.cast(x, np.float32), lambda x: x),
    "image_scaler": (
        lambda x: C.image_scaler(x, 2, [10, 20]),
        lambda x: 2 * x + np.array([10, 20]).reshape(1, 2, 1, 1),
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_of_other_shapes(name: str) -> None:
    made, expected = SHAPES[name]
    data = np.random.default_rng(3).permutation(12).reshape(1, 2, 2, 3).astype(float)
    x = C.input_variable((2, 2, 3), dtype=np.float32 if name == "image_scaler" else np.float64)
    f = made(x)
    found = np.asarray((f if isinstance(f, C.Function) else C.alias(f)).eval({x: data}))
    np.testing.assert_array_equal(found, expected(data))
    assert f.shape == found.shape[1:]


def test_a_cast_has_another_type() -> None:
    x = C.input_variable(2)
    for dtype in (np.float32, np.float64, np.float16):
        assert C.cast(x, dtype).dtype == dtype
    assert C.cast(x, np.float64).eval({x: [[1.5, 2]]}).dtype == np.float64


def test_images_as_blocks_of_pixels_and_back() -> None:
    blocks = np.arange(2 * 4 * 6, dtype=np.float32).reshape(1, 2, 4, 6)
    x = C.input_variable((2, 4, 6))
    channels = C.space_to_depth(x, 2)
    found = channels.eval({x: blocks})
    expected = np.stack([blocks[0, c, i::2, j::2] for i in range(2) for j in range(2) for c in range(2)])
    np.testing.assert_array_equal(found, expected[None])
    np.testing.assert_array_equal(C.depth_to_space(channels, 2).eval({x: blocks}), blocks)
    for odd, message in (
        (lambda: C.depth_to_space(x, 2), "do not fill blocks of 2 x 2"),
        (lambda: C.space_to_depth(x, 4), "blocks of 4 x 4 do not fill"),
        (lambda: C.space_to_depth(x, 3), "blocks of 3 x 3 do not fill"),
        (lambda: C.space_to_depth(C.input_variable((4, 4)), 2), "blocks of 2 x 2 do not fill"),
        (lambda: C.depth_to_space(C.input_variable((4, 4)), 2), "do not fill blocks of 2 x 2"),
    ):
        with pytest.raises(ValueError, match=message):
            odd()


def test_elements_are_gathered_by_their_numbers() -> None:
    table = np.arange(12, dtype=np.float32).reshape(4, 3)
    x, kept = C.input_variable(2), C.parameter((4, 3), init=table)
    found = C.gather(kept, x).eval({x: [[3, 0], [1, 1]]})
    np.testing.assert_array_equal(found, table[[[3, 0], [1, 1]]])
    np.testing.assert_array_equal(C.gather(kept, C.constant([2, 0]), axis=0).eval(), table[[2, 0]])
    np.testing.assert_array_equal(C.gather(kept, C.constant([2, 0]), axis=1).eval(), table[:, [2, 0]])


def test_an_image_is_cropped_as_far_as_another() -> None:
    image = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    x = C.input_variable((1, 4, 4))
    small = C.pooling(x, C.MAX_POOLING, (2, 2), strides=(2, 2))
    moved = C.crop_manual(x, small, 1, 2)
    np.testing.assert_array_equal(moved.eval({x: image}), image[:, :, 2:4, 1:3])
    inner = C.convolution(C.constant(np.ones((1, 1, 3, 3))), x, auto_padding=[False, False, False])
    cropped = C.crop_automatic(x, inner)
    np.testing.assert_array_equal(cropped.eval({x: image}), image[:, :, 1:3, 1:3])
    again = C.crop_automatic_with_ancestors(x, inner, x, x)
    np.testing.assert_array_equal(again.eval({x: image}), image[:, :, 1:3, 1:3])


def test_a_parameter_is_assigned_when_the_minibatch_is_done() -> None:
    x, kept = C.input_variable(2), C.parameter(2, init=1.0)
    shift = C.assign(kept, C.constant([3.0, 4.0]))
    assert C.combine([shift]).eval().tolist() == [3, 4]
    assert kept.value.tolist() == [3, 4]
    assert (x + kept).eval({x: [[1, 1]]}).tolist() == [[4, 5]]
