"""Runs any op by its own description: with CuPy on the device where that works, else on the host with NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cntk_core.api import Node
from cntk_core.api.engines import GradientStep, Step, fallback_forward, fallback_gradient, fallback_new_axis
from cntk_engine_cuda.gpu import Array, Call
from cntk_engine_cuda.site import Site


class Place:
    """Where a step is computed: its arrays as NumPy's or as CuPy's."""

    def __init__(self, site: Site, nodes: Sequence[Node]) -> None:
        self.site = site
        sparse = any(child in site.sparse for node in nodes for child in node.inputs)
        self.shares = not sparse and all(node.op.traits.pure_xp for node in nodes)
        self.xp: Any = site.gpu.cupy if self.shares else np

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
        return array if self.shares else array.get()

    def own(self, result: Any) -> Array:
        """A result of the op as an array of the device."""
        if self.shares:
            return result
        return self.site.gpu.cupy.asarray(np.ascontiguousarray(result, self.site.dtype))

    def put(self, target: Array, result: Any, *, accumulate: bool = False) -> None:
        """Write a result of the op to an array of the device."""
        if not target.size:
            return
        result = self.own(result)
        shaped = result.reshape(target.shape) if result.size == target.size else result
        target[...] = target + shaped if accumulate else shaped


def bind_forward(site: Site, step: Step) -> list[Call]:
    """Return the call that computes a step node by node."""
    return [Call(fallback_forward(site, step, Place(site, step.nodes)), captured=False)]


def bind_new_axis(site: Site, step: Step) -> list[Call]:
    """Return the call that computes a node that makes a dynamic axis; its size is known only then."""
    place = Place(site, step.nodes)
    return [Call(fallback_new_axis(site, step, place, place.own), captured=False)]


def bind_gradient(site: Site, step: GradientStep) -> list[Call]:
    """Return the call that computes all gradients of a step."""
    return [Call(fallback_gradient(site, step, Place(site, step.step.nodes)), captured=False)]
