"""Which row of a packed minibatch a delay reads. The order of rows is described in :mod:`cntk_core.records.layout`."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import attrs
import numpy as np

from cntk_core.ops.language.rows import reader_slots, sequence_rows
from cntk_core.records.layout import IntArray, SequenceLayout


@attrs.frozen(eq=False)
class DelayRows:
    """What a delay reads, row by row.

    Attributes:
        source: the row that each row reads; -1 where it has to come from elsewhere. Shape ``(frames,)``.
        initial: rows that read beyond the begin (or end) of their sequence. Shape ``(n,)``.
        sequence: the reader's position of the sequence of each of these; -1 if it began in an earlier minibatch.
        distance: how many steps beyond, from 1.
        carried: rows that read what the minibatch before ended with.
        carried_slot: the reader's slot of each of these.
        carried_back: how many steps before its end, from 1.
    """

    source: IntArray
    initial: IntArray
    sequence: IntArray
    distance: IntArray
    carried: IntArray
    carried_slot: IntArray
    carried_back: IntArray


_DELAYS: WeakKeyDictionary[SequenceLayout, dict[int, DelayRows]] = WeakKeyDictionary()


def delay_rows(layout: SequenceLayout, shift: int) -> DelayRows:
    """Return which rows a delay reads. Computed once for a layout.

    Args:
        layout: of the minibatch.
        shift: how many steps back; negative numbers look ahead.
    """
    known = _DELAYS.setdefault(layout, {})
    if shift not in known:
        known[shift] = _delay_rows(layout, shift)
    return known[shift]


def _delay_rows(layout: SequenceLayout, shift: int) -> DelayRows:
    rows = sequence_rows(layout)
    wanted = rows.step - shift
    inside = (wanted >= rows.first) & (wanted <= rows.last)
    source = np.where(inside, layout.start[np.where(inside, wanted, 0)] + rows.slot, -1) if layout.frames else rows.slot
    outside = np.flatnonzero(~inside)
    from_before = ~rows.begun[outside] & (wanted[outside] < 0)
    carried, initial = outside[from_before], outside[~from_before]
    beyond = rows.first[initial] - wanted[initial] if shift >= 0 else wanted[initial] - rows.last[initial]
    return DelayRows(
        source=source,
        initial=initial,
        sequence=rows.number[initial],
        distance=beyond,
        carried=carried,
        carried_slot=reader_slots(layout)[rows.slot[carried]],
        carried_back=-wanted[carried],
    )
