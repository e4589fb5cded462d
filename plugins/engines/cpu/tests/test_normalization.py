"""Networks of images around batch normalization: what neighbouring steps do for each other changes no gradient."""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
import pytest
from cntk_engine_cpu import kernels
from cntk_engine_cpu.libraries import load_onednn
from cpu_networks import (
    OPS,
    Net,
    assert_same_training,
    compile_on,
    engine,
    minibatch,
    momentum_rule,
    reference,
    train,
)

from cntk_core.api import Node

ONEDNN = pytest.mark.skipif(load_onednn() is None, reason="oneDNN is not installed")
FAST = "compiled+onednn"
BATCHES = (5, 8, 3, 8)
SHAPE = (4, 6, 6)


def convolved(net: Net, data: Node, maps: int = 4, size: int = 3, stride: int = 1) -> Node:
    channels = data.known_shape[0]
    attributes = OPS["Convolution"].attributes(
        kernel_shape=(size, size, channels),
        map_count=(maps,),
        stride=(stride, stride, channels),
        auto_padding=(True, True, False),
    )
    weights = net.parameter(maps, channels, size, size, scale=0.3)
    return inferred(net, net.node("Convolution", weights, data, attributes=attributes))


def normalized(net: Net, data: Node, **settings: Any) -> Node:
    channels = data.known_shape[0]
    settings = {"spatial": True, "use_cntk_engine": False, "normalization_time_constant": 10.0} | settings
    statistics = [net.parameter(channels, value=value, rate=0.0) for value in (0.1, 1.5)]
    scale = net.parameter(channels, value=1 + net.rng.normal(size=channels) / 4)
    inputs = [scale, net.parameter(channels), *statistics, net.parameter(1, value=0.0, rate=0.0)]
    attributes = OPS["BatchNormalization"].attributes(**settings)
    return inferred(net, net.node("BatchNormalization", data, *inputs, attributes=attributes))


def inferred(net: Net, node: Node) -> Node:
    net.network.infer()
    return node


def apply(net: Net, function: str, *inputs: Node) -> Node:
    return inferred(net, net.node(function, *inputs))


def layer(net: Net, data: Node, **settings: Any) -> Node:
    return normalized(net, convolved(net, data), **settings)


def total_of(net: Net, node: Node) -> Node:
    """A weighted sum of squashed values as criterion."""
    weighted = net.node("ElementTimes", net.node("Tanh", node), net.parameter(*node.known_shape, rate=0.0))
    return net.node("SumElements", weighted, name="total")


def rectified_twice(net: Net, x: Node) -> Node:
    return apply(net, "RectifiedLinear", layer(net, apply(net, "RectifiedLinear", layer(net, x))))


def behind_other_functions(net: Net, x: Node) -> Node:
    # The gradient of Sigmoid looks at its value, that of Sin at its input, and that of Exp costs more than memory.
    for function in ("Sigmoid", "Sin", "Exp", "Abs"):
        x = apply(net, function, layer(net, x))
    return x


def shortcuts(net: Net, x: Node) -> Node:
    for _ in range(2):
        inner = apply(net, "RectifiedLinear", layer(net, x))
        x = apply(net, "RectifiedLinear", apply(net, "Plus", layer(net, inner), x))
    return x


def plain_sum(net: Net, x: Node) -> Node:
    inner = apply(net, "RectifiedLinear", layer(net, x))
    return apply(net, "Plus", layer(net, inner), inner)


def two_normalized(net: Net, x: Node) -> Node:
    return apply(net, "RectifiedLinear", apply(net, "Minus", layer(net, x), layer(net, x)))


def the_same_twice(net: Net, x: Node) -> Node:
    made = layer(net, x)
    return apply(net, "RectifiedLinear", apply(net, "Plus", made, apply(net, "Tanh", made)))


def scaled(net: Net, x: Node) -> Node:
    made = apply(net, "ElementTimes", layer(net, x), net.parameter(4, 1, 1))
    return apply(net, "RectifiedLinear", apply(net, "Plus", made, net.parameter(4, 1, 1)))


def with_a_bias_for_each_place(net: Net, x: Node) -> Node:
    return apply(net, "RectifiedLinear", apply(net, "Plus", layer(net, x), net.parameter(*SHAPE)))


def read_by_two(net: Net, x: Node) -> Node:
    made = layer(net, x)
    return apply(net, "Plus", apply(net, "RectifiedLinear", made), convolved(net, made))


def normalized_twice(net: Net, x: Node) -> Node:
    return apply(net, "RectifiedLinear", normalized(net, layer(net, x)))


def blended(net: Net, x: Node) -> Node:
    return apply(net, "RectifiedLinear", layer(net, x, blend_time_constant=7.0))


def pooled_and_read(net: Net, x: Node) -> Node:
    made = apply(net, "RectifiedLinear", layer(net, x))
    attributes = OPS["Pooling"].attributes(
        kernel_shape=(3, 3), pool_kind="max", stride=(1, 1), auto_padding=(True, True)
    )
    return apply(net, "Plus", inferred(net, net.node("Pooling", made, attributes=attributes)), made)


def plain(net: Net, data: Node) -> Node:
    """An image that lies channels first, of which nobody knows a better order."""
    rows = inferred(net, net.node("Reshape", data, attributes=OPS["Reshape"].attributes((prod(SHAPE),))))
    made = apply(net, "Times", net.parameter(prod(SHAPE), prod(SHAPE), scale=0.1), rows)
    return inferred(net, net.node("Reshape", made, attributes=OPS["Reshape"].attributes(SHAPE[::-1])))


def beside_a_plain_image(net: Net, x: Node) -> Node:
    # The gradient of the plain image goes over that of the difference, which the other gradient is made of.
    return convolved(net, apply(net, "RectifiedLinear", apply(net, "Minus", plain(net, x), layer(net, x))))


def beside_a_plain_image_that_is_read_again(net: Net, x: Node) -> Node:
    image = plain(net, x)
    inner = apply(net, "Tanh", apply(net, "Minus", image, layer(net, x)))
    return apply(net, "Plus", convolved(net, inner), plain(net, image))


NETWORKS = (
    rectified_twice,
    behind_other_functions,
    shortcuts,
    plain_sum,
    two_normalized,
    the_same_twice,
    scaled,
    with_a_bias_for_each_place,
    read_by_two,
    normalized_twice,
    blended,
    pooled_and_read,
    beside_a_plain_image,
    beside_a_plain_image_that_is_read_again,
)


@ONEDNN
@pytest.mark.parametrize("build", NETWORKS, ids=lambda build: build.__name__)
@pytest.mark.sampled(3)
def test_training_over_minibatches_of_different_size(build):
    net = Net()
    result = build(net, convolved(net, net.input("x", *SHAPE)))
    batches = [minibatch(net.rng, frames, {"x": SHAPE}) for frames in BATCHES]
    assert_same_training(net.plan(total_of(net, result)), FAST, batches, momentum_rule())


@ONEDNN
@pytest.mark.parametrize("build", NETWORKS, ids=lambda build: build.__name__)
def test_evaluation_alone(build):
    """In a plan without gradients, buffers are shared that a training keeps apart."""
    net = Net()
    result = build(net, convolved(net, net.input("x", *SHAPE)))
    plan = net.plan(None, total_of(net, result), result)
    (_, expected), (_, program) = reference(plan), compile_on(engine(FAST), plan)
    for frames in BATCHES:
        batch = minibatch(net.rng, frames, {"x": SHAPE})
        for root in plan.roots:
            for each in (expected, program):
                each.evaluate(batch)
            found, wanted = program.value(root.name), expected.value(root.name)
            np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4 * np.abs(wanted).max(), err_msg=root.name)


@ONEDNN
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"blend_time_constant": 7.0},
        {"normalization_time_constant": -1.0},
        {"normalization_time_constant": np.inf},
        {"normalization_time_constant": np.inf, "blend_time_constant": np.inf},
    ],
)
def test_running_statistics_after_training(settings):
    net = Net()
    made = layer(net, net.input("x", *SHAPE), **settings)
    plan = net.plan(total_of(net, apply(net, "RectifiedLinear", made)))
    batches = [minibatch(net.rng, frames, {"x": SHAPE}) for frames in BATCHES]
    (wanted, expected), (store, program) = (
        reference(plan, momentum_rule()),
        compile_on(engine(FAST), plan, momentum_rule()),
    )
    for each in (expected, program):
        train(each, batches, folded=False)
    for parameter in made.inputs[1:]:
        np.testing.assert_allclose(store.value(parameter), wanted.value(parameter), rtol=1e-4, atol=1e-5)


@ONEDNN
def test_a_minibatch_of_one_sample_has_no_variance():
    """Of one number there is no unbiased estimate; the running variance moves towards 0."""
    net = Net()
    made = normalized(net, apply(net, "Times", net.parameter(3, 3), net.input("x", 3)), spatial=False)
    plan = net.plan(net.node("SumElements", net.node("ElementTimes", made, made)))
    (wanted, expected), (store, program) = (
        reference(plan, momentum_rule()),
        compile_on(engine(FAST), plan, momentum_rule()),
    )
    for each in (expected, program):
        train(each, [minibatch(np.random.default_rng(1), 1, {"x": (3,)})], folded=False)
    variance = made.inputs[4]
    assert np.all(store.value(variance) < 1.5)
    np.testing.assert_allclose(store.value(variance), wanted.value(variance), rtol=1e-5)


def test_the_gradient_by_the_data_lies_where_the_data_lay():
    net = Net()
    first = convolved(net, net.input("x", *SHAPE))
    plan = net.plan(total_of(net, apply(net, "RectifiedLinear", normalized(net, first))))
    assert plan.gradient_buffer[first] == plan.value_buffer[first]


@ONEDNN
def test_an_image_that_is_normalized_itself_may_move():
    net = Net()
    data = normalized(net, net.input("x", 1, 6, 6))
    plan = net.plan(total_of(net, convolved(net, apply(net, "RectifiedLinear", data))))
    batches = [minibatch(net.rng, frames, {"x": (1, 6, 6)}) for frames in (4, 4, 6, 4)]
    rule = momentum_rule()
    # What evaluation has bound was bound to another minibatch.
    results = []
    for backend in (FAST, "numpy+blas"):
        store, program = compile_on(engine(backend), plan, rule)
        for evaluated, trained in pairwise(batches):
            program.evaluate(evaluated)
            program.compute_gradients(trained)
        results.append([np.array(store.gradient(parameter)) for parameter in plan.trained])
    for found, wanted in zip(*results, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5)


@ONEDNN
def test_minibatches_of_any_size_have_the_same_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """The size of a minibatch is an argument of what settles the statistics, and no part of its text."""
    pytest.importorskip("llvmlite")
    texts: set[str] = set()
    compile_text = kernels.compile_text

    def noted(text: str, *arguments: str) -> Any:
        texts.add(text)
        return compile_text(text, *arguments)

    kernels._compile.cache_clear()
    monkeypatch.setattr(kernels, "compile_text", noted)
    net = Net()
    plan = net.plan(total_of(net, rectified_twice(net, net.input("x", *SHAPE))))
    _, program = compile_on(engine(FAST), plan, momentum_rule(), np.float32)
    known = []
    for frames in (40, 41, 57):
        train(program, [minibatch(net.rng, frames, {"x": SHAPE})], folded=True)
        known.append(len(texts))
    assert known[0] > 0
    assert known[0] == known[2]
