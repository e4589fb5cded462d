"""Make sequence layouts, and move frames between the reader's order and the packed order.

The packed order is described in :mod:`cntk_core.records.layout`. Two orders occur here:

- *slot order*: all frames of slot 0, then all frames of slot 1, ...
- *packed order*: all frames of step 0, then all frames of step 1, ... This is the order of ``StreamData.data``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_core.ops.language.rows import packed_slots, reader_slots
from cntk_core.records.layout import IntArray, SequenceLayout


def packed_sources(layout: SequenceLayout, first: IntArray) -> IntArray:
    """Return where each packed row comes from if the frames of slot ``s`` lie at ``first[s]``, ``first[s] + 1``, ..."""
    if layout.is_frames:
        return first[: layout.frames]
    slots, steps = packed_slots(layout)
    sources: IntArray = first[slots] + steps
    return sources


def slot_rows(layout: SequenceLayout, slot: int) -> IntArray:
    """Return the packed rows of the frames of a slot, in the order of time."""
    rows: IntArray = layout.start[: int(layout.lengths[slot])] + slot
    return rows


def pack(slots: Sequence[Any], layout: SequenceLayout) -> Any:
    """Put the frames of slots, given in the reader's order, into the packed order.

    Args:
        slots: one array ``(frames, *shape)`` or one ``scipy.sparse.csr_array`` ``(frames, dim)`` for each slot.
        layout: a layout whose slots have these lengths.
    """
    ordered = [slots[i] for i in reader_slots(layout).tolist()]
    first = np.concatenate([[0], np.cumsum(layout.lengths)[:-1]]) if layout.slots else np.zeros(0)
    rows = packed_sources(layout, first.astype(np.int64))
    if all(isinstance(slot, np.ndarray) for slot in ordered):
        return np.concatenate(ordered)[rows]
    from scipy.sparse import csr_array, vstack

    return csr_array(vstack(ordered, format="csr"))[rows]


def unpack(data: NDArray[Any], layout: SequenceLayout) -> list[NDArray[Any]]:
    """Return the frames of each slot, in the reader's order of slots: the inverse of :func:`pack`."""
    found: list[NDArray[Any]] = [data[:0]] * layout.slots
    for slot, place in enumerate(reader_slots(layout).tolist()):
        found[place] = data[slot_rows(layout, slot)]
    return found
