"""Convolution and pooling against plain loops."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cntk_core.errors import NetworkError
from cntk_core.ops.convolution import CONVOLUTION, ConvolutionAttributes
from cntk_core.ops.framing import run_forward, run_gradient
from cntk_core.ops.op import OpContext
from cntk_core.ops.pooling import POOLING, ROI_POOLING, PoolingAttributes, ROIPoolingAttributes


def context(framed: tuple[bool, ...], frames: int, *, training: bool = False) -> OpContext:
    return OpContext(framed, frames, training=training)


def convolved(data: np.ndarray, weights: np.ndarray, stride: int, pad: bool) -> np.ndarray:
    """Two-dimensional convolution of one image, written out: ``(channels, height, width)``."""
    _, height, width = data.shape
    maps, _, rows, columns = weights.shape

    def starts(size: int, kernel: int) -> list[int]:
        if not pad:
            return list(range(0, size - kernel + 1, stride))
        count = (size - 1) // stride + 1
        first = (size - ((count - 1) * stride + 1)) // 2
        return [first + index * stride - (kernel - 1) // 2 for index in range(count)]

    tops, lefts = starts(height, rows), starts(width, columns)
    result = np.zeros((maps, len(tops), len(lefts)))
    for (i, top), (j, left) in product(enumerate(tops), enumerate(lefts)):
        for y, x in product(range(rows), range(columns)):
            if 0 <= top + y < height and 0 <= left + x < width:
                result[:, i, j] += weights[:, :, y, x] @ data[:, top + y, left + x]
    return result


SIZES = st.integers(1, 6)


@given(SIZES, SIZES, st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.integers(1, 3), st.booleans())
def test_convolution_against_plain_loops(height, width, rows, columns, stride, channels, pad):
    assume(rows <= height and columns <= width)
    rng = np.random.default_rng(0)
    data, weights = rng.normal(size=(2, channels, height, width)), rng.normal(size=(3, channels, rows, columns))
    attributes = ConvolutionAttributes((columns, rows), (3,), (stride,), auto_padding=(pad,))
    found = run_forward(CONVOLUTION, np, [weights, data], attributes, context((False, True), 2))
    np.testing.assert_allclose(found, [convolved(image, weights, stride, pad) for image in data], atol=1e-12)


@given(SIZES, SIZES, st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.booleans())
def test_a_transposed_convolution_is_the_adjoint(height, width, rows, columns, stride, pad):
    rng = np.random.default_rng(1)
    padding = (pad, pad, False)
    up = ConvolutionAttributes((columns, rows, 2), (3,), (stride, stride, 2), (True,), padding, transpose=True)
    weights, small = rng.normal(size=(3, 2, rows, columns)), rng.normal(size=(1, 3, height, width))
    try:
        large_shape = CONVOLUTION.infer([weights.shape, small.shape[1:]], up)
    except NetworkError:
        # The kernel is larger than what it would make.
        return
    large = rng.normal(size=(1, *large_shape))
    down = ConvolutionAttributes((columns, rows, 2), (3,), (stride, stride, 2), (True,), padding)
    raised = run_forward(CONVOLUTION, np, [weights, small], up, context((False, True), 1))
    lowered = run_forward(CONVOLUTION, np, [weights, large], down, context((False, True), 1))
    np.testing.assert_allclose(np.sum(raised * large), np.sum(lowered * small), atol=1e-10)


def test_pooling_takes_only_what_is_inside():
    data = -np.ones((1, 1, 3, 3))
    for kind, include, corner in (("max", False, -1.0), ("average", False, -1.0), ("average", True, -4 / 9)):
        attributes = PoolingAttributes((3, 3), kind, include_pad=include)
        found = run_forward(POOLING, np, [data], attributes, context((True,), 1))
        assert found[0, 0, 0, 0] == pytest.approx(corner)


def test_the_gradient_of_max_pooling_goes_to_the_first_of_equal_elements():
    attributes = PoolingAttributes((2, 2), stride=(2,), auto_padding=(False,))
    data, run = np.zeros((1, 1, 2, 2)), context((True,), 1)
    output = run_forward(POOLING, np, [data], attributes, run)
    found = run_gradient(POOLING, np, np.ones((1, 1, 1, 1)), output, [data], attributes, run, [True])[0]
    np.testing.assert_array_equal(found[0, 0], [[1.0, 0.0], [0.0, 0.0]])


def test_regions_of_interest():
    data = np.arange(30.0).reshape(1, 1, 5, 6)
    regions = np.array([[[0, 0, 3, 1], [8, 8, 9, 9]]], float)
    found = run_forward(ROI_POOLING, np, [data, regions], ROIPoolingAttributes((2, 1), 1.0), context((True, True), 1))
    # A region beyond the image is empty.
    np.testing.assert_array_equal(found[0, :, 0, 0], [[7.0, 9.0], [0.0, 0.0]])
