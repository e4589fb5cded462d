"""The windows of convolution and pooling in the text of dumpNodes, byte by byte."""

from __future__ import annotations

from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node, Parameter
from cntk_core.ops.families.convolution import ConvolutionAttributes
from cntk_core.ops.families.pooling import LegacyPoolingAttributes, PoolingAttributes
from cntk_core.ops.language.shapes import FREE
from cntk_core.ops.table import core_ops
from cntk_kit_builders.dump import dump

OPS = core_ops()


def text(op: str, attributes: object, *inputs: Node, metadata: bool = True) -> str:
    network = Network()
    for node in inputs:
        network.add(node)
    found = OPS.find("", op)
    assert found is not None
    node = network.add(Node("n", found, list(inputs), attributes=attributes))
    network.infer()
    return "".join(dump([node], metadata=metadata))


def image() -> Input:
    """CNTK's [28 x 20 x 3]."""
    return Input.make("x", (3, 20, 28))


def test_convolution() -> None:
    weights = Parameter.make("W", (16, 3, 5, 5))
    attributes = ConvolutionAttributes((5, 5), map_count=(16,), stride=(2,), auto_padding=(True, True, False))
    assert text("Convolution", attributes, weights, image()) == (
        " \nn=Convolution ( W , x ) Geometry:  Input: 28 x 20 x 3, Output: 14 x 10 x 16, Kernel: 5 x 5 x 3, Map: 16, "
        "Stride: 2 x 2 x 3, Sharing: (1, 1, 1), AutoPad: (1, 1, 0), LowerPad: 0 x 0 x 0, UpperPad: 0 x 0 x 0 \n"
        " PoolKind:  0 \n"
    )


def test_pooling() -> None:
    attributes = PoolingAttributes((2, 2), pool_kind="average", stride=(2, 2), auto_padding=(False,))
    expected = (
        " Geometry:  Input: 28 x 20 x 3, Output: 14 x 10 x 3, Kernel: 2 x 2 x 1, Map: 1, Stride: 2 x 2 x 1, "
        "Sharing: (1, 1, 1), AutoPad: (0, 0, 0), LowerPad: 0 x 0 x 0, UpperPad: 0 x 0 x 0 \n PoolKind:  2 \n"
    )
    assert text("Pooling", attributes, image()) == f" \nn=Pooling ( x ){expected}"
    assert text("Pooling", attributes, image(), metadata=False) == expected


def test_pooling_of_images() -> None:
    attributes = LegacyPoolingAttributes(3, 2, 2, 2, image_layout="CHW")
    assert text("MaxPooling", attributes, image()) == (
        " \nn=MaxPooling ( x ) Input[Width:28, Height:20, Channels:3]  \n"
        " PoolingWindow[Width:3, Height:2]  SubSampling[Horizontal:2, Vertical:2]\n"
        " Output[Width:13, Height:10, Channels:3]  \n TotalSizePerSample[Input:1680, Output:390]  \n"
    )


def test_windows_over_free_dimensions_have_no_geometry() -> None:
    attributes = PoolingAttributes((2, 2), "max", (2,), (False,))
    assert text("Pooling", attributes, Input.make("x", (3, FREE, FREE))) == " \nn=Pooling ( x )"
