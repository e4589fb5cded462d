"""Storage: what a program holds beside parameters and inputs, sized for the largest minibatch so far."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from cntk_core.network.node import Node
from cntk_core.plan.plan import Plan

Array = Any
"""An array of NumPy or of a module like it."""


class Storage:
    """The buffers of a plan, what kernels keep from forward to gradient, and room for the time of a step.

    Args:
        plan: its buffers.
        dtype: precision.
        empty: ``(elements, type) -> flat array``: storage.

    Attributes:
        dtype: precision.
        capacity: frames of each dynamic axis for which there is room.
    """

    def __init__(self, plan: Plan, dtype: Any, empty: Callable[[int, Any], Array]) -> None:
        self.dtype = dtype
        self.capacity: dict[str, int] = {}
        self._plan = plan
        self._empty = empty
        self._buffers: list[Array] = []
        self._scratch: dict[Hashable, tuple[str | None, Array]] = {}
        self._workspace: Array = None

    @property
    def nbytes(self) -> int:
        """Bytes of everything."""
        kept = [*self._buffers, *(entry[1] for entry in self._scratch.values())]
        if self._workspace is not None:
            kept.append(self._workspace)
        return sum(int(array.nbytes) for array in kept)

    @property
    def planned(self) -> int:
        """Bytes that the plan's buffers need."""
        size = int(self.dtype.itemsize)
        return sum(
            (each.per_frame * self.capacity.get(each.axis, 0) + each.fixed) * size for each in self._plan.buffers
        )

    def lacking(self, frames: Mapping[str, int]) -> set[str] | None:
        """The dynamic axes for whose frames there is no room; None if nothing is lacking."""
        axes = {axis for axis, count in frames.items() if count > self.capacity.get(axis, -1)}
        return axes if axes or not self._buffers else None

    def grow(self, axes: set[str], frames: Mapping[str, int]) -> None:
        """Make room for more frames of some axes; nobody may use the old buffers and scratch of these any more.

        Sequences are seldom twice as long together, so that there is some room to spare.
        """
        fresh = not self._buffers
        for axis in axes:
            known = self.capacity.get(axis, 0)
            self.capacity[axis] = max(frames[axis], known + known // 4)
        self._scratch = {key: entry for key, entry in self._scratch.items() if entry[0] not in axes}
        made = [None] * len(self._plan.buffers) if fresh else self._buffers
        for index, buffer in enumerate(self._plan.buffers):
            if fresh or (buffer.per_frame and buffer.axis in axes):
                made[index] = None  # what is given back first may be had again
                count = buffer.per_frame * self.capacity.get(buffer.axis, 0) + buffer.fixed
                made[index] = self._empty(count, self.dtype)
        self._buffers = made

    def forget(self) -> None:
        """Give everything back."""
        self.capacity.clear()
        self._buffers = []
        self._scratch.clear()
        self._workspace = None

    def flat(self, index: int, count: int) -> Array:
        """The first elements of a buffer."""
        return self._buffers[index][:count]

    def views(
        self,
        places: Mapping[Node, int],
        frames: Mapping[str, int],
        shaped: Callable[[Array, Node, tuple[int, ...]], Array] | None = None,
    ) -> dict[Node, Array]:
        """Where values or gradients lie: ``(frames, *shape)`` or ``shape``, of those whose number of frames is known.

        Args:
            places: the buffer of each node, ``value_buffer`` or ``gradient_buffer`` of the plan.
            frames: rows of each dynamic axis.
            shaped: ``(flat array, node, shape) -> array``: gives the elements another order than that of the shape.
        """
        found = {}
        for node, index in places.items():
            if node.framed and node.axis not in frames:
                continue
            shape = (frames[node.axis], *node.known_shape) if node.framed else node.known_shape
            flat = self.flat(index, math.prod(shape))
            found[node] = flat.reshape(shape) if shaped is None else shaped(flat, node, shape)
        return found

    def scratch(self, key: Hashable, axis: str | None, each: int, dtype: Any = None) -> Array:
        """Storage of a step that it keeps beside its value, the same for all numbers of frames.

        Args:
            key: names it, as ``(node, what for)``.
            axis: the dynamic axis for whose frames it is; None if the number of frames does not matter.
            each: elements for each frame for which there is room, or in all.
            dtype: precision; None is that of the program.

        Returns:
            A flat array, at least as long.
        """
        if key not in self._scratch:
            count = each if axis is None else each * self.capacity[axis]
            self._scratch[key] = axis, self._empty(count, dtype or self.dtype)
        return self._scratch[key][1]

    def fixed(self, key: Hashable, count: int) -> Array:
        """Storage for a node, whatever the number of frames: a flat array, at least as long as asked for."""
        if key not in self._scratch or self._scratch[key][1].size < count:
            self._scratch[key] = None, self._empty(count, self.dtype)
        return self._scratch[key][1]

    def workspace(self, count: int) -> Array:
        """Storage for the time of one step: a flat array, the same for all steps."""
        if self._workspace is None or self._workspace.size < count:
            self._workspace = self._empty(count, self.dtype)
        return self._workspace[:count]


def axis_of_scratch(node: Node) -> str | None:
    """The dynamic axis for whose frames a node has scratch; None if it has no frames."""
    return node.axis if node.framed else next((child.axis for child in node.inputs if child.framed), None)
