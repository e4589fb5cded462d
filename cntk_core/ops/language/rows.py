"""Rows of a packed minibatch: which slot, time step and sequence each belongs to.

The order of rows is described in :mod:`cntk_core.records.layout`.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.records.layout import IntArray, SequenceLayout


def packed_slots(layout: SequenceLayout) -> tuple[IntArray, IntArray]:
    """Return the slot and the step of every packed row, each of shape ``(frames,)``."""
    steps = np.repeat(np.arange(layout.steps), layout.alive)
    return np.arange(layout.frames) - np.repeat(layout.start, layout.alive), steps


def reader_slots(layout: SequenceLayout) -> IntArray:
    """Return for each slot its place in the reader's order of slots. Shape ``(slots,)``."""
    # A slot without any sequence shares its number with the slot after it.
    places = np.empty(layout.slots, dtype=np.int64)
    places[np.lexsort((layout.lengths, layout.order))] = np.arange(layout.slots)
    return places


@attrs.frozen(eq=False)
class SequenceRows:
    """Which sequence each row belongs to.

    Attributes:
        slot, step: of each row. Shape ``(frames,)``.
        first, last: the steps at which the row's sequence begins and ends in this minibatch. Shape ``(frames,)``.
        begun: whether the sequence begins in this minibatch; otherwise it goes on from the one before.
        number: the reader's position of the sequence in the minibatch; -1 where it did not begin here.
    """

    slot: IntArray
    step: IntArray
    first: IntArray
    last: IntArray
    begun: NDArray[np.bool_]
    number: IntArray


_SEQUENCES: WeakKeyDictionary[SequenceLayout, SequenceRows] = WeakKeyDictionary()


def sequence_rows(layout: SequenceLayout) -> SequenceRows:
    """Return which sequence each row belongs to. Computed once for a layout."""
    found = _SEQUENCES.get(layout)
    if found is None:
        found = _SEQUENCES[layout] = _sequence_rows(layout)
    return found


def _sequence_rows(layout: SequenceLayout) -> SequenceRows:
    slot, step = packed_slots(layout)
    first = np.zeros(layout.frames, np.int64)
    last = layout.lengths[slot] - 1
    number = np.full(layout.frames, -1, np.int64)
    # Sequences of a slot follow each other in ``begins``: later ones overwrite earlier ones from their begin on.
    seen: dict[int, int] = {}
    for where, begin in layout.begins.tolist():
        index = seen.get(where, 0 if begin == 0 else 1)  # a slot that does not begin with a begin goes on with one
        seen[where] = index + 1
        rows = layout.start[begin : int(layout.lengths[where])] + where
        first[rows] = begin
        number[rows] = layout.order[where] + index
        before = layout.start[:begin] + where
        last[before] = np.minimum(last[before], begin - 1)
    return SequenceRows(slot, step, first, last, number >= 0, number)


@attrs.frozen(eq=False)
class SequenceTable:
    """The sequences that begin in a minibatch, by the reader's position of each.

    Attributes:
        number: the positions, increasing. Shape ``(sequences,)``.
        slot, first: the slot of each and the step at which it begins there.
        length: its frames.
    """

    number: IntArray
    slot: IntArray
    first: IntArray
    length: IntArray

    def find(self, numbers: IntArray) -> IntArray:
        """Return the places of some positions in this table, of the same shape; -1 where one is not there."""
        if not len(self.number):
            return np.full(len(numbers), -1, np.int64)
        places = np.minimum(np.searchsorted(self.number, numbers), len(self.number) - 1)
        return np.where(self.number[places] == numbers, places, -1)

    def rows(self, layout: SequenceLayout, places: IntArray, steps: IntArray) -> IntArray:
        """Return the rows of time steps of sequences, each within its sequence."""
        rows: IntArray = layout.start[self.first[places] + steps] + self.slot[places]
        return rows


_TABLES: WeakKeyDictionary[SequenceLayout, SequenceTable] = WeakKeyDictionary()


def sequence_table(layout: SequenceLayout) -> SequenceTable:
    """Return the sequences that begin in a minibatch. Computed once for a layout."""
    found = _TABLES.get(layout)
    if found is None:
        rows = sequence_rows(layout)
        begins = np.flatnonzero(rows.begun & (rows.step == rows.first))
        begins = begins[np.argsort(rows.number[begins], kind="stable")]
        found = _TABLES[layout] = SequenceTable(
            rows.number[begins], rows.slot[begins], rows.first[begins], rows.last[begins] - rows.first[begins] + 1
        )
    return found


def longest_sequence(layout: SequenceLayout) -> int:
    """Return the number of frames of the longest sequence, as far as it lies in this minibatch; without frames 1.

    An axis of this length so has always an element, and reductions over it a result.
    """
    rows = sequence_rows(layout)
    return int((rows.last - rows.first).max()) + 1 if layout.frames else 1
