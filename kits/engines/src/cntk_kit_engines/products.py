"""Ops that are products of two matrices (Times, TransposeTimes)."""

from __future__ import annotations

from typing import Any

from cntk_core.network.node import Node
from cntk_core.ops.language.shapes import elements
from cntk_kit_engines.sparse_inputs import is_transposed

Array = Any
"""An array of NumPy or of a module like it."""


def matrices(node: Node, weights: Array, rows: Array) -> tuple[Array, Array] | None:
    """Return the operands of a product as matrices; None if it is no plain one.

    Args:
        node: a product.
        weights: the left operand, or something of its size.
        rows: the right operand, or something of its size. It may have no rows.

    Returns:
        The left operand as it is stored, ``(inner, outer)``, or ``(outer, inner)`` if that is transposed, and the
        right one as ``(rows, inner)``.
    """
    product = node.op.traits.product
    assert product is not None, f"{node.op.name} is no product"
    left, right = node.inputs
    size = elements(left.known_shape)
    if left.framed or size == 0:
        return None
    dims, outer_axes = left.known_shape, product.outer(node.attributes)
    if product.transposed:
        if len(dims) > 2 or outer_axes != 1:
            return None
        outer, inner = (dims[0], dims[1]) if len(dims) == 2 else (1, dims[0])
        stored = weights.reshape(outer, inner)
    else:
        outer = elements(dims[len(dims) - outer_axes :])
        inner = size // outer
        stored = weights.reshape(inner, outer)
    if elements(right.known_shape) % inner:
        return None
    return stored, rows.reshape(rows.size // inner, inner)


def results(node: Node, array: Array, stored: Array) -> Array:
    """Return a product's value or gradient as ``(rows, outer)``, for the left operand as :func:`matrices` gives it."""
    outer = stored.shape[0] if is_transposed(node) else stored.shape[1]
    return array.reshape(array.size // outer, outer)
