"""Storage: what a program holds on the device beside parameters and inputs, sized for the largest minibatch so far."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from cntk_core.api import Node, Plan, TrainingError
from cntk_engine_cuda.gpu import Array, Gpu


class Storage:
    """The buffers of a plan, what kernels keep from forward to gradient, and room for the time of a step.

    Args:
        gpu: the device.
        plan: its buffers.
        dtype: precision.
        frames_of: rows of each dynamic axis in the present minibatch.

    Attributes:
        dtype: precision.
        capacity: frames of each dynamic axis for which there is room.
    """

    def __init__(self, gpu: Gpu, plan: Plan, dtype: np.dtype[Any], frames_of: Callable[[], Mapping[str, int]]) -> None:
        self.capacity: dict[str, int] = {}
        self._gpu = gpu
        self._plan = plan
        self.dtype = dtype
        self._frames_of = frames_of
        self._buffers: list[Array] = []
        self._scratch: dict[tuple[Node, str], tuple[str | None, Array]] = {}
        self._workspace: Array = None

    @property
    def nbytes(self) -> int:
        """Bytes on the device."""
        kept = [*self._buffers, *(entry[1] for entry in self._scratch.values()), self.workspace(0)]
        return sum(int(array.nbytes) for array in kept)

    @property
    def planned(self) -> int:
        """Bytes that the plan's buffers need."""
        size = self.dtype.itemsize
        buffers = self._plan.buffers
        return sum((each.per_frame * self.capacity.get(each.axis, 0) + each.fixed) * size for each in buffers)

    def lacking(self, frames: Mapping[str, int]) -> set[str] | None:
        """The dynamic axes for whose frames there is no room; None if nothing is lacking."""
        axes = {axis for axis, count in frames.items() if count > self.capacity.get(axis, -1)}
        return axes if axes or not self._buffers else None

    def grow(self, axes: set[str], frames: Mapping[str, int]) -> None:
        """Make room for more frames of some axes.

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
                made[index] = self._gpu.empty(count, self.dtype)
        self._buffers = made

    def forget(self) -> None:
        """Give everything back."""
        self.capacity.clear()
        self._buffers = []
        self._scratch.clear()
        self._workspace = None

    def shortage(self, parameters: int) -> TrainingError:
        """What is said when the device's memory does not suffice.

        Args:
            parameters: bytes of parameters, gradients and the learner's arrays.
        """
        free, total = self._gpu.cupy.cuda.runtime.memGetInfo()
        frames = max(self.capacity.values(), default=0)
        ours = f"{_bytes(parameters)} for parameters, gradients and the learner"
        if frames:
            ours = f"{_bytes(self.planned)} for minibatches of {frames} frames and {ours}"
        return TrainingError(
            f"the memory of GPU {self._gpu.number} does not suffice: the plan needs {ours}; {_bytes(free)} of "
            f"{_bytes(total)} are free",
            hint="Give a smaller minibatchSize, or maxSamplesInRAM or numSubminibatches to compute a minibatch in "
            "parts; cntk explain shows what the plan keeps.",
        )

    def view(self, index: int, shape: tuple[int, ...]) -> Array:
        """The first elements of a buffer, in a shape."""
        return self._buffers[index][: math.prod(shape)].reshape(shape)

    def scratch(self, node: Node, purpose: str, each: int, dtype: Any = None) -> Array:
        """Storage of ``each`` elements for each frame, or in all if the node has no frames."""
        key = node, purpose
        axis = axis_of_scratch(node)
        rows = 1 if axis is None else self._frames_of()[axis]
        if key not in self._scratch:
            count = each * (1 if axis is None else self.capacity[axis])
            self._scratch[key] = axis, self._gpu.empty(count, dtype or self.dtype)
        return self._scratch[key][1][: rows * each]

    def fixed(self, node: Node, purpose: str, count: int) -> Array:
        """Storage for a node, whatever the number of frames."""
        key = node, purpose
        if key not in self._scratch or self._scratch[key][1].size < count:
            self._scratch[key] = None, self._gpu.empty(count, self.dtype)
        return self._scratch[key][1]

    def workspace(self, count: int) -> Array:
        """Storage for the time of one step."""
        if self._workspace is None or self._workspace.size < count:
            self._workspace = self._gpu.empty(count, self.dtype)
        return self._workspace[:count]


def axis_of_scratch(node: Node) -> str | None:
    """The dynamic axis for whose frames a node has scratch; None if it has no frames."""
    return node.axis if node.framed else next((child.axis for child in node.inputs if child.framed), None)


def _bytes(count: int) -> str:
    for unit, size in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if count >= 1 << size:
            return f"{count / (1 << size):.1f} {unit}"
    return f"{count} bytes"
