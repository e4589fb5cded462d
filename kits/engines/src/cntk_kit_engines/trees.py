"""Expression trees of a fused step: of its values, and of the gradients that go out of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import attrs

from cntk_core.network.node import Node
from cntk_core.ops.language.expression import Expr, symbol
from cntk_core.plan.plan import GradientStep, LoopGradient, Plan, Step
from cntk_core.plan.traced import Tree, traced_forward, traced_gradient


@attrs.frozen
class Names:
    """How values are called in the trees: ``v3`` the value and ``g3`` the gradient of the node numbered 3."""

    numbers: Mapping[Node, int]

    def value(self, node: Node) -> str:
        """Name of a node's value."""
        return f"v{self.numbers[node]}"

    def gradient(self, node: Node) -> str:
        """Name of a node's gradient."""
        return f"g{self.numbers[node]}"


def is_elementwise(step: Step) -> bool:
    """Whether all nodes of a step are scalar expressions, so that it is one pass over their elements."""
    return all(node.op.elementwise is not None for node in step.nodes)


def forward_trees(step: Step, names: Names, given: Mapping[Node, Tree] | None = None) -> dict[Node, Tree]:
    """The tree of each value that a step writes, over the values that it reads.

    ``given`` has trees for values that are not there themselves.
    """
    trees: dict[Node, Tree] = dict(given or {})
    for node in step.nodes:
        trees[node] = traced_forward(node, [trees.get(child, symbol(names.value(child))) for child in node.inputs])
    return {node: trees[node] for node in step.writes}


def gradient_trees(
    step: GradientStep,
    names: Names,
    path: Mapping[Node, Sequence[bool]],
    sources: Mapping[Node, Tree] | None = None,
    given: Mapping[Node, Tree] | None = None,
) -> dict[Node, Tree]:
    """The tree of each gradient that goes out of a step, before sums over broadcast axes.

    Args:
        step: the gradient step of element-wise nodes.
        names: how values and gradients are called.
        path: for each node through which a gradient flows, which inputs want one.
        sources: trees of gradients that come in; the others are symbols.
        given: trees of values that are computed instead of read.
    """
    inside = set(step.step.nodes)
    known = {names.value(node) for node in step.reads} | {names.gradient(node) for node in step.sources}
    arriving: dict[Node, Tree] = {node: symbol(names.gradient(node)) for node in step.sources}
    arriving.update(sources or {})
    values: dict[Node, Tree] = dict(given or {})
    for tree in (*arriving.values(), *values.values()):
        known |= tree.symbols() if isinstance(tree, Expr) else set()
    leaving: dict[Node, Tree] = {}
    for node in reversed(step.step.nodes):
        if node not in arriving:
            continue
        inputs = [values.get(child, symbol(names.value(child))) for child in node.inputs]
        output = values.get(node, symbol(names.value(node)))
        results = traced_gradient(node, arriving[node], output, inputs)
        for child, wanted, result in zip(node.inputs, path[node], results, strict=True):
            if not wanted or result is None:
                continue
            place = arriving if child in inside else leaving
            place[child] = place[child] + result if child in place else result
    for tree in leaving.values():
        _check(tree, known)
    return leaving


def _check(tree: Tree, known: AbstractSet[str]) -> None:
    if isinstance(tree, Expr):
        unknown = tree.symbols() - known
        assert not unknown, f"the plan does not keep {sorted(unknown)} for the gradient"


def path_of(plan: Plan) -> dict[Node, list[bool]]:
    """For each node through which a gradient flows, which of its inputs want one."""
    path: dict[Node, list[bool]] = {}
    parts = [part for step in plan.gradients for part in (step.steps if isinstance(step, LoopGradient) else [step])]
    for step in parts:
        wanted = {*step.step.nodes, *(target.node for target in step.targets)}
        arriving = set(step.sources)
        for node in reversed(step.step.nodes):
            if node not in arriving:
                continue
            needs = [node.op.flows_to(index) and child in wanted for index, child in enumerate(node.inputs)]
            known = path.get(node, [False] * len(needs))  # a step of a loop has one part inside it and one after it
            path[node] = [need or before for need, before in zip(needs, known, strict=True)]
            arriving.update(child for child, need in zip(node.inputs, needs, strict=True) if need)
    return path


def symbols_in_order(tree: Tree | str) -> Iterator[str]:
    """The names in a tree as they are met, each as often as it stands there."""
    if isinstance(tree, Expr):
        if tree.operation == "symbol":
            yield str(tree.args[0])
        else:
            for arg in tree.args:
                yield from symbols_in_order(arg)


def rename_symbols(tree: Any, names: Mapping[str, str]) -> Any:
    """A tree with other names for some of its symbols."""
    if not isinstance(tree, Expr):
        return tree
    if tree.operation == "symbol":
        return Expr("symbol", (names.get(str(tree.args[0]), tree.args[0]),))
    return Expr(tree.operation, tuple(rename_symbols(arg, names) for arg in tree.args))
