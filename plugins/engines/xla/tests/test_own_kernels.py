"""Each op that has a function of this engine, and each that loops or looks back: the reference's numbers."""

from __future__ import annotations

import pytest
from cntk_engine_xla import XlaEngine
from cntk_engine_xla.table import KERNELS

from cntk_testing import EngineContract
from cntk_testing.engine_contract import UTTERANCES, start, utterances_for
from cntk_testing.op_examples import EXAMPLES
from cntk_testing.reference import ReferenceEngine

# Those are in every tier with the contract: networks consist of them.
EVERYWHERE = {"Times", "OptimizedRNNStack", "CrossEntropyWithSoftmax", "ClassificationError", "TransposeTimes"}
OPS = sorted(({kernel.op.name for kernel in KERNELS} & set(EXAMPLES)) - EVERYWHERE)
NETWORKS = (
    "chosen",
    "comparing",
    "convolved",
    "gathered",
    "heads",
    "learned_state",
    "linear_chain",
    "looking",
    "reduced",
)

CHECK = EngineContract()


@pytest.fixture
def engine() -> XlaEngine:
    return XlaEngine(XlaEngine.options(xla_cache="none"))


@pytest.mark.sampled(8, later=1)
@pytest.mark.parametrize("op", OPS)
def test_op(engine: XlaEngine, op: str) -> None:
    CHECK.test_op(engine, op, "float64")


@pytest.mark.sampled(4, later=1)
@pytest.mark.parametrize("name", NETWORKS)
def test_network(engine: XlaEngine, name: str) -> None:
    ours, reference = (start(one, UTTERANCES[name]("float64")) for one in (engine, ReferenceEngine()))
    data = utterances_for(ours.sample, [5, 4, 0, 1], 0)
    for run in (ours, reference):
        run.program.compute_gradients(data)
    CHECK.assert_same_roots(ours, reference, "float64")
    CHECK.assert_same_gradients(ours, reference, "float64")
