"""What training steps cost: fused passes, work that is left to a neighbour, rows taken together, parts for threads.

The results are compared elsewhere; they are the same if all of this is left undone, and training takes longer.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import test_normalization as images
from cntk_engine_cpu import parts
from cntk_engine_cpu.libraries import load_onednn
from cpu_networks import OPS, Net, minibatch
from step_traffic import traffic_of
from test_normalization import apply, convolved, normalized

from cntk_core.api import Node

NEEDED = load_onednn() is not None and bool(load_onednn().openmp) and find_spec("llvmlite") is not None
pytestmark = pytest.mark.skipif(not NEEDED, reason="needs llvmlite, oneDNN and OpenMP")

IMAGE = images.SHAPE
Build = Callable[[Net], Node]


def squares(net: Net, node: Node) -> Node:
    """A criterion that reads every element, in whatever order they lie."""
    return apply(net, "SumElements", apply(net, "ElementTimes", node, node))


def image(build: Callable[[Net, Node], Node]) -> Build:
    """A network on a convolved image."""
    return lambda net: squares(net, build(net, convolved(net, net.input("x", *IMAGE))))


def pooled(kind: str) -> Build:
    def build(net: Net, x: Node) -> Node:
        attributes = OPS["Pooling"].attributes(kernel_shape=(2, 2), pool_kind=kind, stride=(2, 2))
        return images.inferred(net, net.node("Pooling", apply(net, "RectifiedLinear", x), attributes=attributes))

    return image(build)


def rows(build: Callable[[Net, Node], Node], width: int = 6) -> Build:
    """A network on vectors, with a product before and after."""

    def whole(net: Net) -> Node:
        net.network.infer()
        made = build(net, apply(net, "Times", net.parameter(width, width), net.input("x", width)))
        z = apply(net, "Times", net.parameter(made.known_shape[-1], 3), made)
        return apply(net, "CrossEntropyWithSoftmax", net.input("l", 3), z)

    return whole


def biased(net: Net, x: Node) -> Node:
    return apply(net, "Plus", x, net.parameter(4, 1, 1))


def residual(net: Net, x: Node) -> Node:
    """The gradient of a sum comes from two convolutions, of which the second one adds to it."""
    x = apply(net, "RectifiedLinear", convolved(net, x))
    return convolved(net, apply(net, "RectifiedLinear", apply(net, "Plus", convolved(net, x), x)))


def gated(net: Net, x: Node) -> Node:
    """Vectors, a number for each sample, one for each element, and one for all, in one step."""
    each = apply(net, "Times", net.parameter(6, 1), x)
    weighed = apply(net, "ElementTimes", apply(net, "ElementTimes", x, each), net.parameter(6))
    return apply(net, "Sigmoid", apply(net, "Plus", weighed, net.parameter(1)))


def read_three_times(net: Net, x: Node) -> Node:
    made = apply(net, "Tanh", x)
    product = apply(net, "Times", net.parameter(6, 6), made)
    return apply(net, "Plus", apply(net, "ElementTimes", made, product), apply(net, "Pass", made))


def layer_normalized(net: Net, x: Node) -> Node:
    scale, bias = net.parameter(6), net.parameter(6)
    attributes = OPS["LayerNormalization"].attributes(axes=1)
    return images.inferred(net, net.node("LayerNormalization", x, scale, bias, attributes=attributes))


def plainly_normalized(net: Net, x: Node) -> Node:
    attributes = OPS["LayerNormalization"].attributes(axes=1)
    return images.inferred(net, net.node("LayerNormalization", apply(net, "Tanh", x), attributes=attributes))


def stacked_and_cut(net: Net, x: Node) -> Node:
    both = apply(net, "RowStack", apply(net, "Tanh", x), x)
    attributes = OPS["Slice"].attributes(begin=3, end=9, axis=1)
    return apply(net, "Negate", images.inferred(net, net.node("Slice", both, attributes=attributes)))


NETWORKS: dict[str, Build] = {
    **{build.__name__.replace("_", " "): image(build) for build in images.NETWORKS},
    "bias and ReLU": image(lambda net, x: convolved(net, apply(net, "RectifiedLinear", biased(net, x)))),
    "bias": image(lambda net, x: convolved(net, biased(net, x))),
    "ReLU": image(lambda net, x: convolved(net, apply(net, "RectifiedLinear", x))),
    "bias and Tanh": image(lambda net, x: convolved(net, apply(net, "Tanh", biased(net, x)))),
    "ReLU and what it reads": image(
        lambda net, x: convolved(net, apply(net, "Plus", apply(net, "RectifiedLinear", x), x))
    ),
    "two readers": image(lambda net, x: apply(net, "Plus", convolved(net, apply(net, "Tanh", x)), convolved(net, x))),
    "residual": image(residual),
    "a number for each place": image(lambda net, x: convolved(net, apply(net, "Plus", x, net.parameter(1, 6, 6)))),
    "two kinds of numbers": image(
        lambda net, x: convolved(net, apply(net, "Plus", biased(net, x), net.parameter(1, 6, 6)))
    ),
    "max pooling": pooled("max"),
    "average pooling": pooled("average"),
    "normalized input": lambda net: squares(net, convolved(net, normalized(net, net.input("x", *IMAGE)))),
    "Sigmoid": rows(lambda net, x: apply(net, "Sigmoid", apply(net, "Plus", x, net.parameter(6)))),
    "gated": rows(gated),
    "read three times": rows(read_three_times),
    "layer normalization": rows(layer_normalized),
    "layer normalization without numbers": rows(plainly_normalized),
    "stack and slice": rows(stacked_and_cut),
    "sum of products": rows(lambda net, x: apply(net, "Plus", apply(net, "Times", net.parameter(6, 6), x), x)),
    "sum of a product and a vector": rows(lambda net, x: apply(net, "Plus", x, net.parameter(6))),
    "normalized rows": rows(lambda net, x: apply(net, "Tanh", normalized(net, x, spatial=False))),
}


COSTS = Path(__file__).with_name("step_traffic.txt")


def expected() -> dict[tuple[str, int, int], str]:
    """What stands in the table, by network, frames and threads."""
    found = {}
    for line in COSTS.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            case, row = line.split(":")
            name, frames, threads = case.split(",")
            found[name, int(frames), int(threads)] = row.strip()
    return found


def cost(monkeypatch: Any, name: str, frames: int, threads: int) -> str:
    """Count a step; with several threads, much less is split than otherwise."""
    if threads > 1:
        monkeypatch.setattr(parts, "SPLIT_ELEMENTS", 1 << 10)
        monkeypatch.setattr(parts, "PART_ELEMENTS", 1 << 7)
        monkeypatch.setattr(parts, "SUMMED_ROWS", 8)
    net = Net()
    plan = net.plan(NETWORKS[name](net))
    streams = {"x": plan.network["x"].known_shape, "l": ("class", 3)}
    counted = traffic_of(monkeypatch, plan, minibatch(net.rng, frames, streams), threads=threads)
    return " | ".join(" ".join(map(str, row)) for row in counted)


@pytest.mark.parametrize(("name", "frames", "threads"), expected())
def test_what_a_step_costs(monkeypatch: pytest.MonkeyPatch, name: str, frames: int, threads: int) -> None:
    assert cost(monkeypatch, name, frames, threads) == expected()[name, frames, threads]
