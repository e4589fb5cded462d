"""Gradients as they are: one sum over the whole buffer, in place."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from cntk_core.api import Communicator, GradientAggregation


class FullPrecision(GradientAggregation):
    """Adds gradients in their own precision, in the order of the ranks. Nothing is left out, so there is no state."""

    requires_api = "1.0"

    def works_on_device(self, communicator: Communicator) -> bool:
        """If the communicator does."""
        return communicator.takes_device_arrays

    def aggregate(self, gradients: NDArray[Any], header: NDArray[Any], communicator: Communicator) -> None:
        """Sum both in place."""
        communicator.allreduce_all([gradients, header])
