"""XLA takes denormals for zero in single precision by itself, and the caller's thread is left as it was."""

from __future__ import annotations

import numpy as np
import pytest
from cntk_engine_xla import XlaEngine

from cntk_core.api import Input, Minibatch, Network, Node, Parameter, ParameterStore, StreamData, core_ops
from cntk_core.api.engines import frame_layout, make_plan

TINY = 1e-40


@pytest.mark.parametrize(("dtype", "zero"), [(np.float32, True), (np.float64, False)])
def test_a_product_and_a_sum_of_denormals(dtype, zero):
    ops = {op.name: op for op in core_ops()}
    network = Network(dtype)
    x = network.add(Input.make("x", (3,)))
    weights = network.add(Parameter.make("w", (3, 2), value=np.full((3, 2), TINY, dtype)))
    product = network.add(Node("product", ops["Times"], [weights, x], ops["Times"].attributes()))
    total = network.add(Node("total", ops["Plus"], [product, product], ops["Plus"].attributes()))
    network.infer()
    plan = make_plan(network, [total], None)
    program = XlaEngine().compile(plan, ParameterStore(network.parameters, dtype))
    program.evaluate(Minibatch({"x": StreamData(np.ones((4, 3), dtype), frame_layout(4))}, 4))
    assert (not program.value("total").any()) == zero
    assert float((np.array([TINY], np.float32) * np.float32(2.0**60))[0]) > 0
