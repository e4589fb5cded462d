"""Words and classes of words that are not there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cntk_core.errors import DataError
from cntk_core.ops.families.vocabulary import (
    CLASS_BASED_CROSS_ENTROPY_WITH_SOFTMAX,
    NOISE_CONTRASTIVE_ESTIMATION,
    SOFTMAX,
    TRAINS,
    UNNORMALIZED,
    NoiseContrastiveAttributes,
)
from cntk_core.ops.language.framing import run_forward
from cntk_core.ops.language.op import OpContext

WORDS, HIDDEN, CLASSES = 6, 3, 2


def class_based(label: Any) -> Any:
    rng = np.random.default_rng(0)
    inputs = [np.array([[0, 0, 0, 2], label], float), *(rng.normal(size=s) for s in ((2, HIDDEN), (WORDS, HIDDEN)))]
    inputs.append(rng.normal(size=(2, CLASSES)))
    context = OpContext((True, True, False, True), 2)
    return run_forward(CLASS_BASED_CROSS_ENTROPY_WITH_SOFTMAX, np, inputs, None, context)


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ((4, 1, 4, 7), "there is no word 6: the network has 6, which are 0 to 5"),
        ((-1, 1, -1, 2), "there is no word -1: the network has 6, which are 0 to 5"),
        ((3, 2, 2, 6), "there is no word class 2: the network has 2, which are 0 to 1"),
        ((3, -1, 2, 6), "there is no word class -1: the network has 2, which are 0 to 1"),
        ((3, 1, 4, 6), "the word 3 is not in its class, which has the words 4 to 5"),
        ((3, 1, 4, 4), "the word class 1 has no words (4 to 4)"),
    ],
)
def test_labels_that_do_not_fit(label, message):
    assert np.isfinite(class_based((5, 1, 2, 6))).all()
    with pytest.raises(DataError) as caught:
        class_based(label)
    assert caught.value.message == message


@pytest.mark.parametrize(("mode", "row"), [(TRAINS, [2, -1.5, 6, 1.0]), (SOFTMAX, [6.0]), (UNNORMALIZED, [-6.0])])
def test_words_that_the_network_does_not_have(mode, row):
    rng = np.random.default_rng(0)
    inputs = [np.array([row]), *(rng.normal(size=shape) for shape in ((1, HIDDEN), (WORDS, HIDDEN), (WORDS,)))]
    context = OpContext((True, True, False, False), 1)
    with pytest.raises(DataError) as caught:
        run_forward(NOISE_CONTRASTIVE_ESTIMATION, np, inputs, NoiseContrastiveAttributes(mode), context)
    assert caught.value.message == "there is no word 6: the network has 6, which are 0 to 5"
