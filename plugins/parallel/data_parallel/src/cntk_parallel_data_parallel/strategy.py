"""The strategy: in each step all ranks get the sum of the gradients and make the same update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import Communicator, GradientAggregation, Parallelizer, ParameterStore, Schedule, option, options
from cntk_core.api.parallel import Pending, StepCounts
from cntk_parallel_data_parallel.full import FullPrecision

Array = NDArray[Any]

FULL, QUANTIZED = "full", "quantized"
BITS = (1, 2, 4, 8, 16, 32, 64)


def _check_bits(value: Schedule[int] | None) -> None:
    for bits, _ in value.values if value is not None else ():
        if bits not in BITS:
            raise ValueError(f"gradientBits must be one of {', '.join(map(str, BITS))}, not {bits}")


@options
class DataParallelOptions:
    """Options of the block ``DataParallelSGD``. Those of the aggregation stand in the same block."""

    gradient_bits: Schedule[int] | None = option(default=None, doc="bits of a value on the wire, by epoch")
    use_zero_threshold_for_1_bit_quantization: bool = option(
        default=True,
        key="useZeroThresholdFor1BitQuantization",
        doc="of the quantized aggregation: tell values apart by their sign; false: by the mean of their column",
    )
    use_buffered_async_gradient_aggregation: bool = option(
        default=False, doc="sum the gradients of a minibatch while the next one is computed"
    )
    aggregation: str = option(default="", doc="a gradient aggregation of a plugin, instead of what gradientBits means")

    def __attrs_post_init__(self) -> None:
        _check_bits(self.gradient_bits)

    def aggregation_of(self, epoch: int) -> str:
        """Name of the aggregation of an epoch."""
        if self.aggregation:
            return self.aggregation
        return FULL if self.gradient_bits is None or self.gradient_bits[epoch] >= 32 else QUANTIZED

    @property
    def aggregations(self) -> tuple[str, ...]:
        """Names of all aggregations that epochs have."""
        if self.aggregation or self.gradient_bits is None:
            return (self.aggregation or FULL,)
        return tuple(dict.fromkeys(FULL if bits >= 32 else QUANTIZED for bits, _ in self.gradient_bits.values))


@attrs.define(eq=False)
class _Sum:
    """A sum that was begun in one step and is used in the next one.

    Attributes:
        gradients, header: the sums, when it is done.
        work: goes on in the background.
        before: state of the aggregation before a rank without samples took part; None if it had some.
    """

    gradients: Array
    header: Array
    work: Pending[None]
    before: Mapping[str, Array] | None = None


class DataParallel(Parallelizer):
    """Sums gradients over the ranks in each step, as they are or compressed.

    With double buffering a step updates with the sum of the step before, which was exchanged meanwhile; the first step
    of an epoch updates nothing.
    """

    requires_api = "1.0"
    options = DataParallelOptions
    settings: DataParallelOptions

    def __init__(self, options: Any = None, aggregations: Mapping[str, GradientAggregation] | None = None) -> None:
        super().__init__(options, aggregations or {FULL: FullPrecision()})
        self._pending: _Sum | None = None
        self._spare: list[Array] = []
        self._steps = 0
        self._bytes = 0

    @classmethod
    def needs(cls, options: Any) -> tuple[str, ...]:
        """The aggregations that ``gradientBits`` means in any epoch."""
        names: tuple[str, ...] = options.aggregations
        return names

    def describe(self, epoch: int) -> str:
        """As in the original's log."""
        bits, communicator = self.settings.gradient_bits, self._communicator
        text = f"DataParallelSGD training (myRank = {communicator.rank}, numNodes = {communicator.size}"
        if self.settings.aggregation:
            text += f", aggregation = {self.settings.aggregation})"
        else:
            text += f", numGradientBits = {8 * self._store.dtype.itemsize if bits is None else bits[epoch]})"
        buffered = self.settings.use_buffered_async_gradient_aggregation
        return text + (", BufferedAsyncGradientAggregation is ENABLED" if buffered else "")

    def begin(self, store: ParameterStore, communicator: Communicator) -> None:
        """Begin all aggregations."""
        self._store, self._communicator = store, communicator
        for aggregation in self.aggregations.values():
            aggregation.begin(store, communicator)

    def begin_epoch(self, epoch: int) -> None:
        """Choose the aggregation of the epoch."""
        if self._pending is not None:
            self._pending.work.wait()
            self._pending = None
        self._active = self.aggregations[self.settings.aggregation_of(epoch)]
        self._active.begin_epoch(epoch)

    def reduce(self, store: ParameterStore, counts: StepCounts) -> StepCounts:
        """Sum the gradients and the counts; with double buffering, those of the step before."""
        self._report()
        learned = self._gradients(store)[: store.learned_size]
        if not self.settings.use_buffered_async_gradient_aggregation:
            header, before = counts.header(), self._state_before(counts)
            self._active.aggregate(learned, header, self._communicator)
            total = counts.summed(header)
            self._undo_empty(total, before)
            return total
        return self._reduce_buffered(learned, counts)

    def _gradients(self, store: ParameterStore) -> Array:
        """The gradients, on a GPU if they lie there and can stay; with double buffering they are kept here."""
        buffered = self.settings.use_buffered_async_gradient_aggregation
        if not buffered and self._active.works_on_device(self._communicator):
            lent: Array = store.gradients_in_place()
            return lent
        return store.gradients

    def _reduce_buffered(self, learned: Array, counts: StepCounts) -> StepCounts:
        last, self._pending = self._pending, None
        total: StepCounts | None = None
        if last is not None:
            last.work.wait()
            total = counts.summed(last.header)
            self._undo_empty(total, last.before)
        if total is None or not total.is_end:
            self._pending = self._begin_sum(learned, counts)
        if last is None or total is None:
            learned[...] = 0.0
            nothing = counts.summed(np.zeros_like(counts.header()))
            return attrs.evolve(nothing, pending=True)
        learned[...] = last.gradients
        self._spare.append(last.gradients)
        return total

    def _begin_sum(self, learned: Array, counts: StepCounts) -> _Sum:
        gradients, header = self._spare.pop() if self._spare else np.empty_like(learned), counts.header()
        gradients[...] = learned
        active, before = self._active, self._state_before(counts)

        def work(communicator: Communicator) -> None:
            active.aggregate(gradients, header, communicator)

        return _Sum(gradients, header, self._communicator.background(work), before)

    def _state_before(self, counts: StepCounts) -> Mapping[str, Array] | None:
        """Keep what an aggregation remembers before a step that may turn out to be one without any samples."""
        if counts.samples:
            return None
        return {name: array.copy() for name, array in self._active.state().items()}

    def _undo_empty(self, total: StepCounts, before: Mapping[str, Array] | None) -> None:
        """No update follows a step without samples, so what it took from residuals must not be lost."""
        if total.is_end and before:
            self._active.restore(before)

    def _report(self) -> None:
        self._steps += 1
        if self.show_every and self._steps % self.show_every == 0:
            sent = self._communicator.bytes_sent
            each = (sent - self._bytes) / self.show_every
            self._bytes = sent
            self.say(
                f"\t\t(gradient aggregation stats): {each:.0f} bytes sent in each of {self.show_every} minibatches"
            )

    def state(self) -> Mapping[str, Array]:
        """What the aggregations remember, and the sum that waits for the next step."""
        found: dict[str, Array] = {}
        if self._pending is not None:
            self._pending.work.wait()
            found["pending/gradients"] = self._pending.gradients
            found["pending/header"] = self._pending.header
            found.update({f"before/{name}": array for name, array in (self._pending.before or {}).items()})
        for aggregation_name, aggregation in self.aggregations.items():
            found.update({f"{aggregation_name}/{name}": array for name, array in aggregation.state().items()})
        return found

    def restore(self, state: Mapping[str, Array]) -> None:
        """Take it back. A sum that waits is not dropped by the ``begin_epoch`` before."""
        for name, aggregation in self.aggregations.items():
            aggregation.restore(_part(state, name))
        self._pending = None
        if "pending/gradients" in state:
            gradients, header = np.array(state["pending/gradients"]), np.array(state["pending/header"])
            before = {name: np.array(array) for name, array in _part(state, "before").items()}
            self._pending = _Sum(gradients, header, Pending(), before or None)

    def adopt(self, states: Sequence[Mapping[str, Array]]) -> str:
        """Let each aggregation take over its part."""
        said = [
            aggregation.adopt([_part(state, name) for state in states])
            for name, aggregation in self.aggregations.items()
        ]
        return "; ".join(filter(None, said))


def _part(state: Mapping[str, Array], name: str) -> dict[str, Array]:
    prefix = f"{name}/"
    return {key.removeprefix(prefix): array for key, array in state.items() if key.startswith(prefix)}
