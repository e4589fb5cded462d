"""Networks over images: convolution, pooling and batch normalization as on the reference, channels last or not."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import numpy as np
import pytest
from cntk_engine_cpu import onednn_objects
from cntk_engine_cpu.libraries import load_onednn
from cpu_networks import (
    OPS,
    Net,
    assert_same_gradients,
    assert_same_training,
    compile_on,
    engine,
    minibatch,
    momentum_rule,
    train,
)
from hypothesis import assume, given
from hypothesis import strategies as st

from cntk_core.api import ShapeError
from cntk_testing.examples import examples

ONEDNN = pytest.mark.skipif(load_onednn() is None, reason="oneDNN is not installed")
FAST = "compiled+onednn"


def convolution(net, weights, data, kernel, **settings):
    settings.setdefault("auto_padding", (*[True] * (len(kernel) - 1), False))
    attributes = OPS["Convolution"].attributes(kernel_shape=kernel, **settings)
    return net.node("Convolution", weights, data, attributes=attributes)


def pooling(net, data, kernel, **settings):
    return net.node("Pooling", data, attributes=OPS["Pooling"].attributes(kernel_shape=kernel, **settings))


def normalized(net, data, channels, *, spatial=True, **settings):
    attributes = OPS["BatchNormalization"].attributes(
        spatial=spatial, use_cntk_engine=False, normalization_time_constant=10.0, **settings
    )
    fixed = [
        net.parameter(channels, value=0.0, rate=0.0),
        net.parameter(channels, value=1.0, rate=0.0),
        net.parameter(1, value=0.0, rate=0.0),
    ]
    scale, bias = net.parameter(channels, scale=1.0), net.parameter(channels)
    return net.node("BatchNormalization", data, scale, bias, *fixed, attributes=attributes)


def total_of(net, node):
    """A weighted sum of squashed values as criterion."""
    net.network.infer()
    weighted = net.node("ElementTimes", net.node("Tanh", node), net.parameter(*node.known_shape, rate=0.0))
    return net.node("SumElements", weighted, name="total")


def shifted(net, *shape):
    """An input with a learned shift, so that a gradient flows to it."""
    return net.node("Plus", net.input("x", *shape), net.parameter(*shape))


def sizes(count, most=7):
    return st.lists(st.integers(1, most), min_size=count, max_size=count)


@st.composite
def convolutions(draw):
    """Channels, space, kernel, stride, padding, maps; in CNTK's order of axes."""
    rank = draw(st.integers(1, 3))
    space = draw(sizes(rank, 7 if rank < 3 else 4))
    kernel = [draw(st.integers(1, min(4, size))) for size in space]
    stride = draw(sizes(rank, 3))
    channels, maps = draw(st.sampled_from([1, 2, 3, 16])), draw(st.sampled_from([1, 4, 16]))
    auto = draw(st.booleans())
    pads = (0,) if auto else (*draw(sizes(rank, 2)), 0)
    return channels, space, (*kernel, channels), (*stride, channels), auto, pads, maps


@ONEDNN
@given(convolutions())
@examples(25)
def test_convolution_of_any_geometry(case):
    channels, space, kernel, stride, auto, pads, maps = case
    net = Net()
    data = shifted(net, channels, *reversed(space))
    weights = net.parameter(maps, channels, *reversed(kernel[:-1]))
    settings = {"stride": stride, "auto_padding": (*[auto] * len(space), False), "lower_pad": pads, "upper_pad": pads}
    try:
        result = convolution(net, weights, data, kernel, map_count=(maps,), **settings)
        net.network.infer()
    except ShapeError:
        assume(False)
    bias = net.parameter(maps, *[1] * len(space))
    plan = net.plan(total_of(net, net.node("Plus", result, bias)))
    assert_same_gradients(plan, FAST, minibatch(net.rng, 3, {"x": (channels, *reversed(space))}))


@ONEDNN
@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 3), st.booleans())
@examples(15)
def test_transposed_convolution(size, kernel, stride, auto):
    net = Net()
    maps, channels = 3, 2
    data = shifted(net, maps, size, size)
    weights = net.parameter(maps, channels, kernel, kernel)
    try:
        result = convolution(
            net,
            weights,
            data,
            (kernel, kernel, channels),
            map_count=(maps,),
            stride=(stride, stride, channels),
            auto_padding=(auto, auto, False),
            transpose=True,
        )
        net.network.infer()
    except ShapeError:
        assume(False)
    plan = net.plan(total_of(net, result))
    assert_same_gradients(plan, FAST, minibatch(net.rng, 3, {"x": (maps, size, size)}))


@ONEDNN
@given(st.tuples(st.integers(2, 7), st.integers(2, 7)), sizes(2, 3), sizes(2, 3), st.booleans(), st.booleans())
@examples(25)
@pytest.mark.parametrize("kind", ["max", "average"])
def test_pooling_of_any_geometry(kind, space, kernel, stride, auto, flag):
    net = Net()
    data = shifted(net, 3, *space)
    # Behind a convolution values lie channels last, else they are converted.
    data = convolution(net, net.parameter(4, 3, 1, 1), data, (1, 1, 3), map_count=(4,)) if flag else data
    try:
        result = pooling(
            net,
            data,
            kernel,
            pool_kind=kind,
            stride=stride,
            auto_padding=(auto,),
            ceil_out_dim=flag and not auto,
            include_pad=flag,
        )
        net.network.infer()
    except ShapeError:
        assume(False)
    plan = net.plan(total_of(net, result))
    assert_same_gradients(plan, FAST, minibatch(net.rng, 3, {"x": (3, *space)}))


def legacy_network():
    net = Net()
    data = shifted(net, 6, 6, 3)
    attributes = OPS["Convolution"].attributes.image(3, 3, 8, 1, 1, zero_padding=True)
    hidden = net.node("Convolution", net.parameter(3 * 3 * 3, 8), data, attributes=attributes)
    hidden = net.node("RectifiedLinear", net.node("Plus", hidden, net.parameter(1, 1, 8)))
    attributes = OPS["MaxPooling"].attributes(2, 2, 2, 2)
    hidden = net.node("MaxPooling", hidden, attributes=attributes)
    attributes = OPS["AveragePooling"].attributes(2, 2, 1, 1)
    return net, net.node("AveragePooling", hidden, attributes=attributes), {"x": (6, 6, 3)}


def residual_network(*, spatial=True):
    """Convolutions with a bias and with normalization, a shortcut of each kind, pooling and a dense layer."""
    net = Net()
    data = net.input("x", 3, 8, 8)
    bias = net.parameter(16, 1, 1)
    first = convolution(net, net.parameter(16, 3, 3, 3, scale=0.2), data, (3, 3, 3), map_count=(16,))
    first = net.node("RectifiedLinear", net.node("Plus", first, bias))

    def layer(below, channels, maps, size, stride):
        weights = net.parameter(maps, channels, size, size, scale=0.2)
        stepping = (stride, stride, channels)
        made = convolution(
            net, weights, below, (size, size, channels), map_count=(maps,), stride=stepping,
            auto_padding=(True, True, False),
        )  # fmt: skip
        return normalized(net, made, maps)

    inner = net.node("RectifiedLinear", layer(first, 16, 16, 3, 1))
    block = net.node("RectifiedLinear", net.node("Plus", layer(inner, 16, 16, 3, 1), first))
    inner = net.node("Tanh", layer(block, 16, 32, 3, 2))
    block = net.node("RectifiedLinear", net.node("Plus", layer(inner, 32, 32, 3, 1), layer(block, 16, 32, 1, 2)))
    pooled = pooling(net, block, (2, 2), pool_kind="average", stride=(2, 2), auto_padding=(False,))
    attributes = OPS["Times"].attributes(output_rank=1)
    net.network.infer()
    dense = net.node("Times", net.parameter(*pooled.known_shape, 5, scale=0.2), pooled, attributes=attributes)
    z = net.node("Plus", dense, net.parameter(5))
    criterion = net.node("CrossEntropyWithSoftmax", net.input("y", 5), z, name="ce")
    return net, criterion, block, {"x": (3, 8, 8), "y": ("class", 5)}


@pytest.mark.parametrize("backend", [FAST, "compiled+blas", "numpy+blas"])
def test_legacy_images(backend):
    net, result, streams = legacy_network()
    plan = net.plan(total_of(net, result), result)
    assert_same_gradients(plan, backend, minibatch(net.rng, 4, streams))


@pytest.mark.parametrize("backend", [pytest.param(FAST, marks=pytest.mark.thorough), "compiled+blas"])
@pytest.mark.slow
def test_residual_network_over_minibatches_of_different_size(backend):
    net, criterion, _, streams = residual_network()
    batches = [minibatch(net.rng, frames, streams) for frames in (6, 9, 4, 9, 0)]
    assert_same_training(net.plan(criterion), backend, batches, momentum_rule())


@ONEDNN
def test_what_is_read_by_the_user_lies_as_everywhere():
    net, criterion, block, streams = residual_network()
    plan = net.plan(criterion, block)
    assert_same_gradients(plan, FAST, minibatch(net.rng, 4, streams))


@ONEDNN
@pytest.mark.slow
def test_evaluation_uses_the_running_statistics():
    net, criterion, block, streams = residual_network()
    plan = net.plan(criterion)
    rule = momentum_rule()
    batches = [minibatch(net.rng, 5, streams) for _ in range(3)]
    results = []
    for backend in (FAST, "numpy+blas"):
        first = {parameter: np.array(parameter.value) for parameter in net.network.parameters}
        store, program = compile_on(engine(backend), plan, rule)
        train(program, batches, folded=True)
        evaluation = engine(backend).compile(net.plan(None, block), store)
        evaluation.evaluate(batches[0])
        results.append(evaluation.value(block.name))
        for parameter, value in first.items():
            parameter.value = value
    np.testing.assert_allclose(*results, rtol=1e-3, atol=1e-4)


@ONEDNN
@pytest.mark.parametrize("mean", [0.0, 300.0])
def test_variance_far_from_zero(mean):
    net = Net()
    data = convolution(net, net.parameter(4, 3, 1, 1), net.input("x", 3, 5, 5), (1, 1, 3), map_count=(4,))
    data = net.node("Plus", data, net.parameter(4, 1, 1, value=mean, rate=0.0))
    plan = net.plan(total_of(net, normalized(net, data, 4)))
    assert_same_gradients(plan, FAST, minibatch(net.rng, 7, {"x": (3, 5, 5)}))


def test_normalization_of_whole_samples():
    net = Net()
    data = shifted(net, 6)
    plan = net.plan(total_of(net, net.node("Plus", normalized(net, data, 6, spatial=False), data)))
    assert_same_gradients(plan, FAST, minibatch(net.rng, 7, {"x": (6,)}))


@ONEDNN
def test_without_a_fast_primitive_the_portable_way_is_taken(monkeypatch):
    monkeypatch.setattr(onednn_objects.Objects, "implementation", lambda *_: "ref:any")
    net, criterion, _, streams = residual_network()
    # A shape that no other test has, so that no primitive of it was made before.
    assert_same_gradients(net.plan(criterion), FAST, minibatch(net.rng, 13, streams))


@ONEDNN
@pytest.mark.parametrize(
    ("there_is_a_next", "next_one", "chosen"),
    [(True, "jit:avx512_core", 1), (True, "jit:avx2", 0), (False, "jit:avx512_core", 0)],
)
def test_a_slow_implementation_is_passed_over_for_one_with_vectors_as_long(there_is_a_next, next_one, chosen):
    """The library moves a descriptor on in place: where the next one is not wanted, a new one has the first again."""
    made = []

    def describe():
        made.append([0])
        return made[-1]

    def move(descriptor):
        descriptor[0] += there_is_a_next
        return 0 if there_is_a_next else 4

    objects = onednn_objects.Objects.__new__(onednn_objects.Objects)
    objects.library = SimpleNamespace(dnnl_primitive_desc_next_impl=move)
    objects.implementation = lambda descriptor: ["brgconv_strided:avx512_core", next_one][descriptor[0]]
    assert objects.chosen(describe, ["brgconv_strided:avx512_core"]) == [chosen]
    assert objects.chosen(describe, ["another"]) == [0]


@pytest.mark.parametrize("backend", [FAST, "compiled+blas", "numpy+blas"])
@pytest.mark.parametrize("shape", [(4, 1, 1), (1, 3, 1), (5,), (3, 1), (4, 3, 1), (3, 5)])
def test_a_bias_along_some_axes(backend, shape):
    net = Net()
    hidden = net.node("Sigmoid", net.node("Plus", shifted(net, 4, 3, 5), net.parameter(*shape)))
    hidden = net.node("ElementTimes", hidden, net.parameter(*shape))
    plan = net.plan(total_of(net, hidden))
    assert_same_gradients(plan, backend, minibatch(net.rng, 7, {"x": (4, 3, 5)}))


@ONEDNN
@pytest.mark.slow
def test_two_programs_at_once():
    net, criterion, _, streams = residual_network()
    plan = net.plan(criterion)
    batches = [minibatch(net.rng, frames, streams) for frames in (6, 7, 6)]
    stores = [compile_on(engine(FAST), plan, momentum_rule()) for _ in range(3)]
    threads = [
        threading.Thread(target=train, args=(program, batches), kwargs={"folded": True}) for _, program in stores
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for store, _ in stores[1:]:
        np.testing.assert_array_equal(store.values, stores[0][0].values)


@ONEDNN
def test_an_op_without_a_kernel_adds_to_a_gradient_that_is_there():
    """Of a value that lies channels last, and of which another op has sent a gradient before."""
    net = Net()
    result = convolution(net, net.parameter(16, 3, 3, 3), shifted(net, 3, 6, 6), (3, 3, 3), map_count=(16,))
    turned = net.node("TransposeDimensions", result, attributes=OPS["TransposeDimensions"].attributes())
    net.network.infer()
    criterion = net.node("Plus", total_of(net, turned), net.node("SumElements", net.node("Tanh", result)))
    assert_same_gradients(net.plan(criterion), FAST, minibatch(net.rng, 3, {"x": (3, 6, 6)}))
