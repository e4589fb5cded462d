"""Epochs that give finite numbers of no use are told."""

from __future__ import annotations

import numpy as np
import pytest
from small import Lines, ListReader, make_data, make_network, make_session

from cntk_core.contract.store import ParameterStore
from cntk_kit_recipes.session.soundness import Soundness

SATURATED = (
    "all gradients were 0, or too small to be seen beside the parameters. The network may be saturated: scale the "
    "inputs, begin with smaller values, or raise learningRatesPerSample."
)
REMEDY = (
    "Its model is of no use: lower learningRatesPerSample, or set clippingThresholdPerSample, and go on from an "
    "earlier model or begin anew."
)


def warnings(folder, **changes) -> list[str]:
    lines = Lines()
    make_session(folder, lines, **changes).run()
    return lines.with_text("Warning: ")


def test_a_sound_training_has_no_warning(tmp_path):
    assert warnings(tmp_path) == []


def test_a_rate_without_measure(tmp_path):
    first, *more = warnings(tmp_path, learning_rates_per_sample=1e30, momentum_per_mb=0.0)
    assert first.startswith("Warning: training has diverged in epoch 1: the training criterion is ")
    assert " and the parameter 'W1' has a value of " in first
    assert first.endswith(REMEDY)
    assert len([text for text in (first, *more) if "diverged" in text]) == 3


def test_a_criterion_that_grows():
    said: list[str] = []
    store = ParameterStore(make_network().parameters, np.float64)
    soundness = Soundness(store, said.append)
    for epoch, criterion in enumerate((2.0, 1.5, 1500.0, 1501.0, -3.0, 1e9)):
        store.values[0] += 1.0
        soundness.look(epoch, 0.1, criterion)
    assert said == [
        f"Warning: training has diverged in epoch 4: the training criterion is 1.5e+03, after 1.5. {REMEDY}"
    ]


def test_a_rate_of_nothing(tmp_path):
    found = warnings(tmp_path, learning_rates_per_sample=0.0, min_learning_rate_per_sample=0.0)
    assert found == [f"Warning: epoch {n} has changed no parameter: the learning rate was 0." for n in (1, 2, 3)]


@pytest.mark.parametrize("rate", [1e-300, 0.1])
def test_gradients_of_nothing(tmp_path, rate):
    data, network = make_data(), make_network()
    if rate == 0.1:
        data["labels"][...] = [1.0, 0.0, 0.0]
        network["b1"].value[...] = [[1e4, 0.0, 0.0]]  # which the network says for sure
    found = warnings(
        tmp_path,
        learning_rates_per_sample=rate,
        min_learning_rate_per_sample=0.0,
        reader=ListReader(data),
        network=network,
    )
    assert found == [f"Warning: epoch {n} has changed no parameter: {SATURATED}" for n in (1, 2, 3)]


def test_an_epoch_is_compared_with_the_one_before():
    said: list[str] = []
    store = ParameterStore(make_network().parameters, np.float64)
    soundness = Soundness(store, said.append)
    for epoch, step in enumerate((1.0, 0.0, 2.0, -2.0, 0.0)):
        store.values[0] += step
        soundness.look(epoch, 0.0, 1.0)
    assert said == [f"Warning: epoch {n} has changed no parameter: the learning rate was 0." for n in (2, 5)]
