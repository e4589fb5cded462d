"""Minibatches of truncated training: pieces of sequences in slots that go on from minibatch to minibatch.

A number of slots are filled with whole sequences end to end, in the order of the epoch: whenever a slot has no more
than one piece left, the next sequence goes there. Each minibatch has the next ``length`` frames of every slot. A
sequence that is cut goes on in the same slot of the next minibatch, and the layout says so.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import attrs

from cntk_core.contract.reader import EpochSpec
from cntk_kit_readers.randomize import SweepOrder
from cntk_kit_readers.slots import Piece, SlotPlan
from cntk_kit_readers.timeline import plan_epoch


@attrs.frozen
class Truncation:
    """How sequences are cut.

    Attributes:
        length: frames of a piece.
        slots: sequences side by side, over all ranks.
    """

    length: int
    slots: int

    @classmethod
    def of_size(cls, minibatch_size: int, length: int) -> Truncation:
        """Return as many slots of a length as a minibatch has room for, at least one."""
        return cls(length, max(minibatch_size // length, 1))


class _Slot:
    """Sequences end to end, read piece by piece."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, int, int]] = deque()
        self._done = 0
        self.available = 0

    def add(self, chunk: int, sequence: int, length: int) -> None:
        """Put a sequence behind the others."""
        self._waiting.append((chunk, sequence, length))
        self.available += length

    def take(self, frames: int) -> list[Piece]:
        """Take the next frames, or all that are left."""
        pieces = []
        while frames and self._waiting:
            chunk, sequence, length = self._waiting[0]
            count = min(frames, length - self._done)
            pieces.append(Piece(chunk, sequence, length, self._done, count))
            self._done += count
            frames -= count
            self.available -= count
            if self._done == length:
                self._waiting.popleft()
                self._done = 0
        return pieces


def truncated_slots(order: SweepOrder, epoch: EpochSpec, truncation: Truncation) -> Iterator[SlotPlan]:
    """Yield what the slots of each minibatch of an epoch hold, over all ranks."""
    sequences = _sequences(order, epoch, truncation)
    slots = [_Slot() for _ in range(truncation.slots)]
    while True:
        for slot in slots:
            while slot.available <= truncation.length:
                following = next(sequences, None)
                if following is None:
                    break
                slot.add(*following)
        pieces = [slot.take(truncation.length) for slot in slots]
        if not any(pieces):
            return
        yield SlotPlan(
            [[(piece,) for piece in slot] for slot in pieces],
            continued=[bool(slot) and slot[0].first > 0 for slot in pieces],
            continues=[bool(slot) and slot[-1].first + slot[-1].count < slot[-1].length for slot in pieces],
        )


def _sequences(order: SweepOrder, epoch: EpochSpec, truncation: Truncation) -> Iterator[tuple[int, int, int]]:
    """Yield chunk, number and length of the sequences of an epoch, of all ranks."""
    whole = attrs.evolve(
        epoch,
        minibatch_size=truncation.length * truncation.slots,
        rank=0,
        ranks=1,
        max_samples=0,
        skip_samples=0,
    )
    for picks in plan_epoch(order, whole):
        for chunk, sequence in zip(picks.chunks.tolist(), picks.sequences.tolist(), strict=True):
            length = int(order.index[chunk].sample_counts()[sequence])
            if length:
                yield chunk, sequence, length
