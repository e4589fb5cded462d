"""What schemes have in common that merge models: blocks, who has ended, workers of several ranks, statistics."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import (
    Communicator,
    GradientAggregation,
    Parallelizer,
    ParameterStore,
    Schedule,
    TrainingError,
    option,
    options,
)
from cntk_core.api.parallel import StepCounts
from cntk_parallel_bmuf.inside import Inside, WorkerGradients, WorkerStrategy, aggregation_names

Array = NDArray[Any]

ALWAYS_SHOWN = 5
"""Merges of an epoch that are shown if any are, as in the original."""

_BLOCK = "block"
_INSIDE = "inside/"


@options
class BlockOptions:
    """Options that all schemes share. A worker is a rank, or a group of ranks that learn together inside of a block."""

    default_block_size_per_worker: ClassVar[int] = 40000

    block_size: int | None = option(default=None, doc="samples of all workers between two merges")
    block_size_per_worker: int | None = option(
        default=None, aliases=("syncPeriod", "syncFrequencyInFrames"), doc="samples of each worker between two merges"
    )
    ranks_per_worker: int = option(
        default=1, doc="ranks that make up one worker; without localMethod they sum gradients in each step"
    )
    gradient_bits: Schedule[int] | None = option(
        default=None, doc="bits of a gradient's value on the wire inside a worker, by epoch"
    )
    aggregation: str = option(
        default="", doc="a gradient aggregation of a plugin inside a worker, instead of what gradientBits means"
    )
    local_method: str = option(
        default="", doc="a strategy of a worker's ranks instead of sums of gradients; its options in a block so named"
    )

    def __attrs_post_init__(self) -> None:
        if self.block_size is not None and self.block_size_per_worker is not None:
            raise ValueError("blockSize and blockSizePerWorker are two ways to say the same; give one of them")
        if any(size is not None and size < 1 for size in (self.block_size, self.block_size_per_worker)):
            raise ValueError("a block has at least one sample")
        if self.ranks_per_worker < 1:
            raise ValueError("ranksPerWorker must be at least 1")
        sums = bool(self.aggregation) or self.gradient_bits is not None
        if self.ranks_per_worker == 1 and sums:
            raise ValueError("gradientBits and aggregation mean gradients inside a worker: give ranksPerWorker, too")
        if self.ranks_per_worker == 1 and self.local_method:
            raise ValueError("localMethod says how the ranks of a worker learn: give ranksPerWorker, too")
        if sums and self.local_method:
            raise ValueError("gradientBits and aggregation mean sums of gradients, and localMethod something else")
        aggregation_names(self.gradient_bits, self.aggregation)

    def samples_per_worker(self, workers: int) -> int:
        """Return the samples after which a worker wants to merge. At least one, however small a block is."""
        if self.block_size is not None:
            return max(1, self.block_size // workers)
        if self.block_size_per_worker is not None:
            return self.block_size_per_worker
        return self.default_block_size_per_worker


@attrs.define
class _Statistics:
    """How long merges take and how much is learned between them.

    Attributes:
        merges: in this epoch.
        waited: seconds that this rank waited for others at the ends of blocks, in this epoch.
        since: time of the last line.
        learned, learned_by_all: samples since the last line.
    """

    merges: int = 0
    waited: float = 0.0
    since: float = 0.0
    learned: int = 0
    learned_by_all: int = 0


class BlockScheme(Parallelizer):
    """Workers train on their own, and at the end of each block their models become one.

    ``local`` is how the ranks of a worker learn together, if that is no sum of gradients.

    A block ends when every worker has learned its samples of it. Once a worker's data have ended no block ends before
    the epoch does; then all models are merged, with what each has learned since the last time.
    """

    reduces_gradients = False
    saves_inside = True
    settings: BlockOptions

    def __init__(self, options: Any = None, aggregations: Mapping[str, GradientAggregation] | None = None) -> None:
        super().__init__(options, aggregations)
        self._samples = self._own = 0
        self._someone_ended = False
        self.local: Parallelizer | None = None
        self._inside: Inside | None = None
        self._team: Communicator | None = None
        self._statistics = _Statistics()

    @classmethod
    def needs(cls, options: Any) -> tuple[str, ...]:
        """The aggregations inside workers."""
        if options.ranks_per_worker == 1 or options.local_method:
            return ()
        return aggregation_names(options.gradient_bits, options.aggregation)

    # -- workers ------------------------------------------------------------------------------------------

    @property
    def workers(self) -> int:
        """Number of workers."""
        return self._between.size

    @property
    def _learned(self) -> Any:
        """The learned parameters, wherever an engine has kept them until now."""
        return self._store.values[: self._store.learned_size]

    def begin(self, store: ParameterStore, communicator: Communicator) -> None:
        """Put the ranks into workers.

        Raises:
            TrainingError: they cannot be divided that way.
        """
        self._store = store
        self._all = self._between = communicator
        each = self.settings.ranks_per_worker
        if communicator.size % each:
            raise TrainingError(
                f"{communicator.size} ranks cannot be divided into workers of {each}",
                hint=f"Start a multiple of ranksPerWorker = {each} ranks.",
            )
        if each > 1:
            self._team = communicator.split(communicator.rank // each)
            self._between = communicator.split(communicator.rank % each)
        self._block = self.settings.samples_per_worker(self.workers)
        if self._team is None:
            return
        if self.local is None:
            self.group = self._team
            self._inside = WorkerGradients(self.settings, self.aggregations, store, self._team)
        else:
            self.local.say, self.local.show_every = self.say, self.show_every
            self._inside = WorkerStrategy(self.local, store, self._team, -(-self._block // each))

    def begin_epoch(self, epoch: int) -> None:
        """Begin a block."""
        self._samples = self._own = 0
        self._someone_ended = False
        self._statistics = _Statistics(since=time.monotonic())
        if self._inside is not None:
            self._inside.begin_epoch(epoch)

    def reduce(self, store: ParameterStore, counts: StepCounts) -> StepCounts:
        """Sum gradients over the ranks of a worker, if it has more than one."""
        return counts if self._inside is None else self._inside.reduce(store, counts)

    # -- blocks -------------------------------------------------------------------------------------------

    def sync(self, store: ParameterStore, counts: StepCounts, *, epoch_end: bool = False) -> None:
        """Merge the models if every worker is at the end of its block, and at the end of an epoch."""
        self._samples += counts.samples
        self._own += counts.samples
        self.has_met = False
        arrived = self._samples >= self._block
        if self._inside is not None and self.group is None:
            arrived = self._inside.sync(store, counts, epoch_end=epoch_end)
            if arrived:
                self._samples = self._of_team(self._own)
        if self._someone_ended:
            everybody_arrived, total = False, 0
        elif epoch_end or arrived:
            everybody_arrived, total = self._meet(epoch_end)
        else:
            return
        if epoch_end:
            self._close_block(store, self._add(self._samples)[0])
        elif everybody_arrived:
            self._close_block(store, total)
            self.has_met = True

    def _meet(self, ends: bool) -> tuple[bool, int]:
        """Hear from every worker: one call of each in each block. Returns whether none has ended, and the samples."""
        began = time.monotonic()
        ended, total = self._add(float(ends), self._samples)
        self._statistics.waited += time.monotonic() - began
        self._someone_ended = ended > 0
        return ended == 0, total

    def _add(self, *numbers: float) -> tuple[int, ...]:
        header = np.array(numbers, np.float64)
        self._between.allreduce(header)
        return tuple(round(number) for number in header.tolist())

    def _of_team(self, own: int) -> int:
        """Return the sum of a number of each rank of this worker."""
        assert self._team is not None
        total = np.array([own])
        self._team.allreduce(total)
        return int(total[0])

    def _close_block(self, store: ParameterStore, total: int) -> None:
        began = time.monotonic()
        self.merge(store, self._samples, total)
        if self._inside is not None:
            self._inside.begin_block()
        self._report(total, time.monotonic() - began)
        self._samples = self._own = 0

    @abstractmethod
    def merge(self, store: ParameterStore, samples: int, total: int) -> None:
        """Give all workers the same learned parameters.

        Args:
            store: parameters and the learner's slots.
            samples: what this worker has learned in the block.
            total: what all workers have; perhaps 0 at the end of an epoch.
        """

    def _report(self, total: int, seconds: float) -> None:
        found = self._statistics
        found.merges += 1
        found.learned += self._samples
        found.learned_by_all += total
        if not self.show_every or (found.merges > ALWAYS_SHOWN and found.merges % self.show_every):
            return
        now = time.monotonic()
        passed, found.since = now - found.since, now
        title = f"\t\t(model aggregation stats) {found.merges}-th sync: "
        self.say(
            f"{title}{passed:8.2f} seconds since last report ({seconds:.2f} seconds on comm.); "
            f"{found.learned_by_all} samples processed by {self.workers} workers ({found.learned} by me); "
            f"{found.waited:.2f} seconds of this epoch waiting for others"
        )
        if passed > 0:
            rate = found.learned_by_all / passed / 1000
            self.say(
                f"{title}totalThroughput = {rate:.2f}k samplesPerSecond , "
                f"throughputPerWorker = {rate / self.workers:.2f}k samplesPerSecond"
            )
        found.learned = found.learned_by_all = 0

    # -- state --------------------------------------------------------------------------------------------

    def state(self) -> Mapping[str, Array]:
        """How far the block is, who works with whom, and what the aggregation inside the worker remembers."""
        place = 0 if self._team is None else self._team.rank
        found: dict[str, Array] = {
            _BLOCK: np.array([self._samples, self._someone_ended, self.workers, place], np.int64),
        }
        if self._inside is not None:
            found.update({f"{_INSIDE}{name}": array for name, array in self._inside.state().items()})
        return found

    def restore(self, state: Mapping[str, Array]) -> None:
        """Go on inside the block."""
        samples, ended, workers, _ = state[_BLOCK].tolist()
        self._samples, self._someone_ended = samples, bool(ended)
        if workers != self.workers:
            self.say(f"The ranks of the checkpoint were {workers} workers, now they are {self.workers}.")
        elif self._inside is not None:
            self._inside.restore(_inside(state))

    def gather(self, state: Mapping[str, Array], name: str) -> Array:
        """Put together an array of which each worker has kept :meth:`part`. All ranks call this with what they kept."""
        own = np.ascontiguousarray(state[name])
        is_first = state[_BLOCK][3] == 0
        return np.concatenate(self._all.allgather(own if is_first else own[:0]))

    def part(self, whole: Array) -> Array:
        """Return the part of an array, equal on all workers, that this one keeps in a checkpoint."""
        return np.array_split(whole, self.workers)[self._between.rank]

    def adopt(self, states: Sequence[Mapping[str, Array]]) -> str:
        """Begin a block; let the aggregation take over its part."""
        workers, _ = self.workers_of(states)
        said = [] if self._inside is None else [self._inside.adopt([_inside(state) for state in states])]
        before = self.settings.samples_per_worker(workers)
        if before != self._block:
            said.append(f"a block has {self._block} samples of each worker instead of {before}")
        if workers != self.workers:
            said.append(f"there are {self.workers} workers instead of {workers}")
        return "; ".join(filter(None, said))

    @staticmethod
    def workers_of(states: Sequence[Mapping[str, Array]]) -> tuple[int, list[Mapping[str, Array]]]:
        """Return how many workers the ranks of a checkpoint were, and the state of the first rank of each."""
        firsts = [state for state in states if state[_BLOCK][3] == 0]
        return len(firsts), firsts


def _inside(state: Mapping[str, Array]) -> dict[str, Array]:
    """The part of a state that belongs to the aggregation inside a worker."""
    return {name.removeprefix(_INSIDE): array for name, array in state.items() if name.startswith(_INSIDE)}
