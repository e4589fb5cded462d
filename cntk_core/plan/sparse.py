"""Products with sparse inputs: parameters of which one minibatch sees only some columns."""

from __future__ import annotations

from collections.abc import Sequence

from cntk_core.network.node import Input, Node, Parameter
from cntk_core.ops.shapes import elements
from cntk_core.plan.plan import GradientStep, Loop, LoopGradient, Step


def is_sparse_product(node: Node) -> bool:
    """Whether a node is ``Times(W, x)`` of a ``W`` without frames and a sparse input ``x`` that is summed up whole.

    Then ``W`` is, in memory order, a matrix with one row for each element of ``x``.
    """
    if node.op.name != "Times":
        return False
    left, right = node.inputs
    if not isinstance(right, Input) or not right.sparse or left.framed:
        return False
    dims = left.known_shape
    inner = elements(dims[: len(dims) - node.attributes.output_rank])
    return inner > 0 and inner == elements(right.known_shape)


def find_sparse(
    gradients: Sequence[GradientStep | LoopGradient], trained: Sequence[Parameter]
) -> dict[Parameter, tuple[Input, ...]]:
    """Return the trained parameters whose gradients come from products with sparse inputs alone, with these inputs."""
    found: dict[Parameter, dict[Input, None]] = {}
    others: set[Node] = set()
    for step in gradients:
        for target in step.targets:
            source = None if isinstance(step, LoopGradient) else _input_of(step.step.nodes, target.node)
            if source is None:
                others.add(target.node)
            elif isinstance(target.node, Parameter):
                found.setdefault(target.node, {})[source] = None
    return {parameter: tuple(found[parameter]) for parameter in trained if parameter in found.keys() - others}


def _input_of(nodes: Sequence[Node], target: Node) -> Input | None:
    node = nodes[0]
    if len(nodes) != 1 or not is_sparse_product(node) or node.inputs[0] is not target:
        return None
    right = node.inputs[1]
    return right if isinstance(right, Input) else None


def inputs_of_products(steps: Sequence[Step | Loop], roots: Sequence[Node]) -> frozenset[Input]:
    """Return the sparse inputs that only products (:func:`is_sparse_product`) read: nothing needs them dense."""
    found: set[Input] = set()
    others: set[Node] = set(roots)
    for step in steps:
        product = not isinstance(step, Loop) and is_sparse_product(step.nodes[0])
        for node in step.reads:
            if product and isinstance(node, Input):
                found.add(node)
            else:
                others.add(node)
    return frozenset(found - others)
