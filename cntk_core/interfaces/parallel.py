"""Communicator, gradient aggregation and strategy: the three layers of parallel training."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs
from numpy.typing import NDArray

from cntk_core.interfaces.component import Component

if TYPE_CHECKING:
    from cntk_core.training.store import ParameterStore


class Communicator(Component):
    """Moves arrays between ranks. It knows nothing of training. Made without arguments."""

    rank: int = 0
    size: int = 1

    @abstractmethod
    def allreduce(self, array: NDArray[Any]) -> None:
        """Sum ``array`` over all ranks, in place, added in the order of the ranks."""

    @abstractmethod
    def allgather(self, array: NDArray[Any]) -> list[NDArray[Any]]:
        """Return the arrays of all ranks, by rank."""

    @abstractmethod
    def broadcast(self, array: NDArray[Any], root: int = 0) -> None:
        """Overwrite ``array`` with that of rank ``root``, in place."""

    @abstractmethod
    def barrier(self) -> None:
        """Wait until every rank is here."""

    @abstractmethod
    def abort(self, reason: str) -> None:
        """End all ranks."""


@attrs.frozen
class StepCounts:
    """What rides along with the gradients: samples of the minibatch and sums of the criteria, by name."""

    samples: int
    criteria: Mapping[str, float]


class Parallelizer(Component):
    """A way to train on several ranks. Made as ``Parallelizer(options)``.

    Gradient schemes fill :meth:`reduce`, model schemes :meth:`sync`; both do nothing by default.
    """

    def __init__(self, options: Any = None) -> None:
        self.settings = options if options is not None else type(self).options()

    def begin(self, store: ParameterStore, communicator: Communicator) -> None:
        """Called once before training."""

    def reduce(self, store: ParameterStore, counts: StepCounts) -> StepCounts:
        """Merge the gradients in the store over all ranks, in place; return the counts of all ranks together."""
        return counts

    def sync(self, store: ParameterStore, counts: StepCounts, *, epoch_end: bool = False) -> None:
        """Merge the parameters after an update, when it is time to."""

    def state(self) -> Mapping[str, NDArray[Any]]:
        """Arrays to keep in a checkpoint (residuals, block state)."""
        return {}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take back what :meth:`state` gave."""

    def finish(self) -> None:
        """Called once after training, also after a failure."""
