"""Matrix products, and those with sparse inputs: only the elements that occur take part."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp

from cntk_core.api import Node
from cntk_core.api.engines import is_sparse_product, kernels, quantized_product
from cntk_engine_xla import direct_lowering
from cntk_engine_xla.lowering import Array, SparseRows, Trace, element_count


def _forward(trace: Trace, node: Node, inputs: list[Array]) -> Array:
    weights, data = inputs
    if not isinstance(data, SparseRows):
        return direct_lowering.forward(trace, node, inputs)
    if not is_sparse_product(node):
        return direct_lowering.forward(trace, node, [weights, trace.dense(node.inputs[1], data)])
    matrix = weights.reshape(data.width, -1)
    changes = matrix[data.column] * data.data[:, None]
    zeros = jnp.zeros((data.rows, matrix.shape[1]), matrix.dtype)
    return zeros.at[data.row].add(changes, mode="drop").reshape(trace.shape(node))


def _gradient(
    trace: Trace, node: Node, arriving: Array, inputs: list[Array], needs: Sequence[bool]
) -> Sequence[Array | None]:
    weights, data = inputs
    if not isinstance(data, SparseRows):
        return direct_lowering.gradient(trace, node, arriving, inputs, needs)
    if not is_sparse_product(node):
        return direct_lowering.gradient(trace, node, arriving, [weights, trace.dense(node.inputs[1], data)], needs)
    if not needs[0]:
        return None, None
    rows = arriving.reshape(data.rows, element_count(node))
    changes = rows.at[data.row].get(mode="fill", fill_value=0) * data.data[:, None]
    zeros = jnp.zeros((data.width, rows.shape[1]), weights.dtype)
    return zeros.at[data.column].add(changes).reshape(weights.shape), None


def _quantized(trace: Trace, node: Node, inputs: list[Array]) -> Array:
    """A product in whole numbers, whose range is that of the frames alone."""
    values = [
        trace.masked(value, child.axis) if child.framed else value
        for child, value in zip(node.inputs, inputs, strict=True)
    ]
    return quantized_product(jnp, values, node.attributes, trace.context(node))


KERNELS = (
    *kernels(
        "xla",
        ["Times", "TransposeTimes", "LookupTable"],
        _forward,
        _gradient,
        takes_sparse=frozenset({1}),
        in_loops=True,
    ),
    *kernels("xla", ["QuantizedTimes"], _quantized, in_loops=True),
)
