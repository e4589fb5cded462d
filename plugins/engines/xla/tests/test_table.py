"""Which ops have a form of their own on XLA, by their examples; the others run on the host."""

from __future__ import annotations

import pytest
from cntk_engine_xla.table import OWN

from cntk_core.api import core_ops
from cntk_core.api.engines import make_plan
from cntk_testing.engine_contract import cases_together, network_of
from cntk_testing.op_examples import EXAMPLES
from cntk_testing.sequence_networks import SEQUENCE_SAMPLES

OVER_COLUMNS = "OptimizedRNNStack"
"""Runs on the host where the steps of its time are columns of a sample."""

HOSTED = frozenset({
    "DummyCriterion", "EditDistanceError", "EpochAccumulator", "LambdaRank", "NDCG1Eval", "Shift", "Trace",
    OVER_COLUMNS,
})  # fmt: skip
"""Ops of the core that the host computes, with all their examples or some."""

BY_VALUES = frozenset({"attention", "whole_memory", "unpacked"})
"""Networks with sequences whose lengths, or shapes, are known only from data."""


def test_ops_that_the_host_computes() -> None:
    """All others become XLA with all their examples."""
    found = set()
    for name, examples in EXAMPLES.items():
        op = core_ops().find("", name)
        assert op is not None
        for cases in cases_together(op, examples):
            sample, _ = network_of(cases, "float32")
            if any(OWN.of(node) is None for node in sample.network if node.op.name == name):
                found.add(name)
    assert found == HOSTED


@pytest.mark.parametrize("name", SEQUENCE_SAMPLES)
def test_networks_of_sequences(name: str) -> None:
    """A network becomes one function, unless shapes depend on its data."""
    sample = SEQUENCE_SAMPLES[name]("float32")
    plan = make_plan(sample.network, sample.roots, sample.criterion)
    assert all(OWN.reach(step) for step in plan.steps) == (name not in BY_VALUES)
