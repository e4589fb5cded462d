"""How ops move frames between dynamic axes: which row of which sequence goes where.

A sequence is known by the reader's position of it in the minibatch, the same on every axis that comes from one reader.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import attrs
import numpy as np

from cntk_core.errors import DataError
from cntk_core.ops.language.layouts import sequence_layout
from cntk_core.ops.language.op import Array, OpContext
from cntk_core.ops.language.rows import longest_sequence, reader_slots, sequence_rows, sequence_table
from cntk_core.records.layout import IntArray, SequenceLayout

_NEARLY = 1.0 - 2.0**-23
"""Of a sum of fractions only this part counts, so that thirds that add up to a little more than 1 are 1."""

MANY_STEPS = 16
"""As many calls for time steps take about as long as one for a sequence, whose rows have to be put side by side."""


def layout_of(context: OpContext, index: int) -> SequenceLayout:
    """Return the sequences of an input.

    Raises:
        DataError: it has none.
    """
    layout = context.layouts[index] if index < len(context.layouts) else None
    if layout is None:
        raise DataError("an operation on sequences has an input without a dynamic axis")
    return layout


def emissions(counts: Array) -> IntArray:
    """Return the index of each emitted frame of one sequence of numbers.

    A step with the number 1 emits its index once, 0 never; other numbers add up, and index t is emitted while fewer
    frames than the sum up to t have been: 0.5 at each step emits every second one, beginning with the first.
    """
    total = np.cumsum(np.asarray(counts, np.float64))
    reached = np.maximum.accumulate(np.ceil(total * _NEARLY).clip(min=0.0)).astype(np.int64)
    return np.repeat(np.arange(len(counts)), np.diff(reached, prepend=0))


def where(context: OpContext, condition: Array) -> Array:
    """Return the indices at which a condition holds, ``(frames, 1)``, and set the layout of the new axis."""
    layout = layout_of(context, 0)
    table = sequence_table(layout)
    flat = condition.reshape(-1)
    found = []
    for place in range(len(table.number)):
        steps = np.arange(int(table.length[place]))
        found.append(emissions(flat[table.rows(layout, np.full(len(steps), place), steps)]))
    lengths = np.zeros(int(table.number[-1]) + 1 if len(table.number) else 0, np.int64)
    lengths[table.number] = [len(steps) for steps in found]
    made = context.new_layout = keyed_layout(layout, lengths)
    return _filled(made, dict(zip(table.number.tolist(), found, strict=True)), condition.dtype)


def keyed_layout(source: SequenceLayout, lengths: IntArray) -> SequenceLayout:
    """Return the layout of sequences of other lengths, in the reader's order, with the keys of those of ``source``."""
    return sequence_layout(lengths, _keys(source, len(lengths)))


def _keys(layout: SequenceLayout, count: int) -> list[int | str]:
    """The keys of the sequences in the reader's order, if there are any."""
    if not layout.keys or len(layout.keys) != count:
        return []
    rows = sequence_rows(layout)
    numbers = [int(rows.number[layout.start[step] + slot]) for slot, step in layout.begins.tolist()]
    keys: list[int | str] = [0] * count
    for number, key in zip(numbers, layout.keys, strict=True):
        keys[number] = key
    return keys


def _filled(layout: SequenceLayout, values: dict[int, IntArray], dtype: Any) -> Array:
    """A number for each frame, from the numbers of each sequence."""
    rows = sequence_rows(layout)
    out = np.zeros((layout.frames, 1), dtype)
    for row, (number, step, first) in enumerate(
        zip(rows.number.tolist(), rows.step.tolist(), rows.first.tolist(), strict=True)
    ):
        out[row, 0] = values[number][step - first]
    return out


def packed_index(context: OpContext, indices: Array) -> Array:
    """Return the rows, on the axis of the first input, that indices in their sequences mean.

    Raises:
        DataError: an index lies outside its sequence.
    """
    source, layout = layout_of(context, 0), layout_of(context, 1)
    table, own = sequence_table(source), sequence_rows(layout)
    places = table.find(own.number)
    steps = np.asarray(indices).reshape(-1).astype(np.int64)
    wrong = np.flatnonzero((places < 0) | (steps < 0) | (steps >= table.length[np.maximum(places, 0)]))
    if len(wrong):
        row = int(wrong[0])
        length = int(table.length[places[row]]) if places[row] >= 0 else 0
        raise DataError(f"PackedIndex: the index {steps[row]} lies outside a sequence of {length} frames")
    return table.rows(source, places, steps).astype(indices.dtype).reshape(-1, 1)


def whole(indices: Array) -> IntArray:
    """Return row numbers as whole numbers."""
    return np.asarray(indices).reshape(-1).astype(np.int64)


def scatter_add(xp: Any, like: Array, rows: IntArray, values: Array) -> Array:
    """Return zeros of the shape of ``like`` with values added at rows."""
    out = xp.zeros_like(like)
    np.add.at(out, rows, values)
    return out


def reconciled_rows(context: OpContext) -> IntArray | None:
    """Return the row of the first input for each row of the second's axis; None if all are the same.

    A sequence that goes on from the minibatch before is in the slot of its frame, if each slot has one frame.

    Raises:
        DataError: the sequences differ in length.
    """
    source, wanted = context.layouts[0], layout_of(context, 1)
    if source is None or source is wanted or same_sequences(source, wanted):
        return None
    table, own = sequence_table(source), sequence_rows(wanted)
    alone = source.is_frames and source.slots == wanted.slots and not wanted.begins[:, 1].any()
    if alone and not own.begun.all():
        rows: IntArray = reader_slots(wanted)[own.slot]
        return rows
    places = table.find(own.number)
    lengths = np.where(places >= 0, table.length[np.maximum(places, 0)], 0)
    full = own.last - own.first + 1
    wrong = np.flatnonzero((lengths != full) & (lengths != 1))
    if len(wrong):
        row = int(wrong[0])
        raise DataError(
            f"ReconcileDynamicAxis: a sequence has {int(lengths[row])} frames on one axis and {int(full[row])} "
            "on the other"
        )
    return table.rows(source, places, np.where(lengths == 1, 0, own.step - own.first))


def same_sequences(first: SequenceLayout, second: SequenceLayout) -> bool:
    """Whether two layouts have the same sequences at the same rows."""
    return bool(
        first is second
        or (
            np.array_equal(first.lengths, second.lengths)
            and np.array_equal(first.order, second.order)
            and np.array_equal(first.begins, second.begins)
        )
    )


def to_sequences(context: OpContext, lengths: Sequence[int] | None, longest: int) -> SequenceLayout:
    """Return the layout of the frames of an input that become sequences; by default all are equally long.

    Raises:
        DataError: a length is beyond the axis that becomes the sequence.
    """
    layout = layout_of(context, 0)
    numbers = sequence_rows(layout).number
    found = np.zeros(int(numbers.max()) + 1 if len(numbers) else 0, np.int64)
    found[numbers] = longest if lengths is None else lengths
    if len(wrong := found[(found < 0) | (found > longest)]):
        raise DataError(f"ToSequence: a length of {int(wrong[0])} for an axis of {longest}")
    return keyed_layout(layout, found)


def sequence_places(context: OpContext, made: SequenceLayout) -> tuple[IntArray, IntArray]:
    """Return for each row of a new axis the row of the first input and the index on its last static axis.

    Raises:
        DataError: the first input has no frame for a sequence.
    """
    layout = layout_of(context, 0)
    own, table = sequence_rows(made), sequence_table(layout)
    places = table.find(own.number)
    if (places < 0).any():
        raise DataError("a sequence of the new axis has no frame in the value that it is made of")
    return table.rows(layout, places, np.zeros_like(places)), own.step - own.first


def need_whole(layout: SequenceLayout, who: str) -> None:
    """Make sure that no sequence goes on from the minibatch before or into the next.

    Raises:
        DataError: one does; it names ``who`` needs whole ones.
    """
    if layout.continues or not sequence_rows(layout).begun.all():
        raise DataError(
            f"{who} needs whole sequences, and those of this minibatch are cut",
            hint="Train without truncated=true.",
        )


def single_frames(context: OpContext, who: str) -> SequenceLayout:
    """Return the layout that has one frame for each sequence of the first input.

    Args:
        context: of an operation.
        who: its name.

    Raises:
        DataError: a sequence goes on from the minibatch before or into the next.
    """
    layout = layout_of(context, 0)
    need_whole(layout, who)
    table = sequence_table(layout)
    lengths = np.zeros(int(table.number[-1]) + 1 if len(table.number) else 0, np.int64)
    lengths[table.number] = 1
    return keyed_layout(layout, lengths)


def packed_columns(layout: SequenceLayout) -> IntArray:
    """Return the row of each column of the original's minibatch, -1 of a gap.

    It lays sequences into lines as long as the longest one, each at the end of the first line that has room for it, in
    the reader's order; columns go step by step through all lines. Where sequences are cut, the rows as they are.
    """
    if layout.is_frames or layout.continues or not sequence_rows(layout).begun.all():
        return np.arange(layout.frames)
    table, longest = sequence_table(layout), longest_sequence(layout)
    used: list[int] = []
    columns = np.full((longest, len(table.number)), -1, np.int64)
    for place, length in enumerate(table.length.tolist()):
        line = next((index for index, taken in enumerate(used) if taken + length <= longest), len(used))
        if line == len(used):
            used.append(0)
        steps = np.arange(length)
        columns[used[line] + steps, line] = table.rows(layout, np.full(length, place), steps)
        used[line] += length
    return np.ascontiguousarray(columns[:, : len(used)]).reshape(-1)


def unpacked_places(context: OpContext, made: SequenceLayout) -> tuple[IntArray, IntArray]:
    """Return for each row of the first input the row of its sequence and the index on the axis of time steps."""
    own, table = sequence_rows(layout_of(context, 0)), sequence_table(made)
    places = table.find(own.number)
    return table.rows(made, places, np.zeros_like(places)), own.step - own.first


@attrs.frozen(eq=False)
class Pieces:
    """The rows of a minibatch sequence by sequence.

    Attributes:
        rows: of all frames, those of each sequence in the order of time. Shape ``(frames,)``.
        starts: where in ``rows`` each sequence begins, in the reader's order. Shape ``(sequences,)``.
        lengths: of the sequences. Shape ``(sequences,)``.
        piece, step: which of the sequences each row of the minibatch belongs to, and which of its steps it is. Shape
            ``(frames,)``.
        slots: the slot of each sequence, if none shares its slot. Shape ``(sequences,)``.
        spans: first row and number of rows of each time step.
    """

    rows: IntArray
    starts: IntArray
    lengths: IntArray
    piece: IntArray
    step: IntArray
    slots: IntArray | None
    spans: tuple[tuple[int, int], ...]

    @property
    def longest(self) -> int:
        """Frames of the longest sequence."""
        return int(self.lengths.max(initial=0))

    def fold(self, function: np.ufunc, values: Array) -> Array:
        """Return ``(sequences, n)``: a binary function over the rows ``(frames, n)`` of each sequence.

        Time step by time step, or, where few sequences have many, sequence by sequence: many times as fast as
        ``function.reduceat``.
        """
        if self.slots is None or len(self.spans) > MANY_STEPS * len(self.starts):
            ordered = values[self.rows]
            out = np.empty((len(self.starts), *values.shape[1:]), values.dtype)
            for place, (start, length) in enumerate(zip(self.starts.tolist(), self.lengths.tolist(), strict=True)):
                function.reduce(ordered[start : start + length], axis=0, out=out[place])
            return out
        found = values[: self.spans[0][1] if self.spans else 0].copy()
        for start, count in self.spans[1:]:
            function(found[:count], values[start : start + count], out=found[:count])
        return found[self.slots]


_PIECES: WeakKeyDictionary[SequenceLayout, Pieces] = WeakKeyDictionary()


def pieces_of(layout: SequenceLayout) -> Pieces:
    """Return the rows of a minibatch of whole sequences, sequence by sequence. Computed once for a layout."""
    found = _PIECES.get(layout)
    if found is None:
        own, table = sequence_rows(layout), sequence_table(layout)
        alone = not layout.steps or len(table.slot) == layout.alive[0]
        found = Pieces(
            rows=np.lexsort((own.step, own.number)).astype(np.int64),
            starts=np.cumsum(table.length) - table.length,
            lengths=table.length,
            piece=table.find(own.number),
            step=own.step - own.first,
            slots=table.slot if alone else None,
            spans=tuple(zip(layout.start.tolist(), layout.alive.tolist(), strict=True)),
        )
        _PIECES[layout] = found
    return found
