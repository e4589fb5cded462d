"""Make sequence layouts. How frames are packed is described in :mod:`cntk_core.records.layout`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from cntk_core.records.layout import IntArray, SequenceLayout

Key = int | str


@lru_cache(maxsize=64)
def frame_layout(frames: int) -> SequenceLayout:
    """Return the layout of independent frames: every frame is a slot of its own, in the reader's order."""
    return SequenceLayout.of_frames(frames)


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
