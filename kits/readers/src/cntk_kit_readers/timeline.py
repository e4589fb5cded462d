"""Which sequences make up each minibatch of an epoch.

The sweeps follow each other on an endless timeline of samples. Epoch ``k`` of size ``E`` has the sequences that begin
at samples ``k * E`` to ``(k + 1) * E``, so the last one is kept whole and the next epoch begins after it. A minibatch
takes whole sequences while they fit into its size, at least one, and ends where a sweep ends.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import chain

import attrs
import numpy as np

from cntk_core.contract.reader import EpochSpec
from cntk_core.records.layout import IntArray
from cntk_kit_readers.randomize import Block, SweepOrder


@attrs.frozen(eq=False)
class Picks:
    """The sequences of one minibatch of one rank.

    Attributes:
        chunks, sequences: where the sequences are, in the reader's order.
        samples: how many samples they have.
        sweep: the sweep over the data that they belong to, from 0.
    """

    chunks: IntArray
    sequences: IntArray
    samples: int
    sweep: int = 0


def plan_epoch(order: SweepOrder, epoch: EpochSpec, least: int = 1) -> Iterator[Picks]:
    """Yield the minibatches of an epoch; without samples where a rank has no share of one.

    A minibatch has at least ``least`` sequences (of all ranks) unless the epoch or the sweep ends.

    In file order rank ``r`` of ``R`` takes the sequences ``r, r + R, ...`` and reads on until it has one of them, as
    the original does. In random order each minibatch is divided so that the ranks have about equally many samples.
    """
    size = epoch.epoch_size or order.samples
    if order.samples == 0 or size == 0:
        return
    walk = Walk(order, epoch.epoch * size)
    end = (epoch.epoch + 1) * size
    if epoch.max_samples:
        end = min(end, walk.position + epoch.max_samples)
    resume = walk.position + epoch.skip_samples
    while walk.position < end:
        before, first, sweep = walk.position, walk.sequence, walk.sweep
        block = walk.take(epoch.minibatch_size, end, epoch.rank, epoch.ranks if order.in_file_order else 1, least)
        if before < resume:
            continue
        yield _share(block, first, sweep, epoch, in_file_order=order.in_file_order)


def without_learned(plan: Iterator[Picks], samples: int) -> tuple[list[int], Iterator[Picks]]:
    """Take the minibatches within the first so many samples off a plan. Returns their samples, and the other ones."""
    learned: list[int] = []
    for picks in plan:
        if samples == 0 or picks.samples > samples:
            return learned, chain((picks,), plan)
        learned.append(picks.samples)
        samples -= picks.samples
    return learned, plan


class Walk:
    """A walk along the timeline.

    Args:
        order: of the sweeps.
        position: sample where it begins.

    Attributes:
        position: sample where it is.
        sequence: counted from the start of its first sweep.
        sweep: that it is in, from 0.
    """

    def __init__(self, order: SweepOrder, position: int) -> None:
        self._order = order
        self.sweep, sample = divmod(position, order.samples)
        self.sequence, passed, self._blocks = order.start_at(self.sweep, sample)
        self.position = self.sweep * order.samples + passed
        self._chunks = self._sequences = self._lengths = self._ends = np.zeros(0, dtype=np.int64)
        self._at = 0
        self._fill(1)
        # The epoch begins with the first sequence that begins at its first sample or later.
        self._advance(self._beginning_before(sample - passed))

    def _beginning_before(self, sample: int) -> int:
        """Count the sequences at hand that begin before a sample of those at hand."""
        return int(np.searchsorted(self._ends, sample, side="left")) + 1 if sample > 0 else 0

    def _fill(self, samples: int) -> None:
        """Have at least so many samples at hand, or all that are left of the sweep."""
        pieces = [self._slice(len(self._lengths))]
        have = sum(int(piece.lengths.sum()) for piece in pieces)
        while have < samples:
            block = next(self._blocks, None)
            if block is None:
                break
            pieces.append(block)
            have += int(block.lengths.sum())
        self._chunks = _join([piece.chunks for piece in pieces])
        self._sequences = _join([piece.sequences for piece in pieces])
        self._lengths = _join([piece.lengths for piece in pieces])
        self._ends = np.cumsum(self._lengths)
        self._at = 0

    def _slice(self, end: int) -> Block:
        return Block(self._chunks[self._at : end], self._sequences[self._at : end], self._lengths[self._at : end])

    def _samples_of(self, sequences: int) -> int:
        """Count the samples of the next so many sequences, or of all that are left of the sweep."""
        have = 0
        while len(self._lengths) - self._at < sequences and int(self._lengths[self._at :].sum()) > have:
            have = int(self._lengths[self._at :].sum())
            self._fill(have + 1)
        return int(self._lengths[self._at : self._at + sequences].sum())

    def _passed(self) -> int:
        return int(self._ends[self._at - 1]) if self._at else 0

    def _advance(self, count: int) -> None:
        before = self._passed()
        self._at += count
        self.sequence += count
        self.position += self._passed() - before
        if self._at == len(self._lengths):
            self._fill(1)
            if not len(self._lengths):
                self.sweep += 1
                _, _, self._blocks = self._order.start_at(self.sweep, 0)
                self._fill(1)

    @property
    def next_length(self) -> int:
        """Samples of the next sequence."""
        return int(self._lengths[self._at])

    @property
    def next_chunk(self) -> int:
        """Chunk of the next sequence."""
        return int(self._chunks[self._at])

    def take(self, size: int, end: int, rank: int, ranks: int, least: int) -> Block:
        """Take the sequences of the next minibatch of all ranks, as far as ``rank`` reads for it."""
        left = (self.sweep + 1) * self._order.samples - self.position
        limit = min(size, left)
        if int(self._ends[-1]) - self._passed() <= limit:
            self._fill(limit + 1)
        if least > 1:
            limit = min(max(limit, self._samples_of(least)), left)
        base = self._passed()
        fitting = int(np.searchsorted(self._ends, base + limit, side="right")) - self._at
        full = fitting > 0 and int(self._ends[self._at + fitting - 1]) - base == limit
        own = self.sequence + (rank - self.sequence) % ranks
        if not full and own >= self.sequence + fitting:
            # Nothing for this rank yet: it reads the sequence that does not fit, too.
            fitting += 1
        within = self._beginning_before(base + end - self.position) - self._at
        count = min(fitting, within, len(self._lengths) - self._at)
        block = self._slice(self._at + count)
        self._advance(count)
        return block


def _join(arrays: list[IntArray]) -> IntArray:
    some = [array for array in arrays if len(array)]
    if not some:
        return np.zeros(0, dtype=np.int64)
    return some[0] if len(some) == 1 else np.concatenate(some)


def _share(block: Block, first: int, sweep: int, epoch: EpochSpec, *, in_file_order: bool) -> Picks:
    """Return one rank's part of a minibatch whose first sequence has the number ``first``."""
    if epoch.ranks == 1:
        return Picks(block.chunks, block.sequences, int(block.lengths.sum()), sweep)
    if in_file_order:
        mine = np.flatnonzero((first + np.arange(len(block.lengths))) % epoch.ranks == epoch.rank)
    else:
        mine = balanced_share(block.lengths, epoch.rank, epoch.ranks, first)
    return Picks(block.chunks[mine], block.sequences[mine], int(block.lengths[mine].sum()), sweep)


def balanced_share(lengths: IntArray, rank: int, ranks: int, turn: int = 0) -> IntArray:
    """Return which sequences a rank takes so that all ranks have about equally many samples.

    The longest sequence goes first, each to the rank that has the fewest samples so far; rank ``turn % ranks`` begins.
    """
    if not len(lengths) or int(lengths.min()) == int(lengths.max()):
        return np.flatnonzero((np.arange(len(lengths)) + turn) % ranks == rank)
    loads = [(0, (i - turn) % ranks) for i in range(ranks)]
    heapq.heapify(loads)
    mine = []
    for i in np.argsort(-lengths, kind="stable").tolist():
        samples, place = heapq.heappop(loads)
        if (place + turn) % ranks == rank:
            mine.append(i)
        heapq.heappush(loads, (samples + int(lengths[i]), place))
    return np.sort(np.array(mine, dtype=np.int64))
