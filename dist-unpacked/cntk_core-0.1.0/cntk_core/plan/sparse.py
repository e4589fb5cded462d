"""Parameters of which one minibatch sees only some columns, because they are multiplied with sparse inputs alone."""

from __future__ import annotations

from collections.abc import Sequence

from cntk_core.network.node import Input, Node, Parameter
from cntk_core.ops.language.shapes import elements
from cntk_core.plan.plan import GradientStep, LoopGradient


def is_sparse_product(node: Node) -> bool:
    """Whether a node is a product of a ``W`` without frames with a sparse input ``x`` that is summed up whole.

    That is ``Times(W, x)``, or ``LookupTable(W, x)`` of one word. Then ``W`` is, in memory order, a matrix with one row
    for each element of ``x``.
    """
    product = node.op.traits.product
    if product is None or product.transposed:
        return False
    left, right = node.inputs
    if not isinstance(right, Input) or not right.sparse or left.framed:
        return False
    dims = left.known_shape
    inner = elements(dims[: len(dims) - product.outer(node.attributes)])
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
