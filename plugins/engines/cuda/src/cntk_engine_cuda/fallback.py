"""Runs any op by its own description: with CuPy on the device where that works, else on the host with NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cntk_core.api import Node
from cntk_core.api.engines import GradientStep, Step, flow_back, run_forward
from cntk_engine_cuda.gpu import Array, Call
from cntk_engine_cuda.site import Site


class Place:
    """Where a step is computed: its arrays as NumPy's or as CuPy's."""

    def __init__(self, site: Site, nodes: Sequence[Node]) -> None:
        self.site = site
        sparse = any(child in site.sparse for node in nodes for child in node.inputs)
        self.on_device = not sparse and all(node.op.traits.pure_xp for node in nodes)
        self.xp: Any = site.gpu.cupy if self.on_device else np

    def given(self, node: Node) -> Any:
        """What an op is given of a node. What nothing keeps is zeros of its shape."""
        site = self.site
        if node in site.sparse:
            return site.sparse[node].matrix
        if node not in site.values:
            return self.xp.zeros(site.shape(node), dtype=site.dtype)
        return self.take(site.values[node])

    def take(self, array: Array) -> Any:
        """An array of the device for the op."""
        return array if self.on_device else array.get()

    def put(self, target: Array, result: Any, *, accumulate: bool = False) -> None:
        """Write a result of the op to an array of the device."""
        if not target.size:
            return
        if not self.on_device:
            result = self.site.gpu.cupy.asarray(np.ascontiguousarray(result, dtype=target.dtype))
        shaped = result.reshape(target.shape) if result.size == target.size else result
        target[...] = target + shaped if accumulate else shaped


def bind_forward(site: Site, step: Step) -> list[Call]:
    """Return the call that computes a step node by node.

    Results are written when all are there, because one may lie where an input lies.
    """
    site.interpreted.update(step.nodes)

    def compute() -> None:
        place = Place(site, step.nodes)
        inner: dict[Node, Any] = {}
        for node in step.nodes:
            inputs = [inner[child] if child in inner else place.given(child) for child in node.inputs]
            context = site.contexts[node]
            context.saved.clear()
            inner[node] = run_forward(node.op, place.xp, inputs, node.attributes, context)
            if context.training:
                _keep_updates(place, node, inputs)
        results = [inner[node].copy() if len(step.writes) > 1 else inner[node] for node in step.writes]
        for node, result in zip(step.writes, results, strict=True):
            place.put(site.values[node], result)

    return [Call(compute, captured=False)]


def _keep_updates(place: Place, node: Node, inputs: Sequence[Any]) -> None:
    """Write what an op on the host changed in its inputs (running statistics) to the device."""
    for index in node.op.updates:
        if index < len(inputs) and not place.on_device:
            place.put(place.site.values[node.inputs[index]], inputs[index])


def bind_new_axis(site: Site, step: Step) -> list[Call]:
    """Return the call that computes a node that makes a dynamic axis; its size is known only then."""
    (node,) = step.nodes
    site.interpreted.add(node)

    def compute() -> None:
        place = Place(site, step.nodes)
        inputs = [place.given(child) for child in node.inputs]
        made = run_forward(node.op, place.xp, inputs, node.attributes, site.contexts[node])
        site.made[node] = made if place.on_device else site.gpu.cupy.asarray(np.ascontiguousarray(made, site.dtype))

    return [Call(compute, captured=False)]


def bind_gradient(site: Site, step: GradientStep) -> list[Call]:
    """Return the call that computes all gradients of a step."""
    site.interpreted.update(step.step.nodes)
    members, targets = step.step.nodes, [target.node for target in step.targets]

    def compute() -> None:
        place = Place(site, step.step.nodes)
        gradients: dict[Node, Any] = {node: place.take(site.gradients[node]) for node in step.sources}
        flow_back(
            members, gradients, place.xp, place.given, lambda node: site.contexts[node], site.path, targets=targets
        )
        changes = [gradients.get(target.node) for target in step.targets]
        if len(changes) > 1:
            changes = [None if change is None else change.copy() for change in changes]
        for target, change in zip(step.targets, changes, strict=True):
            out = site.gradients[target.node]
            if change is None:
                change = place.xp.zeros(out.shape, dtype=out.dtype)
            place.put(out, change, accumulate=target.accumulate)

    return [Call(compute, captured=False)]
