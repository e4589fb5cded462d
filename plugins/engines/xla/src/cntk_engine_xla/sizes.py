"""How large the dynamic axes of a minibatch are: frames, and rows with padding."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

import jax.numpy as jnp
import numpy as np

from cntk_core.api import Node, SequenceLayout
from cntk_core.api.engines import Axes
from cntk_engine_xla.buckets import bucket
from cntk_engine_xla.layouts import TimeSteps, sequences_bucket, slots_bucket, time_steps
from cntk_engine_xla.lowering import Array


class Sizes:
    """Sizes of the dynamic axes in the present minibatch.

    Args:
        axes: what the program knows of them.
        timed: those over whose time steps compiled functions go.
    """

    def __init__(self, axes: Axes, timed: AbstractSet[str]) -> None:
        self._axes = axes
        self._timed = timed
        self._layouts: dict[str, SequenceLayout] = {}
        self._rows: dict[str, int] = {}
        self._counts: dict[str, tuple[int, Array]] = {}

    def begin(self) -> None:
        """Begin a minibatch: forget the one before, unless it had the same layouts."""
        layouts = self._axes.layouts
        # Layouts never change; one that is kept here is equal to itself only. Others follow when the host makes axes.
        if layouts != self._layouts or not self._rows.keys() <= layouts.keys():
            self._layouts = dict(layouts)
            self._rows.clear()

    def rows(self, axis: str) -> int:
        """The rows of a dynamic axis, padding included."""
        found = self._rows.get(axis)
        if found is None:
            layout, loops = self._axes.layouts[axis], axis in self._timed
            sequences = loops or layout.steps > 1
            frames = self._axes.frames[axis]
            found = self._rows[axis] = sequences_bucket(layout, loops=loops) if sequences else bucket(frames)
        return found

    def of(self, node: Node) -> tuple[int, int]:
        """The frames and the rows of a node with a dynamic axis."""
        return self._axes.frames[node.axis], self.rows(node.axis)

    def slots(self, axis: str) -> int:
        """The parallel sequences of a dynamic axis with loops, padding included."""
        return slots_bucket(self._axes.layouts[axis].slots)

    def count(self, axis: str) -> Array:
        """How many frames a dynamic axis has, on the device; it stays there while it does not change."""
        frames = self._axes.frames[axis]
        found = self._counts.get(axis)
        if found is None or found[0] != frames:
            found = self._counts[axis] = frames, jnp.array(frames, np.int64)
        return found[1]

    def steps(self, axis: str) -> TimeSteps:
        """The time steps of a dynamic axis with loops."""
        return time_steps(self._axes.layouts[axis], self.rows(axis))
