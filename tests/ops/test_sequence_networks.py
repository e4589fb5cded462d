"""Gradients of networks on sequences, of ops that have no example of their own: by differences along a direction."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cntk_core.contract.store import ParameterStore
from cntk_core.network.node import Input, Parameter
from cntk_core.plan.make import make_plan
from cntk_testing.reference import ReferenceEngine
from cntk_testing.sequence_networks import SEQUENCE_SAMPLES, sequences_for

STEP = 1e-6


@pytest.mark.parametrize("name", SEQUENCE_SAMPLES)
def test_gradients_agree_with_differences(name: str) -> None:
    sample = SEQUENCE_SAMPLES[name]("float64")
    criterion = sample.criterion
    assert criterion is not None
    data = sequences_for(sample, [4, 1, 3], 2)
    by: list[Any] = [node for node in sample.network.inputs if isinstance(node, Input) and _is_smooth(sample, node)]
    by += [node for node in sample.network.parameters if node.learned and node.value is not None]
    read = set(sample.network.order([criterion]))
    store = ParameterStore(sample.network.parameters, np.float64)
    program = ReferenceEngine().compile(
        make_plan(sample.network, [criterion], by=[node for node in by if node in read]), store
    )
    program.forward(data, training=False)
    program.backward({criterion.name: np.ones_like(program.value(criterion.name))})
    found = {node: program.gradient(node.name).copy() for node in program.plan.by}
    assert found
    rng = np.random.default_rng(7)

    def total() -> float:
        program.forward(data, training=False)
        return float(program.value(criterion.name).sum())

    for node, gradient in found.items():
        values: Any = store.value(node) if isinstance(node, Parameter) else data.streams[node.name].data
        direction = rng.normal(size=values.shape)
        before = values.copy()
        sums = []
        for sign in (1, -1):
            values[...] = before + sign * STEP * direction
            sums.append(total())
        values[...] = before
        expected = (sums[0] - sums[1]) / (2 * STEP)
        told = float(np.sum(np.asarray(gradient).reshape(values.shape) * direction))
        assert told == pytest.approx(expected, rel=1e-5, abs=1e-7), node.name


def _is_smooth(sample: Any, node: Input) -> bool:
    """Whether small changes of its numbers change the criterion a little: not so of classes and words."""
    return not node.sparse and node.name not in (*sample.one_hot, "word_and_class", "phones")
