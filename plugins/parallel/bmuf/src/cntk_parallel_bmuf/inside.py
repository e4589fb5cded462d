"""Inside a worker of several ranks: they sum gradients in each step, or each learns apart and they meet at times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from numpy.typing import NDArray

from cntk_core.api import Communicator, GradientAggregation, Parallelizer, ParameterStore, Schedule
from cntk_core.api.parallel import StepCounts

Array = NDArray[Any]

FULL, QUANTIZED = "full", "quantized"
BITS = (1, 2, 4, 8, 16, 32, 64)


class Asked(Protocol):
    """Options that say how gradients are summed."""

    @property
    def gradient_bits(self) -> Schedule[int] | None:
        """Bits of a value on the wire, by epoch."""

    @property
    def aggregation(self) -> str:
        """Name of an aggregation, instead."""


def aggregation_name(bits: Schedule[int] | None, aggregation: str, epoch: int) -> str:
    """Return the name of the aggregation of an epoch."""
    return aggregation or (FULL if bits is None or bits[epoch] >= 32 else QUANTIZED)


def aggregation_names(bits: Schedule[int] | None, aggregation: str) -> tuple[str, ...]:
    """Return the names of the aggregations of all epochs.

    Raises:
        ValueError: there can be no such number of bits.
    """
    values = [bits for bits, _ in bits.values] if bits is not None else [32]
    for value in values:
        if value not in BITS:
            raise ValueError(f"gradientBits must be one of {', '.join(map(str, BITS))}, not {value}")
    if aggregation:
        return (aggregation,)
    return tuple(dict.fromkeys(FULL if value >= 32 else QUANTIZED for value in values))


class Inside(Protocol):
    """How the ranks of a worker learn together."""

    def begin_epoch(self, epoch: int) -> None:
        """Begin an epoch."""

    def begin_block(self) -> None:
        """Go on with another model, that of all workers."""

    def reduce(self, store: ParameterStore, counts: StepCounts) -> StepCounts:
        """Merge gradients; return the counts of those whose gradients they are."""

    def sync(self, store: ParameterStore, counts: StepCounts, *, epoch_end: bool) -> bool:
        """Merge models, where gradients are not; return whether all ranks of the worker are at the end of a block."""

    def state(self) -> dict[str, Array]:
        """What is to be kept."""

    def restore(self, state: Mapping[str, Array]) -> None:
        """Take it back."""

    def adopt(self, states: Sequence[Mapping[str, Array]]) -> str:
        """Take over the states of another number of ranks; say what is different."""


class WorkerGradients:
    """Sums gradients and counts over the ranks of a worker.

    Args:
        asked: which aggregation, by epoch.
        aggregations: by name.
        store: the parameters.
        group: the ranks of the worker.
    """

    def __init__(
        self, asked: Asked, aggregations: Mapping[str, GradientAggregation], store: ParameterStore, group: Communicator
    ) -> None:
        self._asked = asked
        self._aggregations = aggregations
        self._group = group
        for aggregation in aggregations.values():
            aggregation.begin(store, group)

    def _of(self, epoch: int) -> GradientAggregation:
        return self._aggregations[aggregation_name(self._asked.gradient_bits, self._asked.aggregation, epoch)]

    def begin_epoch(self, epoch: int) -> None:
        """Choose the aggregation of the epoch."""
        self._active = self._of(epoch)
        self._active.begin_epoch(epoch)

    def begin_block(self) -> None:
        """Nothing is different."""

    def sync(self, store: ParameterStore, counts: StepCounts, *, epoch_end: bool) -> bool:
        """Merge nothing: the ranks have the same model."""
        return False

    def reduce(self, store: ParameterStore, counts: StepCounts) -> StepCounts:
        """Sum the gradients in the store in place; return the counts of the worker."""
        header = counts.header()
        before = None if counts.samples else {name: array.copy() for name, array in self._active.state().items()}
        self._active.aggregate(store.gradients[: store.learned_size], header, self._group)
        total = counts.summed(header)
        if total.is_end and before:
            # No update follows a step without samples, so what it took from residuals must not be lost.
            self._active.restore(before)
        return total

    def state(self) -> dict[str, Array]:
        """What the aggregations remember."""
        return {
            f"{name}/{key}": array
            for name, aggregation in self._aggregations.items()
            for key, array in aggregation.state().items()
        }

    def restore(self, state: Mapping[str, Array]) -> None:
        """Take it back."""
        for name, aggregation in self._aggregations.items():
            aggregation.restore(_part(state, name))

    def adopt(self, states: Sequence[Mapping[str, Array]]) -> str:
        """Let each aggregation take over its part."""
        said = [
            aggregation.adopt([_part(state, name) for state in states])
            for name, aggregation in self._aggregations.items()
        ]
        return "; ".join(filter(None, said))


class WorkerStrategy:
    """The ranks of a worker learn by a strategy of their own, which merges models, and meet at the ends of blocks.

    Args:
        strategy: how they learn.
        store: the parameters.
        team: the ranks of the worker.
        share: samples of a block that each of them learns before it meets the others.
    """

    def __init__(self, strategy: Parallelizer, store: ParameterStore, team: Communicator, share: int) -> None:
        self._strategy, self._epoch = strategy, 0
        strategy.begin(store, team)
        strategy.meet_every = share

    def begin_epoch(self, epoch: int) -> None:
        """Begin an epoch."""
        self._epoch = epoch
        self._strategy.begin_epoch(epoch)

    def begin_block(self) -> None:
        """Go on with the model of all workers. Nothing is under way where a block ends."""
        self._strategy.begin_epoch(self._epoch)

    def reduce(self, store: ParameterStore, counts: StepCounts) -> StepCounts:
        """Each rank learns what its own gradients say."""
        return counts

    def sync(self, store: ParameterStore, counts: StepCounts, *, epoch_end: bool) -> bool:
        """Let the strategy exchange; return whether all have just met."""
        self._strategy.sync(store, counts, epoch_end=epoch_end)
        return epoch_end or self._strategy.has_met

    def state(self) -> dict[str, Array]:
        """What the strategy remembers."""
        return dict(self._strategy.state())

    def restore(self, state: Mapping[str, Array]) -> None:
        """Take it back."""
        self._strategy.restore(state)

    def adopt(self, states: Sequence[Mapping[str, Array]]) -> str:
        """Begin anew: who works with whom is different now."""
        return "the ranks of a worker begin anew" if any(states) else ""


def _part(state: Mapping[str, Array], name: str) -> dict[str, Array]:
    prefix = f"{name}/"
    return {key.removeprefix(prefix): array for key, array in state.items() if key.startswith(prefix)}
