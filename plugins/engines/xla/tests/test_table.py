"""Which ops have a form of their own on XLA, by their examples; the others run on the host."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from cntk_core.api import core_ops
from cntk_core.api.engines import make_plan
from cntk_testing.op_examples import EXAMPLES
from cntk_testing.op_networks import cases_together, network_of
from cntk_testing.sequence_networks import SEQUENCE_SAMPLES

OVER_COLUMNS = "OptimizedRNNStack"
"""Runs on the host where the steps of its time are columns of a sample."""

HOSTED = frozenset({
    "DummyCriterion", "EditDistanceError", "EpochAccumulator", "LambdaRank", "NDCG1Eval", "Shift", "Trace",
    OVER_COLUMNS,
    "BatchMoments", "ConvolutionData", "MaxUnpoolingGradient", "PoolingGradient", "PoolingTangent",
})  # fmt: skip
"""Ops of the core that the host computes, with all their examples or some."""

ATTENTION = frozenset({"AttentionSum", "AttentionWeights"})
ADDITIVE = frozenset({"AdditiveAttentionWeights", "AttentionSum"})
UNPACKED = frozenset({"UnpackSequence"})
"""Makes an axis that is as long as the longest sequence."""

HOSTED_IN: Mapping[str, frozenset[str]] = {
    "attention": frozenset({"PackedIndex", "Where"}),
    "whole_memory": UNPACKED | {"ElementTimes", "Exp", "ReconcileDynamicAxis", "ReduceElements"},
    "unpacked": UNPACKED | {"ElementTimes", "Exp", "Minus", "ReduceElements", "Tanh", "Times", "ToSequenceLike"},
    "looking": UNPACKED | ATTENTION,
    "comparing": UNPACKED | ADDITIVE,
    "heads": UNPACKED | ATTENTION | ADDITIVE,
    "gathered": UNPACKED | {"AttentionMemory", "AttentionProducts", "Tanh", "ToSequenceLike"},
    "chosen": frozenset({"EnvironmentInput", "PackedIndex", "Where"}),
    "opened": UNPACKED | {"ReduceElements", "Tanh", "Times", "ToSequence"},
    "reduced": frozenset({"ReduceElements", "Times"}),  # over dynamic axes
    "convolved": frozenset({"Convolution", "ReduceElements", "ToBatch"}),
    "side_by_side": frozenset(
        {"EyeLikeOp", "Minus", "ReduceElements", "Tanh", "Times", "ToBatch", "TransposeTimes", "UnpackBatch"}
    ),
}
"""Networks with sequences whose lengths or shapes are known only from data, with attention, or with reductions over
dynamic axes: which of their ops the host computes. All others become XLA whole."""


def test_ops_that_the_host_computes() -> None:
    """All others become XLA with all their examples."""
    from cntk_engine_xla.table import OWN

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
    """A network becomes one function, but for the ops of the host and the loops around them."""
    from cntk_engine_xla.table import OWN

    sample = SEQUENCE_SAMPLES[name]("float32")
    plan = make_plan(sample.network, sample.roots, sample.criterion)
    hosted = {node.op.name for step in plan.steps for node in step.nodes if OWN.of(node) is None}
    assert hosted == HOSTED_IN.get(name, frozenset())
    assert all(OWN.reach(step) for step in plan.steps) == (not hosted)
