"""Gradients of recurrent networks of every family by finite differences, over random lengths, 0 and 1 among them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cntk_core.contract.store import ParameterStore
from cntk_core.ops.language.layouts import sequence_layout
from cntk_core.ops.language.rows import sequence_rows
from cntk_core.plan.make import make_plan
from cntk_core.records.minibatch import Minibatch, StreamData
from cntk_testing.gradients import check_gradients
from cntk_testing.reference import ReferenceEngine
from cntk_testing.sequence_networks import SEQUENCE_SAMPLES, sequences_for

# The value of batch normalization is another in evaluation; its gradients are checked op by op.
SMOOTH = sorted(set(SEQUENCE_SAMPLES) - {"normalized"})


@pytest.mark.parametrize("name", SMOOTH)
@given(lengths=st.lists(st.integers(0, 4), min_size=1, max_size=3))
@example(lengths=[2, 0, 1])
@settings(max_examples=1)
@pytest.mark.sampled(6, later=6)
def test_differences(name: str, lengths: list[int]) -> None:
    sample = SEQUENCE_SAMPLES[name](np.float64)
    assert sample.criterion is not None
    check_gradients(sample.network, sample.criterion, sequences_for(sample, lengths, len(lengths)))


def one_sequence(whole: Minibatch, number: int) -> Minibatch:
    """The part of a minibatch that is one sequence of the reader."""
    streams = {}
    for name, stream in whole.streams.items():
        rows = sequence_rows(stream.layout)
        own = np.flatnonzero(rows.number == number)
        own = own[np.argsort(rows.step[own])]
        streams[name] = StreamData(stream.data[own], sequence_layout([len(own)]))
    return Minibatch(streams, whole.samples)


OF_ALL = {"gathered", "opened", "reduced", "side_by_side"}
"""Networks whose values are of all sequences together."""


@pytest.mark.parametrize("name", sorted(set(SMOOTH) - OF_ALL))
def test_a_minibatch_is_the_sum_of_its_sequences(name: str) -> None:
    sample = SEQUENCE_SAMPLES[name](np.float64)
    plan = make_plan(sample.network, sample.roots, sample.criterion)
    store = ParameterStore(sample.network.parameters, np.float64)
    program = ReferenceEngine().compile(plan, store)
    assert sample.criterion is not None
    whole = sequences_for(sample, [3, 0, 1, 2])
    program.compute_gradients(whole)
    gradients = {parameter: store.gradient(parameter).copy() for parameter in plan.trained}
    assert all(gradient.any() for gradient in gradients.values())
    value = program.value(sample.criterion.name).sum()
    for number in (0, 2, 3):
        program.compute_gradients(one_sequence(whole, number))
        value -= program.value(sample.criterion.name).sum()
        for parameter, gradient in gradients.items():
            gradient -= store.gradient(parameter)
    np.testing.assert_allclose(value, 0.0, atol=1e-12)
    for parameter, gradient in gradients.items():
        np.testing.assert_allclose(gradient, 0.0, atol=1e-12, err_msg=parameter.name)
