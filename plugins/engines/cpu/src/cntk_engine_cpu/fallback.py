"""Runs any op by its own description, with NumPy: for ops without a kernel of this engine."""

from __future__ import annotations

import numpy as np

from cntk_core.api import Node
from cntk_core.api.engines import GradientStep, Step, flow_back, run_forward
from cntk_engine_cpu.site import Array, Call, Site


def bind_forward(site: Site, step: Step) -> Call:
    """Return the call that computes a step node by node.

    Results are written when all are there, because one may lie where an input lies.
    """
    site.interpreted.update(step.nodes)

    def compute() -> None:
        inner: dict[Node, Array] = {}
        for node in step.nodes:
            inputs = [inner[child] if child in inner else site.given(child) for child in node.inputs]
            site.contexts[node].saved.clear()
            inner[node] = run_forward(node.op, np, inputs, node.attributes, site.contexts[node])
        results = apart([inner[node] for node in step.writes])
        for node, result in zip(step.writes, results, strict=True):
            site.values[node][...] = result.reshape(site.values[node].shape)

    return Call(compute)


def apart(arrays: list[Array]) -> list[Array]:
    """Copy those of several results that are views of others: one may lie where another one is written to."""
    if len(arrays) == 1:
        return arrays
    return [array if array.base is None else np.array(array) for array in arrays]


def bind_new_axis(site: Site, step: Step) -> Call:
    """Return the call that computes a node that makes a dynamic axis; its size is known only then."""
    (node,) = step.nodes
    site.interpreted.add(node)

    def compute() -> None:
        inputs = [site.given(child) for child in node.inputs]
        site.made[node] = run_forward(node.op, np, inputs, node.attributes, site.contexts[node])

    return Call(compute)


def bind_gradient(site: Site, step: GradientStep) -> Call:
    """Return the call that computes all gradients of a step."""
    site.interpreted.update(step.step.nodes)
    members, targets = step.step.nodes, [target.node for target in step.targets]

    def compute() -> None:
        gradients: dict[Node, Array] = {node: site.gradients[node] for node in step.sources}
        flow_back(members, gradients, np, site.given, lambda node: site.contexts[node], site.path, targets=targets)
        changes = apart([np.asarray(gradients.get(target.node, 0.0)) for target in step.targets])
        for target, change in zip(step.targets, changes, strict=True):
            out = site.gradients[target.node]
            shaped = change.reshape(out.shape) if change.size == out.size else change
            if target.accumulate:
                out += shaped
            else:
                out[...] = shaped

    return Call(compute)
