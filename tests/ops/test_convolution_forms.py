"""Every form of convolution against loops written from the definition, one output element after another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from unittest import mock

import attrs
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cntk_core.errors import ShapeError
from cntk_core.ops.families.convolution import CONVOLUTION, ConvolutionAttributes, convolution_setup
from cntk_core.ops.families.correlation import Correlation
from cntk_core.ops.language.framing import run_forward, run_gradient
from cntk_core.ops.language.op import OpContext
from cntk_testing.examples import examples
from cntk_testing.gradients import check_op_gradients

FRAMED = (False, True)


@attrs.frozen
class Form:
    """A convolution with one value for each axis, in CNTK's order."""

    dims: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    auto: tuple[bool, ...]
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    maps: tuple[int, ...]
    sharing: tuple[bool, ...]
    dilation: tuple[int, ...] = attrs.field()
    groups: int = 1

    @dilation.default
    def _undilated(self) -> tuple[int, ...]:
        return (1,) * len(self.dims)

    def reach(self, axis: int) -> int:
        """Elements that the kernel reaches over."""
        return (self.kernel[axis] - 1) * self.dilation[axis] + 1

    def begins(self, axis: int) -> list[int]:
        """Where each window begins along an axis; before 0 it stands in the padding."""
        size, width, step = self.dims[axis], self.reach(axis), self.stride[axis]
        if self.auto[axis]:
            count = (size - 1) // step + 1
            first = (size - ((count - 1) * step + 1)) // 2 - (width - 1) // 2
        else:
            count = (size + self.lower[axis] + self.upper[axis] - width) // step + 1
            first = -self.lower[axis]
        return [first + index * step for index in range(count)]

    @property
    def output(self) -> tuple[int, ...]:
        return tuple(len(self.begins(axis)) * maps for axis, maps in enumerate(self.maps))

    @property
    def kernels(self) -> int:
        counts = [1 if shared else len(self.begins(axis)) for axis, shared in enumerate(self.sharing)]
        return math.prod(counts) * math.prod(self.maps)

    @property
    def fills(self) -> bool:
        """Whether explicit padding is wholly covered, which CNTK wants."""
        return all(
            self.auto[axis]
            or not (self.lower[axis] or self.upper[axis])
            or self.begins(axis)[-1] + self.reach(axis) == size + self.upper[axis]
            for axis, size in enumerate(self.dims)
        )

    def attributes(self, **more: object) -> ConvolutionAttributes:
        return ConvolutionAttributes(
            (*self.kernel[:-1], self.kernel[-1] // self.groups),
            self.maps,
            self.stride,
            self.sharing,
            self.auto,
            self.lower,
            self.upper,
            dilation=self.dilation,
            groups=self.groups,
            **more,
        )

    def values(self, frames: int) -> tuple[np.ndarray, np.ndarray]:
        """Random weights, with one row for each kernel, and data."""
        rng = np.random.default_rng(frames)
        weights = rng.normal(size=(self.kernels, math.prod(self.kernel)))
        if self.groups > 1:
            weights = weights.reshape(self.kernels, self.groups, -1)[:, 0]
        return weights, rng.normal(size=(frames, *reversed(self.dims)))

    def whole(self, weights: np.ndarray) -> np.ndarray:
        """Weights for all channels: zeros for those of other groups, the channels being the slowest."""
        if self.groups == 1:
            return weights
        found = np.zeros((self.kernels, self.groups, weights.shape[1]))
        for number in range(self.kernels):
            found[number, number * self.groups // self.kernels] = weights[number]
        return found.reshape(self.kernels, -1)


def flat(coordinates: Sequence[int], dims: Sequence[int]) -> int:
    """Number of an element, the first axis fastest."""
    number = 0
    for coordinate, size in zip(reversed(coordinates), reversed(dims), strict=True):
        number = number * size + coordinate
    return number


def convolved(form: Form, weights: np.ndarray, sample: np.ndarray) -> np.ndarray:
    """One sample's result, memory order."""
    axes, weights = range(len(form.dims)), form.whole(weights)
    begins = [form.begins(axis) for axis in axes]
    data, result = sample.reshape(-1), np.zeros(math.prod(form.output))
    for number, place in enumerate(product(*(range(size) for size in reversed(form.output)))):
        kernel, factor, corner = 0, 1, []
        for axis in axes:
            which, window = divmod(place[-1 - axis], len(begins[axis]))
            corner.append(begins[axis][window])
            if not form.sharing[axis]:
                kernel, factor = kernel + factor * window, factor * len(begins[axis])
            kernel, factor = kernel + factor * which, factor * form.maps[axis]
        for inside in product(*(range(width) for width in form.kernel)):
            at = [begin + offset * apart for begin, offset, apart in zip(corner, inside, form.dilation, strict=True)]
            if all(0 <= index < size for index, size in zip(at, form.dims, strict=True)):
                result[number] += weights[kernel, flat(inside, form.kernel)] * data[flat(at, form.dims)]
    return result.reshape(tuple(reversed(form.output)))


@st.composite
def forms(draw: st.DrawFn, *, sharing: bool = True, dilated: bool = False) -> Form:
    dims = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    axes = range(len(dims))
    flags = st.tuples(*(st.booleans() for _ in axes))
    pads = st.tuples(*(st.integers(0, 2) for _ in axes))
    most = draw(st.sampled_from([1, 3]))
    form = Form(
        dims=tuple(dims),
        kernel=tuple(draw(st.integers(1, size)) for size in dims),
        stride=tuple(draw(st.integers(1, most)) for _ in axes),
        auto=draw(flags),
        lower=draw(pads),
        upper=draw(pads),
        maps=tuple(draw(st.integers(1, 3)) for _ in axes),
        sharing=(True,) * len(dims) if sharing else draw(flags),
        dilation=tuple(draw(st.integers(1, 3)) for _ in axes) if dilated else (1,) * len(dims),
    )
    if form.kernel[-1] == dims[-1]:  # channels that are taken whole are not dilated
        form = attrs.evolve(form, dilation=(*form.dilation[:-1], 1))
    assume(all(form.auto[axis] or form.begins(axis) for axis in axes))
    assume(form.fills and math.prod(form.output) * math.prod(form.kernel) <= 3000)
    return form


def run(weights: np.ndarray, data: np.ndarray, attributes: ConvolutionAttributes) -> np.ndarray:
    return run_forward(CONVOLUTION, np, [weights, data], attributes, OpContext(FRAMED, len(data)))


def gradients(weights: np.ndarray, data: np.ndarray, attributes: ConvolutionAttributes, incoming: np.ndarray):
    context = OpContext(FRAMED, len(data))
    return run_gradient(CONVOLUTION, np, incoming, incoming, [weights, data], attributes, context, [True, True])


def check(form: Form) -> None:
    """Compare values, and gradients by what they say of a change of each input: the result is linear in both."""
    weights, data = form.values(2)
    expected = np.array([convolved(form, weights, sample) for sample in data])
    np.testing.assert_allclose(run(weights, data, form.attributes()), expected, atol=1e-12)
    rng = np.random.default_rng(1)
    incoming = rng.normal(size=expected.shape)
    to_weights, to_data = gradients(weights, data, form.attributes(), incoming)
    change = rng.normal(size=data.shape)
    changed = np.array([convolved(form, weights, sample) for sample in change])
    np.testing.assert_allclose(np.sum(to_data * change), np.sum(incoming * changed), atol=1e-9)
    change = rng.normal(size=weights.shape)
    changed = np.array([convolved(form, change, sample) for sample in data])
    np.testing.assert_allclose(np.sum(to_weights * change), np.sum(incoming * changed), atol=1e-9)


@examples(30)
@given(forms(), st.booleans())
def test_shared_weights(form, runs):
    """Whether runs are copied as a whole, with windows that nobody wants, or not."""
    Correlation.of.cache_clear()
    with mock.patch("cntk_core.ops.families.correlation._WASTE", 100.0 if runs else 0.0):
        check(form)
    Correlation.of.cache_clear()


@examples(30)
@given(forms(sharing=False))
def test_weights_that_are_not_shared(form):
    check(form)


@examples(30)
@given(forms(dilated=True) | forms(sharing=False, dilated=True))
def test_dilation(form):
    check(form)


@examples(20)
@given(st.data())
def test_groups(data):
    """Each group is a convolution of its own; with one channel each it is depthwise."""
    groups, channels, maps = (data.draw(st.integers(1, 3)) for _ in range(3))
    width, height = (data.draw(st.integers(1, 4)) for _ in range(2))
    kernel = data.draw(st.integers(1, width)), data.draw(st.integers(1, height))
    stride, dilation = (data.draw(st.integers(1, 2)) for _ in range(2))
    form = Form(
        dims=(width, height, groups * channels),
        kernel=(*kernel, groups * channels),
        stride=(stride, stride, 1),
        auto=(data.draw(st.booleans()), True, False),
        lower=(0,) * 3,
        upper=(0,) * 3,
        maps=(1, 1, groups * maps),
        sharing=(True,) * 3,
        dilation=(dilation, dilation, 1),
        groups=groups,
    )
    assume(form.begins(0) and form.fills)
    check(form)


@examples(30)
@given(forms(dilated=True) | forms(sharing=False), st.booleans())
def test_transposed(form, given_shape):
    """A transposed convolution is the adjoint of the convolution of what it makes."""
    attributes = form.attributes(transpose=True, output_shape=form.dims if given_shape else (0,))
    weights, large = form.values(2)
    small = np.random.default_rng(2).normal(size=(2, *reversed(form.output)))
    try:
        raised = run(weights, small, attributes)
    except ShapeError:
        assert not given_shape  # the smallest output that gives such maps is smaller than the kernel
        return
    assume(raised.shape == large.shape)  # a larger input may have the same number of windows
    lowered = np.array([convolved(form, weights, sample) for sample in large])
    np.testing.assert_allclose(np.sum(raised * large), np.sum(small * lowered), atol=1e-9)
    to_weights, to_data = gradients(weights, small, attributes, large)
    np.testing.assert_allclose(to_data, lowered, atol=1e-12)
    np.testing.assert_allclose(np.sum(to_weights * weights), np.sum(raised * large), atol=1e-9)


@examples(30)
@given(forms(sharing=False), st.booleans())
def test_many_samples_are_done_in_parts(form, transposed):
    """Cutting the minibatch changes nothing."""
    weights, data = form.values(3)
    attributes = form.attributes(transpose=transposed, output_shape=form.dims if transposed else (0,))
    given_data = np.random.default_rng(3).normal(size=(3, *reversed(form.output))) if transposed else data
    whole = run(weights, given_data, attributes)
    found = gradients(weights, given_data, attributes, whole)
    with mock.patch("cntk_core.ops.families.correlation._ELEMENTS", 1):
        np.testing.assert_allclose(run(weights, given_data, attributes), whole, atol=1e-12)
        for one, other in zip(gradients(weights, given_data, attributes, whole), found, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-10)


LARGE = (
    Form((9, 8, 3), (3, 3, 3), (1, 1, 3), (True, True, False), (0, 0, 0), (0, 0, 0), (1, 1, 4), (True,) * 3),
    Form(
        (7, 6, 5, 2), (3, 2, 3, 2), (1, 1, 1, 2), (True,) * 3 + (False,), (0,) * 4, (0,) * 4, (1, 1, 1, 3), (True,) * 4
    ),
    Form((8, 8, 6), (3, 3, 2), (2, 2, 2), (True, True, False), (0,) * 3, (0,) * 3, (1, 1, 2), (True, True, False)),
    Form((6, 5, 2), (6, 5, 2), (1, 1, 1), (False,) * 3, (0,) * 3, (0,) * 3, (1, 1, 7), (True,) * 3),
    Form((11, 4), (5, 4), (1, 4), (False, False), (2, 0), (2, 0), (1, 3), (True, True)),
)


@pytest.mark.parametrize("form", LARGE, ids=["plane", "volume", "groups", "whole", "line"])
def test_usual_forms(form):
    check(form)


GROUPED = Form(
    (5, 4, 6), (3, 2, 6), (2, 1, 1), (True, True, False), (0,) * 3, (0,) * 3, (1, 1, 4), (True,) * 3, (1, 2, 1), 2
)


def test_transposed_groups():
    """The adjoint, with the channels of the result divided."""
    weights, large = GROUPED.values(2)
    small = np.random.default_rng(2).normal(size=(2, *reversed(GROUPED.output)))
    attributes = GROUPED.attributes(transpose=True, output_shape=GROUPED.dims)
    raised = run(weights, small, attributes)
    lowered = np.array([convolved(GROUPED, weights, sample) for sample in large])
    np.testing.assert_allclose(np.sum(raised * large), np.sum(small * lowered), atol=1e-9)
    to_weights, to_data = gradients(weights, small, attributes, large)
    np.testing.assert_allclose(to_data, lowered, atol=1e-12)
    np.testing.assert_allclose(np.sum(to_weights * weights), np.sum(raised * large), atol=1e-9)


def test_weights_of_groups_are_completed():
    attributes = ConvolutionAttributes((3, 3), (4,), groups=2)
    assert CONVOLUTION.complete([(4, 0, 3, 3), (6, 5, 5)], attributes)[0] == (4, 3, 3, 3)
    assert CONVOLUTION.infer([(4, 3, 3, 3), (6, 5, 5)], attributes) == (4, 5, 5)
    inferred = ConvolutionAttributes((3, 3, 3), auto_padding=(True, True, False), groups=2)
    assert CONVOLUTION.infer([(4, 3, 3, 3), (6, 5, 5)], inferred) == (4, 5, 5)
    assert CONVOLUTION.complete([(0, 4), (6, 5, 5)], attributes)[0] == (27, 4)


@pytest.mark.parametrize(
    ("attributes", "shapes", "message"),
    [
        (
            ConvolutionAttributes((3, 3), (4,), groups=4),
            ((4, 1, 3, 3), (6, 5, 5)),
            "6 channels and 4 output maps cannot be divided into 4 groups",
        ),
        (
            ConvolutionAttributes((3, 3), (3,), groups=2),
            ((3, 3, 3, 3), (6, 5, 5)),
            "6 channels and 3 output maps cannot be divided into 2 groups",
        ),
        (
            ConvolutionAttributes((3, 3), (4,), sharing=(False,), groups=2),
            ((4, 3, 3, 3), (6, 5, 5)),
            "a convolution in groups takes the channels whole, with shared weights and maps for the channels only",
        ),
        (
            ConvolutionAttributes((3, 3), (4,), image_layout="HWC", groups=2),
            ((4, 3, 3, 3), (5, 5, 6)),
            "the image layout HWC has shared weights without groups, and output maps for the channels only",
        ),
        (
            ConvolutionAttributes((3, 3), (4,), auto_padding=(False,), dilation=3),
            ((4, 6, 3, 3), (6, 5, 5)),
            "the kernel reaches over 7 elements along axis 1, but the input only 5; the kernel reaches over 7 elements "
            "along axis 2, but the input only 5",
        ),
        (
            ConvolutionAttributes((3, 3), (4,), dilation=0),
            ((4, 6, 3, 3), (6, 5, 5)),
            "dilation is 0 along axis 1, less than 1; dilation is 0 along axis 2, less than 1",
        ),
    ],
)
def test_what_does_not_fit(attributes, shapes, message):
    with pytest.raises(ShapeError) as raised:
        CONVOLUTION.infer(list(shapes), attributes)
    assert raised.value.message == message


def test_maps_may_be_counted_for_every_axis():
    attributes = ConvolutionAttributes((2,), (2, 3), auto_padding=(False,))
    assert CONVOLUTION.infer([(6, 1, 10), (5, 3)], attributes) == (3, 4)


def test_weights_with_their_own_places_are_completed():
    attributes = ConvolutionAttributes((3,), (2,), sharing=(False,), auto_padding=(False,))
    assert CONVOLUTION.complete([(0, 3), (7,)], attributes)[0] == (10, 3)
    assert CONVOLUTION.infer([(10, 3), (7,)], attributes) == (10,)
    inferred = ConvolutionAttributes((3,), (0,), sharing=(False,), auto_padding=(False,))
    assert CONVOLUTION.infer([(10, 3), (7,)], inferred) == (10,)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_images_with_the_channels_first(padded, transposed):
    """Layout HWC with a kernel of three dimensions gives what NDL's form gives; its transposed form is the adjoint."""
    rng = np.random.default_rng(4)
    image, weights = rng.normal(size=(2, 5, 6, 2)), rng.normal(size=(3 * 2 * 2, 4))
    plain = ConvolutionAttributes.image(3, 2, 4, 2, 1, zero_padding=padded)
    padding = (padded, padded, False)
    attributes = ConvolutionAttributes((3, 2), (4,), (2, 1), auto_padding=padding[:2], image_layout="HWC")
    expected = run(weights, image, plain)
    if not transposed:
        np.testing.assert_array_equal(run(weights, image, attributes), expected)
        return
    attributes = attrs.evolve(
        attributes,
        kernel_shape=(3, 2, 2),
        stride=(2, 1, 2),
        auto_padding=padding,
        transpose=True,
        output_shape=(2, 6, 5),
    )
    small = rng.normal(size=expected.shape)
    raised = run(weights, small, attributes)
    assert raised.shape == image.shape
    np.testing.assert_allclose(np.sum(raised * image), np.sum(small * expected), atol=1e-10)
    check_op_gradients(CONVOLUTION, [weights, small], FRAMED, attributes)


@pytest.mark.parametrize(
    ("padding", "before"),
    [((True, False), (1, 0)), ((False, True), (0, 1)), ((True, True), (1, 1)), ((False, False), (0, 0))],
)
def test_padded_windows_of_the_old_layout_are_centred_on_the_first_element(padding, before):
    attributes = ConvolutionAttributes((3, 2), (4,), (2, 2), auto_padding=padding, image_layout="HWC")
    for image in ((6, 5, 2), (2, 3, 2)):
        assert convolution_setup((12, 4), image, attributes).geometry.lower[:2] == before


def test_the_old_layout_has_shared_weights_only():
    attributes = ConvolutionAttributes((2, 2), (3,), sharing=(False,), image_layout="HWC")
    with pytest.raises(ShapeError) as error:
        CONVOLUTION.infer([(8, 3), (4, 4, 2)], attributes)
    assert str(error.value) == (
        "the image layout HWC has shared weights without groups, and output maps for the channels only\n"
        "    Use the layout CHW (imageLayout='CHW', NDL: cudnn)."
    )


def test_an_empty_minibatch():
    form = LARGE[0]
    weights, data = form.values(2)
    found = run(weights, data[:0], form.attributes())
    assert found.shape == (0, *reversed(form.output))
    to_weights, to_data = gradients(weights, data[:0], form.attributes(), found)
    assert not to_weights.any()
    assert to_data.shape == (0, *data.shape[1:])
