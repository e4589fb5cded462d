"""Kernels of other wheels: asked before the engine's own, and in place of the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cntk_engine_xla import XlaEngine

from cntk_core.api import Node, Op, ParameterStore, PluginError, define_op, kernel
from cntk_core.api.engines import make_plan
from cntk_testing.networks import Sample, Sketch


def _engine(*kernels: Any) -> XlaEngine:
    engine = XlaEngine(XlaEngine.options(xla_cache="none"))
    engine.kernels = kernels
    return engine


def _halves(xp: Any, gradient: Any, output: Any, inputs: Any, attributes: Any, context: Any, needs: Any) -> Any:
    return [gradient / 2]


@define_op("Halved", infer=lambda shapes, attributes: shapes[0], gradient=_halves)
def halved(xp: Any, inputs: Any, attributes: Any, context: Any) -> Any:
    """Half of it; nothing says where this can be computed."""
    return inputs[0] / 2


def _network(op: Op | None = None) -> Sample:
    made = Sketch("float32")
    lower = made.dense(made.input("x", 3), (3, 2), 0)
    upper = made.op("Softmax", lower) if op is None else made.network.add(Node("upper", op, [lower]))
    return made.finish(made.op("SumElements", made.op("ElementTimes", upper, upper), name="total"), upper)


def _gradients(engine: XlaEngine, sample: Sample) -> list[np.ndarray]:
    plan = make_plan(sample.network, sample.roots, sample.criterion)
    store = ParameterStore(sample.network.parameters, "float32")
    program = engine.compile(plan, store)
    program.compute_gradients(sample.minibatch(5))
    return [store.gradient(parameter).copy() for parameter in plan.trained]


def test_a_kernel_takes_an_op_from_the_host() -> None:
    calls = []

    def gradient(trace: Any, node: Node, arriving: Any, inputs: Any, needs: Any) -> Any:
        return [arriving / 2]

    @kernel("xla", halved, gradient=gradient)
    def own(trace: Any, node: Node, inputs: Any) -> Any:
        calls.append(type(inputs[0]).__module__)
        return inputs[0] / 2

    sample = _network(halved)
    plan = make_plan(sample.network, sample.roots, sample.criterion)
    assert [len(engine.on_host(plan)) for engine in (_engine(), _engine(own))] == [2, 0]
    found, expected = _gradients(_engine(own), _network(halved)), _gradients(_engine(), _network(halved))
    assert {module.partition(".")[0] for module in calls} == {"jax"}
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("applies", [True, False])
def test_a_kernel_comes_before_the_engine_s_own_if_it_applies(applies: bool) -> None:
    calls = []

    @kernel("xla", "SumElements", applies=lambda node: applies)
    def own(trace: Any, node: Node, inputs: Any) -> Any:
        calls.append(node.name)
        return inputs[0].sum().reshape(1)

    _gradients(_engine(own), _network())
    assert calls == (["total"] if applies else [])


def test_a_setting_that_is_none() -> None:
    made = kernel("xla", "Tanh", looped=True)(lambda trace, node, inputs: inputs[0])
    with pytest.raises(PluginError) as caught:
        _gradients(_engine(made), _network())
    assert str(caught.value) == (
        "a kernel of the engine 'xla' for Tanh has the unknown setting 'looped'; did you mean 'loops'?\n"
        "    Settings: applies, check, draw, in_loops, keep, looks, loops, takes_sparse."
    )
