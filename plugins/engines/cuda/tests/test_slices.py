"""Slices that follow each other are one kernel, as far as they can be, and compute what the reference computes."""

from __future__ import annotations

import pytest
from cntk_engine_cuda import CudaEngine
from cntk_engine_cuda.moves import _Piece
from cntk_engine_cuda.slices import grouped, grouped_gradients

from cntk_core.api import Parameter
from cntk_testing.engine_contract import MOMENTUM, EngineContract, start
from cntk_testing.inside import SliceAttributes, StackAttributes
from cntk_testing.networks import Sketch
from cntk_testing.reference import ReferenceEngine
from cntk_testing_gpu.cupy_stand_in import launched

pytestmark = pytest.mark.usefixtures("standin")

CHECK = EngineContract()

APART = [(0, 2), (5, 6), (2, 4)]
"""With a column that none takes."""
MANY = [(number, number + 1) for number in range(6)]
OVERLAPPING = [(0, 4), (2, 6), (1, 2)]


@pytest.mark.parametrize(
    ("sizes", "strides", "repeated"),
    [((5, 4), (4, 1), False), ((5, 1), (1, 0), False), ((5, 4), (0, 1), True), ((1, 4), (0, 1), False)],
)
def test_an_input_is_repeated_where_a_stride_is_zero_and_a_size_is_not_one(sizes, strides, repeated):
    """Then its gradient is a sum, and no copy."""
    assert _Piece(Parameter.make("W", (4,)), sizes, strides, 0).is_repeated is repeated


def sliced(parts, shape, *, axis, framed):
    """The sum of the squares of slices of a value that is learned, or of products."""
    made = Sketch("float64")
    x, labels = made.input("x", 4), made.input("labels", 1)
    source = made.parameter("W", *shape) if not framed else made.op("Tanh", made.dense(x, (4, shape[0]), 0))
    pieces = [made.op("Slice", source, attributes=SliceAttributes(*part, axis)) for part in parts]
    joined = made.op("RowStack", *pieces, attributes=StackAttributes(axis))
    z = made.op("Times", made.parameter("v", 4, 1), x)
    total = made.op("Plus", z, made.op("SumElements", made.op("ElementTimes", joined, joined)))
    return made.finish(made.op("SquareError", labels, total, name="loss"), total)


@pytest.mark.parametrize(
    ("parts", "shape", "axis", "framed", "forward", "backward"),
    [
        (APART, (6,), 1, True, [3], [3]),
        (MANY, (6,), 1, True, [4, 2], [2, 4]),
        (OVERLAPPING, (6,), 1, True, [3], [1, 2]),
        (APART, (6, 3), 2, False, [3], [3]),
        (APART, (3, 6), 1, False, [1, 1, 1], [1, 1, 1]),
    ],
    ids=["apart", "many", "overlapping", "outermost axis", "inner axis"],
)
def test_they_compute_the_same(parts, shape, axis, framed, forward, backward):
    ours, reference = (
        start(engine, sliced(parts, shape, axis=axis, framed=framed), rule=MOMENTUM)
        for engine in (CudaEngine(), ReferenceEngine())
    )
    found = [len(group) for group in grouped(ours.plan.steps) if group[0].nodes[0].op.name == "Slice"]
    back = [len(group) for group in grouped_gradients(ours.plan.gradients) if group[0].step.nodes[0].op.name == "Slice"]
    assert (found, sorted(back)) == (forward, backward)
    for step in range(2):
        data = ours.sample.minibatch(5, step)
        launched.clear()
        for run in (ours, reference):
            run.program.compute_gradients(data)
        assert launched["split_columns"] == sum(count > 1 for count in forward)
        assert launched["join_columns"] == sum(count > 1 for count in backward)
        CHECK.assert_same_roots(ours, reference, "float64")
        CHECK.assert_same_gradients(ours, reference, "float64")
