"""Layers for images: values against loops over windows, gradients, names, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cntk_builder_python import (
    Activation,
    AveragePooling,
    BatchNormalization,
    Convolution,
    Convolution1D,
    Convolution2D,
    Convolution3D,
    ConvolutionTranspose,
    ConvolutionTranspose1D,
    ConvolutionTranspose2D,
    ConvolutionTranspose3D,
    Dense,
    GlobalAveragePooling,
    GlobalMaxPooling,
    Graph,
    Label,
    LayerNormalization,
    MaxPooling,
    MaxUnpooling,
    ResNetBlock,
    Sequential,
    SequentialClique,
    Term,
    cross_entropy_with_softmax,
    relu,
    squared_error,
    tanh,
)

from cntk_core.api import BuildError, CntkError, Minibatch, ParameterStore, StreamData
from cntk_core.api.engines import make_plan, sequence_layout
from cntk_testing import ReferenceEngine, check_gradients

SHAPE = (2, 5, 6)


def batch(lengths: list[int], **shapes: tuple[int, ...]) -> Minibatch:
    random = np.random.default_rng(sum(lengths))
    layout = sequence_layout(lengths)
    return Minibatch(
        {name: StreamData(random.standard_normal((layout.frames, *shape)), layout) for name, shape in shapes.items()},
        layout.frames,
    )


def evaluate(graph: Graph, term: Term, data: Minibatch) -> tuple[Any, dict[str, Any]]:
    network = graph.finish()
    store = ParameterStore(network.parameters, np.float64)
    program = ReferenceEngine().compile(make_plan(network, [term.node]), store)
    program.evaluate(data)
    return program.value(term.node.name), {item.name: store.value(item) for item in network.parameters}


def correlated(image: Any, filters: Any, stride: int = 1) -> Any:
    """Filters ``(maps, channels, height, width)`` over an image ``(channels, height, width)``, without padding."""
    maps, _, height, width = filters.shape
    rows = range(0, image.shape[1] - height + 1, stride)
    columns = range(0, image.shape[2] - width + 1, stride)
    return np.array(
        [
            [[np.sum(image[:, r : r + height, c : c + width] * filters[k]) for c in columns] for r in rows]
            for k in range(maps)
        ]
    )


def test_convolution_is_the_sum_over_windows():
    graph = Graph(np.float64)
    layer = Convolution((3, 2), 4, tanh, strides=2, init_bias=0.5, name="f")
    data = batch([1, 1, 1], x=SHAPE)
    found, parameters = evaluate(graph, layer(graph.input("x", SHAPE)), data)
    assert parameters["f.W"].shape == (4, 2, 3, 2)
    assert parameters["f.b"].shape == (4, 1, 1)
    wanted = [np.tanh(correlated(image, parameters["f.W"], 2) + 0.5) for image in data.streams["x"].data]
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_padding_puts_zeros_around():
    graph = Graph(np.float64)
    data = batch([1, 1], x=SHAPE)
    found, parameters = evaluate(graph, Convolution((3, 5), 2, pad=True)(graph.input("x", SHAPE)), data)
    padded = np.pad(data.streams["x"].data, ((0, 0), (0, 0), (1, 1), (2, 2)))
    wanted = [correlated(image, parameters["convolution.W"]) for image in padded]
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_grey_images_without_axis_of_channels():
    graph = Graph(np.float64)
    data = batch([1, 1], x=(5, 6))
    layer = Convolution2D(3, reduction_rank=0, bias=False, name="f")
    found, parameters = evaluate(graph, layer(graph.input("x", (5, 6))), data)
    assert found.shape == (2, 3, 4)
    wanted = [correlated(image[None], parameters["f.W"])[0] for image in data.streams["x"].data]
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


LENGTHS = [4, 2, 5]


def sequences(values: Any) -> list[Any]:
    """Cut a value with LENGTHS into its sequences."""
    layout = sequence_layout(LENGTHS)
    steps: dict[int, list[Any]] = {}
    order = sorted(range(len(LENGTHS)), key=lambda number: -LENGTHS[number])
    row = 0
    for step in range(max(LENGTHS)):
        for number in order:
            if LENGTHS[number] > step:
                steps.setdefault(number, []).append(values[row])
                row += 1
    assert row == layout.frames == len(values)
    return [np.array(steps[number]) for number in range(len(LENGTHS))]


def test_along_sequences_with_padding():
    """A window of 3 steps of vectors, zeros before the first and after the last."""
    graph = Graph(np.float64)
    data = batch(LENGTHS, x=(4,))
    layer = Convolution((3,), 2, sequential=True, pad=True, init_bias=0.25, name="f")
    found, parameters = evaluate(graph, layer(graph.input("x", 4)), data)
    assert parameters["f.W"].shape == (2, 4, 3)
    for given, result in zip(sequences(data.streams["x"].data), sequences(found), strict=True):
        around = np.pad(given, ((1, 1), (0, 0)))
        wanted = [np.einsum("kct,tc->k", parameters["f.W"], around[t : t + 3]) + 0.25 for t in range(len(given))]
        np.testing.assert_allclose(result, wanted, rtol=1e-12)


def test_along_sequences_and_images():
    """Over 2 steps of one image each: an even window takes the step after."""
    graph = Graph(np.float64)
    data = batch(LENGTHS, x=(2, 3, 4))
    layer = Convolution((2, 2, 3), 3, sequential=True, pad=(True, False, False), bias=False, name="f")
    found, parameters = evaluate(graph, layer(graph.input("x", (2, 3, 4))), data)
    weights = parameters["f.W"]
    for given, result in zip(sequences(data.streams["x"].data), sequences(found), strict=True):
        after = np.concatenate([given[1:], np.zeros_like(given[:1])])
        wanted = [
            correlated(now, weights[:, :, 0]) + correlated(then, weights[:, :, 1])
            for now, then in zip(given, after, strict=True)
        ]
        np.testing.assert_allclose(result, wanted, rtol=1e-12)


def test_along_sequences_without_padding_they_get_shorter():
    graph = Graph(np.float64)
    data = batch([4], x=(3,))
    layer = Convolution((3,), 2, sequential=True, bias=False, name="f")
    found, parameters = evaluate(graph, layer(graph.input("x", 3)), data)
    given = data.streams["x"].data
    wanted = [np.einsum("kct,tc->k", parameters["f.W"], given[t : t + 3]) for t in range(2)]
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_transposed_puts_filters_side_by_side():
    graph = Graph(np.float64)
    data = batch([1, 1], x=(2, 2, 3))
    layer = ConvolutionTranspose((2, 2), 3, strides=2, bias=False, name="f")
    found, parameters = evaluate(graph, layer(graph.input("x", (2, 2, 3))), data)
    assert parameters["f.W"].shape == (2, 3, 2, 2)
    blocks = np.einsum("fcyx,ckhw->fkyhxw", data.streams["x"].data, parameters["f.W"])
    np.testing.assert_allclose(found, blocks.reshape(2, 3, 4, 6), rtol=1e-12)


@pytest.mark.parametrize(
    ("make", "name", "rank"),
    [
        (Convolution1D, "Convolution1D", 1),
        (Convolution2D, "Convolution2D", 2),
        (Convolution3D, "Convolution3D", 3),
        (ConvolutionTranspose1D, "ConvolutionTranspose1D", 1),
        (ConvolutionTranspose2D, "ConvolutionTranspose2D", 2),
        (ConvolutionTranspose3D, "ConvolutionTranspose3D", 3),
    ],
)
def test_layers_with_a_number_of_axes(make, name, rank):
    """One number is that of every axis; what is given by place comes to where it belongs."""
    layer = make(2, 5, tanh, strides=2, bias=False)
    assert (layer.filter_shape, layer.num_filters, layer.activation) == ((2,) * rank, 5, tanh)
    result = layer(Graph(np.float64).input("x", (3, *(4,) * rank)))
    assert result.node.op.name == "Tanh"
    assert make((2,) * rank, 5).filter_shape == (2,) * rank
    wrong = (2,) * (rank + 1) if rank == 1 else (2,) * (rank - 1) if rank > 2 else (2, 2, 2)
    with pytest.raises(BuildError) as caught:
        make(wrong, 5)
    assert caught.value.message == (
        f"{name} takes a filter_shape of {rank} numbers or of one for all axes, not {wrong}"
    )


def test_first_values_of_the_transposed_are_wide_as_in_the_original():
    """fanIn counts the filter and the input's channels, as for a convolution: [w x h x K x C], outputs last."""
    graph = Graph(np.float64)
    ConvolutionTranspose2D(3, 50, name="f")(graph.input("x", (20, 4, 4)))
    value = graph.finish()["f.W"].value
    width = np.sqrt(6 / (9 * 50 + 9 * 20))
    assert 0.99 * width < np.abs(value).max() <= width


def test_bilinear_interpolation():
    graph = Graph(np.float64)
    ConvolutionTranspose2D(3, 2, init="bilinear", name="f")(graph.input("x", (2, 4, 4)))
    value = graph.finish()["f.W"].value
    assert value[0, 0].tolist() == [[0.25, 0.5, 0.25], [0.5, 1, 0.5], [0.25, 0.5, 0.25]]
    assert not value[0, 1].any()


def test_bilinear_interpolation_needs_two_axes():
    layer = ConvolutionTranspose(3, 1, init="bilinear", name="f")
    with pytest.raises(BuildError, match="the initializer 'bilinear' needs kernelWidth and kernelHeight"):
        layer(Graph(np.float64).input("x", (1, 4)))


def test_first_values_as_an_array():
    graph = Graph(np.float64)
    values = np.arange(24.0).reshape(3, 2, 2, 2)
    Convolution2D(2, 3, init=values, name="f")(graph.input("x", SHAPE))
    assert np.array_equal(graph.finish()["f.W"].value, values)


def test_global_poolings():
    graph = Graph(np.float64)
    data = batch([1, 1, 1], x=SHAPE)
    x = graph.input("x", SHAPE)
    both = graph.apply("Plus", GlobalMaxPooling()(x), GlobalAveragePooling()(x))
    found, _ = evaluate(graph, both, data)
    values = data.streams["x"].data
    wanted = values.max(axis=(2, 3), keepdims=True) + values.mean(axis=(2, 3), keepdims=True)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_layer_normalization_has_mean_and_deviation():
    """The example of CNTK's page on layers."""
    graph = Graph(np.float64)
    layer = LayerNormalization(2, 1)
    data = Minibatch({"x": StreamData(np.array([[4.0, 0, 0, 4]]), sequence_layout([1]))}, 1)
    found, _ = evaluate(graph, layer(graph.input("x", 4)), data)
    np.testing.assert_allclose(found, [[2.99999, -0.99999, -0.99999, 2.99999]], rtol=1e-7)


def test_sequential_clique():
    """Each function gets the input and all results before it: 2 -> (2 + 4)^2, 8 -> (8 + 64)^2."""
    graph = Graph(np.float64)

    def square(x: Term) -> Term:
        return x * x

    data = Minibatch({"x": StreamData(np.array([[2.0, 8.0]]), sequence_layout([1]))}, 1)
    found, _ = evaluate(graph, SequentialClique(square, square)(graph.input("x", 2)), data)
    assert found.tolist() == [[36.0, 5184.0]]


def test_names():
    graph = Graph()
    model = Sequential(Dense(3), Activation(relu, "h"), Label("hidden"), Dense(2))
    graph.output(model(graph.input("x", 4)), "z")
    network = graph.finish()
    assert network["h"].op.name == "RectifiedLinear"
    assert network["hidden"].inputs == [network["h"]]


def pooled(x: Term) -> Term:
    wide = Convolution2D(2, 3)(x)
    small = MaxPooling((2, 2), 2)(wide)
    return MaxUnpooling((2, 2), 2)(small, wide)


MODELS: dict[str, Callable[[Term], Term]] = {
    "convolution": Convolution((2, 3), 3, tanh, pad=(True, False), strides=(1, 2)),
    "one axis": Sequential(lambda x: x.graph.apply("Reshape", x, dims=(6, 10)), Convolution1D(3, 2)),
    "three axes": Sequential(
        lambda x: x.graph.apply("Reshape", x, dims=(3, 2, 5, 2)), Convolution3D((2, 2, 3), 2, pad=True)
    ),
    "sequential": Convolution((3, 2, 2), 2, sequential=True, pad=True),
    "transposed": Sequential(Convolution2D(2, 2), ConvolutionTranspose2D(3, 2, strides=2, pad=True)),
    "max": Sequential(Convolution2D(3, 2), MaxPooling((2, 2), pad=True)),
    "average": Sequential(Convolution2D(3, 2), AveragePooling((3, 2), strides=2, ceil_out_dim=True)),
    "global": Sequential(ResNetBlock(Convolution2D(3, 2, pad=True)), GlobalAveragePooling()),
    "unpooling": pooled,
    "layer normalization": Sequential(Convolution2D(3, 2), LayerNormalization(1.5, 0.5)),
    "dense, parts": Sequential(Dense(3, input_rank=1), Dense((2, 2), map_rank=1)),
}


@pytest.mark.parametrize("name", MODELS)
def test_gradients(name: str):
    graph = Graph(np.float64)
    x = graph.input("x", SHAPE)
    scaled = x * graph.parameter(SHAPE, init="uniform1", seed=3, name="s")
    z = Dense(2)(MODELS[name](scaled))
    criterion = graph.criterion(cross_entropy_with_softmax(z, graph.label("y", 2)), "ce")
    network = graph.finish()
    data = batch([2, 1], x=SHAPE, y=(2,))
    labels = data.streams["y"].data
    labels[...] = np.abs(labels) / np.abs(labels).sum(axis=1, keepdims=True)  # the gradient takes them to sum to 1
    check_gradients(network, criterion.node, data)


def test_a_layer_applied_twice_shares_its_filters():
    graph = Graph()
    layer = Convolution2D(3, 2, pad=True)
    z = layer(layer(graph.input("x", SHAPE)))
    graph.criterion(squared_error(z, graph.label("y", SHAPE)))
    assert [parameter.name for parameter in graph.finish().parameters] == ["convolution.W", "convolution.b"]


ERRORS: dict[str, tuple[Callable[[], Any], str]] = {
    "pad": (lambda: Convolution((3, 3), 4, pad=(True,) * 3), "pad has 3 values, but the filter (3, 3) has 2 axes"),
    "strides": (lambda: MaxPooling((3, 3), (1, 2, 3)), "strides has 3 values, but the filter (3, 3) has 2 axes"),
    "rank": (
        lambda: Convolution2D((3, 3, 3), 4),
        "Convolution2D takes a filter_shape of 2 numbers or of one for all axes, not (3, 3, 3)",
    ),
    "reduction_rank": (
        lambda: Convolution((3, 3), 4, reduction_rank=2),
        "reduction_rank is 0 (no axis of channels) or 1, not 2",
    ),
    "stride of sequences": (
        lambda: Convolution((3,), 4, sequential=True, strides=2),
        "a convolution along sequences has a stride of 1 there",
    ),
    "map_rank": (lambda: BatchNormalization(2), "map_rank is 1 (one mean for each channel) or None, not 2"),
    "both ranks": (lambda: Dense(2, input_rank=1, map_rank=1), "Dense takes either input_rank or map_rank, not both"),
    "unpooling": (
        lambda: MaxUnpooling((2, 2))(Graph().input("x", SHAPE)),
        "MaxUnpooling takes two terms: what is put back, and what was pooled",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str):
    make, message = ERRORS[name]
    with pytest.raises(BuildError) as raised:
        make()
    assert raised.value.message == message
    assert raised.value.where is not None
    assert raised.value.where.file == __file__


def test_a_filter_larger_than_the_image_names_the_line():
    graph = Graph()
    graph.output(Convolution((7, 7), 4)(graph.input("x", SHAPE)))
    with pytest.raises(CntkError, match=r"the kernel has 7 elements along axis 1, but the input only 6") as raised:
        graph.finish()
    assert raised.value.where.file == __file__
