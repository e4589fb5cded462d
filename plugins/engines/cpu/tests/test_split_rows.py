"""Kernels whose rows several threads share: the same results, whatever their number."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest
from cntk_engine_cpu import split_rows
from cntk_engine_cpu.libraries import load_onednn
from cpu_networks import Net, compile_on, engine, minibatch

NEEDED = load_onednn() is not None and bool(load_onednn().openmp) and find_spec("llvmlite") is not None
pytestmark = pytest.mark.skipif(not NEEDED, reason="needs llvmlite, oneDNN and OpenMP")


@pytest.fixture
def made(monkeypatch):
    """The kernels that were split."""
    found = []
    monkeypatch.setattr(split_rows, "SPLIT_ELEMENTS", 1 << 16)

    class Watched(split_rows.SplitKernel):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            found.append(self)

    monkeypatch.setattr(split_rows, "SplitKernel", Watched)
    return found


def results(threads, frames=(130, 130, 5)):
    """Values of a network in some minibatches, the second as large as the first, and gradients by its input."""
    net = Net()
    x = net.input("x", 600)
    y = net.node("Sigmoid", net.node("Plus", net.node("ElementTimes", x, net.parameter(600)), net.parameter(1)))
    plan = net.plan(None, y, net.node("Tanh", x))
    _, program = compile_on(engine("compiled+onednn", threads), plan)
    found = []
    for count in frames:
        program.evaluate(minibatch(net.rng, count, {"x": (600,)}))
        found += [np.array(program.fetch(root)) for root in plan.roots]
    return found


def test_results_do_not_depend_on_the_number_of_threads(made):
    alone = results(1)
    assert not made
    for threads in (2, 3, 5):
        for one, other in zip(alone, results(threads), strict=True):
            np.testing.assert_array_equal(one, other)
    assert len(made) == 3 * 2  # five rows are too few


def test_sums_over_rows_are_not_split(made):
    """Their order would depend on the parts."""
    net = Net()
    bias = net.parameter(600)
    loss = net.node("SumElements", net.node("Tanh", net.node("Plus", net.input("x", 600), bias)))
    store, program = compile_on(engine("compiled+onednn", 2), net.plan(loss))
    program.compute_gradients(minibatch(net.rng, 130, {"x": (600,)}))
    assert len(made) == 1  # the values; the gradient by the bias is a sum
    assert np.isfinite(store.gradients).all()
