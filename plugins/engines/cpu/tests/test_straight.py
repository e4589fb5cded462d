"""Straight-line code: the order of calls, compiled functions together, arguments that move, numbers that change."""

from __future__ import annotations

import builtins
from importlib.util import find_spec

import numpy as np
import pytest
from cntk_engine_cpu import straight
from cntk_engine_cpu.inputs import Ports
from cntk_engine_cpu.rows import Row
from cntk_engine_cpu.site import Call
from cntk_engine_cpu.straight import straight_line
from cpu_networks import Net, compile_on, engine, minibatch, momentum_rule, train

from cntk_core.api.engines import native_function

pytestmark = pytest.mark.skipif(find_spec("llvmlite") is None, reason="needs llvmlite")

TEXT = """
def step(x, factor, out):
    out[0] = out[0] * factor + x[0]
"""


@pytest.fixture
def step():
    return native_function(TEXT, "step", "void(float64[::1], float64, float64[::1])")


class Changing:
    """A compiled function with a number that changes."""

    def __init__(self, native, *arguments):
        self.factor = 0.0
        self._native = native
        self._block = native.block(*arguments)
        self._kept = arguments

    def rows(self):
        return [Row(self._native, self._block)] * 2

    def prepare(self):
        self._native.put(self._block, 1, self.factor)


def test_the_order_is_kept_and_what_changes_is_written(step):
    one, two, out = np.ones(1), np.full(1, 2.0), np.zeros(1)
    changing = Changing(step, two, 0.0, out)
    seen = []
    calls = [
        Call(step, (one, 10.0, out)),
        Call(step, (two, 10.0, out)),
        Call(lambda array: seen.append(array[0]), (out,)),
        Call(step, (one, 10.0, out)),
        Call(changing),
    ]
    run = straight_line(calls, Ports({}))
    changing.factor = 3.0
    run()
    assert (seen, out[0]) == ([12.0], (121 * 3 + 2) * 3 + 2)
    changing.factor, out[0] = 0.0, 0.0
    run()
    assert (seen, out[0]) == ([12.0, 12.0], 2.0)


def test_arguments_in_inputs_move(step):
    node = Net().input("x", 2)
    here, there, out = np.array([[5.0, 7.0]]), np.array([[6.0, 8.0]]), np.zeros(1)
    ports = Ports({node: here})
    run = straight_line([Call(step, (here[0, 1:], 0.0, out)), Call(step, (here[0], 10.0, out))], ports)
    run()
    assert out[0] == 75.0
    ports.ports[node].move(there)
    del here
    run()
    assert out[0] == 86.0


def test_each_part_of_a_step_is_one_call(monkeypatch):
    """Forward; backward with folded updates. What each begins with writes rates."""
    net = Net()
    product = net.node("Times", net.parameter(4, 6), net.input("x", 4))
    hidden = net.node("Sigmoid", net.node("Plus", product, net.parameter(6)))
    scores = net.node("Plus", net.node("Times", net.parameter(6, 3), hidden), net.parameter(3))
    criterion = net.node("CrossEntropyWithSoftmax", net.input("l", 3), scores)
    _, program = compile_on(engine("compiled+onednn"), net.plan(criterion), momentum_rule())
    if program._gemm.onednn is None:
        pytest.skip("oneDNN is missing")
    texts = []
    monkeypatch.setattr(
        straight, "exec", lambda text, names: texts.append(text) or builtins.exec(text, names), raising=False
    )
    train(program, [minibatch(net.rng, 6, {"x": (4,), "l": (3,)})], folded=True)
    calls = [[line for line in text.splitlines()[1:] if not line.startswith("    p")] for text in texts]
    assert [len(lines) for lines in calls] == [1, 1]
