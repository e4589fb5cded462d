"""The aggregation topk: the largest values go over the wire with their places (Aji and Heafield 2017, section 3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_core.api import Communicator, GradientAggregation, ParameterStore, option, options

Array = NDArray[Any]


@options
class TopKOptions:
    """What the block of the strategy may say of it."""

    share: float = option(default=0.25, doc="share of the values that is sent")


class TopK(GradientAggregation):
    """Each rank sends its largest values; the sum of what all send is the same everywhere."""

    options = TopKOptions
    requires_api = "1.0"

    def begin(self, store: ParameterStore, communicator: Communicator) -> None:
        """Nothing was left out yet."""
        super().begin(store, communicator)
        self.left = np.zeros(store.gradients.size, np.float64)

    def aggregate(self, gradients: Array, header: Array, communicator: Communicator) -> None:
        """Sum what the ranks send, in place and in the order of the ranks; the header is summed exactly."""
        left = self.left[: gradients.size]
        left += gradients
        count = max(1, round(self.settings.share * gradients.size))
        places = np.sort(np.argpartition(-np.abs(left), count - 1)[:count])
        values = left[places]
        left[places] = 0
        all_places, all_values = communicator.allgather(places), communicator.allgather(values)
        total = np.zeros(gradients.size, np.float64)
        for theirs, sent in zip(all_places, all_values, strict=True):
            total[theirs] += sent
        gradients[...] = total
        communicator.allreduce(header)

    def state(self) -> Mapping[str, Array]:
        """What was left out, for a checkpoint."""
        return {"left": self.left}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Take it back."""
        self.left[...] = state["left"]
