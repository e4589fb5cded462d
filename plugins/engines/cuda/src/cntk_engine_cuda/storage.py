"""Storage on the device: a plan's buffers, and what is said when its memory does not suffice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from cntk_core.api import Node, Plan, TrainingError
from cntk_core.api.engines import Storage, axis_of_scratch
from cntk_engine_cuda.gpu import Array, Gpu


class DeviceStorage(Storage):
    """The buffers of a plan, what kernels keep from forward to gradient, and room for the time of a step.

    Args:
        gpu: the device.
        plan: its buffers.
        dtype: precision.
        frames_of: rows of each dynamic axis in the present minibatch.
    """

    def __init__(self, gpu: Gpu, plan: Plan, dtype: np.dtype[Any], frames_of: Callable[[], Mapping[str, int]]) -> None:
        super().__init__(plan, dtype, lambda count, dtype: gpu.empty(count, dtype))
        self._gpu = gpu
        self._frames_of = frames_of

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

    def scratch_of(self, node: Node, purpose: str, each: int, dtype: Any = None) -> Array:
        """Storage of ``each`` elements for each frame, or in all if the node has no frames."""
        axis = axis_of_scratch(node)
        rows = 1 if axis is None else self._frames_of()[axis]
        return self.scratch((node, purpose), axis, each, dtype)[: rows * each]

    def fixed_of(self, node: Node, purpose: str, count: int) -> Array:
        """Storage for a node, whatever the number of frames."""
        return self.fixed((node, purpose), count)


def _bytes(count: int) -> str:
    for unit, size in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if count >= 1 << size:
            return f"{count / (1 << size):.1f} {unit}"
    return f"{count} bytes"
