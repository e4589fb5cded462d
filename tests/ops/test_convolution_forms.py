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
from cntk_core.ops.families.convolution import CONVOLUTION, ConvolutionAttributes
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

    def begins(self, axis: int) -> list[int]:
        """Where each window begins along an axis; before 0 it stands in the padding."""
        size, width, step = self.dims[axis], self.kernel[axis], self.stride[axis]
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
            or self.begins(axis)[-1] + self.kernel[axis] == size + self.upper[axis]
            for axis, size in enumerate(self.dims)
        )

    def attributes(self, **more: object) -> ConvolutionAttributes:
        return ConvolutionAttributes(
            self.kernel, self.maps, self.stride, self.sharing, self.auto, self.lower, self.upper, **more
        )

    def values(self, frames: int) -> tuple[np.ndarray, np.ndarray]:
        """Random weights, with one row for each kernel, and data."""
        rng = np.random.default_rng(frames)
        weights = rng.normal(size=(self.kernels, math.prod(self.kernel)))
        return weights, rng.normal(size=(frames, *reversed(self.dims)))


def flat(coordinates: Sequence[int], dims: Sequence[int]) -> int:
    """Number of an element, the first axis fastest."""
    number = 0
    for coordinate, size in zip(reversed(coordinates), reversed(dims), strict=True):
        number = number * size + coordinate
    return number


def convolved(form: Form, weights: np.ndarray, sample: np.ndarray) -> np.ndarray:
    """One sample's result, memory order."""
    axes = range(len(form.dims))
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
            at = [begin + offset for begin, offset in zip(corner, inside, strict=True)]
            if all(0 <= index < size for index, size in zip(at, form.dims, strict=True)):
                result[number] += weights[kernel, flat(inside, form.kernel)] * data[flat(at, form.dims)]
    return result.reshape(tuple(reversed(form.output)))


@st.composite
def forms(draw: st.DrawFn, *, sharing: bool = True) -> Form:
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
    )
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
@given(forms() | forms(sharing=False), st.booleans())
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


def test_the_old_layout_has_shared_weights_only():
    attributes = ConvolutionAttributes((2, 2), (3,), sharing=(False,), image_layout="HWC")
    with pytest.raises(ShapeError) as error:
        CONVOLUTION.infer([(8, 3), (4, 4, 2)], attributes)
    assert str(error.value) == (
        "the image layout HWC has shared weights, and output maps for the channels only\n"
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
