"""Dropout on the device, with the random numbers of every engine; the gradient draws them again."""

from __future__ import annotations

import numpy as np

from cntk_core.api import Node
from cntk_core.api.engines import GradientStep, Step, stream_key
from cntk_engine_cuda.gpu import THREADS, Array, Call
from cntk_engine_cuda.site import Site

MASK = (1 << 64) - 1


def bind_forward(site: Site, step: Step) -> list[Call]:
    """Return the calls of Dropout."""
    (node,) = step.nodes
    return _calls(site, node, site.values[node.inputs[0]], site.values[node], accumulate=False)


def bind_gradient(site: Site, step: GradientStep) -> list[Call]:
    """Return the calls of its gradient."""
    (node,) = step.step.nodes
    (target,) = step.targets
    out = site.gradients[target.node]
    return _calls(site, node, site.gradients[node], out, accumulate=target.accumulate)


def _calls(site: Site, node: Node, given: Array, out: Array, *, accumulate: bool) -> list[Call]:
    count = out.size
    if not count:
        return []
    state = site.random
    seed, number = stream_key(state.seed, site.numbers[node], node.attributes)
    keys = np.uint64(seed & MASK), np.uint64(number & MASK), np.uint64(site.drawn.get(node, 0))
    rate = state.own.get(node.attributes.dropout_rate, state.rate)
    arguments = (given, out, state.step, rate, *keys, np.int64(count), np.int64(accumulate))
    kernel = site.gpu.named("dropout", "dropout", site.dtype)
    return [site.gpu.launch(kernel, site.gpu.grid(count // 8 + 2), (THREADS,), arguments)]
