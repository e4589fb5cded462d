"""Dropout and RandomDistribution: the host draws from the counter-based random numbers of every engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cntk_core.api import Node, OpContext
from cntk_core.api.engines import dropout_rate, kernels, run_forward
from cntk_engine_xla.lowering import Array, Trace


def _draw(context: OpContext, node: Node, shape: tuple[int, ...], rows: int) -> Any:
    """Which elements are kept, and what these are multiplied by; None where all are."""
    rate = dropout_rate(node.attributes, context)
    if rate <= 0.0:
        return None
    kept = context.random().random(shape, dtype=np.float32) >= rate
    if node.framed:
        kept = np.concatenate([kept, np.zeros((rows - shape[0], *shape[1:]), bool)])
    return kept, np.float64(1.0 - rate)


def _scaled(trace: Trace, node: Node, value: Array) -> Array:
    drawn = trace.draws.get(node)
    if drawn is None:
        return value
    kept, share = drawn
    return value * (kept.astype(value.dtype) / share.astype(value.dtype))


def _forward(trace: Trace, node: Node, inputs: list[Array]) -> Array:
    return _scaled(trace, node, inputs[0])


def _gradient(
    trace: Trace, node: Node, arriving: Array, inputs: list[Array], needs: Sequence[bool]
) -> Sequence[Array | None]:
    return (_scaled(trace, node, arriving),)


def _draw_values(context: OpContext, node: Node, shape: tuple[int, ...], rows: int) -> Any:
    """Numbers of a distribution, by the op's own description: its input only says how many."""
    like = [np.zeros(shape, np.float64)] if node.inputs else []
    found = np.asarray(run_forward(node.op, np, like, node.attributes, context), np.float64)
    return np.concatenate([found, np.zeros((rows - shape[0], *shape[1:]))]) if node.framed else found


def _drawn(trace: Trace, node: Node, inputs: list[Array]) -> Array:
    return trace.draws[node]


KERNELS = (
    *kernels("xla", ["Dropout"], _forward, _gradient, draw=_draw, in_loops=True),
    *kernels("xla", ["RandomDistribution"], _drawn, draw=_draw_values),
)
