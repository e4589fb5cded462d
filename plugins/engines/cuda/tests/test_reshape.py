"""Elements in another shape: nothing is moved, and gradients of several readers are added up."""

from __future__ import annotations

import pytest
from cntk_engine_cuda import CudaEngine

from cntk_testing.engine_contract import MOMENTUM, EngineContract, start
from cntk_testing.inside import ReshapeAttributes
from cntk_testing.networks import Sketch
from cntk_testing.reference import ReferenceEngine

pytestmark = pytest.mark.usefixtures("standin")

CHECK = EngineContract()


def read_twice(framed):
    """The sum of squares, and of sines, of one value in two shapes."""
    made = Sketch("float64")
    x, labels = made.input("x", 4), made.input("labels", 1)
    source = made.op("Tanh", made.dense(x, (4, 6), 0)) if framed else made.parameter("W", 6)
    one, other = (made.op("Reshape", source, attributes=ReshapeAttributes(dims)) for dims in ((2, 3), (3, 2)))
    squares, sines = made.op("ElementTimes", one, one), made.op("Sin", other)
    total = made.op("Plus", made.op("SumElements", squares), made.op("SumElements", sines))
    z = made.op("Times", made.parameter("v", 4, 1), x)
    return made.finish(made.op("SquareError", labels, made.op("Plus", z, total), name="loss"), total)


@pytest.mark.parametrize("framed", [True, False])
def test_a_value_in_two_shapes(framed):
    ours, reference = (start(engine, read_twice(framed), rule=MOMENTUM) for engine in (CudaEngine(), ReferenceEngine()))
    for step in range(2):
        data = ours.sample.minibatch(5, step)
        for run in (ours, reference):
            run.program.compute_gradients(data)
        CHECK.assert_same_roots(ours, reference, "float64")
        CHECK.assert_same_gradients(ours, reference, "float64")
