"""Runs any op by its own description, with NumPy: for ops without a kernel of this engine."""

from __future__ import annotations

from typing import Any

import numpy as np

from cntk_core.api.engines import GradientStep, Step, fallback_forward, fallback_gradient, fallback_new_axis
from cntk_engine_cpu.site import Array, Call, Site


class Place:
    """A step's arrays as they lie."""

    xp: Any = np
    shares = True

    def __init__(self, site: Site) -> None:
        self.given = site.given

    def take(self, array: Array) -> Array:
        """The array itself."""
        return array

    def put(self, target: Array, result: Array, *, accumulate: bool = False) -> None:
        """Write a result."""
        shaped = result.reshape(target.shape) if result.size == target.size else result
        if accumulate:
            target += shaped
        else:
            target[...] = shaped


def bind_forward(site: Site, step: Step) -> Call:
    """Return the call that computes a step node by node."""
    return Call(fallback_forward(site, step, Place(site)))


def bind_new_axis(site: Site, step: Step) -> Call:
    """Return the call that computes a node that makes a dynamic axis; its size is known only then."""
    return Call(fallback_new_axis(site, step, Place(site)))


def bind_gradient(site: Site, step: GradientStep) -> Call:
    """Return the call that computes all gradients of a step."""
    return Call(fallback_gradient(site, step, Place(site)))
