"""All inputs of a plan on the device: those that stay sparse, labels that may, and the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cntk_core.api import Node, Plan
from cntk_core.api.engines import Inlets
from cntk_engine_cuda.gpu import Array, Gpu
from cntk_engine_cuda.inputs import Inlet
from cntk_engine_cuda.sparse import SparseInlet


class DeviceInlets(Inlets[Inlet, SparseInlet]):
    """Takes in minibatches.

    Args:
        gpu: the device.
        plan: its inputs.
        dtype: precision.
    """

    def __init__(self, gpu: Gpu, plan: Plan, dtype: np.dtype[Any]) -> None:
        super().__init__(plan, lambda node: Inlet(gpu, node, dtype), lambda node: SparseInlet(gpu, node, dtype))

    @property
    def nbytes(self) -> int:
        """Bytes of copies on the device."""
        return sum(inlet.nbytes for inlet in self.dense.values())

    def reserve(self, axes: set[str], capacity: Mapping[str, int]) -> None:
        """Have places for as many frames as there is room for, on some axes."""
        for node, inlet in self.dense.items():
            if not node.framed:
                inlet.reserve(1)
            elif node.axis in axes:
                inlet.reserve(capacity[node.axis])

    def values(self, frames: Mapping[str, int]) -> dict[Node, Array]:
        """The values of the inputs that are not sparse, for so many frames."""
        sparse = self.sparse()
        return {
            node: inlet.view(frames[node.axis]) if node.framed else inlet.view(1)[0]
            for node, inlet in self.dense.items()
            if node not in sparse
        }
