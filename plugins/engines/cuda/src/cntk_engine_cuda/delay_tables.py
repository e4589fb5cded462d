"""Which rows delays read, in tables on the device that are sent anew with each minibatch.

So code that is bound for time steps of some sizes serves wherever sequences begin in them. A table has a number for
each row: that of the row that is read, or what :func:`state_code` and :func:`tail_code` say, or :data:`NOTHING`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from cntk_core.api import Node, OpContext, SequenceLayout
from cntk_core.api.engines import TAIL, delay_rows, elements_of, initial_rows, reader_slots, sequence_rows, shift_of
from cntk_engine_cuda.gpu import Array, Gpu
from cntk_engine_cuda.inputs import Staging
from cntk_engine_cuda.site import Site

IntArray = NDArray[np.int64]

NOTHING = -1
"""The number that stands for an initial state is read."""

_INDEX = np.dtype(np.int64)


def state_code(rows: Any) -> Any:
    """What says that a row of the initial state is read."""
    return -2 - 2 * rows


def tail_code(rows: Any) -> Any:
    """What says that a row of the tail is read: what the minibatch before ended with."""
    return -3 - 2 * rows


def is_truncated(layout: SequenceLayout) -> bool:
    """Whether sequences go on from the minibatch before, or into the next."""
    return bool(layout.continues) or not bool(sequence_rows(layout).begun.all())


# -- what the tables say ------------------------------------------------------------------------------------


def _states(context: OpContext, sequence: IntArray, distance: IntArray, shift: int) -> IntArray:
    """The rows of the initial state for steps beyond the begin (or end) of sequences; it must have frames.

    Raises:
        DataError: there is no such step of the initial state.
    """
    return initial_rows(sequence, distance, context.layouts[1], shift)


def _state_codes(context: OpContext, sequence: IntArray, distance: IntArray, shift: int) -> Any:
    if len(context.framed) < 2:
        return NOTHING
    return state_code(_states(context, sequence, distance, shift)) if context.framed[1] else state_code(0)


def read_codes(context: OpContext, shift: int) -> IntArray:
    """What each row of a delay reads: ``(frames,)``."""
    found = delay_rows(_layout(context), shift)
    codes = np.array(found.source)
    if len(found.initial):
        codes[found.initial] = _state_codes(context, found.sequence, found.distance, shift)
    codes[found.carried] = tail_code(found.carried_slot * shift + found.carried_back - 1)
    return codes


def kept_codes(context: OpContext, shift: int) -> IntArray:
    """What each row of the tail is made of, at the end of a minibatch: ``(slots * shift,)``, by the reader's slots."""
    layout = _layout(context)
    codes = np.full((layout.slots, shift), NOTHING, np.int64)
    slots = np.array(layout.continues, np.int64)
    if not len(slots):
        return codes.reshape(-1)
    rows, places = sequence_rows(layout), reader_slots(layout)[slots]
    lengths = layout.lengths[slots]
    some = lengths > 0
    last = np.where(some, layout.start[lengths - 1] + slots, 0)
    here = np.where(some, lengths - rows.first[last], 0)
    number = np.where(some, rows.number[last], -1)
    for back in range(1, shift + 1):
        inside = back <= here
        begun = ~inside & (number >= 0)
        found = tail_code(places * shift + back - here - 1)
        found[inside] = layout.start[lengths[inside] - back] + slots[inside]
        if begun.any():
            found[begun] = _state_codes(context, number[begun], (back - here)[begun], shift)
        codes[places, back - 1] = found
    return codes.reshape(-1)


def readers_of_states(context: OpContext, shift: int) -> tuple[IntArray, IntArray]:
    """Where the rows begin that read each row of the initial state, and which they are, state by state."""
    found = delay_rows(_layout(context), shift)
    rows, states = found.initial, context.layouts[1]
    if states is None:
        return np.array([0, len(rows)]), rows
    if not len(rows):
        return np.zeros(states.frames + 1, np.int64), rows
    read = _states(context, found.sequence, found.distance, shift)
    order = np.argsort(read, kind="stable")
    return np.searchsorted(read[order], np.arange(states.frames + 1)), rows[order]


def _layout(context: OpContext) -> SequenceLayout:
    assert context.layout is not None, "a delay needs the sequences of its minibatch"
    return context.layout


# -- on the device ------------------------------------------------------------------------------------------


@attrs.define(eq=False)
class _Table:
    """A table on the device, and the sequences for which it was sent."""

    staging: Staging
    array: Array = None
    sent: tuple[SequenceLayout | None, ...] = ()


@attrs.frozen(eq=False)
class Tail:
    """What a minibatch ended with, on the device.

    Attributes:
        array: flat.
        shape: ``(reader's slots, steps, *shape)``.
    """

    array: Array
    shape: tuple[int, ...]

    def get(self) -> NDArray[Any]:
        """A copy for the host."""
        found: NDArray[Any] = self.array.get().reshape(self.shape)
        return found


class DelayTables:
    """The tables and tails of a program.

    Args:
        gpu: the device.
        dtype: of values.
        capacity: of each dynamic axis, the frames for which there is room.
    """

    def __init__(self, gpu: Gpu, dtype: np.dtype[Any], capacity: dict[str, int]) -> None:
        self._gpu = gpu
        self._dtype = dtype
        self._capacity = capacity
        self._tables: dict[tuple[Any, ...], _Table] = {}
        self._tails: dict[Node, Array] = {}
        self._slots = 0

    @property
    def nbytes(self) -> int:
        """Bytes on the device."""
        tables = sum(table.staging.nbytes for table in self._tables.values())
        tables += sum(int(table.array.nbytes) for table in self._tables.values() if table.array is not None)
        return tables + sum(int(tail.nbytes) for tail in self._tails.values())

    def grow(self, slots: int) -> bool:
        """Have room for the tails of so many slots. Returns whether code that was bound must be forgotten."""
        if slots <= self._slots:
            return False
        self._slots = max(slots, 2 * self._slots)
        for table in self._tables.values():
            table.array = None
        for delay, old in list(self._tails.items()):
            del self._tails[delay]
            self.tail(delay)[: old.size] = old
        return True

    def forget(self) -> None:
        """Give everything back."""
        self._tables.clear()
        self._tails.clear()
        self._slots = 0

    def tail(self, delay: Node) -> Array:
        """Storage for what a delay keeps: flat, row by row."""
        if delay not in self._tails:
            count = self._slots * shift_of(delay) * elements_of(delay)
            self._tails[delay] = self._gpu.empty(count, self._dtype)
        return self._tails[delay]

    def rows(self, site: Site, delay: Node) -> Array:
        """What each row reads, in the present minibatch and all that come."""
        return self._table(site, delay, "rows", self._capacity[delay.axis], read_codes)[: site.rows(delay)]

    def kept(self, site: Site, delay: Node) -> Array:
        """What each row of the tail is made of."""
        count = _layout(site.contexts[delay]).slots * shift_of(delay)
        return self._table(site, delay, "kept", self._slots * shift_of(delay), kept_codes)[:count]

    def states(self, site: Site, delay: Node) -> tuple[Array, Array]:
        """Where the readers of each row of the initial state begin, and which they are."""
        state = delay.inputs[1]
        most = self._capacity[state.axis] if state.framed else 1

        def part(index: int) -> Callable[[OpContext, int], IntArray]:
            return lambda context, shift: readers_of_states(context, shift)[index]

        start = self._table(site, delay, "first readers", most + 1, part(0))
        return start, self._table(site, delay, "readers", self._capacity[delay.axis], part(1))

    def _table(
        self, site: Site, delay: Node, name: str, most: int, compute: Callable[[OpContext, int], IntArray]
    ) -> Array:
        """A table on the device; it is sent before the site's code runs. Delays that read alike share it."""
        shift = shift_of(delay)
        state = delay.inputs[1:2]
        key = name, delay.axis, shift, tuple(each.axis if each.framed else None for each in state)
        # What was sent to pinned memory may be under way: it is kept.
        if key not in self._tables:
            self._tables[key] = _Table(Staging(self._gpu, _INDEX))
        table = self._tables[key]
        if table.array is None or table.array.size < most:
            table.array, table.sent = self._gpu.empty(most, _INDEX), ()

        def refresh() -> None:
            context = site.contexts[delay]
            layouts = (context.layout, *context.layouts[1:])
            if not _same(table.sent, layouts):
                table.staging.send(compute(context, shift), table.array)
                table.sent = layouts

        if key not in site.refreshed:
            site.refreshed[key] = refresh
        return table.array

    # -- tails --------------------------------------------------------------------------------------------

    def take_tail(self, site: Site, delay: Node, default: float) -> None:
        """Before a minibatch: have what the one before ended with; the default number if nothing is known of it."""
        kept = site.contexts[delay].carried
        known = kept.get(TAIL)
        if known is None:
            self.tail(delay).fill(self._dtype.type(default))
        elif not isinstance(known, Tail):  # of a checkpoint
            flat = np.ascontiguousarray(known, self._dtype).reshape(-1)
            self.tail(delay)[: flat.size] = self._gpu.cupy.asarray(flat)
            kept[TAIL] = Tail(self.tail(delay)[: flat.size], known.shape)

    def note_tail(self, site: Site, delay: Node) -> None:
        """After a minibatch: note what it ended with, if sequences go on."""
        context, shift = site.contexts[delay], shift_of(delay)
        layout = _layout(context)
        if shift <= 0 or not layout.continues:
            context.carried.pop(TAIL, None)
            return
        shape = (layout.slots, shift, *delay.known_shape)
        context.carried[TAIL] = Tail(self.tail(delay)[: math.prod(shape)], shape)


def _same(sent: Sequence[Any], layouts: Sequence[Any]) -> bool:
    return len(sent) == len(layouts) and all(one is other for one, other in zip(sent, layouts, strict=True))
