"""Minibatches whose slots are planned piece by piece: cut sequences, and sequences joined end to end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs
import numpy as np

from cntk_core.contract.reader import EpochSpec, StreamInfo
from cntk_core.errors import DataError
from cntk_core.ops.language.layouts import slot_layout
from cntk_core.ops.language.reader_order import packed_sources
from cntk_core.ops.language.rows import reader_slots
from cntk_core.records.layout import IntArray, SequenceLayout
from cntk_core.records.minibatch import Minibatch, StreamData
from cntk_kit_readers.packing import gather_rows
from cntk_kit_readers.source import Chunk


@attrs.frozen
class Piece:
    """Some frames of a sequence of the data: the frames ``first`` to ``first + count`` of its ``length``."""

    chunk: int
    sequence: int
    length: int
    first: int
    count: int


SlotSequence = Sequence[Piece]
"""What is one sequence of a minibatch: one piece, or several end to end."""


@attrs.frozen(eq=False)
class SlotPlan:
    """What the slots of a minibatch hold.

    Attributes:
        slots: the sequences of each slot, in their order.
        continued: which slots begin in the middle of a sequence of the minibatch before; none if empty.
        continues: which slots end in the middle of a sequence; none if empty.
        columns: see :class:`~cntk_core.contract.reader.Minibatch`.
    """

    slots: Sequence[Sequence[SlotSequence]]
    continued: Sequence[bool] = ()
    continues: Sequence[bool] = ()
    columns: int | None = None

    @property
    def samples(self) -> int:
        """How many frames all slots have together."""
        return sum(piece.count for slot in self.slots for sequence in slot for piece in sequence)

    def share(self, rank: int, ranks: int) -> SlotPlan:
        """Return the slots ``rank``, ``rank + ranks``, ..."""
        if ranks == 1:
            return self
        slots = self.slots[rank::ranks]
        columns = None if self.columns is None else self.columns // len(self.slots) * len(slots)
        return SlotPlan(slots, self.continued[rank::ranks], self.continues[rank::ranks], columns)


def slot_minibatches(
    plans: Iterator[SlotPlan],
    epoch: EpochSpec,
    load: Callable[[int], Chunk],
    streams: Sequence[StreamInfo],
    dtype: np.dtype[Any],
) -> Iterator[Minibatch]:
    """Yield the minibatches that are planned for an epoch.

    All ranks have equally many. What is to be skipped is planned, but not loaded.

    Raises:
        DataError: the streams of a sequence have different lengths.
    """
    done = 0
    for plan in plans:
        if done >= epoch.skip_samples:
            yield _pack(plan.share(epoch.rank, epoch.ranks), load, streams, dtype)
        done += plan.samples
        if epoch.max_samples and done >= epoch.max_samples:
            return


def _pack(
    plan: SlotPlan, load: Callable[[int], Chunk], streams: Sequence[StreamInfo], dtype: np.dtype[Any]
) -> Minibatch:
    """Put the pieces of one rank's slots together."""
    flat = [piece for slot in plan.slots for sequence in slot for piece in sequence]
    chunks = {number: load(number) for number in sorted({piece.chunk for piece in flat})}
    layout = _layout(plan, chunks)
    counts = np.array([piece.count for piece in flat], dtype=np.int64)
    ends = np.cumsum(counts)
    totals = np.array([sum(piece.count for sequence in slot for piece in sequence) for slot in plan.slots], np.int64)
    sources = packed_sources(layout, (np.cumsum(totals) - totals)[reader_slots(layout)])
    owners = np.repeat([piece.chunk for piece in flat], counts)[sources] if flat else sources
    found: dict[str, StreamData] = {}
    for stream in streams:
        columns = {number: chunk.columns[stream.name] for number, chunk in chunks.items()}
        begins = _first_rows(flat, chunks, stream.name)
        rows = (np.repeat(begins - ends + counts, counts) + np.arange(len(sources)))[sources]
        found[stream.name] = StreamData(gather_rows(columns, owners, rows, stream, dtype), layout)
    return Minibatch(found, int(counts.sum()), plan.columns)


def _layout(plan: SlotPlan, chunks: dict[int, Chunk]) -> SequenceLayout:
    """Return the layout; joined sequences have the key of the first."""
    has_keys = bool(chunks) and all(len(chunk.keys) for chunk in chunks.values())
    firsts = [[sequence[0] for sequence in slot] for slot in plan.slots]
    keys = [[_key(chunks[piece.chunk], piece.sequence) for piece in slot] for slot in firsts] if has_keys else ()
    return slot_layout(
        [[sum(piece.count for piece in sequence) for sequence in slot] for slot in plan.slots],
        keys,
        continued=plan.continued,
        continues=plan.continues,
    )


def _key(chunk: Chunk, sequence: int) -> int | str:
    key = chunk.keys[sequence]
    return key if isinstance(key, str) else int(key)


def _first_rows(pieces: Sequence[Piece], chunks: dict[int, Chunk], stream: str) -> IntArray:
    """Return the first row of each piece in the column of its chunk."""
    rows = np.empty(len(pieces), dtype=np.int64)
    numbers = np.array([(piece.chunk, piece.sequence, piece.length, piece.first) for piece in pieces], dtype=np.int64)
    for number, chunk in chunks.items():
        here = np.flatnonzero(numbers[:, 0] == number)
        column = chunk.columns[stream]
        sequences = numbers[here, 1]
        lengths = column.lengths(sequences)
        wrong = np.flatnonzero(lengths != numbers[here, 2])
        if len(wrong):
            raise _unequal(chunk, pieces[here[wrong[0]]], int(lengths[wrong[0]]), stream)
        rows[here] = column.first_rows(sequences) + numbers[here, 3]
    return rows


def _unequal(chunk: Chunk, piece: Piece, length: int, stream: str) -> DataError:
    name = f"'{_key(chunk, piece.sequence)}'" if len(chunk.keys) else str(piece.sequence)
    return DataError(
        f"sequence {name} has {length} frames in stream '{stream}', but {piece.length} in the longest",
        hint="Truncated training and sequences that are joined need streams of equal length.",
    )
