"""Batch normalization against plain loops, its running statistics, and which of its numbers count."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cntk_core.errors import NetworkError, ShapeError
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node, Parameter
from cntk_core.ops.families.normalization import (
    BATCH_NORMALIZATION,
    BatchNormalizationAttributes,
    blend_share,
    update_share,
)
from cntk_core.ops.language.framing import run_forward, run_gradient
from cntk_core.ops.language.op import OpContext
from cntk_core.ops.table import core_ops
from cntk_kit_recipes.session.remarks import remarks
from cntk_testing.gradients import check_op_gradients, make_context

PLUS = core_ops().find("model", "Plus")
FRAMED = (True,) + (False,) * 5


def context(framed: tuple[bool, ...], frames: int, *, training: bool = False) -> OpContext:
    return OpContext(framed, frames, training=training)


def statistics(size: int, count: float) -> list[np.ndarray]:
    return [np.ones(size), np.zeros(size), np.full(size, 2.0), np.full(size, 3.0), np.array([count])]


def test_a_first_minibatch_sets_the_running_statistics():
    data = np.random.default_rng(3).normal(size=(8, 2)) * [1.0, 3.0] + 5.0
    inputs = [data, *statistics(2, 0.0)]
    run = context((True,) + (False,) * 5, 8, training=True)
    found = run_forward(BATCH_NORMALIZATION, np, inputs, BatchNormalizationAttributes(False, 100.0, 50.0), run)
    np.testing.assert_allclose(found.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(found.var(axis=0), 1.0, atol=1e-4)
    np.testing.assert_allclose(inputs[3], data.mean(axis=0))
    np.testing.assert_allclose(inputs[4], data.var(axis=0, ddof=1))
    assert inputs[5] == 8


def test_later_minibatches_enter_with_their_share():
    data = np.zeros((4, 2))
    inputs = [data, *statistics(2, 10.0)]
    run = context((True,) + (False,) * 5, 4, training=True)
    run_forward(BATCH_NORMALIZATION, np, inputs, BatchNormalizationAttributes(False, 100.0), run)
    share = 1.0 - math.exp(-4 / 100)
    np.testing.assert_allclose(inputs[3], 2.0 * (1.0 - share))
    assert inputs[5] == 14


def test_evaluation_uses_and_keeps_the_running_statistics():
    inputs = [np.full((3, 2, 2), 5.0), *statistics(2, 10.0)]
    kept = [value.copy() for value in inputs]
    attributes = BatchNormalizationAttributes(spatial=True, epsilon=0.0)
    found = run_forward(BATCH_NORMALIZATION, np, inputs, attributes, context((True,) + (False,) * 5, 3))
    np.testing.assert_allclose(found, 3.0 / math.sqrt(3.0))
    for before, after in zip(kept, inputs, strict=True):
        np.testing.assert_array_equal(before, after)


def test_evaluation_before_any_training_warns():
    inputs = [np.ones((3, 2)), *statistics(2, 0.0)]
    inputs[4][:] = 0.0
    attributes = BatchNormalizationAttributes(epsilon=0.25)
    told = r"^batch normalization has no statistics yet, its sample count is 0: train the network first$"
    with pytest.warns(UserWarning, match=told):
        value = run_forward(BATCH_NORMALIZATION, np, inputs, attributes, context((True,) + (False,) * 5, 3))
    scale, bias, mean = inputs[1:4]
    np.testing.assert_allclose(value, np.tile((1.0 - mean) / 0.5 * scale + bias, (3, 1)))


@pytest.mark.parametrize(
    ("constant", "count", "share"),
    [(-1.0, 10.0, 8 / 18), (5.0, 0.0, 1.0), (math.inf, 10.0, 0.0), (0.0, 10.0, 1.0), (4.0, 1.0, 1 - math.exp(-2.0))],
)
def test_shares_of_updates(constant, count, share):
    attributes = BatchNormalizationAttributes(normalization_time_constant=constant)
    assert update_share(attributes, 8, count) == pytest.approx(share)


@pytest.mark.parametrize(
    ("constant", "count", "share"), [(5.0, 0.0, 0.0), (math.inf, 10.0, 1.0), (0.0, 10.0, 0.0), (8.0, 1.0, 0.5)]
)
def test_shares_of_blending(constant, count, share):
    assert blend_share(BatchNormalizationAttributes(blend_time_constant=constant), 8, count) == pytest.approx(share)


def test_statistics_that_somebody_gave_need_no_count():
    inputs = [np.full((3, 2), 5.0), *statistics(2, 0.0)]
    attributes = BatchNormalizationAttributes(epsilon=0.0)
    np.testing.assert_allclose(
        run_forward(BATCH_NORMALIZATION, np, inputs, attributes, context(FRAMED, 3)), math.sqrt(3)
    )


def test_a_single_value_has_no_variance():
    inputs = [np.full((1, 2), 5.0), *statistics(2, 0.0)]
    found = run_forward(
        BATCH_NORMALIZATION, np, inputs, BatchNormalizationAttributes(), context(FRAMED, 1, training=True)
    )
    np.testing.assert_array_equal(found, 0.0)
    np.testing.assert_array_equal(inputs[4], 0.0)


@pytest.mark.parametrize(
    ("shapes", "attributes", "text"),
    [
        (
            ((4,), (3,), (4,), (4,), (5,), (2,)),
            BatchNormalizationAttributes(),
            "the scale [3] has 3 elements, not 4; the variance [5] has 5 elements, not 4; "
            "the sample count must be a single number, not [2]",
        ),
        (
            ((4,),) * 5,
            BatchNormalizationAttributes(blend_time_constant=-1.0),
            "blendTimeConstant must not be negative, as -1 is",
        ),
        (
            ((3, 2, 2), (3,), (3,), (3,), (3,)),
            BatchNormalizationAttributes(True, image_layout="HWC"),
            "spatial batch normalization takes images in the layout CHW only",
        ),
        (((),) * 5, BatchNormalizationAttributes(), "a single number has no elements to normalize"),
    ],
    ids=["sizes", "blend", "layout", "number"],
)
def test_what_does_not_fit(shapes, attributes, text):
    with pytest.raises(ShapeError) as error:
        BATCH_NORMALIZATION.infer(shapes, attributes)
    assert str(error.value) == text


def test_statistics_are_kept_in_parameters():
    network = Network(np.float64)
    network.add(Input.make("x", (3,)))
    normalization(network, "n", (3,), BatchNormalizationAttributes())
    computed = network.add(Node("twice", PLUS, [network["n.2"], network["n.2"]]))
    network["n"].inputs[3] = computed
    with pytest.raises(NetworkError) as error:
        network.infer()
    assert str(error.value) == (
        "input 4 of BatchNormalization 'n' is Plus 'twice', which cannot keep what is counted\n"
        "    Give a parameter with learningRateMultiplier=0."
    )


# -- against plain loops ------------------------------------------------------------------------------------

TIMES = st.sampled_from([-1.0, 0.0, 3.0, 50.0, math.inf])


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.integers(1, 4),
    st.booleans(),
    TIMES,
    st.sampled_from([0.0, 3.0, math.inf]),
    st.sampled_from([0.0, 7.0]),
)
def test_training_against_plain_loops(shape, frames, spatial, time, blend, count):
    rng = np.random.default_rng(5)
    data = rng.normal(size=(frames, *shape))
    size = shape[0] if spatial else math.prod(shape)
    scale, bias, mean = (rng.normal(size=size) for _ in range(3))
    variance = rng.uniform(0.5, 2.0, size=size)
    attributes = BatchNormalizationAttributes(spatial, time, blend, 1e-3)
    given_inputs = [data, scale, bias, mean.copy(), variance.copy(), np.array([count])]
    found = run_forward(BATCH_NORMALIZATION, np, given_inputs, attributes, context(FRAMED, frames, training=True))

    share = _share(time, frames, count)
    weight = 0.0 if count == 0 else 1.0 if math.isinf(blend) else blend / (blend + frames)
    parts = data.reshape(frames, size, -1)
    for index in range(size):
        values = [float(value) for frame in parts for value in frame[index]]
        own_mean = sum(values) / len(values)
        squares = sum((value - own_mean) ** 2 for value in values)
        unbiased = squares / (len(values) - 1) if len(values) > 1 else 0.0
        used = weight * mean[index] + (1 - weight) * own_mean
        factor = weight / math.sqrt(variance[index] + 1e-3) + (1 - weight) / math.sqrt(squares / len(values) + 1e-3)
        expected = [scale[index] * (value - used) * factor + bias[index] for value in values]
        np.testing.assert_allclose(found.reshape(frames, size, -1)[:, index].ravel(), expected, atol=1e-10)
        assert given_inputs[3][index] == pytest.approx(share * own_mean + (1 - share) * mean[index])
        assert given_inputs[4][index] == pytest.approx(share * unbiased + (1 - share) * variance[index])
    assert given_inputs[5][0] == count + (frames if share != 0 or weight != 1 else 0)


def _share(time: float, frames: int, count: float) -> float:
    if time < 0:
        return frames / (frames + count)
    if count == 0 or time == 0:
        return 1.0
    return 0.0 if math.isinf(time) else 1.0 - math.exp(-frames / time)


# -- parameters whose first dimension is not that of the statistics -------------------------------------------


def as_image_parameters(size: int) -> list[np.ndarray]:
    """Scale, bias, mean, variance of CNTK's shape [1 x 1 x size], and the count."""
    rng = np.random.default_rng(6)
    values = [rng.uniform(0.5, 2.0, size=(size, 1, 1)) for _ in range(4)]
    return [*values, np.array([10.0])]


@pytest.mark.parametrize("training", [False, True])
def test_only_the_first_column_counts(training):
    """[1 x 1 x 3] is a matrix with one row: the original reads its first number for all channels."""
    data = np.random.default_rng(7).normal(size=(4, 3, 2, 2))
    inputs = [data, *as_image_parameters(3)]
    kept = [value.copy() for value in inputs]
    attributes = BatchNormalizationAttributes(spatial=True, normalization_time_constant=5.0)
    found = run_forward(BATCH_NORMALIZATION, np, inputs, attributes, context(FRAMED, 4, training=training))
    scale, bias, mean, variance = (float(value[0, 0, 0]) for value in kept[1:5])
    if training:
        mean, variance = data.mean(), data.var()
    np.testing.assert_allclose(found, scale * (data - mean) / np.sqrt(variance + 1e-5) + bias)
    for before, after in zip(kept[3:5], inputs[3:5], strict=True):
        np.testing.assert_array_equal(before[1:], after[1:])
        assert training == (before[0] != after[0]).item()


def test_gradients_where_only_the_first_column_counts():
    data = np.random.default_rng(8).normal(size=(4, 3, 2, 2))
    inputs = [data, *as_image_parameters(3)]
    attributes = BatchNormalizationAttributes(True, math.inf, 4.0)
    check_op_gradients(
        BATCH_NORMALIZATION, inputs, FRAMED, attributes, context=lambda: make_context(inputs, FRAMED, training=True)
    )
    run = context(FRAMED, 4, training=True)
    output = run_forward(BATCH_NORMALIZATION, np, inputs, attributes, run)
    needs = [True, True, True, False, False, False]
    found = run_gradient(BATCH_NORMALIZATION, np, np.ones_like(output), output, inputs, attributes, run, needs)
    assert found[2].ravel().tolist() == [48.0, 0.0, 0.0]


def test_the_other_engine_reads_every_channel():
    data = np.random.default_rng(9).normal(size=(2, 3, 2, 2))
    inputs = [data, *as_image_parameters(3)]
    attributes = BatchNormalizationAttributes(spatial=True, use_cntk_engine=False)
    flat = [data, *(value.reshape(-1) for value in inputs[1:])]
    np.testing.assert_array_equal(
        run_forward(BATCH_NORMALIZATION, np, inputs, attributes, context(FRAMED, 2)),
        run_forward(BATCH_NORMALIZATION, np, flat, BatchNormalizationAttributes(True), context(FRAMED, 2)),
    )


def normalization(
    network: Network, name: str, shape: tuple[int, ...], attributes: BatchNormalizationAttributes
) -> None:
    parameters = [Parameter.make(f"{name}.{index}", shape) for index in range(4)]
    count = Parameter.make(f"{name}.count", (1,))
    inputs = [network["x"], *parameters, count]
    for node in (*inputs[1:], Node(name, BATCH_NORMALIZATION, inputs, attributes)):
        network.add(node)


def test_a_remark_names_the_remedy_once():
    network = Network(np.float64)
    network.add(Input.make("x", (3, 2, 2)))
    spatial = BatchNormalizationAttributes(spatial=True)
    normalization(network, "plain", (3,), spatial)
    normalization(network, "column", (1, 3), spatial)
    normalization(network, "inferred", (1, 0), spatial)
    normalization(network, "other", (3, 1, 1), BatchNormalizationAttributes(True, use_cntk_engine=False))
    network.infer()
    assert remarks(network) == []
    for name in ("image1", "image2"):
        normalization(network, name, (3, 1, 1), spatial)
    normalization(network, "element", (3, 2, 2), BatchNormalizationAttributes())
    network.infer()
    assert remarks(network) == [
        "Warning: BatchNormalization 'image1' and 1 more: of the 3 numbers of a scale [1 x 1 x 3] only the first 1 is "
        "used, as CNTK does; give scale, bias, mean and variance the shape [3], or useCntkEngine=false",
        "Warning: BatchNormalization 'element': of the 12 numbers of a scale [2 x 2 x 3] only the first 2 are used, "
        "as CNTK does; give scale, bias, mean and variance the shape [12], or useCntkEngine=false",
    ]
