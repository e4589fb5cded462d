"""Which update rules fold into a product, and with what factors."""

from __future__ import annotations

import numpy as np
import pytest
from cntk_engine_cpu.kernels import KernelLibrary
from cntk_engine_cpu.parts import Team
from cntk_engine_cpu.update import Traced, Update, find_fold, runs_of
from cpu_networks import Net, adagrad_rule, momentum_rule

from cntk_core.api import ParameterStore, Slot, UpdateRule
from cntk_core.api.engines import Expr
from cntk_testing.op_contract import compute


def fold_of(rule):
    return find_fold(rule, Traced.of(rule))


@pytest.mark.parametrize("nesterov", [False, True])
def test_momentum_folds(nesterov):
    rule = momentum_rule(nesterov=nesterov)
    fold = fold_of(rule)
    if nesterov:
        # The value looks at the new gradient itself, which a product into the slot leaves nowhere.
        assert fold is None
        return
    assert fold.slot == "s"
    net = Net()
    net.parameter(3)
    net.network.infer()
    store = ParameterStore(net.network.parameters, np.float32)
    plan = type("Plan", (), {"trained": ()})()
    update = Update(plan, store, rule, KernelLibrary(compiled=False), Team({}, 1))
    assert update.factors()((0.9, 0.02)) == (0.02, 0.9)


def rule_of(expression, slots=("s",)):
    return UpdateRule(tuple(Slot(name) for name in slots), ("r",), expression)


NOT_FOLDED = {
    "square": lambda m, v, g, s, k: (v - s["s"], {"s": s["s"] + g * g}),
    "value in slot": lambda m, v, g, s, k: (v - s["s"], {"s": s["s"] + g + v}),
    "old slot in value": lambda m, v, g, s, k: (v - s["s"], {"s": k["r"] * s["s"] + g}),
    "slot without gradient": lambda m, v, g, s, k: (v - g, {"s": k["r"] * s["s"]}),
    "constant slot": lambda m, v, g, s, k: (v - g, {"s": 0.0}),
    "product with slot": lambda m, v, g, s, k: (v - s["s"], {"s": s["s"] * g}),
}


@pytest.mark.parametrize("name", list(NOT_FOLDED))
def test_what_does_not_fold(name):
    assert fold_of(rule_of(NOT_FOLDED[name])) is None


def test_rules_with_other_numbers_of_slots_do_not_fold():
    assert fold_of(rule_of(lambda m, v, g, s, k: (v - k["r"] * g, {}), slots=())) is None
    two = rule_of(lambda m, v, g, s, k: (v - s["a"], {"a": s["a"] + g, "b": s["b"]}), slots=("a", "b"))
    assert fold_of(two) is None
    assert fold_of(adagrad_rule()) is None


def number(tree, of):
    """The number that a tree of numbers stands for."""
    return compute(tree, of) if isinstance(tree, Expr) else tree


@pytest.mark.parametrize(
    ("slot", "alpha", "beta"),
    [
        (lambda g, s, r: r * s - g / r, -1 / 4, 4),
        (lambda g, s, r: g / r - s * r, 1 / 4, -4),
        (lambda g, s, r: -(s * 0.5) + g, 1, -0.5),
        (lambda g, s, r: g + r * s, 1, 4),
        (lambda g, s, r: g - -(s / 2.0), 1, 0.5),
        (lambda g, s, r: r * (2.0 * (g - s) / 8.0), 1, -1),
        (lambda g, s, r: (1.0 - r) * g + r * s, -3, 4),
    ],
)
def test_other_linear_rules_fold(slot, alpha, beta):
    fold = fold_of(rule_of(lambda m, v, g, s, k: (v - slot(g, s["s"], k["r"]), {"s": slot(g, s["s"], k["r"])})))
    assert fold.slot == "s"
    assert (number(fold.alpha, {"r": 4.0}), number(fold.beta, {"r": 4.0})) == (alpha, beta)
    assert compute(fold.value, {"value": 10.0, "slot_s": 3.0}) == 7.0


def test_runs_leave_out_what_is_not_trained():
    net = Net()
    parameters = [net.parameter(20, rate=rate) for rate in (1.0, 1.0, 0.0, 1.0)]
    net.network.infer()
    store = ParameterStore(net.network.parameters, np.float32)
    trained = [parameter for parameter in parameters if parameter.learned]
    # Those that are not learned stand last, so that the others are one run.
    assert runs_of(store, trained) == [(0, store.range(trained[-1])[1])]
    assert runs_of(store, [trained[0], trained[2]]) == [store.range(trained[0]), store.range(trained[2])]
    assert runs_of(store, []) == []
