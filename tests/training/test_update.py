"""The update of one step against the formulas of the training page, written out with NumPy."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from cntk_learner_sgd import SGD, SGDOptions
from small import settings

from cntk_core.config import Schedule
from cntk_core.contract.learner import UpdateContext
from cntk_core.contract.store import ParameterStore
from cntk_core.errors import WrongResult
from cntk_core.network.network import Network
from cntk_core.network.node import Input, Node, Parameter
from cntk_core.ops.language.expression import ArrayMath, TraceMath, symbol
from cntk_core.ops.table import core_ops
from cntk_core.plan.make import make_plan
from cntk_core.training.loop.update import NOISE_SLOT, clip_factor, compose_update, count_uses, scalars_for

N, RATE, MOMENTUM = 6, 0.25, 0.5
CONTEXT = UpdateContext(samples=N, learning_rate=RATE, momentum=MOMENTUM)


def run(learner, chosen, parameter, gradient, smoothed, **more):
    rule = compose_update(learner, chosen)
    scalars = scalars_for(learner, chosen, parameter, CONTEXT, **more)
    assert set(scalars) == set(rule.scalars)
    slots = {"smoothed_gradient": smoothed, NOISE_SLOT: np.array([1.0, -1.0, 2.0, 0.0])}
    value, changed = rule.expression(ArrayMath(np), parameter.value, gradient, slots, scalars)
    assert set(changed) == {slot.name for slot in rule.slots}
    return value, changed["smoothed_gradient"]


@pytest.fixture
def parameter():
    value = np.array([0.5, -0.25, 0.01, -2.0])
    made = Parameter.make("W", (4,), value=value, learning_rate_multiplier=0.5)
    made.regularization_multiplier = 2.0
    return made


GRADIENT = np.array([3.0, -0.5, 0.25, 9.0])
SMOOTHED = np.array([0.1, 0.2, -0.3, 0.4])


@pytest.mark.parametrize("nag", [False, True])
@pytest.mark.parametrize("clip", [None, 0.125])
@pytest.mark.parametrize("l2", [0.0, 0.0625])
@pytest.mark.parametrize("noise", [0.0, 0.5])
@pytest.mark.parametrize("l1", [0.0, 0.03125])
def test_the_order_of_the_steps(parameter, nag, clip, l2, noise, l1):
    changes = {"l2_reg_weight": l2, "l1_reg_weight": l1, "gaussian_noise_inject_std": noise}
    if clip:
        changes["clipping_threshold_per_sample"] = clip
    learner = SGD(SGDOptions(use_nag=nag))
    value, smoothed = run(learner, settings(**changes), parameter, GRADIENT, SMOOTHED)

    rate, g, w = RATE * 0.5, GRADIENT.copy(), parameter.value.copy()
    if clip:
        g = np.clip(g, -clip * N, clip * N)
    g = g + l2 * 2.0 * N * w
    expected_smoothed = MOMENTUM * SMOOTHED + (1 - MOMENTUM) * rate * g
    w -= MOMENTUM * expected_smoothed + (1 - MOMENTUM) * rate * g if nag else expected_smoothed
    w += noise * np.array([1.0, -1.0, 2.0, 0.0])
    w = np.sign(w) * np.maximum(np.abs(w) - rate * l1 * 2.0 * N, 0.0)
    np.testing.assert_allclose(smoothed, expected_smoothed, rtol=1e-14)
    np.testing.assert_allclose(value, w, rtol=1e-14, atol=1e-16)


def test_l1_makes_small_values_exactly_zero(parameter):
    value, _ = run(SGD(), settings(l1_reg_weight=10.0), parameter, np.zeros(4), np.zeros(4))
    assert value.tolist() == [0.0, 0.0, 0.0, 0.0]


def test_a_norm_is_limited_by_one_factor(parameter):
    chosen = settings(clipping_threshold_per_sample=0.5, gradient_clipping_with_truncation=False)
    store = ParameterStore([parameter], np.float64)
    store.gradient(parameter)[...] = [3.0, 4.0, 0.0, 0.0]
    factor = clip_factor(store, parameter, 0.5 * N)
    assert factor == pytest.approx(3.0 / 5.0)
    assert clip_factor(store, parameter, 5.0) == 1.0
    _, smoothed = run(SGD(), chosen, parameter, GRADIENT, np.zeros(4), clip_factor=factor)
    np.testing.assert_allclose(smoothed, 0.5 * RATE * 0.5 * GRADIENT * 0.6)


def test_the_gradient_is_as_it_is_only_without_clipping_and_l2():
    learner = SGD()
    assert compose_update(learner, settings()).identity_gradient
    assert compose_update(learner, settings(l1_reg_weight=1.0, gaussian_noise_inject_std=1.0)).identity_gradient
    assert not compose_update(learner, settings(l2_reg_weight=1.0)).identity_gradient
    assert not compose_update(learner, settings(clipping_threshold_per_sample=1.0)).identity_gradient


def test_the_key_tells_different_expressions_apart():
    keys = {
        compose_update(SGD(SGDOptions(use_nag=nag)), settings(**changes)).key
        for nag in (False, True)
        for changes in ({}, {"l2_reg_weight": 1.0}, {"l1_reg_weight": 1.0}, {"clipping_threshold_per_sample": 1.0})
    }
    assert len(keys) == 8
    assert (
        compose_update(SGD(), settings(l2_reg_weight=1.0)).key == compose_update(SGD(), settings(l2_reg_weight=2.0)).key
    )


def test_an_engine_can_trace_the_whole_update():
    chosen = settings(l1_reg_weight=1.0, l2_reg_weight=1.0, clipping_threshold_per_sample=1.0)
    rule = compose_update(SGD(), chosen)
    names = {name: symbol(name) for name in rule.scalars}
    slots = {slot.name: symbol(slot.name) for slot in rule.slots}
    value, changed = rule.expression(TraceMath(), symbol("w"), symbol("g"), slots, names)
    assert value.symbols() == {"w", "g", "smoothed_gradient", *rule.scalars}
    assert set(changed) == {"smoothed_gradient"}


def test_a_parameter_counts_each_of_its_uses_below_the_criterion():
    table = core_ops()
    network = Network(np.float64)
    x = network.add(Input.make("x", (3,)))
    weights = network.add(Parameter.make("W", (3, 3), value=np.eye(3)))
    bias = network.add(Parameter.make("b", (3,), value=np.zeros(3)))

    def add(name: str, op: str, *inputs: Node) -> Node:
        found = table.find("", op)
        return network.add(Node(name, found, list(inputs), found.attributes()))

    hidden = add("h", "Plus", add("t", "Times", weights, x), bias)
    output = add("z", "Times", weights, hidden)
    criterion = add("se", "SquareError", x, output)
    add("elsewhere", "Plus", output, bias)
    network.infer()
    plan = make_plan(network, [criterion], criterion)
    assert {parameter.name: uses for parameter, uses in count_uses(plan).items()} == {"W": 2, "b": 1}


def test_regularisation_may_change_from_epoch_to_epoch():
    chosen = settings(l1_reg_weight=Schedule.of([0.0, 2.0]), l2_reg_weight=Schedule.of([3.0, 0.0]))
    parameter = Parameter.make("W", (4,))
    context = UpdateContext(samples=10, learning_rate=0.5, momentum=0.0)
    first = scalars_for(SGD(), chosen, parameter, context)
    second = scalars_for(SGD(), chosen, parameter, attrs.evolve(context, epoch=1))
    assert (first["l2_weight"], first["l1_threshold"]) == (30.0, 0.0)
    assert (second["l2_weight"], second["l1_threshold"]) == (0.0, 10.0)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda value: [value, {}], "returned 2 values, not the new value and a dict of the new slots"),
        (lambda value: (value, {}, 1), "returned 3 values, not the new value and a dict of the new slots"),
        (lambda value: (value, 1), "returned 2 values, not the new value and a dict of the new slots"),
        (lambda value: "new", "returned 'new', not the new value and a dict of the new slots"),
        (lambda value: (value, {"other": value}), "returned a slot 'other', which is none of the learner's slots"),
    ],
)
def test_what_a_rule_may_not_give(parameter, answer, said):
    class Rule(SGD):
        def rule(self, m, value, gradient, slots, scalars):
            return answer(value)

    with pytest.raises(WrongResult) as caught:
        run(Rule(SGDOptions()), settings(), parameter, GRADIENT, SMOOTHED)
    assert str(caught.value).partition(" ")[2] == said
