"""Layers and functions of later networks: values against formulas, shapes and names of parameters, errors."""

from __future__ import annotations

from typing import Any

import cntk_builder_python as layers
import numpy as np
import pytest
import scipy.special
from cntk_builder_python import (
    Convolution,
    Convolution2D,
    ConvolutionTranspose,
    Graph,
    GroupNormalization,
    InstanceNormalization,
    LayerNormalization,
    PReLU,
    squared_error,
)

from cntk_core.api import BuildError, Minibatch, ParameterStore, StreamData
from cntk_core.api.engines import frame_layout, make_plan
from cntk_testing import ReferenceEngine, check_gradients

FRAMES = 3
IMAGE = (4, 3, 5)


def run(make: Any, shape: tuple[int, ...], **values: np.ndarray) -> tuple[np.ndarray, Any, dict[str, np.ndarray]]:
    """The data, what a function makes of them, and the values of the parameters; the gradients are checked too."""
    graph = Graph(np.float64)
    term = make(graph.input("x", shape))
    terms = term if isinstance(term, tuple) else (term,)
    if len(terms) == 1:
        graph.network.infer()
        target = graph.label("y", terms[0].node.known_shape)
        graph.criterion(squared_error(terms[0], target), "loss")
    network = graph.finish()
    rng = np.random.default_rng(3)
    for parameter in network.parameters:
        if parameter.learning_rate_multiplier:
            parameter.value = rng.normal(size=parameter.known_shape)
    x = rng.normal(size=(FRAMES, *shape))
    layout = frame_layout(FRAMES)
    streams = {"x": StreamData(x, layout)}
    if len(terms) == 1:
        streams["y"] = StreamData(rng.normal(size=(FRAMES, *terms[0].node.known_shape)), layout)
    data = Minibatch(streams, FRAMES)
    store = ParameterStore(network.parameters, np.float64)
    program = ReferenceEngine().compile(make_plan(network, [each.node for each in terms]), store)
    program.evaluate(Minibatch({"x": streams["x"]}, FRAMES))
    found = tuple(program.value(each.node.name) for each in terms)
    numbers = {parameter.name: np.array(parameter.value) for parameter in network.parameters}
    if any(parameter.learning_rate_multiplier for parameter in network.parameters):
        check_gradients(network, network["loss"], data)
    return x, found if isinstance(term, tuple) else found[0], numbers


FUNCTIONS = {
    "acosh": (lambda x: layers.acosh(2.0 + x * x), lambda x: np.arccosh(2 + x * x)),
    "asin": (lambda x: layers.asin(layers.sin(x)), lambda x: np.arcsin(np.sin(x))),
    "acos": (lambda x: layers.acos(layers.cos(x)), lambda x: np.arccos(np.cos(x))),
    "atanh": (lambda x: layers.atanh(layers.tanh(x)), lambda x: x),
    "hyperbolic": (
        lambda x: layers.sinh(x) + layers.cosh(x) + layers.asinh(x),
        lambda x: np.sinh(x) + np.cosh(x) + np.arcsinh(x),
    ),
    "tan": (lambda x: layers.tan(0.3 * x) + layers.atan(x), lambda x: np.tan(0.3 * x) + np.arctan(x)),
    "erf": (layers.erf, scipy.special.erf),
    "gelu": (layers.gelu, lambda x: x * scipy.special.ndtr(x)),
    "gelu by tanh": (
        lambda x: layers.gelu(x, "tanh"),
        lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    ),
    "softplus": (lambda x: layers.softplus(x, 2.0), lambda x: np.logaddexp(2 * x, 0) / 2),
    "softsign": (layers.softsign, lambda x: x / (1 + abs(x))),
    "hard_sigmoid": (lambda x: layers.hard_sigmoid(x, 0.5, 0.4), lambda x: np.clip(0.5 * x + 0.4, 0, 1)),
    "elu": (lambda x: layers.elu(x, 0.5), lambda x: np.where(x < 0, 0.5 * np.expm1(x), x)),
    "selu": (layers.selu, lambda x: np.where(x < 0, 1.7580993408473766 * np.expm1(x), 1.0507009873554805 * x)),
    "leaky_relu": (lambda x: layers.leaky_relu(x, 0.2), lambda x: np.where(x < 0, 0.2 * x, x)),
    "param_relu": (lambda x: layers.param_relu(0.3, x), lambda x: np.where(x < 0, 0.3 * x, x)),
    "straight_through": (layers.straight_through, lambda x: np.where(x > 0, 1.0, -1.0)),
    "clip": (lambda x: layers.clip(x, -0.5, 0.5), lambda x: np.clip(x, -0.5, 0.5)),
    "cast": (lambda x: layers.cast(x, "float16"), lambda x: x.astype(np.float16).astype(float)),
    "constant_like": (lambda x: layers.constant_like(x, 2.0), lambda x: np.full_like(x, 2.0)),
    "element_max": (lambda x: layers.element_max(x, -x, 0.5), lambda x: np.maximum(abs(x), 0.5)),
    "element_min": (lambda x: layers.element_min(x, -x, -0.5), lambda x: np.minimum(-abs(x), -0.5)),
    "mean": (lambda x: layers.mean(x, 2.0 * x, 3.0), lambda x: x + 1),
    "flatten": (layers.flatten, lambda x: x.reshape(FRAMES, -1)),
    "squeeze": (lambda x: layers.squeeze(layers.expand_dims(x, -2), -2), lambda x: x),
    "squeeze all": (lambda x: layers.squeeze(layers.expand_dims(layers.expand_dims(x, -1), -4)), lambda x: x),
    "expand_dims": (lambda x: layers.expand_dims(x, -1), lambda x: x[..., None]),
    "pad": (
        lambda x: layers.pad(x, [(1, 2), (0, 1)], "symmetric"),
        lambda x: np.pad(x, [(0, 0), (1, 2), (0, 1)], "symmetric"),
    ),
    "pad by a number": (
        lambda x: layers.pad(x, [(2, 0)], value=1.5),
        lambda x: np.pad(x, [(0, 0), (0, 0), (2, 0)], constant_values=1.5),
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function(name: str) -> None:
    make, formula = FUNCTIONS[name]
    x, found, _ = run(make, (2, 3))
    np.testing.assert_allclose(found, formula(x), rtol=1e-12, atol=1e-12)


def test_the_largest() -> None:
    x, (values, places), _ = run(lambda x: layers.top_k(x, 2, -2), (3, 2))
    order = np.argsort(-x, axis=1)[:, :2]
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, 1))


def test_blocks() -> None:
    x, found, _ = run(lambda x: layers.depth_to_space(layers.space_to_depth(x, 2), 2), (2, 4, 6))
    np.testing.assert_array_equal(found, x)


@pytest.mark.parametrize(
    ("make", "shape"),
    [(lambda: PReLU(), (2, 3)), (lambda: PReLU(2), (4, 1, 1)), (lambda: PReLU(shared=True), (1,))],
    ids=["elements", "channels", "shared"],
)
def test_learned_slopes(make: Any, shape: tuple[int, ...]) -> None:
    x, found, values = run(make(), IMAGE if len(shape) == 3 else (2, 3))
    if shape == (2, 3):  # a vector's axis alone is inferred
        shape = (3,)
    assert values["prelu.slope"].shape == shape
    np.testing.assert_allclose(found, np.where(x < 0, values["prelu.slope"] * x, x))


def standardized(x: np.ndarray, axes: tuple[int, ...], epsilon: float = 1e-5) -> np.ndarray:
    centred = x - x.mean(axes, keepdims=True)
    return np.asarray(centred / np.sqrt((centred**2).mean(axes, keepdims=True) + epsilon))


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_layer_normalization_over_the_last_axes(axes: int) -> None:
    x, found, values = run(LayerNormalization(axes=axes, epsilon=0.01), IMAGE)
    scale, bias = (values[f"layer_normalization.{key}"] for key in ("scale", "bias"))
    assert scale.shape == bias.shape == IMAGE[-axes:]
    np.testing.assert_allclose(found, standardized(x, tuple(range(-axes, 0)), 0.01) * scale + bias, rtol=1e-10)


def test_groups_of_channels() -> None:
    x, found, values = run(GroupNormalization(2), IMAGE)
    scale, bias = (values[f"group_normalization.{key}"] for key in ("scale", "bias"))
    assert scale.shape == bias.shape == (4, 1, 1)
    parts = standardized(x.reshape(FRAMES, 2, 2, 3, 5), (2, 3, 4)).reshape(x.shape)
    np.testing.assert_allclose(found, parts * scale + bias, rtol=1e-10)


def test_each_channel() -> None:
    x, found, values = run(InstanceNormalization(), IMAGE)
    scale, bias = (values[f"instance_normalization.{key}"] for key in ("scale", "bias"))
    np.testing.assert_allclose(found, standardized(x, (2, 3)) * scale + bias, rtol=1e-10)


def convolved(x: np.ndarray, weights: np.ndarray, pad: int, dilation: int) -> np.ndarray:
    """Cross-correlation of images ``(frames, channels, height, width)``, one group."""
    padded = np.pad(x, [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    reach = (weights.shape[2] - 1) * dilation
    height, width = padded.shape[2] - reach, padded.shape[3] - reach
    found = np.zeros((len(x), len(weights), height, width))
    for down in range(weights.shape[2]):
        for right in range(weights.shape[3]):
            part = padded[:, :, down * dilation :, right * dilation :][:, :, :height, :width]
            found += np.einsum("fchw,kc->fkhw", part, weights[:, :, down, right])
    return found


@pytest.mark.parametrize(("groups", "dilation"), [(2, 1), (4, 1), (1, 2), (4, 2)])
def test_convolution_in_groups(groups: int, dilation: int) -> None:
    layer = Convolution2D(3, 4, pad=True, dilation=dilation, groups=groups)
    x, found, values = run(layer, (4, 6, 5))
    weights = values["convolution.W"]
    assert weights.shape == (4, 4 // groups, 3, 3)
    parts = zip(np.split(x, groups, 1), np.split(weights, groups), strict=True)
    expected = np.concatenate([convolved(*part, dilation, dilation) for part in parts], 1)
    np.testing.assert_allclose(found, expected + values["convolution.b"], rtol=1e-10, atol=1e-12)


def test_transposed_in_groups() -> None:
    x, found, values = run(ConvolutionTranspose((2, 2), 6, strides=2, groups=2, bias=False), (4, 3, 2))
    weights = values["convolution_transpose.W"]
    assert weights.shape == (4, 3, 2, 2)
    assert found.shape == (FRAMES, 6, 6, 4)
    parts = zip(np.split(x, 2, 1), np.split(weights, 2), strict=True)
    blocks = np.concatenate([np.einsum("fchw,ckab->fkhawb", *part) for part in parts], 1)
    np.testing.assert_allclose(found, blocks.reshape(found.shape), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Convolution((3,), 4, sequential=True, dilation=2),
            "a convolution along sequences has no dilation there, and no groups",
        ),
        (lambda: Convolution((3, 3), 4, dilation=(1, 2, 3)), "dilation has 3 values, but the filter (3, 3) has 2 axes"),
        (lambda: ConvolutionTranspose((2, 2), 5, groups=2), "5 filters cannot be divided into 2 groups"),
        (lambda: LayerNormalization(axes=0), "axes is how many of the last axes are normalized, not 0"),
        (
            lambda: layers.expand_dims(Graph().input("x", 3), 0),
            "axes are counted from the last one, which is -1: not 0",
        ),
    ],
)
def test_errors(make: Any, message: str) -> None:
    with pytest.raises(BuildError) as raised:
        make()
    assert raised.value.message == message
    assert raised.value.where is not None
    assert raised.value.where.file == __file__


# -- what is chosen by name or number ---------------------------------------------------------------------


@pytest.mark.parametrize("steepness", [0.5, 1.0, 4.0])
def test_the_factor_of_a_stabilizer(steepness: float) -> None:
    x, found, values = run(lambda x: layers.Stabilizer(steepness, name="s")(x), (3,))
    factor = np.log1p(np.exp(steepness * values["s.param"])) / steepness
    np.testing.assert_allclose(found, x * factor, rtol=1e-7)


@pytest.mark.parametrize("both", [{"input_rank": 1, "map_rank": 1}, {"input_rank": 0, "map_rank": 0}])
def test_ranks_of_a_dense_layer_exclude_each_other(both: dict[str, int]) -> None:
    with pytest.raises(BuildError) as caught:
        layers.Dense(2, **both)
    assert caught.value.message == "Dense takes either input_rank or map_rank, not both"
    for key, value in both.items():
        layers.Dense(2, **{key: value})


def test_layers_take_no_stem_that_a_node_begins_with() -> None:
    graph = Graph(np.float64)
    x = graph.input("x", 3)
    graph.apply("Tanh", x, name="dense.inner")
    layers.Dense(2)(x)
    layers.Dense(2)(x)
    graph.network.infer()
    assert [node.name for node in graph.network.parameters] == ["dense2.W", "dense2.b", "dense3.W", "dense3.b"]


def test_a_delay_begins_with_a_term() -> None:
    graph = Graph(np.float64)
    x, first = graph.input("x", 2), graph.input("first", 2)
    term = layers.Delay(2, first)(x)
    assert [node.name for node in term.node.inputs] == ["x", "first"]
    assert term.node.attributes.time_step == 2


def test_batch_normalization_takes_the_usual_engine() -> None:
    graph = Graph(np.float64)
    term = layers.BatchNormalization()(graph.input("x", 3))
    assert term.node.attributes.use_cntk_engine is False
