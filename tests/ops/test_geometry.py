"""Where windows stand: convolution and pooling geometry, against a count by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cntk_core.errors import ShapeError
from cntk_core.ops.families.convolution import ConvolutionAttributes
from cntk_core.ops.families.geometry import Window, make_geometry, transposed_dims
from cntk_core.ops.families.pooling import LegacyPoolingAttributes, PoolingAttributes, ROIPoolingAttributes
from cntk_core.ops.language.shapes import elements, from_cntk
from cntk_core.ops.table import core_ops

TABLE = core_ops()


def infer(name, shapes, attributes):
    op = TABLE.find("", name)
    assert op is not None
    return op.infer(shapes, attributes)


def complete(name, shapes, attributes):
    op = TABLE.find("", name)
    assert op is not None
    assert op.complete is not None
    return op.complete(shapes, attributes)


def axis(kernel: int, stride: int, *, auto: bool = False, lower: int = 0, upper: int = 0) -> Window:
    return Window((kernel,), (stride,), (auto,), (lower,), (upper,))


@given(st.integers(1, 40), st.integers(1, 9), st.integers(1, 6))
def test_automatic_padding_puts_a_centre_on_every_stride(size, kernel, stride):
    assume(kernel <= size)
    geometry = make_geometry((size,), axis(kernel, stride, auto=True))
    count = geometry.counts[0]
    assert count == math.floor((size - 1) / stride) + 1
    first = -geometry.lower[0] + (kernel - 1) // 2
    centres = [first + stride * index for index in range(count)]
    assert centres[0] >= 0
    assert centres[-1] < size
    # What is left over before the first and after the last centre differs by at most one.
    assert 0 <= (size - 1 - centres[-1]) - centres[0] <= 1


@given(st.integers(1, 40), st.integers(1, 9), st.integers(1, 6), st.integers(0, 4), st.integers(0, 4), st.booleans())
def test_explicit_padding_counts_whole_windows(size, kernel, stride, lower, upper, ceil):
    assume(kernel <= size)
    window = axis(kernel, stride, lower=lower, upper=upper)
    fills = (size + lower + upper - kernel) % stride == 0
    if (lower or upper) and not fills:
        with pytest.raises(ShapeError, match="do not fill"):
            make_geometry((size,), window)
        return
    geometry = make_geometry((size,), window, ceil=ceil)
    starts = [start for start in range(0, size + lower + upper, stride) if start + kernel <= size + lower + upper]
    assert geometry.counts[0] == len(starts) + (1 if ceil and not fills else 0)
    assert geometry.lower == (lower,)


@given(st.integers(1, 20), st.integers(1, 6), st.integers(1, 4), st.booleans())
def test_a_transposed_convolution_is_undone_by_a_convolution(size, kernel, stride, auto):
    window = axis(kernel, stride, auto=auto)
    output = transposed_dims((size,), window, (1,))
    assume(kernel <= output[0])
    assert make_geometry(output, window).counts == (size,)


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 3), st.integers(1, 4), st.integers(1, 3))
def test_weights_that_are_completed_fit(width, height, channels, maps, stride):
    kernel = (min(3, width), min(2, height))
    data = (channels, height, width)
    for weights in ((0, 0), (0, 0, 0, 0)):
        attributes = ConvolutionAttributes(kernel, (maps,), stride=(stride, stride))
        filled = complete("Convolution", [weights, data], attributes)
        assert 0 not in filled[0]
        assert elements(filled[0]) == kernel[0] * kernel[1] * channels * maps
        shape = infer("Convolution", filled, attributes)
        assert shape == (maps, (height - 1) // stride + 1, (width - 1) // stride + 1)


CONVOLUTIONS = [
    # weights, data, attributes, output: all in memory order
    ((16, 3, 5, 5), (3, 32, 32), ConvolutionAttributes((5, 5), (16,)), (16, 32, 32)),
    ((16, 3, 5, 5), (3, 32, 32), ConvolutionAttributes((5, 5), (16,), auto_padding=(False,)), (16, 28, 28)),
    (
        (16, 3, 5, 5),
        (3, 32, 32),
        ConvolutionAttributes((5, 5, 3), (16,), (2, 2, 3), auto_padding=(True, True, False)),
        (16, 16, 16),
    ),
    ((16, 3, 5, 5), (3, 32, 32), ConvolutionAttributes((5, 5)), (16, 32, 32)),
    ((75, 16), (32, 32, 3), ConvolutionAttributes.image(5, 5, 16, 1, 1, zero_padding=True), (32, 32, 16)),
    ((75, 16), (32, 32, 3), ConvolutionAttributes.image(5, 5, 16, 2, 2), (14, 14, 16)),
    ((75, 16), (3, 32, 32), ConvolutionAttributes.image(5, 5, 16, 2, 2, image_layout="CHW"), (16, 14, 14)),
    # Transposed: the input has the maps, the kernel the output's channels.
    (
        (16, 3, 5, 5),
        (16, 8, 8),
        ConvolutionAttributes((5, 5, 3), (16,), (2, 2, 3), auto_padding=(True, True, False), transpose=True),
        (3, 15, 15),
    ),
    (
        (16, 3, 5, 5),
        (16, 8, 8),
        ConvolutionAttributes(
            (5, 5, 3), (16,), (2, 2, 3), auto_padding=(True, True, False), transpose=True, output_shape=(16, 16, 3)
        ),
        (3, 16, 16),
    ),
]


@pytest.mark.parametrize(("weights", "data", "attributes", "output"), CONVOLUTIONS)
def test_shapes_of_convolutions(weights, data, attributes, output):
    assert infer("Convolution", [weights, data], attributes) == output


def test_shapes_of_poolings():
    assert infer("Pooling", [(3, 32, 32)], PoolingAttributes((3, 3), stride=(2,))) == (3, 16, 16)
    no_padding = PoolingAttributes((3, 3), stride=(2, 2), auto_padding=(False,))
    assert infer("Pooling", [(3, 32, 32)], no_padding) == (3, 15, 15)
    ceil = PoolingAttributes((3, 3), stride=(2, 2), auto_padding=(False,), ceil_out_dim=True)
    assert infer("Pooling", [(3, 32, 32)], ceil) == (3, 16, 16)
    assert infer("MaxUnpooling", [(3, 15, 15), (3, 32, 32)], no_padding) == (3, 32, 32)
    assert infer("MaxPooling", [(32, 32, 3)], LegacyPoolingAttributes(3, 2, 2, 2)) == (16, 15, 3)
    assert infer("AveragePooling", [(3, 32, 32)], LegacyPoolingAttributes(3, 2, 2, 2, "CHW")) == (3, 16, 15)
    assert infer("ROIPooling", [(3, 20, 30), (7, 4)], ROIPoolingAttributes((6, 5))) == (7, 3, 5, 6)


ERRORS = [
    (
        "Pooling",
        [(3, 8, 8)],
        PoolingAttributes((2, 2), stride=(2, 0), auto_padding=(False,), lower_pad=(-1, 0)),
        "stride is 0 along axis 2, less than 1; lowerPad is -1 along axis 1, less than 0",
    ),
    (
        "Convolution",
        [(2, 3, 3), (1, 8, 2)],
        ConvolutionAttributes((3, 3), (2,)),
        "the kernel has 3 elements along axis 1, but the input only 2",
    ),
    (
        "Convolution",
        [(2, 1, 3, 3), (8, 8)],
        ConvolutionAttributes((3, 3, 1), (2,)),
        "the kernel [3 x 3 x 1] and its settings do not fit the 2 axes of [8 x 8]",
    ),
    (
        "Convolution",
        [(2, 2, 3, 3), (1, 8, 8)],
        ConvolutionAttributes((3, 3), (2,)),
        "the weights [3 x 3 x 2 x 2] have 36 elements, but 2 kernels [3 x 3 x 1] have 18",
    ),
    (
        "Convolution",
        [(2, 1, 3, 3), (1, 8, 8)],
        ConvolutionAttributes((3, 3), (2,), auto_padding=(False,), stride=(2,), lower_pad=(1, 1), upper_pad=(1, 1)),
        "windows of 3 every 2 do not fill the 10 padded elements of axis 1; "
        "windows of 3 every 2 do not fill the 10 padded elements of axis 2\n"
        "    lowerPad + upperPad would have to be 3 along axis 1, 3 along axis 2.",
    ),
    (
        "Convolution",
        [(2, 1, 4, 9), (1, 3, 8)],
        ConvolutionAttributes((9, 4), (2,), auto_padding=(False,)),
        "the kernel has 9 elements along axis 1, but the input only 8; "
        "the kernel has 4 elements along axis 2, but the input only 3",
    ),
    (
        "Convolution",
        [(20, 1, 3, 3), (2, 8, 8)],
        ConvolutionAttributes((3, 3, 1), (2, 2)),
        "mapCount has 2 numbers, but the input 3 axes",
    ),
    (
        "Convolution",
        [(2, 1, 3, 3), (1, 8, 8)],
        ConvolutionAttributes((3, 3), (2,), output_shape=(9, 9, 2)),
        "outputShape is [9 x 9 x 2], but the result is [8 x 8 x 2]",
    ),
    (
        "Convolution",
        [(2, 1, 3, 3), (2, 8, 8)],
        ConvolutionAttributes(
            (3, 3, 1), (2,), (2, 2, 1), auto_padding=(True, True, False), transpose=True, output_shape=(14, 15, 1)
        ),
        "a convolution of [14 x 15 x 1] gives [7 x 8 x 2], not the operand [8 x 8 x 2]",
    ),
    (
        "Convolution",
        [(6, 1, 3, 3), (2, 8, 8)],
        ConvolutionAttributes((3, 3, 1), (3,), transpose=True),
        "axis 3 of [8 x 8 x 2] cannot hold 3 maps",
    ),
    (
        "Convolution",
        [(7, 3), (1, 8, 8)],
        ConvolutionAttributes((3, 3)),
        "the number of output maps cannot be inferred from the weights [3 x 7]\n    Give mapCount.",
    ),
    (
        "Convolution",
        [(2, 1, 3, 3), (1, 8, 8)],
        ConvolutionAttributes((3, 3), (2,), image_layout="WHC"),
        "there is no image layout 'WHC'\n    Layouts: CHW (cudnn), HWC (legacy)",
    ),
    (
        "Pooling",
        [(3, 8, 8)],
        PoolingAttributes((2, 2), "median"),
        "there is no pooling 'median'\n    Kinds: max, average",
    ),
    (
        "Pooling",
        [(3, 8, 8)],
        PoolingAttributes((2, 2), image_layout="HWC"),
        "pooling takes images in the layout CHW only\n    Give the input imageLayout CHW too.",
    ),
    (
        "MaxPooling",
        [(8, 8)],
        LegacyPoolingAttributes(2, 2, 2, 2),
        "an image has width, height and channels; [8 x 8] has 2 axes",
    ),
    (
        "MaxUnpooling",
        [(3, 3, 3), (3, 8, 8)],
        PoolingAttributes((2, 2), stride=(2,), auto_padding=(False,)),
        "pooling [8 x 8 x 3] gives [4 x 4 x 3], not the first input [3 x 3 x 3]",
    ),
    (
        "ROIPooling",
        [(3, 8, 8), (2, 5)],
        ROIPoolingAttributes((2, 2)),
        "the regions must be [4 x number of regions], not [5 x 2]",
    ),
]


@pytest.mark.parametrize(("name", "shapes", "attributes", "text"), ERRORS)
def test_errors(name, shapes, attributes, text):
    with pytest.raises(ShapeError) as error:
        infer(name, shapes, attributes)
    assert str(error.value) == text


def test_maps_come_from_the_weights_when_the_kernel_reduces_the_channels():
    attributes = ConvolutionAttributes((3, 3), auto_padding=(True,))
    assert complete("Convolution", [(8, 0, 0, 0), (3, 6, 6)], attributes)[0] == from_cntk((3, 3, 3, 8))
