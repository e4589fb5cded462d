"""Kernels of other wheels, and ops that run on CuPy's arrays because they say that they can; on the stand-in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cntk_engine_cuda import CudaEngine

from cntk_core.api import BY_ROWS, Node, ParameterStore, PluginError, define_op, kernel
from cntk_core.api.engines import make_plan
from cntk_testing.networks import Sketch


@pytest.mark.usefixtures("standin")
@pytest.mark.parametrize(("pure", "module"), [(True, "cupy stand-in"), (False, "numpy")])
def test_where_an_op_is_computed_is_what_it_says(pure: bool, module: str) -> None:
    seen = set()

    def forward(xp: Any, inputs: Any, attributes: Any, context: Any) -> Any:
        seen.add(xp.__name__)
        return inputs[0] / 2

    settings: dict[str, Any] = {"traits": BY_ROWS} if pure else {}
    op = define_op("Halved", infer=lambda shapes, attributes: shapes[0], doc="x.", **settings)(forward)
    made = Sketch("float32")
    sample = made.finish(None, made.network.add(Node("half", op, [made.dense(made.input("x", 3), (3, 2), 0)])))
    program = CudaEngine().compile(
        make_plan(sample.network, sample.roots), ParameterStore(sample.network.parameters, "float32")
    )
    program.evaluate(sample.minibatch(4))
    assert seen == {module}


@pytest.mark.usefixtures("standin")
@pytest.mark.parametrize("declines", [False, True])
def test_a_kernel_comes_before_the_engine_s_own(declines: bool) -> None:
    calls = []

    @kernel("cuda", "Softmax")
    def own(site: Any, step: Any) -> Any:
        (node,) = step.nodes

        def compute() -> None:
            calls.append(node.name)
            cupy = site.gpu.cupy
            powers = cupy.exp(site.values[node.inputs[0]])
            site.values[node][...] = powers / cupy.sum(powers, axis=1, keepdims=True)

        return None if declines else compute

    made = Sketch("float32")
    sample = made.finish(None, made.op("Softmax", made.dense(made.input("x", 3), (3, 2), 0), name="soft"))
    engine = CudaEngine()
    engine.kernels = (own,)
    plan, store = make_plan(sample.network, sample.roots), ParameterStore(sample.network.parameters, "float32")
    programs = [each.compile(plan, store) for each in (engine, CudaEngine())]
    for program in programs:
        program.evaluate(sample.minibatch(4))
    assert calls == ([] if declines else ["soft"])
    np.testing.assert_allclose(programs[0].value("soft"), programs[1].value("soft"), rtol=1e-5)


@pytest.mark.usefixtures("standin")
def test_there_are_no_settings() -> None:
    made = Sketch("float32")
    sample = made.finish(None, made.op("Tanh", made.input("x", 3)))
    engine = CudaEngine()
    engine.kernels = (kernel("cuda", "Tanh", quick=True)(lambda site, step: None),)
    with pytest.raises(PluginError) as caught:
        engine.compile(make_plan(sample.network, sample.roots), ParameterStore(sample.network.parameters, "float32"))
    assert str(caught.value) == (
        "a kernel of the engine 'cuda' for Tanh has the unknown setting 'quick'\n    This engine has none."
    )
