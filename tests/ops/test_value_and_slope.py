"""Values by a formula's own words, and gradients by differences, of ops whose examples only a later tier tries."""

from __future__ import annotations

import numpy as np
import pytest

from cntk_core.ops.families.normalization import LOCAL_RESPONSE_NORMALIZATION, LocalResponseNormalizationAttributes
from cntk_core.ops.families.rearranging import BlockAttributes
from cntk_core.ops.families.reductions import ReduceAttributes
from cntk_core.ops.families.vocabulary import (
    NOISE_CONTRASTIVE_ESTIMATION,
    SOFTMAX,
    UNNORMALIZED,
    NoiseContrastiveAttributes,
)
from cntk_core.ops.language.framing import run_forward, run_gradient
from cntk_core.ops.language.layouts import frame_layout
from cntk_core.ops.language.op import OpContext
from cntk_core.ops.table import core_ops


def context_of(framed, frames):
    layout = frame_layout(frames)
    return OpContext(framed, frames, layout=layout, layouts=tuple(layout if one else None for one in framed))


def value_and_slopes(op, inputs, attributes, framed, needs):
    """The value; the gradients are compared with central differences."""
    context = context_of(framed, len(inputs[0]))
    value = run_forward(op, np, inputs, attributes, context)
    arriving = np.random.default_rng(5).normal(size=value.shape)
    found = run_gradient(op, np, arriving, value, inputs, attributes, context, needs)
    for index, gradient in enumerate(found):
        if not needs[index]:
            continue
        for place in np.ndindex(inputs[index].shape):
            values = []
            for step in (1e-6, -1e-6):
                moved = [each.copy() for each in inputs]
                moved[index][place] += step
                values.append(run_forward(op, np, moved, attributes, context_of(framed, len(inputs[0]))))
            expected = np.sum((values[0] - values[1]) * arriving) / 2e-6
            np.testing.assert_allclose(gradient[place], expected, rtol=1e-5, atol=1e-7)
    return value


@pytest.mark.parametrize("radius", [0, 1, 4])
def test_local_response_normalization(radius):
    x = np.random.default_rng(1).normal(size=(2, 3, 2))
    attributes = LocalResponseNormalizationAttributes(radius, 2.0, 0.5, 0.75)
    found = value_and_slopes(LOCAL_RESPONSE_NORMALIZATION, [x], attributes, (True,), [True])
    for channel in range(3):
        near = x[:, max(0, channel - radius) : channel + radius + 1]
        expected = x[:, channel] / (2.0 + 0.5 * (near**2).sum(axis=1)) ** 0.75
        np.testing.assert_allclose(found[:, channel], expected, rtol=1e-12)


@pytest.mark.parametrize("mode", [SOFTMAX, UNNORMALIZED])
def test_noise_contrastive_estimation_of_words_alone(mode):
    rng = np.random.default_rng(2)
    hidden, weights, biases = rng.normal(size=(3, 2)), rng.normal(size=(4, 2)), rng.normal(size=4)
    words = np.array([2, 1, 3])
    labels = (words if mode == SOFTMAX else -words)[:, None].astype(float)
    found = value_and_slopes(
        NOISE_CONTRASTIVE_ESTIMATION,
        [labels, hidden, weights, biases],
        NoiseContrastiveAttributes(mode),
        (True, True, False, False),
        [False, True, True, True],
    )
    scores = hidden @ weights.T + biases
    if mode == SOFTMAX:
        scores = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(found, [-scores[np.arange(3), words].sum()], rtol=1e-12)


@pytest.mark.parametrize("name", ["DepthToSpace", "SpaceToDepth"])
def test_a_block_of_one_place_changes_nothing(name):
    op, x = core_ops().find("", name), np.arange(24.0).reshape(1, 4, 3, 2)
    assert op.infer([(4, 3, 2)], BlockAttributes(1)) == (4, 3, 2)
    np.testing.assert_array_equal(run_forward(op, np, [x], BlockAttributes(1), OpContext((True,), 1)), x)


@pytest.mark.parametrize("axis", [-1, -3])
@pytest.mark.parametrize("operation", ["Sum", "Mean", "LogSum", "Max", "Min", "Prod"])
def test_reductions_over_all_axes_and_over_samples(axis, operation):
    x = np.random.default_rng(3).normal(size=(4, 3))
    attributes = ReduceAttributes(operation, axis)
    op = core_ops().find("", "ReduceElements").form_of(attributes)
    found = value_and_slopes(op, [x], attributes, (True,), [True])
    along = None if axis == -1 else 0
    functions = {"LogSum": lambda values, axis: np.log(np.exp(values).sum(axis=axis))}
    expected = functions.get(operation, getattr(np, operation.lower(), None))(x, axis=along)
    np.testing.assert_allclose(found, np.reshape(expected, (1,) if axis == -1 else (3,)), rtol=1e-12)
