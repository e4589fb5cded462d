"""Sparse inputs: which stay sparse, and parameters of which one minibatch sees only some columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cntk_core.network.node import Input, Node, Parameter
from cntk_core.ops.language.shapes import elements
from cntk_core.plan.plan import GradientStep, Loop, LoopGradient, Step


def is_product(node: Node) -> bool:
    """Whether a node multiplies its second input, an array, by its first."""
    product = node.op.traits.product
    return product is not None and product.dense


def is_transposed(node: Node) -> bool:
    """Whether a product has its first input stored as ``(outer, inner)``."""
    product = node.op.traits.product
    return product is not None and product.transposed


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


def takes_sparse(node: Node, index: int) -> bool:
    """Whether an op reads an input as a sparse matrix, so that it need not be there as an array."""
    if is_product(node):
        return index == 1 and is_sparse_product(node)
    return index in node.op.sparse_inputs


def _takes_either(node: Node, index: int) -> bool:
    """Whether an op reads an input of any kind as a sparse matrix as well: it is a criterion, and these are labels."""
    return node.op.role == "criterion" and index in node.op.sparse_inputs


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


def sparse_inputs(steps: Sequence[Step | Loop], roots: Sequence[Node]) -> frozenset[Input]:
    """Return the sparse inputs that nothing needs as arrays: ops outside of loops read them as they are."""
    return frozenset(node for node in _read_only(takes_sparse, steps, roots) if node.sparse)


def label_inputs(steps: Sequence[Step | Loop], roots: Sequence[Node]) -> frozenset[Input]:
    """Return the inputs, not declared sparse, that only criteria read, in a place that takes sparse matrices, too.

    A stream that is sparse all the same need not become an array for them.
    """
    return frozenset(node for node in _read_only(_takes_either, steps, roots) if not node.sparse)


def _read_only(takes: Callable[[Node, int], bool], steps: Sequence[Step | Loop], roots: Sequence[Node]) -> set[Input]:
    """The inputs of which every reader takes a sparse matrix."""
    found: set[Input] = set()
    others: set[Node] = set(roots)
    for step in steps:
        if isinstance(step, Loop):
            others.update(step.reads)
            continue
        for node in step.nodes:
            for index, child in enumerate(node.inputs):
                if isinstance(child, Input) and takes(node, index):
                    found.add(child)
                else:
                    others.add(child)
    return found - others
