"""Parts of a minibatch, so that one that does not fit in memory is computed piece by piece."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from cntk_core.records.layout import SequenceLayout
from cntk_core.records.minibatch import Minibatch, StreamData


def split(minibatch: Minibatch, parts: int) -> Iterator[Minibatch]:
    """Yield at most ``parts`` minibatches with about as many slots (parallel sequences) each.

    A slot is never cut. Samples are counted by the share of frames of the first stream.
    """
    streams = minibatch.streams
    slots = min((data.layout.slots for data in streams.values()), default=0)
    parts = min(parts, slots)
    if parts <= 1:
        yield minibatch
        return
    orders = {name: np.argsort(data.layout.order, kind="stable") for name, data in streams.items()}
    first = next(iter(streams.values())).layout
    done = frames = 0
    for index in range(parts):
        chosen = {name: np.sort(np.array_split(order, parts)[index]) for name, order in orders.items()}
        taken = {name: _take(streams[name], slots_of_part) for name, slots_of_part in chosen.items()}
        frames += next(iter(taken.values())).layout.frames
        upto = round(minibatch.samples * frames / first.frames) if first.frames else 0
        yield Minibatch(taken, upto - done)
        done = upto


def share(minibatch: Minibatch, index: int, parts: int) -> Minibatch | None:
    """Return one of ``parts`` shares of a minibatch, None if it has no frames.

    As in the original, of S slots, in the reader's order, share i has those from ``S * i // parts`` on. Samples are
    counted by the share of frames of the first stream; those of all shares add up to those of the minibatch.
    """
    taken = {}
    for name, data in minibatch.streams.items():
        order, slots = np.argsort(data.layout.order, kind="stable"), data.layout.slots
        taken[name] = _take(data, np.sort(order[slots * index // parts : slots * (index + 1) // parts]))
    if not any(data.layout.frames for data in taken.values()):
        return None
    first = next(iter(minibatch.streams.values())).layout
    ends = [_frames_before(first, first.slots * (index + more) // parts) for more in (0, 1)]
    begin, end = (round(minibatch.samples * frames / first.frames) for frames in ends)
    return Minibatch(taken, end - begin)


def _frames_before(layout: SequenceLayout, slots: int) -> int:
    """Frames of the first so many slots in the reader's order."""
    return int(layout.lengths[np.argsort(layout.order, kind="stable")[:slots]].sum())


def _take(stream: StreamData, slots: NDArray[np.intp]) -> StreamData:
    layout = stream.layout
    lengths = layout.lengths[slots]
    steps = int(lengths[0]) if len(lengths) else 0
    alive = np.array([np.count_nonzero(lengths > step) for step in range(steps)], np.int64)
    rows = [layout.start[step] + slots[: alive[step]] for step in range(steps)]
    place = {int(slot): index for index, slot in enumerate(slots)}
    kept = [row for row, (slot, _) in enumerate(layout.begins) if int(slot) in place]
    begins = np.array([(place[int(layout.begins[row][0])], layout.begins[row][1]) for row in kept], np.int64)
    part = SequenceLayout(
        lengths=lengths,
        alive=alive,
        start=np.concatenate([[0], np.cumsum(alive)[:-1]]) if steps else alive,
        order=np.argsort(np.argsort(layout.order[slots], kind="stable"), kind="stable"),
        begins=begins.reshape(-1, 2),
        keys=tuple(layout.keys[row] for row in kept) if layout.keys else (),
        continues=tuple(place[slot] for slot in layout.continues if slot in place),
    )
    return StreamData(stream.data[np.concatenate(rows)] if rows else stream.data[:0], part)
