"""Sparse inputs: which stay sparse, and which products take them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cntk_core.network.node import Input, Node
from cntk_core.plan.plan import Loop, Step
from cntk_core.plan.sparse import is_sparse_product


def is_product(node: Node) -> bool:
    """Whether a node multiplies its second input, an array, by its first."""
    product = node.op.traits.product
    return product is not None and product.dense


def is_transposed(node: Node) -> bool:
    """Whether a product has its first input stored as ``(outer, inner)``."""
    product = node.op.traits.product
    return product is not None and product.transposed


def takes_sparse(node: Node, index: int) -> bool:
    """Whether an op reads an input as a sparse matrix, so that it need not be there as an array."""
    if is_product(node):
        return index == 1 and is_sparse_product(node)
    return index in node.op.sparse_inputs


def _takes_either(node: Node, index: int) -> bool:
    """Whether an op reads an input of any kind as a sparse matrix as well: it is a criterion, and these are labels."""
    return node.op.role == "criterion" and index in node.op.sparse_inputs


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
