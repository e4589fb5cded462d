"""Expression trees of fused steps, which ways gradients take, and how they flow back by the ops' own functions."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
from small_plans import Maker, layers, recurrent

from cntk_core.errors import WrongResult
from cntk_core.network.node import Input, Node
from cntk_core.ops.language.expression import Expr, symbol
from cntk_core.ops.language.op import Op, OpContext
from cntk_core.plan.plan import GradientStep, LoopGradient, Plan, Step
from cntk_kit_engines.foreign_results import check_gradients, check_value, foreign_nodes, is_foreign
from cntk_kit_engines.gradient_flow import flow_back
from cntk_kit_engines.trees import (
    Names,
    forward_trees,
    gradient_trees,
    is_elementwise,
    path_of,
    rename_symbols,
    symbols_in_order,
)


def value_of(tree: Any, **numbers: float) -> float:
    """What a tree gives for numbers by name."""
    if not isinstance(tree, Expr):
        return float(tree)
    if tree.operation == "symbol":
        return numbers[str(tree.args[0])]
    return float(getattr(operator, tree.operation)(*(value_of(part, **numbers) for part in tree.args)))


def products() -> tuple[Plan, Names]:
    """``d = (a * b) * a + a``, whose sum of squares is sought: a step of three nodes that reads one of them twice."""
    make = Maker()
    label, a, b = make.input("l", 2), make.parameter("a", 2), make.parameter("b", 2)
    c = make("c", "ElementTimes", make("ab", "ElementTimes", a, b), a)
    plan = make.plan(make("loss", "SquareError", label, make("y", "Plus", make("d", "Plus", c, a), label)))
    return plan, Names({node: number for number, node in enumerate(plan.network)})


def fused(plan: Plan, name: str) -> tuple[Step, GradientStep]:
    (step,) = [one for one in plan.steps if isinstance(one, Step) and name in [node.name for node in one.nodes]]
    (back,) = [one for one in plan.gradients if isinstance(one, GradientStep) and one.step is step]
    return step, back


def test_trees_of_values_and_gradients() -> None:
    plan, names = products()
    step, back = fused(plan, "d")
    network = plan.network
    assert is_elementwise(step)
    given = {names.value(network[name]): number for name, number in {"a": 3.0, "b": 5.0, "l": 2.0}.items()}
    inner = {"ab": 15.0, "c": 45.0, "d": 48.0}
    (tree,) = [one for node, one in forward_trees(step, names).items() if node is step.nodes[-1]]
    wanted = {"d": 48.0, "y": 50.0}[step.nodes[-1].name]
    assert value_of(tree, **given) == wanted
    source = names.gradient(back.sources[0])
    kept = {names.value(network[name]): number for name, number in inner.items()}
    trees = gradient_trees(back, names, path_of(plan))
    found = {node.name: value_of(tree, **given, **kept, **{source: 7.0}) for node, tree in trees.items()}
    assert found == {"a": 7.0 * (2 * 3 * 5 + 1), "b": 7.0 * 9}


def test_trees_over_other_trees() -> None:
    plan, names = products()
    step, back = fused(plan, "d")
    a, b = plan.network["a"], plan.network["b"]
    given = {a: symbol("p"), b: symbol("q"), plan.network["l"]: symbol("r")}
    (tree,) = [one for node, one in forward_trees(step, names, given).items() if node is step.nodes[-1]]
    assert set(symbols_in_order(tree)) <= {"p", "q", "r"}
    inside = forward_trees(Step(step.nodes, step.reads, step.nodes), names, given)
    trees = gradient_trees(back, names, path_of(plan), {back.sources[0]: symbol("s")}, {**given, **inside})
    assert {node.name: value_of(tree, p=3.0, q=5.0, r=2.0, s=7.0) for node, tree in trees.items()} == {
        "a": 217.0,
        "b": 63.0,
    }


def test_names_in_trees() -> None:
    x, y = symbol("x"), symbol("y")
    tree = (x + y) * x - 2.0
    assert list(symbols_in_order(tree)) == ["x", "y", "x"]
    assert list(symbols_in_order("x")) == []
    other = rename_symbols(tree, {"x": "z"})
    assert list(symbols_in_order(other)) == ["z", "y", "z"]
    assert list(symbols_in_order(tree)) == ["x", "y", "x"]
    assert rename_symbols(2.0, {"x": "z"}) == 2.0
    assert value_of(other, z=3.0, y=4.0) == 19.0


def test_ways_of_gradients() -> None:
    for plan, wanted in (
        (layers(), {"loss": [False, True], "h": [True], "sum": [True, True], "Wx": [True, False]}),
        (recurrent(), {"loss": [False, True], "h": [True], "sum": [False, True], "Rh": [True, True], "past": [True]}),
    ):
        assert {node.name: needs for node, needs in path_of(plan).items()} == wanted


def contexts(node: Node) -> OpContext:
    return OpContext(tuple(bool(child.framed) for child in node.inputs), 2)


def test_gradients_flow_back_by_the_ops_themselves() -> None:
    plan, _ = products()
    network, path = plan.network, path_of(plan)
    values = {"a": 3.0, "b": 5.0, "l": 2.0, "ab": 15.0, "c": 45.0, "d": 48.0, "y": 50.0}
    arrays = {network[name]: np.full((1, 2) if name in "ly" else 2, number) for name, number in values.items()}
    nodes = [network[name] for name in ("ab", "c", "d")]
    arriving = {network["d"]: np.array([7.0, 7.0])}
    flow_back(nodes, arriving, np, arrays.__getitem__, contexts, path)
    assert {node.name: found.tolist() for node, found in arriving.items()} == {
        "d": [7, 7],
        "c": [7, 7],
        "ab": [21, 21],
        "a": [217, 217],
        "b": [63, 63],
    }
    arriving = {network["d"]: np.array([7.0, 7.0])}
    flow_back(nodes, arriving, np, arrays.__getitem__, contexts, path, targets={network["b"]})
    assert [node.name for node in arriving] == ["d", "c", "ab", "b"]
    arriving = {network["c"]: np.array([1.0, 1.0])}
    flow_back(nodes, arriving, np, arrays.__getitem__, contexts, {network["c"]: [False, True]})
    assert {node.name: found.tolist() for node, found in arriving.items()} == {"c": [1, 1], "a": [15, 15]}


def test_what_is_none_of_the_cores_is_looked_at() -> None:
    def forward(xp: Any, inputs: Any, attributes: Any, context: Any) -> Any:
        return inputs[0]

    theirs = Op("Theirs", (1, 1), lambda shapes, _: shapes[0], forward=forward)
    plan = layers()
    ours = plan.network["Wx"].op
    assert (is_foreign(theirs), is_foreign(ours)) == (True, False)
    node = Node("t", theirs, [Input.make("x", (2,))])
    assert foreign_nodes([plan.network["Wx"], node]) == (node,)
    check_value(theirs, np.zeros((3, 2)), (3, 2))
    check_value(theirs, np.zeros((1, 1)), (1,))
    for wrong in (np.zeros((2, 3)), np.zeros(6), 1.0, None):
        with pytest.raises(WrongResult):
            check_value(theirs, wrong, (3, 2))
    with pytest.raises(WrongResult):
        check_value(theirs, np.zeros((1, 1)), (2,))
    with pytest.raises(WrongResult):
        check_value(theirs, np.zeros(2), (1,))


def test_gradients_have_the_shapes_of_inputs() -> None:
    op = Op("Theirs", (2, 2), lambda shapes, _: shapes[0], gradient=test_names_in_trees)
    inputs = [np.zeros((3, 2)), np.zeros(2)]
    check_gradients(op, [np.zeros((3, 2)), None], inputs)
    check_gradients(op, [None, np.zeros(2)], inputs)
    with pytest.raises(WrongResult) as caught:
        check_gradients(op, [None, np.zeros(3)], inputs)
    assert str(caught.value).endswith(" as the gradient of input 2 of Theirs, not one of (2,)")


def test_loops_have_gradients_of_their_own() -> None:
    (loop,) = [step for step in recurrent().gradients if isinstance(step, LoopGradient)]
    assert not is_elementwise(loop.loop.steps[0])
    assert is_elementwise(loop.loop.steps[2])
