"""Steps that are computed by their ops' own functions, on arrays of an engine that has them elsewhere."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from small_plans import layers

from cntk_core.errors import WrongResult
from cntk_core.network.node import Input, Node
from cntk_core.ops.language.op import Op, OpContext
from cntk_core.plan.plan import GradientStep, Plan, Step, Target
from cntk_kit_engines.fallback import apart, forward, gradient, new_axis
from cntk_kit_engines.trees import path_of


class Place:
    """An engine whose arrays are lists: what ops get are copies."""

    xp = np
    shares = False

    def __init__(self, site: Any) -> None:
        self.site = site

    def given(self, node: Node) -> Any:
        return np.array(self.site.values[node]) if node in self.site.values else np.asarray(node.value)

    def take(self, array: Any) -> Any:
        return np.array(array)

    def put(self, target: Any, result: Any, *, accumulate: bool = False) -> None:
        if accumulate:
            target += result
        else:
            target[...] = result


def site_of(plan: Plan, **values: Any) -> Any:
    network = plan.network
    contexts = {
        node: OpContext(tuple(bool(child.framed) for child in node.inputs), 2, saved={"old": 1})
        for step in plan.steps
        for node in step.nodes
    }
    found = {network[name]: np.array(one, np.float64) for name, one in values.items()}
    site = SimpleNamespace(
        values=found, gradients={}, contexts=contexts, path=path_of(plan), made={}, interpreted=set()
    )
    site.place = Place(site)
    return site


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def test_a_fused_step_and_its_gradient() -> None:
    plan = layers()
    network, (_, step, _) = plan.network, plan.steps
    assert isinstance(step, Step)
    total = np.array([[1.0, 2.0, 3.0], [-1.0, 0.0, 1.0]])
    site = site_of(plan, Wx=total, h=np.zeros((2, 3)))
    run = forward(site, step, site.place)
    assert site.interpreted == set(step.nodes)
    run()
    h = sigmoid(total + 0.5)
    np.testing.assert_allclose(site.values[network["h"]], h)
    assert all(site.contexts[node].saved == {} for node in step.nodes)
    back = next(one for one in plan.gradients if isinstance(one, GradientStep) and one.step is step)
    site.values[network["sum"]] = total + 0.5
    site.gradients = {network[name]: np.full(shape, 9.0) for name, shape in {"Wx": (2, 3), "b": (3,)}.items()}
    site.gradients[network["h"]] = np.full((2, 3), 2.0)
    gradient(site, back, site.place)()
    wanted = 2 * h * (1 - h)
    np.testing.assert_allclose(site.gradients[network["Wx"]], wanted)
    np.testing.assert_allclose(site.gradients[network["b"]], wanted.sum(axis=0))
    added = GradientStep(step, back.sources, back.reads, tuple(Target(one.node, True, True) for one in back.targets))
    gradient(site, added, site.place)()
    np.testing.assert_allclose(site.gradients[network["Wx"]], 2 * wanted)


def test_where_no_gradient_comes_it_is_zero() -> None:
    plan = layers()
    network, back = plan.network, plan.gradients[1]
    assert isinstance(back, GradientStep)
    site = site_of(plan, Wx=np.zeros((2, 3)), sum=np.zeros((2, 3)), h=np.zeros((2, 3)))
    site.path = {network["h"]: [True], network["sum"]: [True, False]}
    site.gradients = {network[name]: np.full((2, 3), 9.0) for name in ("Wx", "b", "h")}
    gradient(site, back, site.place)()
    assert not site.gradients[network["b"]].any()


def theirs(result: Any, updates: frozenset[int] = frozenset()) -> tuple[Any, Step]:
    """A step of an op of a plugin that gives this, of two inputs."""

    def forward(xp: Any, inputs: Any, attributes: Any, context: Any) -> Any:
        inputs[1][...] = 7
        return result(inputs[0]) if callable(result) else result

    op = Op("Theirs", (2, 2), lambda shapes, _: shapes[0], forward=forward, updates=updates)
    x, kept = Input.make("x", (3,)), Input.make("k", (1,))
    node = Node("t", op, [x, kept])
    node.shape, node.framed = (3,), True
    values = {x: np.ones((2, 3)), kept: np.zeros(1), node: np.zeros((2, 3))}
    context = OpContext((True, False), 2, saved={}, training=True)
    site = SimpleNamespace(values=values, gradients={}, contexts={node: context}, path={}, made={}, interpreted=set())
    site.place = Place(site)
    return site, Step((node,), (x, kept), (node,))


@pytest.mark.parametrize("wrong", [np.zeros((2, 4)), None, 3.0, "text"])
def test_what_an_op_of_a_plugin_may_not_give(wrong: Any) -> None:
    site, step = theirs(wrong)
    with pytest.raises(WrongResult, match=r"not one of \(2, 3\)"):
        forward(site, step, site.place)()


@pytest.mark.parametrize(
    ("updates", "training", "shares", "kept"),
    [
        ({1}, True, False, 7),
        ({1, 5}, True, False, 7),
        ({1}, False, False, 0),
        (set(), True, False, 0),
        ({1}, True, True, 0),
    ],
)
def test_what_an_op_changes_in_copies_is_written_back(
    updates: set[int], training: bool, shares: bool, kept: int
) -> None:
    site, step = theirs(lambda x: 2 * x, frozenset(updates))
    site.contexts[step.nodes[0]].training = training
    site.place.shares = shares
    forward(site, step, site.place)()
    assert site.values[step.nodes[0]].tolist() == [[2, 2, 2]] * 2
    assert site.values[step.nodes[0].inputs[1]].tolist() == [kept]


def test_results_that_are_views_are_copied() -> None:
    whole = np.arange(6.0)
    (alone,) = apart([whole[:3]])
    assert alone.base is whole
    found = apart([whole, whole[:3], whole[3:]])
    assert found[0] is whole
    assert [np.shares_memory(one, whole) for one in found[1:]] == [False, False]
    assert [one.tolist() for one in found[1:]] == [[0, 1, 2], [3, 4, 5]]


def test_a_value_that_makes_an_axis() -> None:
    for own, wanted in ((None, [[3.0] * 3] * 2), (list, [[3.0] * 3] * 2)):
        site, step = theirs(lambda x: 3 * x)
        new_axis(site, step, site.place, own)()
        (made,) = site.made.values()
        assert np.array(made).tolist() == wanted
        assert isinstance(made, list) is (own is list)
        assert site.interpreted == set(step.nodes)
