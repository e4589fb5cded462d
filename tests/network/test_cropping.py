"""Where Crop without offsets begins: filters with a single one in the middle show which elements lie on each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cntk_core.errors import CntkError
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node, Parameter
from cntk_core.ops.families.convolution import ConvolutionAttributes
from cntk_core.ops.families.pooling import PoolingAttributes
from cntk_core.ops.language.framing import run_forward
from cntk_core.ops.language.op import OpContext
from cntk_core.ops.table import core_ops

TABLE = core_ops()
FRAMES = 2


class Made:
    """A network over one image input of 9 x 8, and its values."""

    def __init__(self) -> None:
        self.network = Network(np.float64)
        self.image = self.network.add(Input.make("x", (1, 8, 9)))

    def op(self, name: str, operation: str, *inputs: Node, attributes: Any = None) -> Node:
        found = TABLE.find("model", operation)
        assert found is not None
        return self.network.add(Node(name, found, list(inputs), attributes or found.attributes()))

    def filtered(self, name: str, x: Node, size: int, stride: int = 1, *, pad: bool = False, up: bool = False) -> Node:
        """Convolve with a kernel that is 1 in its middle."""
        kernel = np.zeros((1, 1, size, size))
        kernel[0, 0, (size - 1) // 2, (size - 1) // 2] = 1
        weights = self.network.add(Parameter.make(f"{name}.W", kernel.shape, value=kernel))
        attributes = ConvolutionAttributes(
            (size, size, 1), (1,), (stride, stride, 1), auto_padding=(pad, pad, False), transpose=up
        )
        return self.op(name, "Convolution", weights, x, attributes=attributes)

    def pooled(self, name: str, x: Node, size: int = 1, stride: int = 2) -> Node:
        return self.op(
            name, "Pooling", x, attributes=PoolingAttributes((size, size), stride=(stride,), auto_padding=(False,))
        )

    def crop(self, name: str, *inputs: Node) -> Node:
        return self.op(name, "Crop", *inputs)

    def values(self) -> dict[str, np.ndarray]:
        """Every node's value for random images."""
        self.network.infer()
        found: dict[Node, np.ndarray] = {self.image: np.random.default_rng(0).normal(size=(FRAMES, 1, 8, 9))}
        for node in self.network.order(self.network):
            if isinstance(node, Parameter):
                found[node] = np.array(node.value)
            elif node not in found:
                inputs = [found[child] for child in node.inputs]
                framed = tuple(child.framed for child in node.inputs)
                found[node] = run_forward(node.op, np, inputs, node.attributes, OpContext(framed, FRAMES))
        return {node.name: value for node, value in found.items()}

    def refused(self) -> str:
        with pytest.raises(CntkError) as error:
            self.network.infer()
        return str(error.value)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_a_convolution_without_padding(size):
    made = Made()
    small = made.filtered("small", made.op("sine", "Sin", made.image), size)
    made.crop("part", made.image, small)
    values = made.values()
    np.testing.assert_allclose(np.sin(values["part"]), values["small"])
    assert made.network["part"].attributes.x_offset == (size - 1) // 2


def test_halves_made_whole_again():
    """What comes out of a transposed convolution is larger than the image; its middle is cut out."""
    made = Made()
    halves = made.op("halves", "Dropout", made.pooled("pooled", made.image))
    whole = made.filtered("whole", halves, 3, 2, up=True)
    made.crop("part", whole, made.image)
    values = made.values()
    np.testing.assert_array_equal(values["part"][..., ::2, ::2], values["x"][..., ::2, ::2])
    assert not values["part"][..., 1::2, :].any()


def test_a_deep_way_and_its_skip():
    made = Made()
    first = made.filtered("first", made.image, 3)
    deep = made.filtered("deep", made.pooled("pooled", made.filtered("second", first, 3)), 2, 2, up=True)
    made.crop("skip", made.op("sum", "Plus", first, first), deep)
    values = made.values()
    even = values["deep"][..., ::2, ::2]
    assert np.count_nonzero(even) == even.size
    np.testing.assert_allclose(values["skip"][..., ::2, ::2], 2 * even)


def test_equivalent_nodes_connect_two_inputs():
    made = Made()
    other = made.network.add(Input.make("other", (1, 6, 7)))
    left, right = made.filtered("left", made.image, 3), made.filtered("right", other, 3)
    made.crop("cut", left, right, made.image, other)
    made.network.infer()
    assert made.network["cut"].attributes.x_offset == 0


def test_a_crop_after_a_crop_and_an_unpooling():
    made = Made()
    smaller = made.filtered("smaller", made.image, 5)
    inner = made.crop("inner", made.image, smaller)
    size = PoolingAttributes((2, 2), stride=(2,), auto_padding=(False,))
    pooled = made.op("pooled", "Pooling", inner, attributes=size)
    again = made.op("again", "MaxUnpooling", pooled, inner, attributes=size)
    made.crop("outer", made.image, made.filtered("last", again, 3))
    made.network.infer()
    assert made.network["outer"].attributes.x_offset == 3


# -- what cannot be worked out ------------------------------------------------------------------------------


def test_nothing_in_common():
    made = Made()
    other = made.network.add(Input.make("other", (1, 6, 7)))
    made.crop("cut", made.op("sum", "ReduceElements", made.op("sine", "Sin", made.image)), other)
    assert made.refused() == (
        "Crop 'cut': nothing connects its inputs 'sum' and 'other'; ReduceElements 'sum' does not keep places\n"
        "    Give xOffset and yOffset, or two nodes whose places correspond."
    )


def test_another_scale():
    made = Made()
    made.crop("cut", made.image, made.pooled("pooled", made.image))
    assert made.refused() == (
        "Crop 'cut': one element of 'pooled' is 2 x 2 elements of 'x'\n    Bring both to the same scale first."
    )


@pytest.mark.parametrize(("stride", "scale"), [((2, 1), "2 x 1"), ((1, 2), "1 x 2")])
def test_another_scale_in_one_direction(stride, scale):
    made = Made()
    pooled = PoolingAttributes((1, 1), stride=stride, auto_padding=(False,))
    made.crop("cut", made.image, made.op("pooled", "Pooling", made.image, attributes=pooled))
    assert made.refused().splitlines()[0] == f"Crop 'cut': one element of 'pooled' is {scale} elements of 'x'"


def test_a_part_that_begins_outside():
    made = Made()
    made.crop("cut", made.filtered("small", made.image, 5), made.image)
    assert made.refused() == ("Crop 'cut': 'x' begins outside of 'small', at -2, -2\n    Give xOffset and yOffset.")


@pytest.mark.parametrize(("size", "place"), [((5, 1, 1), "-2, 0"), ((1, 5, 1), "0, -2")])
def test_a_part_that_begins_outside_in_one_direction(size, place):
    made = Made()
    weights = made.network.add(Parameter.make("W", (1, 1, *size[1::-1]), value=np.ones((1, 1, *size[1::-1]))))
    attributes = ConvolutionAttributes(size, (1,), auto_padding=(False,))
    made.crop("cut", made.op("small", "Convolution", weights, made.image, attributes=attributes), made.image)
    assert made.refused().startswith(f"Crop 'cut': 'x' begins outside of 'small', at {place}\n")


def test_two_ways_that_disagree():
    made = Made()
    size = ConvolutionAttributes((3, 3, 1), (1,), auto_padding=(False,), lower_pad=(1, 1, 0), upper_pad=(1, 1, 0))
    shifted = ConvolutionAttributes((3, 3, 1), (1,), auto_padding=(False,), lower_pad=(2, 2, 0), upper_pad=(0, 0, 0))
    weights = made.network.add(Parameter.make("W", (1, 1, 3, 3), value=np.ones((1, 1, 3, 3))))
    one = made.op("one", "Convolution", weights, made.image, attributes=size)
    two = made.op("two", "Convolution", weights, made.image, attributes=shifted)
    both = made.op("both", "Plus", one, two)
    made.crop("cut", made.image, both)
    assert made.refused() == (
        "Crop 'cut': two ways from 'x' to 'both' shift it differently\n    Give xOffset and yOffset."
    )
