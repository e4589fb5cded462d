"""Each op that has a function of this engine, and each that loops or looks back: the reference's numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cntk_engine_xla import XlaEngine

from cntk_testing import EngineContract
from cntk_testing.engine_contract import UTTERANCES, start, utterances_for
from cntk_testing.inside import BatchNormalizationAttributes
from cntk_testing.networks import Sample, Sketch
from cntk_testing.op_examples import EXAMPLES
from cntk_testing.reference import ReferenceEngine

# Those are in every tier with the contract: networks consist of them.
EVERYWHERE = {"Times", "OptimizedRNNStack", "CrossEntropyWithSoftmax", "ClassificationError", "TransposeTimes"}
# Named, as the table of functions imports jax: a test below holds the two together.
WITH_FUNCTION = [
    "AdditiveAttentionWeights",
    "AttentionSum",
    "AttentionWeights",
    "AveragePooling",
    "BatchNormalization",
    "CRF",
    "ClassBasedCrossEntropyWithSoftmax",
    "ClassificationError",
    "Convolution",
    "ConvolutionWeights",
    "CosDistanceWithNegativeSamples",
    "CrossEntropy",
    "CrossEntropyWithSoftmax",
    "Dropout",
    "ForwardBackward",
    "FutureValue",
    "Gather",
    "GatherPacked",
    "Logistic",
    "LookupTable",
    "MaxPooling",
    "MaxUnpooling",
    "NoiseContrastiveEstimation",
    "OptimizedRNNStack",
    "PastValue",
    "Pooling",
    "QuantizedTimes",
    "ROIPooling",
    "RandomDistribution",
    "ReconcileDynamicAxis",
    "ReduceElements",
    "ScatterPacked",
    "SequenceDecoder",
    "SquareError",
    "Times",
    "TransposeTimes",
]
OPS = sorted((set(WITH_FUNCTION) & set(EXAMPLES)) - EVERYWHERE)
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


def test_the_ops_with_a_function_of_this_engine_are_named_above() -> None:
    from cntk_engine_xla.table import KERNELS

    assert sorted({kernel.op.name for kernel in KERNELS}) == WITH_FUNCTION


@pytest.mark.sampled(8, later=1)
@pytest.mark.parametrize("op", OPS)
def test_op(engine: XlaEngine, op: str) -> None:
    CHECK.test_op(engine, op, "float64")


def logistic(dtype: Any) -> Sample:
    """A logistic criterion with a weight for each sample."""
    made = Sketch(dtype)
    chances = made.op("Sigmoid", made.dense(made.input("x", 4), (4, 1), 0))
    return made.finish(made.op("Logistic", made.input("labels", 1), chances, made.input("weights", 1)), chances)


def few_samples(dtype: Any) -> Sample:
    """Running statistics of minibatches with one sample or two."""
    made = Sketch(dtype)
    numbers = [made.given(name, np.linspace(0.5, 1.5, 3)) for name in ("scale", "bias")]
    numbers += [made.given(name, np.ones(3), multiplier=0.0) for name in ("mean", "variance")]
    attributes = BatchNormalizationAttributes(normalization_time_constant=5.0)
    normal = made.op("BatchNormalization", made.dense(made.input("x", 4), (4, 3), 0), *numbers, attributes=attributes)
    return made.finish(made.op("SumElements", made.op("ElementTimes", normal, normal)), normal)


@pytest.mark.parametrize("make", [logistic, few_samples], ids=lambda make: make.__name__)
def test_numbers_of_samples(engine: XlaEngine, make: Callable[[Any], Sample]) -> None:
    ours, reference = (start(one, make("float64")) for one in (engine, ReferenceEngine()))
    for step, count in enumerate((2, 1)):
        data = ours.sample.minibatch(count, step)
        for run in (ours, reference):
            run.program.compute_gradients(data)
        CHECK.assert_same_roots(ours, reference, "float64")
        CHECK.assert_same_gradients(ours, reference, "float64")
        for one, other in zip(ours.values(), reference.values(), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9)


@pytest.mark.sampled(4, later=1)
@pytest.mark.parametrize("name", NETWORKS)
def test_network(engine: XlaEngine, name: str) -> None:
    ours, reference = (start(one, UTTERANCES[name]("float64")) for one in (engine, ReferenceEngine()))
    data = utterances_for(ours.sample, [5, 4, 0, 1], 0)
    for run in (ours, reference):
        run.program.compute_gradients(data)
    CHECK.assert_same_roots(ours, reference, "float64")
    CHECK.assert_same_gradients(ours, reference, "float64")
