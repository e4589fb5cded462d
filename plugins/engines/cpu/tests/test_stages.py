"""Networks that make sequences by their data: steps before and after it are bound apart, and share what they keep."""

from __future__ import annotations

import numpy as np
import pytest
from cpu_networks import BACKENDS, Net, assert_same_gradients, assert_same_training, momentum_rule
from test_cpu_images import convolution, normalized, pooling, shifted, total_of

from cntk_core.api import Minibatch, Node, StreamData
from cntk_core.api.engines import sequence_layout

SHAPE = (3, 6, 5)


def some_frames(net: Net, node: Node) -> Node:
    """The frames whose numbers have a positive sum; the others are zeros. It ends a stage: only data tell how many."""
    total = net.node("SumColumnElements", node)
    condition = net.node("Greater", total, net.parameter(1, value=0.0, rate=0.0))
    rows = net.node("PackedIndex", node, net.node("Where", condition))
    return net.node("ScatterPacked", node, rows, net.node("GatherPacked", rows, node))


def convolved(net: Net, data: Node, maps: int = 16) -> Node:
    net.network.infer()
    channels = data.known_shape[0]
    return convolution(net, net.parameter(maps, channels * 9), data, (3, 3, channels), map_count=maps)


BEFORE = {
    "convolution": convolved,
    "rectified": lambda net, x: net.node(
        "RectifiedLinear", net.node("Plus", convolved(net, x), net.parameter(16, 1, 1))
    ),
    "normalization": lambda net, x: normalized(net, convolved(net, x), 16),
    "largest": lambda net, x: pooling(net, convolved(net, x), (2, 2, 1), stride=(2, 2, 1)),
    "mean": lambda net, x: pooling(net, convolved(net, x), (2, 2, 1), stride=(2, 2, 1), pool_kind="average"),
    "element-wise": lambda net, x: net.node("Tanh", net.node("Sigmoid", x)),
    "softmax": lambda net, x: net.node("Softmax", x),
}


def batch_of(lengths: list[int], seed: int) -> Minibatch:
    layout = sequence_layout(lengths)
    rows = np.random.default_rng(seed).normal(size=(layout.frames, *SHAPE)).astype(np.float32)
    return Minibatch({"x": StreamData(rows, layout)}, layout.frames)


@pytest.mark.sampled(14)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("alone", [False, True], ids=["read-by-both", "read-by-the-next"])
@pytest.mark.parametrize("name", BEFORE)
def test_what_a_stage_computes_is_read_and_differentiated_in_the_next(name: str, alone: bool, backend: str) -> None:
    net = Net()
    x = shifted(net, *SHAPE)
    early = BEFORE[name](net, x)
    other = BEFORE[name](net, x) if alone else early
    total = total_of(net, net.node("ElementTimes", early, some_frames(net, other)))
    plan = net.plan(total)
    assert_same_gradients(plan, backend, batch_of([3, 2, 1], 1))
    batches = [batch_of(lengths, seed) for seed, lengths in enumerate(([3, 2, 1], [2], [4, 4], [3, 2, 1], [1, 1]))]
    assert_same_training(plan, backend, batches, momentum_rule())


@pytest.mark.parametrize("backend", BACKENDS)
def test_layers_before_and_after_the_choice_of_frames(backend: str) -> None:
    net = Net()
    chosen = some_frames(net, convolved(net, shifted(net, *SHAPE), 4))
    plan = net.plan(total_of(net, normalized(net, convolved(net, chosen, 4), 4)))
    batches = [batch_of(lengths, seed) for seed, lengths in enumerate(([3, 2, 1], [4, 4], [3, 2, 1]))]
    assert_same_training(plan, backend, batches, momentum_rule())
