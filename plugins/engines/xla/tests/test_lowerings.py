"""Forms of single ops and of loops that the examples of the ops do not reach, compared with the reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from cntk_engine_xla import XlaEngine

from cntk_core.api import DataError, Minibatch, Node, SequenceLayout, StreamData
from cntk_core.api.engines import frame_layout, sequence_layout
from cntk_core.api.readers import slot_layout
from cntk_testing.engine_contract import MOMENTUM, Run, start
from cntk_testing.inside import (
    BatchNormalizationAttributes,
    ConvolutionAttributes,
    PoolingAttributes,
    ROIPoolingAttributes,
)
from cntk_testing.networks import Sample, Sketch
from cntk_testing.reference import ReferenceEngine
from cntk_testing.sequence_networks import (
    FEATURES,
    HIDDEN,
    SequenceSketch,
    linear_chain,
    sequences_for,
    word_classes,
)
from cntk_testing.sequence_networks import ctc as ctc_network

LENGTHS = ([5, 4, 0, 1], [3, 6], [2, 2, 4, 1, 1])


def _runs(made: Callable[[Any], Sample]) -> tuple[Run, Run]:
    """A network on this engine, all of it compiled, and on the reference."""
    from cntk_engine_xla.units import units_of

    ours = start(XlaEngine(XlaEngine.options(xla_cache="none")), made("float64"))
    assert not any(unit.hosted for unit in units_of(ours.plan, gradients=True))
    return ours, start(ReferenceEngine(), made("float64"))


def _compare(ours: Run, reference: Run, minibatches: Sequence[Minibatch]) -> None:
    for data in minibatches:
        for run in (ours, reference):
            run.program.compute_gradients(data)
        for node, other in zip(ours.plan.roots, reference.plan.roots, strict=True):
            np.testing.assert_allclose(
                ours.program.value(node.name), reference.program.value(other.name), atol=1e-9, err_msg=node.name
            )
        for one, two in zip(ours.plan.trained, reference.plan.trained, strict=True):
            np.testing.assert_allclose(
                ours.store.gradient(one), reference.store.gradient(two), atol=1e-9, err_msg=one.name
            )


# -- loops ----------------------------------------------------------------------------------------------------


def _dropping(dtype: Any) -> Sample:
    """Recurrent layers in both directions of time that drop elements of their state, and of their input."""
    made = SequenceSketch(dtype)
    lower = made.x
    for ahead in (False, True):
        past, close = made.delay(ahead=ahead)
        dim = HIDDEN if ahead else FEATURES
        sums = made.weighted((made.op("Dropout", lower), dim), (made.op("Dropout", past), HIDDEN))
        lower = close(made.op("Dropout", made.op("Tanh", sums)))
    sample = made.classify(lower)
    sample.settings["dropoutRate"] = 0.4
    return sample


def test_dropout_in_loops() -> None:
    """A loop draws its numbers step by step in its own order, as the reference does."""
    ours, reference = _runs(_dropping)
    _compare(ours, reference, [sequences_for(ours.sample, each, seed) for seed, each in enumerate(LENGTHS)])


def _normalizing(dtype: Any) -> Sample:
    """Layers in both directions that normalize with the statistics of each time step, and count the frames."""
    made = SequenceSketch(dtype)
    lower = made.x
    attributes = BatchNormalizationAttributes(normalization_time_constant=20.0, blend_time_constant=5.0)
    for ahead in (False, True):
        past, close = made.delay(ahead=ahead)
        learned = [made.given(f"{name}{ahead}", np.linspace(0.5, 1.5, HIDDEN)) for name in ("scale", "bias")]
        first = {"mean": np.zeros(HIDDEN), "variance": np.ones(HIDDEN), "count": np.zeros(1)}
        running = [made.given(f"{name}{ahead}", value, multiplier=0.0) for name, value in first.items()]
        sums = made.weighted((lower, HIDDEN if ahead else FEATURES), (past, HIDDEN))
        normal = made.op("BatchNormalization", sums, *learned, *running, attributes=attributes)
        lower = close(made.op("Tanh", normal))
    return made.classify(lower)


@pytest.mark.slow
def test_batch_normalization_in_loops() -> None:
    """Running statistics go from time step to time step, and each has its own on the way back."""
    ours, reference = _runs(_normalizing)
    data = [sequences_for(ours.sample, each, seed) for seed, each in enumerate((*LENGTHS, []))]
    _compare(ours, reference, data)
    for one, other in zip(ours.values(), reference.values(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)
    for run in (ours, reference):
        run.program.evaluate(data[0])
    np.testing.assert_allclose(ours.program.value("ce"), reference.program.value("ce"), rtol=1e-9)


def _normalized(dtype: Any) -> Sample:
    made = Sketch(dtype)
    learned = [made.given(name, np.linspace(0.5, 1.5, 3)) for name in ("scale", "bias")]
    running = [made.given(name, np.ones(3), multiplier=0.0) for name in ("mean", "variance")]
    return _summed(made, made.op("BatchNormalization", made.input("x", 3), *learned, *running))


def test_a_minibatch_without_frames_keeps_the_statistics() -> None:
    ours, reference = _runs(_normalized)
    _compare(ours, reference, [ours.sample.minibatch(frames) for frames in (4, 0)])
    for one, other in zip(ours.values(), reference.values(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)


def _counted(dtype: Any) -> Sample:
    """A classifier whose edits are counted, which the host does."""
    made = SequenceSketch(dtype)
    sample = made.classify(made.elman(made.x, FEATURES))
    (z,) = sample.roots
    sample.roots.append(made.op("EditDistanceError", z, made.network["labels"], name="edits"))
    made.network.infer()
    return sample


def test_an_evaluation_by_the_host_sees_what_was_before_the_update() -> None:
    runs = [start(engine, _counted("float64"), rule=MOMENTUM) for engine in (XlaEngine(), ReferenceEngine())]
    for seed, each in enumerate(LENGTHS):
        for run in runs:
            run.program.train_step(sequences_for(run.sample, each, seed), run.scalars(MOMENTUM, seed))
    ours, reference = (run.program.read_totals() for run in runs)
    assert ours["edits"] == pytest.approx(reference["edits"])
    assert ours["edits"] > 1.0


# -- criteria over sequences --------------------------------------------------------------------------------


def _cut(sample: Sample, layout: SequenceLayout, seed: int) -> Minibatch:
    """Sequences of a layout with several to a slot: the numbers of sequences that follow each other."""
    whole = sequences_for(sample, [layout.frames], seed)
    return Minibatch({name: StreamData(each.data, layout) for name, each in whole.streams.items()}, layout.frames)


@pytest.mark.parametrize("made", [ctc_network, linear_chain])
@pytest.mark.slow
def test_several_sequences_to_a_slot(made: Callable[[Any], Sample]) -> None:
    ours, reference = _runs(made)
    layouts = [slot_layout([[4, 3], [5], [2, 2, 3]]), sequence_layout([2, 1]), slot_layout([[1, 1], [6]])]
    _compare(ours, reference, [_cut(ours.sample, layout, seed) for seed, layout in enumerate(layouts)])


def test_places_of_alignments_have_few_sizes() -> None:
    from cntk_engine_xla.alignments import places_bucket

    assert [places_bucket(count) for count in (1, 128, 129, 512, 513)] == [128, 128, 512, 512, 2048]


def test_words_of_classes_have_few_sizes() -> None:
    from cntk_engine_xla.vocabulary import words_bucket

    assert [words_bucket(count) for count in (1, 64, 65, 257)] == [64, 64, 128, 512]


def _many_words(dtype: Any, *, computed: bool = False) -> Sample:
    """Classes of 3 words, of 150, and of 90, the last ones of the vocabulary."""
    made = Sketch(dtype)
    h = made.op("Tanh", made.op("Times", made.parameter("U", 4, 5), made.input("x", 4)))
    scores = made.op("Times", made.parameter("K", 5, 3), h)
    words = made.input("words", 4)
    if computed:
        words = made.op("Plus", words, made.op("Minus", words, words))
    weights = made.parameter("V", 243, 5)
    return made.finish(made.op("ClassBasedCrossEntropyWithSoftmax", words, h, weights, scores, name="ce"))


def test_words_that_are_not_known_beforehand_are_looked_at_by_the_host() -> None:
    from cntk_engine_xla.units import units_of

    ours = start(XlaEngine(XlaEngine.options(xla_cache="none")), _many_words("float64", computed=True))
    assert [unit.hosted for unit in units_of(ours.plan, gradients=True)].count(True) == 2


def test_classes_of_many_words() -> None:
    """More words than are computed together, and more frames of a class."""
    ours, reference = _runs(_many_words)
    bounds = np.array([0, 3, 153, 243])
    for seed in range(2):
        data = ours.sample.minibatch(40, seed)
        words = np.random.default_rng(seed).integers(0, 243, size=40)
        words[:25] = words[:25] % 150 + 3
        words[-2:] = 242, 0
        number = np.searchsorted(bounds, words, side="right") - 1
        labels = np.stack([words, number, bounds[number], bounds[number + 1]], axis=1).astype(np.float64)
        streams = {"x": data.streams["x"], "words": StreamData(labels, frame_layout(40))}
        _compare(ours, reference, [Minibatch(streams, 40)])


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ((4, 0, 0, 2), "the word 4 is not in its class, which has the words 0 to 1"),
        ((0, 0, 0, 7), "there is no word 6: the network has 6, which are 0 to 5"),
        ((0, 2, 0, 2), "there is no word class 2: the network has 2, which are 0 to 1"),
        ((0, -1, 0, 2), "there is no word class -1: the network has 2, which are 0 to 1"),
    ],
)
def test_words_and_classes_that_are_not_there(label: tuple[int, ...], message: str) -> None:
    for run in _runs(word_classes):
        data = sequences_for(run.sample, [3])
        labels = data.streams["word_and_class"].data
        assert isinstance(labels, np.ndarray)
        labels[1] = label
        with pytest.raises(DataError, match=message):
            run.program.compute_gradients(data)


# -- images ---------------------------------------------------------------------------------------------------


def _summed(made: Sketch, *values: Node) -> Sample:
    """Finish with the sum of values, their elements weighted."""
    made.network.infer()
    total = made.given("none", np.zeros(1), multiplier=0.0)
    for number, value in enumerate(values):
        shape = value.known_shape
        weights = np.cos(np.arange(np.prod(shape))).reshape(shape) + 1.5
        weighted = made.op("ElementTimes", value, made.given(f"weights{number}", weights, multiplier=0.0))
        total = made.op("Plus", total, made.op("SumElements", weighted), name=f"total{number}")
    return made.finish(total, *values)


UNSHARED = (
    ((7,), (4, 2, 3), ConvolutionAttributes((3,), (2,), (2,), sharing=(False,))),
    (
        (2, 4, 5),
        (4, 5, 3, 18),
        ConvolutionAttributes((3, 3, 2), (3,), (1, 1, 2), (False, False, True), (True, True, False)),
    ),
    ((4, 5), (2, 2, 6), ConvolutionAttributes((2, 3), (1, 2), (2, 1), (False, True), (False,))),
)
"""Convolutions whose weights differ along one axis, along two of three, and along one of two."""


def _convolved(dtype: Any) -> Sample:
    made = Sketch(dtype)
    found = []
    for number, (shape, weights, attributes) in enumerate(UNSHARED):
        x = made.op("Plus", made.input(f"x{number}", *shape), made.parameter(f"shift{number}", *shape))
        found.append(made.op("Convolution", made.parameter(f"W{number}", *weights), x, attributes=attributes))
    return _summed(made, *found)


def test_weights_that_are_not_shared() -> None:
    ours, reference = _runs(_convolved)
    _compare(ours, reference, [ours.sample.minibatch(frames, frames) for frames in (10, 9)])


DERIVED = (
    UNSHARED[0],
    ((4, 5, 4), (6, 2, 3, 2), ConvolutionAttributes((2, 3), (6,), groups=2, dilation=2)),
    ((4, 5, 2), (18, 3), ConvolutionAttributes.image(3, 3, 3, 2, 1, zero_padding=True)),
    ((3, 5), (3, 2, 3), ConvolutionAttributes((3, 2), (3,), (2, 1), (True,), (False,), transpose=True)),
)
"""Convolutions with weights of their own for each place, with groups and holes, in columns, and transposed."""


def _derived(dtype: Any) -> Sample:
    """The gradients of convolutions by their weights as values, which depend on all frames and no padding."""
    made = Sketch(dtype)
    found = []
    for number, (shape, dims, attributes) in enumerate(DERIVED):
        weights = made.parameter(f"W{number}", *dims)
        x = made.op("Plus", made.input(f"x{number}", *shape), made.parameter(f"shift{number}", *shape))
        above = made.op("Tanh", made.op("Convolution", weights, x, attributes=attributes))
        found.append(made.op("ConvolutionWeights", weights, x, above, attributes=attributes))
    return _summed(made, *found)


def test_derivatives_of_convolutions_do_not_see_padding() -> None:
    ours, reference = _runs(_derived)
    _compare(ours, reference, [ours.sample.minibatch(frames, frames) for frames in (10, 9)])


def _unpooled(dtype: Any, width: int) -> Sample:
    """Of windows that share elements, the last one that has its largest element at a place writes there."""
    made = Sketch(dtype)
    image = made.input("x", 2, 5, 5)
    attributes = PoolingAttributes((width, width), stride=(2,), auto_padding=(False,))
    pooled = made.op("Pooling", image, attributes=attributes)
    learned = made.op("ElementTimes", pooled, made.parameter("factor", 2, 2, 2))
    return _summed(made, made.op("MaxUnpooling", learned, image, attributes=attributes))


def _regions(dtype: Any) -> Sample:
    """Regions of interest on one learned image; some lie partly outside, one has bins without elements."""
    made = Sketch(dtype)
    attributes = ROIPoolingAttributes((3, 2), 0.5)
    image = made.parameter("image", 2, 5, 6)
    return _summed(made, made.op("ROIPooling", image, made.input("boxes", 2, 4), attributes=attributes))


def _boxes(frames: int, seed: int) -> Minibatch:
    corners = np.random.default_rng(seed).integers(-2, 12, size=(frames, 2, 2, 2))
    boxes = np.sort(corners, axis=2).reshape(frames, 2, 4).astype(np.float64)
    return Minibatch({"boxes": StreamData(boxes, frame_layout(frames))}, frames)


@pytest.mark.parametrize("width", [2, 3])
def test_unpooling(width: int) -> None:
    """With windows that share elements, and with others."""
    ours, reference = _runs(lambda dtype: _unpooled(dtype, width))
    _compare(ours, reference, [ours.sample.minibatch(frames, frames) for frames in (10, 9)])


def test_regions_of_one_image() -> None:
    ours, reference = _runs(_regions)
    _compare(ours, reference, [_boxes(frames, frames) for frames in (10, 9)])
