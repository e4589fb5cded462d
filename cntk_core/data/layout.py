"""Make sequence layouts, and move frames between the reader's order and the packed order.

The packed order is described in :mod:`cntk_core.interfaces.layout`. Two orders occur here:

- *slot order*: all frames of slot 0, then all frames of slot 1, ...
- *packed order*: all frames of step 0, then all frames of step 1, ... This is the order of ``StreamData.data``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_core.interfaces.layout import IntArray, SequenceLayout
from cntk_core.ops.rows import packed_slots, reader_slots

Key = int | str


@lru_cache(maxsize=64)
def frame_layout(frames: int) -> SequenceLayout:
    """Return the layout of independent frames: every frame is a slot of its own, in the reader's order."""
    slots = np.arange(frames)
    return SequenceLayout(
        lengths=np.ones(frames),
        alive=[frames] if frames else [],
        start=[0] if frames else [],
        order=slots,
        begins=np.stack([slots, np.zeros_like(slots)], axis=1),
    )


def sequence_layout(lengths: Sequence[int] | IntArray, keys: Sequence[Key] = ()) -> SequenceLayout:
    """Return the layout of whole sequences, one to a slot, longest first; equal lengths keep the reader's order.

    ``lengths`` and ``keys`` are in the reader's order. A sequence without frames gets a slot, but begins nowhere.
    """
    counts = np.asarray(lengths, dtype=np.int64)
    if not len(keys) and counts.size and counts.min() == counts.max() == 1:
        return frame_layout(int(counts.size))
    order = np.argsort(-counts, kind="stable")
    ordered = counts[order]
    used = int(np.count_nonzero(ordered))
    begins = np.zeros((used, 2), dtype=np.int64)
    begins[:, 0] = np.arange(used)
    names = tuple(keys[i] for i in order[:used].tolist()) if len(keys) else ()
    alive, start = _steps(ordered)
    return SequenceLayout(lengths=ordered, alive=alive, start=start, order=order, begins=begins, keys=names)


def slot_layout(
    slots: Sequence[Sequence[int]],
    keys: Sequence[Sequence[Key]] = (),
    *,
    continued: Sequence[bool] = (),
    continues: Sequence[bool] = (),
) -> SequenceLayout:
    """Return the layout of slots that hold several sequences end to end.

    Args:
        slots: the lengths of the sequences of each slot, in the reader's order of slots.
        keys: the keys of the sequences of each slot, or nothing.
        continued: which slots begin in the middle of a sequence of the minibatch before.
        continues: which slots end in the middle of a sequence.
    """
    totals = np.array([sum(slot) for slot in slots], dtype=np.int64)
    order = np.argsort(-totals, kind="stable")
    begins: list[tuple[int, int]] = []
    names: list[Key] = []
    first = np.concatenate([[0], np.cumsum([len(slot) for slot in slots])]).astype(np.int64)
    for slot, source in enumerate(order.tolist()):
        step = 0
        for i, length in enumerate(slots[source]):
            if length and not (i == 0 and continued and continued[source]):
                begins.append((slot, step))
                if keys:
                    names.append(keys[source][i])
            step += length
    alive, start = _steps(totals[order])
    return SequenceLayout(
        lengths=totals[order],
        alive=alive,
        start=start,
        order=first[order],
        begins=np.array(begins, dtype=np.int64).reshape(-1, 2),
        keys=tuple(names),
        continues=tuple(slot for slot, source in enumerate(order.tolist()) if continues and continues[source]),
    )


def _steps(lengths: IntArray) -> tuple[IntArray, IntArray]:
    """Return ``alive`` and ``start`` of slots whose lengths do not increase."""
    steps = int(lengths[0]) if lengths.size else 0
    # Slots that end before step t are those shorter than t + 1.
    alive = lengths.size - np.searchsorted(lengths[::-1], np.arange(1, steps + 1), side="left")
    start = np.concatenate([[0], np.cumsum(alive)[:-1]]) if steps else np.zeros(0)
    return alive.astype(np.int64), start.astype(np.int64)


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


def unpack_sequences(data: NDArray[Any], layout: SequenceLayout) -> list[NDArray[Any]]:
    """Return the frames of each sequence that begins in the minibatch, in the order of ``layout.begins``."""
    rows = [slot_rows(layout, slot) for slot in range(layout.slots)]
    begins = [(slot, step) for slot, step in layout.begins.tolist()]
    found = []
    for (slot, step), (next_slot, next_step) in zip(begins, [*begins[1:], (-1, 0)], strict=False):
        found.append(data[rows[slot][step : next_step if next_slot == slot else None]])
    return found
