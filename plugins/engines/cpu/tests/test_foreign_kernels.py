"""Kernels of other wheels: asked before the engine's own, and in place of the op's own functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cpu_networks import (
    Net,
    compile_on,
    engine,
    minibatch,
    reference,
)

from cntk_core.api import PluginError, kernel

STREAMS = {"x": (3,)}


def _plan() -> tuple[Net, Any]:
    net = Net()
    lower = net.node("Plus", net.node("Times", net.parameter(3, 4), net.input("x", 3)), net.parameter(4))
    return net, net.plan(net.node("SumElements", net.node("Softmax", lower), name="total"))


def _kernel(calls: list[str], *, declines: bool = False, gradient: bool = True) -> Any:
    def back(site: Any, step: Any) -> Any:
        (node,) = step.step.nodes
        (target,) = step.targets

        def compute() -> None:
            calls.append("gradient")
            y, g = site.values[node], site.gradients[node]
            change = y * (g - (g * y).sum(axis=1, keepdims=True))
            out = site.gradients[target.node]
            out[...] = out + change if target.accumulate else change

        return compute

    @kernel("cpu", "Softmax", gradient=back if gradient else None)
    def forward(site: Any, step: Any) -> Any:
        (node,) = step.nodes

        def compute() -> None:
            calls.append("value")
            powers = np.exp(site.values[node.inputs[0]])
            site.values[node][...] = powers / powers.sum(axis=1, keepdims=True)

        return None if declines else [compute]

    return forward


@pytest.mark.parametrize(
    ("settings", "expected"),
    [({}, ["value", "gradient"]), ({"gradient": False}, ["value"]), ({"declines": True}, ["gradient"])],
    ids=["both", "value_alone", "declines"],
)
def test_a_kernel_in_place_of_the_op_s_own_functions(settings: dict[str, bool], expected: list[str]) -> None:
    calls: list[str] = []
    net, plan = _plan()
    own = engine("numpy+blas")
    own.kernels = (_kernel(calls, **settings),)
    (wanted, other), (store, program) = reference(plan), compile_on(own, plan, None, np.float64)
    batch = minibatch(net.rng, 5, STREAMS, np.float64)
    for each in (other, program):
        each.compute_gradients(batch)
    assert calls == expected
    for parameter in plan.trained:
        np.testing.assert_allclose(store.gradient(parameter), wanted.gradient(parameter), atol=1e-12)


def test_a_setting_that_is_none() -> None:
    _, plan = _plan()
    own = engine("numpy+blas")
    own.kernels = (kernel("cpu", "Tanh", quick=True)(lambda site, step: None),)
    with pytest.raises(PluginError) as caught:
        compile_on(own, plan)
    assert str(caught.value) == (
        "a kernel of the engine 'cpu' for Tanh has the unknown setting 'quick'\n"
        "    Settings: begins, channels_last, follows, in_loop, in_loop_gradient, takes_parts."
    )
