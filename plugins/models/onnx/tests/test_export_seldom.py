"""Shapes, states and settings that few networks have, judged by onnxruntime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from judge import difference, written

from cntk_core.api import CntkError, Input, Network, Node, core_ops
from cntk_core.api.builders import BATCH, Free
from cntk_testing.networks import Sketch


def op(made: Sketch, kind: str, *inputs: Any, name: str = "y", **settings: Any) -> Node:
    found = core_ops().find("", kind)
    assert found is not None
    return made.op(kind, *inputs, name=name, attributes=found.attributes(**settings))


def attributes(kind: str, **settings: Any) -> Any:
    found = core_ops().find("", kind)
    assert found is not None
    return found.attributes(**settings)


def finished(made: Sketch, root: Node) -> Network:
    network = made.finish(None, root).network
    network.roots["output"] = [root]
    return network


def samples(made: Sketch, name: str, *shape: int) -> Node:
    return made.network.add(Input.make(name, shape, axis=BATCH))


def whole(made: Sketch, name: str, *shape: int) -> Node:
    """An input of one value for the whole minibatch."""
    return made.network.add(Input.make(name, shape, framed=False))


SELDOM: dict[str, Callable[[Sketch], Node]] = {
    # what a delay begins with
    **{
        f"{kind} that begins with {what}": lambda m, kind=kind, sizes=sizes, shape=shape: op(
            m, kind, m.input("x", *shape), m.parameter("s", *sizes), time_step=2
        )
        for kind in ("PastValue", "FutureValue")
        for what, sizes, shape in (
            ("a number", (1,), (2, 3)), ("a number of two axes", (1, 1), (3,)), ("a matrix", (2, 3), (2, 3)),
            ("a row", (1, 3), (3,)),
        )
    },
    **{
        f"{kind} that begins with a sequence": lambda m, kind=kind: op(
            m, kind, m.input("x", 3), m.input("s", 3), time_step=1
        )
        for kind in ("PastValue", "FutureValue")
    },
    # stacks
    "a stack of one": lambda m: op(m, "RowStack", m.input("x", 3)),
    "a stack with constants": lambda m: op(
        m, "RowStack", m.parameter("a", 2), m.input("x", 3), m.parameter("b", 1)
    ),
    "a stack of constants of fewer axes": lambda m: op(
        m, "RowStack", m.parameter("a", 3), m.input("x", 2, 3), axis=2
    ),
    "a stack of constants alone": lambda m: op(
        m, "Plus", m.input("x", 5), op(m, "RowStack", m.parameter("a", 2), m.parameter("b", 3), name="s")
    ),
    "a stack with a value of all": lambda m: op(m, "RowStack", whole(m, "w", 2), m.input("x", 3)),
    # leaky slopes
    **{
        f"PReLU with a slope of {what}": lambda m, sizes=sizes, shape=shape: op(
            m, "PReLU", m.parameter("a", *sizes), m.input("x", *shape)
        )
        for what, sizes, shape in (
            ("all", (1,), (2, 3)), ("the last axis", (3,), (2, 3)), ("each", (2, 3), (2, 3)),
            ("more axes", (2, 3), (3,)),
        )
    },
    "PReLU with a slope of the data": lambda m: op(m, "PReLU", m.input("a", 3), m.input("x", 3)),
    # like others
    "a constant like the data": lambda m: op(m, "BroadcastLike", m.parameter("a", 1, 3), m.input("x", 2, 3)),
    "the data like a constant": lambda m: op(m, "BroadcastLike", m.input("x", 1, 3), m.parameter("a", 2, 3)),
    "a value of all": lambda m: op(m, "Times", m.parameter("W", 3, 2), whole(m, "v", 3)),
    "a value of all and samples": lambda m: op(m, "Plus", whole(m, "w", 3), samples(m, "x", 2, 3)),
    "a constant cut like the data": lambda m: op(
        m, "Crop", m.parameter("a", 1, 4, 5), samples(m, "x", 1, 2, 3), x_offset=1, y_offset=2
    ),
    # normalization
    "layers without scale": lambda m: op(m, "LayerNormalization", m.input("x", 4)),
    "layers with a scale alone": lambda m: op(m, "LayerNormalization", m.input("x", 4), m.parameter("s", 4)),
    "layers with a scale of all": lambda m: op(
        m, "LayerNormalization", m.input("x", 2, 3), m.parameter("s", 1), m.parameter("b", 1)
    ),
    **{
        f"responses of {len(shape)} axes": lambda m, shape=shape: op(
            m, "LocalResponseNormalization", samples(m, "x", *shape), depth_radius=1, bias=1.5, alpha=0.3, beta=0.6
        )
        for shape in ((4,), (4, 3), (4, 3, 2), (4, 3, 2, 2))
    },
    # convolution
    **{
        f"transposed, {what}": lambda m, sizes=sizes, shape=shape, settings=settings: op(
            m, "Convolution", m.parameter("W", *sizes), samples(m, "x", *shape), transpose=True, **settings
        )
        for what, sizes, shape, settings in (
            ("channels", (2, 3, 2, 2), (2, 3, 4),
             {"kernel_shape": (2, 2, 3), "map_count": (2,), "stride": (2, 2, 1), "auto_padding": (False,)}),
            ("with borders", (2, 3, 3, 3), (2, 3, 4),
             {"kernel_shape": (3, 3, 3), "map_count": (2,), "stride": (1, 1, 3), "auto_padding": (False,),
              "lower_pad": (1, 1, 0), "upper_pad": (1, 1, 0)}),
        )
    },
    **{
        f"windows that begin inside of an image, by {wide} and {high}": lambda m, wide=wide, high=high: op(
            m, "Convolution", m.parameter("W", 2, 3, 2, 1), samples(m, "x", 3, 6, 9), kernel_shape=(1, 2, 3),
            map_count=(2,), stride=(wide, high, 3), auto_padding=(True, True, False),
        )
        for wide, high in ((4, 1), (1, 4), (4, 4), (3, 3))
    },
    **{
        f"transposed windows that leave something out, by {wide} and {high}": lambda m, wide=wide, high=high: op(
            m, "Convolution", m.parameter("W", 2, 3, 2, 1), samples(m, "x", 2, 2, 3), kernel_shape=(1, 2, 3),
            map_count=(2,), stride=(wide, high, 3), auto_padding=(True, True, False), transpose=True,
        )
        for wide, high in ((4, 1), (1, 4), (4, 4), (3, 2))
    },
    **{
        f"the {kind} of windows that begin inside, by {step}": lambda m, kind=kind, step=step: op(
            m, "Pooling", samples(m, "x", 2, 7, 9), pool_kind=kind, kernel_shape=(2, 1), stride=step,
            auto_padding=(True,),
        )
        for kind in ("max", "average")
        for step in ((4, 4), (3, 4), (4, 1))
    },
    "windows over the channels, too": lambda m: op(
        m, "Pooling", samples(m, "x", 4, 5, 6), pool_kind="max", kernel_shape=(2, 3, 2), stride=(1, 2, 2),
        auto_padding=(False,),
    ),
    "windows over some channels": lambda m: op(
        m, "Convolution", m.parameter("W", 2, 2, 2, 3), samples(m, "x", 3, 4, 5), kernel_shape=(3, 2, 2),
        map_count=(2,), stride=(1, 1, 1), auto_padding=(False,),
    ),
    # parts
    **{
        f"each {step}th element": lambda m, step=step: op(
            m, "Slice", m.input("x", 2, 7), begin=(1,), end=(6,), axis=(1,), stride=(step,)
        )
        for step in (1, 2, 3, -1, -2)
    },
    **{
        f"elements {steps} of two axes": lambda m, steps=steps: op(
            m, "Slice", m.input("x", 5, 7), begin=(1, 0), end=(6, 4), axis=(1, 2), stride=steps
        )
        for steps in ((1, 2), (2, 1), (-1, 1), (1, -1), (2, -2))
    },
    **{
        f"classes along axis {axis}": lambda m, axis=axis: op(
            m, "OneHot", op(m, "Abs", m.input("x", 2, 2), name="n"), num_class=3, axis=axis
        )
        for axis in (0, 1, 2)
    },
}  # fmt: skip


@pytest.mark.parametrize("name", SELDOM)
def test_seldom_networks(name: str, tmp_path: Path) -> None:
    made = Sketch("float32")
    network = finished(made, SELDOM[name](made))
    for settings in ({}, {"sequences": "one"}):
        assert difference(network, tmp_path / "net.onnx", **settings) < 1e-6


def test_an_operation_that_a_loop_has_and_onnx_has_not(tmp_path: Path) -> None:
    """It is told once, and what the loop has besides it is told, too."""
    made = Sketch("float32")
    x = made.input("x", 3)
    delay = made.op("PastValue", name="delay", attributes=attributes("PastValue", time_step=1))
    lost = op(made, "CustomProxyOp", delay, name="lost")
    other = op(made, "CustomProxyOp", delay, name="other")
    h = made.op("Plus", made.op("Plus", x, lost), other, name="h")
    delay.inputs.append(h)
    network = finished(made, h)
    with pytest.raises(CntkError) as caught:
        written(network, tmp_path / "net.onnx")
    assert [line for line in str(caught.value).splitlines() if "cannot be written" in line] == [
        f"CustomProxyOp '{name}' cannot be written as ONNX: it stands for a function that is not there"
        for name in ("lost", "other")
    ]


@pytest.mark.parametrize("given", [True, False], ids=["constant", "of the data"])
def test_how_often_classes_are_drawn(given: bool, tmp_path: Path) -> None:
    """It is a constant of the weights, as long as these are."""
    made = Sketch("float32")
    weights = made.parameter("w", 5) if given else whole(made, "w", 5)
    root = op(made, "RandomSampleInclusionFrequency", weights, num_samples=3, allow_duplicates=True)
    network = finished(made, op(made, "ElementTimes", root, made.input("x", 5), name="z"))
    if given:
        network["w"].value = np.arange(1, 6, dtype=np.float32)
        assert difference(network, tmp_path / "net.onnx") < 1e-6
        return
    with pytest.raises(CntkError) as caught:
        written(network, tmp_path / "net.onnx")
    assert str(caught.value) == (
        "RandomSampleInclusionFrequency 'y' cannot be written as ONNX: the weights of its classes are not constant"
    )


def free_image(made: Sketch, channels: int) -> Node:
    return made.network.add(Input.make("x", (channels, Free("height"), Free("width")), axis=BATCH))


@pytest.mark.parametrize(
    ("settings", "alike"),
    [
        ({"kernel_shape": (3, 3), "strides": (1, 1), "auto_padding": (True,)}, True),
        ({"kernel_shape": (3, 3), "strides": (2, 2), "auto_padding": (True,)}, False),
        ({"kernel_shape": (3, 2), "strides": (2, 2), "auto_padding": (False,)}, True),
        ({"kernel_shape": (2, 2), "strides": (3, 1), "auto_padding": (True,)}, False),
    ],
    ids=["padded", "padded, by steps", "by steps", "by larger steps"],
)
@pytest.mark.parametrize("kind", ["max", "average", "Convolution"])
def test_images_of_any_size(kind: str, settings: dict[str, Any], alike: bool, tmp_path: Path) -> None:
    """Windows have to lie alike in all of them: padding that fills up the last window depends on the size."""
    made = Sketch("float32")
    image, kernel = free_image(made, 2), settings["kernel_shape"]
    given = {"auto_padding": settings["auto_padding"], "stride": settings["strides"]}
    if kind == "Convolution":
        weights = made.parameter("W", 4, 2, *kernel[::-1])
        padding = (*given["auto_padding"] * 2, False)
        root = op(made, kind, weights, image, kernel_shape=(*kernel, 2), map_count=(4,), stride=(*given["stride"], 2),
                  auto_padding=padding)  # fmt: skip
    else:
        root = op(made, "Pooling", image, pool_kind=kind, kernel_shape=kernel, **given)
    network = finished(made, root)
    if alike:
        assert difference(network, tmp_path / "net.onnx") < 1e-6
        return
    with pytest.raises(CntkError) as caught:
        written(network, tmp_path / "net.onnx")
    assert (
        str(caught.value)
        .splitlines()[0]
        .endswith("cannot be written as ONNX: how its windows lie depends on sizes that only the data have")
    )
