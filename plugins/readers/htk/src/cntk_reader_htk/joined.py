"""Utterances joined end to end, and copies in the gaps: how CNTK's HTKMLFReader reads whole utterances.

Its source hands out *batches*: as many utterances as have fewer frames together than the minibatch size, one at least,
until the sweep or the epoch ends. Each batch becomes one sequence. ``nbruttsineachrecurrentiter`` slots hold one batch
each. A minibatch is as long as the longest of them; every slot shows what it holds and takes the next batch, and what
it then holds goes on into the gaps while it fits. When no batch is left, the first slot is empty, but the others keep
what they have: they show it again and fill all gaps with it. The epoch ends when the first slot has nothing to show.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import EpochSpec, Schedule
from cntk_core.api.readers import Piece, SlotPlan, SweepOrder, Window
from cntk_reader_htk.old_order import rolling_order

IntArray = NDArray[np.int64]
Batch = tuple[Piece, ...]
"""What becomes one sequence."""


@attrs.frozen
class JoinedUtterances:
    """Plans the minibatches of an epoch.

    Attributes:
        parallel: slots, by epoch.
        rolling: frames of the whole data set are cut into sequences as they come (``readMethod=rollingWindow``).
        window: how far frames move then; None is not at all.
        seed: of their order.
        full: epochs are whole numbers of minibatches (``minibatchMode=full``).
    """

    parallel: Schedule[int]
    rolling: bool = False
    window: Window | None = None
    seed: int = 0
    full: bool = False

    def __call__(self, order: SweepOrder, epoch: EpochSpec) -> Iterator[SlotPlan]:
        """Yield what the slots of each minibatch hold."""
        size = epoch_frames(epoch, order.samples, full=self.full)
        start, end = epoch.epoch * size, (epoch.epoch + 1) * size
        if self.rolling:
            batches = self._rolled(order, epoch.minibatch_size, start, end)
        else:
            batches = whole_utterances(order, epoch.minibatch_size, start, end)
        yield from fill_slots(batches, self.parallel[epoch.epoch])

    def _rolled(self, order: SweepOrder, size: int, start: int, end: int) -> Iterator[Batch]:
        """Yield batches of ``size`` frames, cut anywhere."""
        frames = _Frames(order)
        moved, known = np.arange(0), -1
        while start < end:
            sweep, first = divmod(start, order.samples)
            last = min(first + min(size, end - start), order.samples)
            if sweep != known and self.window is not None:
                moved, known = rolling_order(order.samples, self.window.size, self.seed + sweep), sweep
            yield frames.pieces(np.arange(first, last) if self.window is None else moved[first:last])
            start += last - first


def epoch_frames(epoch: EpochSpec, total: int, *, full: bool) -> int:
    """Return the size of an epoch in frames.

    Args:
        epoch: its ``epoch_size`` and ``minibatch_size``.
        total: frames of the data.
        full: leave out a short last minibatch. Of the whole data it is left out; an epoch that covers several sweeps
            becomes longer by it, since the original then expects each sweep to have left it out.
    """
    if not full:
        return epoch.epoch_size or total
    extra = total % epoch.minibatch_size
    kept = total - extra if total > epoch.minibatch_size else total
    if not epoch.epoch_size:
        return kept
    return epoch.epoch_size + (extra * ((epoch.epoch_size - 1) // kept) if total >= epoch.minibatch_size else 0)


def whole_utterances(order: SweepOrder, size: int, start: int, end: int) -> Iterator[Batch]:
    """Yield the batches of an epoch: whole utterances that have fewer than ``size`` frames together, or one.

    The first utterance is the first that begins at frame ``start`` of the timeline or later; those that begin before
    ``end`` are read. No batch reaches beyond a sweep, and of several utterances none beyond the frame before ``end``.
    """
    utterances = _utterances(order, start)
    position, following = next(utterances)
    while position < end:
        first, sweep = position, position // order.samples
        limit = min(size, end - position)
        batch = [following]
        position, following = next(utterances)
        while position // order.samples == sweep and position - first + following.count < limit:
            batch.append(following)
            position, following = next(utterances)
        yield tuple(batch)


def _utterances(order: SweepOrder, start: int) -> Iterator[tuple[int, Piece]]:
    """Yield the utterances from a frame of the timeline on, sweep after sweep, each with the frame it begins at."""
    sweep, sample = divmod(start, order.samples)
    while True:
        _, passed, blocks = order.start_at(sweep, sample)
        position = sweep * order.samples + passed
        for block in blocks:
            each = zip(block.chunks.tolist(), block.sequences.tolist(), block.lengths.tolist(), strict=True)
            for chunk, sequence, length in each:
                if length and position >= start:
                    yield position, Piece(chunk, sequence, length, 0, length)
                position += length
        sweep, sample = sweep + 1, 0


def fill_slots(batches: Iterator[Batch], parallel: int) -> Iterator[SlotPlan]:
    """Yield the minibatches that ``parallel`` slots make of the batches of an epoch; see the head of this module."""
    channels = _Channels(batches, parallel)
    while channels.held[0]:
        steps = max(map(_length, channels.held))
        slots: list[list[Batch]] = []
        used = []
        for slot in range(parallel):
            batch = channels.held[slot]
            slots.append([batch] if batch else [])
            used.append(_length(batch))
            channels.renew(slot)
        source = 0
        while source < parallel:
            frames = _length(channels.held[source])
            room = next((slot for slot in range(parallel) if frames and frames + used[slot] < steps), None)
            if room is None:
                source += 1
                continue
            slots[room].append(channels.held[source])
            used[room] += frames
            channels.renew(source)
        yield SlotPlan(slots, columns=parallel * steps)


class _Channels:
    """The batch that each slot holds, and the one that comes next."""

    def __init__(self, batches: Iterator[Batch], parallel: int) -> None:
        self._batches = batches
        self.following = next(batches, None)
        self.held: list[Batch] = [()] * parallel
        for slot in range(parallel):
            self.renew(slot)

    def renew(self, slot: int) -> None:
        """Let a slot take the next batch. If there is none, only the first slot forgets what it holds."""
        if self.following is not None:
            self.held[slot] = self.following
            self.following = next(self._batches, None)
        elif slot == 0:
            self.held[slot] = ()


def _length(batch: Sequence[Piece]) -> int:
    return sum(piece.count for piece in batch)


class _Frames:
    """Finds the utterance of each frame of the data, in the order of the files."""

    def __init__(self, order: SweepOrder) -> None:
        self._order = order
        self._lengths = np.concatenate([info.sample_counts() for info in order.index])
        self._ends = np.cumsum(self._lengths)
        self._firsts = np.cumsum([0, *(info.sequences for info in order.index)], dtype=np.int64)

    def pieces(self, frames: IntArray) -> Batch:
        """Return frames, by their numbers, as pieces; neighbours that follow each other are one piece."""
        owners = np.searchsorted(self._ends, frames, side="right")
        chunks = np.searchsorted(self._firsts, owners, side="right") - 1
        self._order.open_chunks = frozenset(np.unique(chunks).tolist())
        breaks = np.flatnonzero((np.diff(frames) != 1) | (np.diff(owners) != 0)) + 1
        heads = np.concatenate([[0], breaks])
        counts = np.diff(np.concatenate([heads, [len(frames)]]))
        lengths = self._lengths[owners]
        offsets = frames - (self._ends[owners] - lengths)
        columns = (chunks[heads], owners[heads] - self._firsts[chunks[heads]], lengths[heads], offsets[heads], counts)
        return tuple(Piece(*row) for row in np.stack(columns, axis=1).tolist())
