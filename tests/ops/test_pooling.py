"""Pooling, unpooling and regions of interest against loops written from the definition."""

from __future__ import annotations

import math
from itertools import product

import attrs
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cntk_core.errors import ShapeError
from cntk_core.ops.families.pooling import (
    MAX_UNPOOLING,
    POOLING,
    ROI_POOLING,
    LegacyPoolingAttributes,
    PoolingAttributes,
    ROIPoolingAttributes,
    image_pooling_geometry,
    legacy_pooling_geometry,
)
from cntk_core.ops.language.framing import run_forward, run_gradient
from cntk_core.ops.language.op import OpContext
from cntk_core.ops.table import core_op
from cntk_testing.examples import examples
from cntk_testing.gradients import check_op_gradients


def context(framed: tuple[bool, ...], frames: int) -> OpContext:
    return OpContext(framed, frames)


@attrs.frozen
class Windows:
    """Windows with one value for each axis, in CNTK's order."""

    dims: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    auto: tuple[bool, ...]
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    ceil: bool

    def begins(self, axis: int) -> list[int]:
        """Where each window begins along an axis."""
        size, width, step = self.dims[axis], self.kernel[axis], self.stride[axis]
        whole = size - 1 if self.auto[axis] else size + self.lower[axis] + self.upper[axis] - width
        count = (math.ceil if self.ceil else math.floor)(whole / step) + 1
        first = -self.lower[axis]
        if self.auto[axis]:
            first = math.trunc((size - ((count - 1) * step + 1)) / 2) - (width - 1) // 2
        return [first + index * step for index in range(count)]

    @property
    def valid(self) -> bool:
        """Explicit padding is filled, and no window lies wholly outside."""
        for axis, size in enumerate(self.dims):
            begins, pads = self.begins(axis), self.lower[axis] + self.upper[axis]
            if any(begin >= size or begin + self.kernel[axis] <= 0 for begin in begins):
                return False
            if pads and not self.auto[axis] and begins[-1] + self.kernel[axis] != size + self.upper[axis]:
                return False
        return True

    def attributes(self, kind: str, *, include: bool = False) -> PoolingAttributes:
        return PoolingAttributes(
            self.kernel, kind, self.stride, self.auto, self.lower, self.upper, self.ceil, include_pad=include
        )

    def covered(self, number: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Elements of the sample under a window, both in memory order."""
        axes = [
            [at for at in range(begin, begin + self.kernel[axis]) if 0 <= at < self.dims[axis]]
            for axis, begin in ((axis, self.begins(axis)[index]) for axis, index in enumerate(reversed(number)))
        ]
        return list(product(*reversed(axes)))

    @property
    def output(self) -> tuple[int, ...]:
        return tuple(len(self.begins(axis)) for axis in reversed(range(len(self.dims))))


@st.composite
def windows(draw: st.DrawFn, *, ceil: bool = True) -> Windows:
    dims = draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
    pads = st.tuples(*(st.integers(0, 2) for _ in dims))
    found = Windows(
        dims=tuple(dims),
        kernel=tuple(draw(st.integers(1, size)) for size in dims),
        stride=tuple(draw(st.integers(1, 3)) for _ in dims),
        auto=tuple(draw(st.booleans()) for _ in dims),
        lower=draw(pads),
        upper=draw(pads),
        ceil=draw(st.booleans()) if ceil else False,
    )
    assume(found.valid)
    return found


def pooled(form: Windows, sample: np.ndarray, kind: str, *, include: bool = False) -> np.ndarray:
    result = np.zeros(form.output)
    for number in np.ndindex(form.output):
        values = [float(sample[at]) for at in form.covered(number)]
        count = math.prod(form.kernel) if include else len(values)
        result[number] = max(values) if kind == "max" else sum(values) / count
    return result


@examples(60)
@given(windows(), st.sampled_from(["max", "average"]), st.booleans())
def test_pooling(form, kind, include):
    data = np.random.default_rng(0).normal(size=(3, *reversed(form.dims)))
    attributes, run = form.attributes(kind, include=include), context((True,), 3)
    found = run_forward(POOLING, np, [data], attributes, run)
    np.testing.assert_allclose(found, [pooled(form, sample, kind, include=include) for sample in data], atol=1e-12)
    incoming = np.random.default_rng(1).normal(size=found.shape)
    change = run_gradient(POOLING, np, incoming, found, [data], attributes, run, [True])[0]
    expected = np.zeros_like(data)
    for frame, *number in np.ndindex(found.shape):
        places = form.covered(tuple(number))
        share = incoming[(frame, *number)]
        if kind == "max":
            best = max(places, key=lambda at: data[(frame, *at)])
            expected[(frame, *best)] += share
        else:
            for at in places:
                expected[(frame, *at)] += share / (math.prod(form.kernel) if include else len(places))
    np.testing.assert_allclose(change, expected, atol=1e-12)


@examples(40)
@given(windows(ceil=False), st.booleans())
def test_unpooling(form, framed):
    """Where several windows have the same largest element the last one stays."""
    rng = np.random.default_rng(2)
    like = rng.integers(0, 4, size=(2, *reversed(form.dims))).astype(float)
    values = rng.normal(size=(2, *form.output) if framed else form.output)
    inputs, flags = [values, like], (framed, True)
    found = run_forward(MAX_UNPOOLING, np, inputs, form.attributes("max"), context(flags, 2))
    expected = np.zeros_like(like)
    for frame in range(2):
        for number in np.ndindex(form.output):
            best = max(form.covered(number), key=lambda at: like[(frame, *at)])
            expected[(frame, *best)] = values[(frame, *number) if framed else number]
    np.testing.assert_array_equal(found, expected)
    # The result is linear in what is put back.
    incoming = rng.normal(size=found.shape)
    run = context(flags, 2)
    change = run_gradient(MAX_UNPOOLING, np, incoming, found, inputs, form.attributes("max"), run, [True, False])[0]
    other = rng.normal(size=values.shape)
    moved = run_forward(MAX_UNPOOLING, np, [other, like], form.attributes("max"), context(flags, 2))
    np.testing.assert_allclose(np.sum(change * other), np.sum(incoming * moved), atol=1e-9)


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


def test_pooling_the_whole_image():
    """A window over everything leaves one number for each channel."""
    data = np.random.default_rng(3).normal(size=(2, 3, 4, 5))
    attributes = PoolingAttributes((5, 4), "average", (1,), (False,))
    found = run_forward(POOLING, np, [data], attributes, context((True,), 2))
    np.testing.assert_allclose(found[..., 0, 0], data.mean(axis=(2, 3)))


def test_a_window_beyond_the_input_is_refused():
    attributes = PoolingAttributes((1,), stride=(3,), auto_padding=(False,), ceil_out_dim=True)
    with pytest.raises(ShapeError) as error:
        POOLING.infer([(5,)], attributes)
    assert str(error.value) == (
        "along axis 1 a window of 1 lies wholly outside of the 5 elements\n"
        "    Use less padding, a stride that is not larger than the kernel, or ceilOutDim=false."
    )


# -- regions of interest ------------------------------------------------------------------------------------


def test_regions_of_interest():
    data = np.arange(30.0).reshape(1, 1, 5, 6)
    regions = np.array([[[0, 0, 3, 1], [8, 8, 9, 9]]], float)
    found = run_forward(ROI_POOLING, np, [data, regions], ROIPoolingAttributes((2, 1), 1.0), context((True, True), 1))
    # A region beyond the image is empty.
    np.testing.assert_array_equal(found[0, :, 0, 0], [[7.0, 9.0], [0.0, 0.0]])


def test_a_region_that_begins_before_the_image():
    """The bins outside are empty; those after them are not."""
    data = np.arange(30.0).reshape(1, 1, 5, 6)
    regions = np.array([[[-4, -2, 1, 1]]], float)
    found = run_forward(ROI_POOLING, np, [data, regions], ROIPoolingAttributes((3, 2), 1.0), context((True, True), 1))
    np.testing.assert_array_equal(found[0, 0, 0], [[0.0, 0.0, 0.0], [0.0, 0.0, 7.0]])


def test_places_between_pixels_are_rounded_away_from_0():
    """A corner at -0.5 is the pixel -1, so that the first of two bins lies outside."""
    data = np.arange(30.0).reshape(1, 1, 5, 6)
    regions = np.array([[[0, -1, 0, 0]]], float)
    found = run_forward(ROI_POOLING, np, [data, regions], ROIPoolingAttributes((1, 2), 0.5), context((True, True), 1))
    np.testing.assert_array_equal(found[0, 0, 0], [[0.0], [0.0]])
    data -= 31
    found = run_forward(ROI_POOLING, np, [data, regions], ROIPoolingAttributes((1, 2), 0.5), context((True, True), 1))
    np.testing.assert_array_equal(found[0, 0, 0], [[0.0], [-31.0]])


@pytest.mark.parametrize(("kind", "last"), [(np.float32, 58), (np.float64, 57)])
def test_lengths_of_bins_are_rounded_as_the_data(kind, last):
    """CNTK 2.7 found these figures, in single and in double precision."""
    data = np.tile(np.arange(1, 63, dtype=kind), (1, 1, 62, 1))
    settings = ROIPoolingAttributes((7, 7), 1.0)
    found = run_forward(ROI_POOLING, np, [data, np.array([[[0, 0, 56, 56]]], kind)], settings, context((True, True), 1))
    assert found[0, 0, 0, 0].tolist() == [9, 17, 25, 33, 41, 49, last]


def rounded(value: float) -> int:
    """Round as C's ``round`` does: halves away from 0."""
    return int(math.copysign(math.floor(abs(value) + 0.5), value))


def region_pooled(image: np.ndarray, region: list[float], size: tuple[int, int], scale: float) -> np.ndarray:
    """``(channels, rows, columns)`` of one region; bins without an element are 0."""
    channels, height, width = image.shape
    columns, rows = size
    x1, y1, x2, y2 = (rounded(place * scale) for place in region)
    across, down = max(x2 - x1 + 1, 1), max(y2 - y1 + 1, 1)
    result = np.zeros((channels, rows, columns))
    for channel, row, column in np.ndindex(result.shape):
        values = [
            image[channel, y, x]
            for y in range(y1 + math.floor(row * down / rows), y1 + math.ceil((row + 1) * down / rows))
            for x in range(x1 + math.floor(column * across / columns), x1 + math.ceil((column + 1) * across / columns))
            if 0 <= x < width and 0 <= y < height
        ]
        result[channel, row, column] = max(values, default=0.0)
    return result


PLACES = st.integers(-20, 40).map(float)


@examples(20)
@given(
    st.lists(st.tuples(PLACES, PLACES, PLACES, PLACES), min_size=1, max_size=3),
    st.integers(1, 3),
    st.integers(1, 3),
    st.sampled_from([1.0, 0.5, 0.125]),
)
def test_any_regions(regions, columns, rows, scale):
    rng = np.random.default_rng(4)
    data = rng.normal(size=(2, 2, 4, 5))
    boxes = np.array([regions, regions[::-1]])
    attributes = ROIPoolingAttributes((columns, rows), scale)
    found = run_forward(ROI_POOLING, np, [data, boxes], attributes, context((True, True), 2))
    expected = [
        [region_pooled(image, list(region), (columns, rows), scale) for region in those]
        for image, those in zip(data, boxes, strict=True)
    ]
    np.testing.assert_allclose(found, expected)
    check_op_gradients(ROI_POOLING, [data, boxes], (True, True), attributes)


def test_windows_of_images_in_the_layout_of_cudnn():
    """MaxPooling of 2 x 2 windows over width and height; of a legacy image the axes mean something else."""
    data = np.random.default_rng(0).normal(size=(2, 3, 4, 6))  # channels x height x width, as they lie in memory
    op = core_op("MaxPooling")
    run = OpContext(frames=2, framed=(True,))
    found = run_forward(op, np, [data], LegacyPoolingAttributes(2, 2, 2, 2, "CHW"), run)
    np.testing.assert_array_equal(found, data.reshape(2, 3, 2, 2, 3, 2).max(axis=(3, 5)))
    plain = image_pooling_geometry((3, 4, 6), LegacyPoolingAttributes(2, 2, 2, 2, "CHW"))
    assert legacy_pooling_geometry((3, 4, 6), LegacyPoolingAttributes(2, 2, 2, 2, "CHW")).output == plain.output
    legacy = LegacyPoolingAttributes(2, 2, 2, 2, "HWC")
    assert legacy_pooling_geometry((4, 6, 3), legacy).output != image_pooling_geometry((4, 6, 3), legacy).output
