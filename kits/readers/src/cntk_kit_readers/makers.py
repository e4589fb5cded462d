"""Rows that are made when a minibatch is made, such as images: they differ from sweep to sweep, and would fill memory.

A chunk holds a number instead of each such row. A minibatch is gathered with the numbers first; its rows are then
made ahead of time, in threads of the maker's own, while the minibatches before it are in use.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.records.layout import IntArray
from cntk_core.records.minibatch import Minibatch, StreamData
from cntk_kit_readers.timeline import Picks

ROWS_AHEAD = 64
"""The rows of the next minibatch, and of more of them while these have fewer rows, are made ahead of time."""


class PendingRows(ABC):
    """Rows that are being made."""

    @abstractmethod
    def result(self) -> tuple[NDArray[np.floating], NDArray[np.bool_]]:
        """Wait, and return the rows and which of them could not be made. Raises DataError when there are too many."""

    @abstractmethod
    def cancel(self) -> None:
        """Nobody wants the rows any more. May be called at any time, also after ``result``."""


class RowMaker(ABC):
    """Makes the rows of one stream, whose sequences have one frame each.

    The columns of its chunks hold an int64 number for each row; the same number and sweep always give the same row.
    """

    @abstractmethod
    def start(self, numbers: IntArray, sweep: int) -> PendingRows:
        """Begin to make the rows of some numbers for a sweep over the data, in this order."""


@attrs.frozen
class _Waiting:
    """A minibatch with numbers in place of the rows that are being made."""

    picks: Picks
    minibatch: Minibatch
    pending: Mapping[str, PendingRows]

    def cancel(self) -> None:
        for rows in self.pending.values():
            rows.cancel()


def made_minibatches(
    plan: Iterable[Picks], gather: Callable[[Picks], Minibatch], makers: Mapping[str, RowMaker]
) -> Iterator[Minibatch]:
    """Yield minibatches whose rows are made ahead of time.

    A sequence with a row that cannot be made is left out of its minibatch, and a minibatch without any other is left
    out as a whole. ``samples`` still counts them, in the next minibatch where their own is not there: they have their
    places on the timeline, so that a run that goes on finds its position whatever could not be made.

    Args:
        plan: the minibatches.
        gather: makes a minibatch with numbers in place of the rows.
        makers: stream to maker.
    """
    waiting: deque[_Waiting] = deque()
    ahead = 0  # rows behind the first minibatch that waits
    lost = 0  # samples of minibatches that are left out
    try:
        for picks in chain(plan, (None,)):
            if picks is not None:
                waiting.append(_start(picks, gather(picks), makers))
                ahead += len(picks.sequences) if len(waiting) > 1 else 0
            while waiting and (picks is None or (len(waiting) > 1 and ahead >= ROWS_AHEAD)):
                made = _finish(waiting[0], gather)
                first = waiting.popleft().picks
                ahead -= len(waiting[0].picks.sequences) if waiting else 0
                if made is None:
                    lost += first.samples
                    continue
                yield attrs.evolve(made, samples=made.samples + lost) if lost else made
                lost = 0
    finally:
        for left in waiting:
            left.cancel()


def _start(picks: Picks, minibatch: Minibatch, makers: Mapping[str, RowMaker]) -> _Waiting:
    pending = {}
    for name, maker in makers.items():
        numbers = np.asarray(minibatch.streams[name].data, dtype=np.int64)
        pending[name] = maker.start(numbers.reshape(len(numbers)), picks.sweep)
    return _Waiting(picks, minibatch, pending)


def _finish(waiting: _Waiting, gather: Callable[[Picks], Minibatch]) -> Minibatch | None:
    """Put the rows in the place of their numbers, without the sequences whose rows could not be made.

    Returns None if there is no other.
    """
    streams = waiting.minibatch.streams
    broken = np.zeros(len(waiting.picks.sequences), dtype=bool)
    made: dict[str, NDArray[np.floating]] = {}
    for name, pending in waiting.pending.items():
        made[name], failed = pending.result()
        broken[streams[name].layout.order[np.flatnonzero(failed)]] = True
    if not broken.any():
        found = {name: StreamData(rows, streams[name].layout) for name, rows in made.items()}
        return Minibatch({**streams, **found}, waiting.picks.samples)
    if broken.all():
        return None
    whole = np.flatnonzero(~broken)
    picks = waiting.picks
    rest = gather(Picks(picks.chunks[whole], picks.sequences[whole], picks.samples, picks.sweep))
    kept = dict(rest.streams)
    for name, rows in made.items():
        place = np.empty(len(broken), dtype=np.int64)
        place[streams[name].layout.order] = np.arange(len(broken))
        layout = kept[name].layout
        kept[name] = StreamData(rows[place[whole][layout.order]], layout)
    return Minibatch(kept, picks.samples)
