"""Minibatches of truncated training: pieces of sequences in slots that go on from minibatch to minibatch.

A number of slots are filled with whole sequences end to end, in the order of the epoch: whenever a slot has no more
than one piece left, the next sequence goes there. Each minibatch has the next ``length`` frames of every slot. A
sequence that is cut goes on in the same slot of the next minibatch, and the layout says so.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs
import numpy as np

from cntk_core.data.layout import packed_sources
from cntk_core.data.packing import gather_rows
from cntk_core.data.randomize import SweepOrder
from cntk_core.data.source import Chunk
from cntk_core.data.timeline import plan_epoch
from cntk_core.errors import DataError
from cntk_core.interfaces.layout import IntArray, SequenceLayout
from cntk_core.interfaces.reader import EpochSpec, Minibatch, StreamData, StreamInfo
from cntk_core.ops.layouts import slot_layout
from cntk_core.ops.rows import reader_slots


@attrs.frozen
class Truncation:
    """How sequences are cut.

    Attributes:
        length: frames of a piece.
        slots: sequences side by side, over all ranks.
    """

    length: int
    slots: int

    @classmethod
    def of_size(cls, minibatch_size: int, length: int) -> Truncation:
        """Return as many slots of a length as a minibatch has room for, at least one."""
        return cls(length, max(minibatch_size // length, 1))


@attrs.frozen
class _Piece:
    """Some frames of a sequence: the frames ``first`` to ``first + count`` of its ``length``."""

    chunk: int
    sequence: int
    length: int
    first: int
    count: int


class _Slot:
    """Sequences end to end, read piece by piece."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, int, int]] = deque()
        self._done = 0
        self.available = 0

    def add(self, chunk: int, sequence: int, length: int) -> None:
        """Put a sequence behind the others."""
        self._waiting.append((chunk, sequence, length))
        self.available += length

    def take(self, frames: int) -> list[_Piece]:
        """Take the next frames, or all that are left."""
        pieces = []
        while frames and self._waiting:
            chunk, sequence, length = self._waiting[0]
            count = min(frames, length - self._done)
            pieces.append(_Piece(chunk, sequence, length, self._done, count))
            self._done += count
            frames -= count
            self.available -= count
            if self._done == length:
                self._waiting.popleft()
                self._done = 0
        return pieces


def truncated_minibatches(
    order: SweepOrder,
    epoch: EpochSpec,
    truncation: Truncation,
    load: Callable[[int], Chunk],
    streams: Sequence[StreamInfo],
    dtype: np.dtype[Any],
) -> Iterator[Minibatch]:
    """Yield the minibatches of an epoch. All ranks have equally many; rank ``r`` of ``R`` has the slots r, r + R, ...

    Raises:
        DataError: the streams of a sequence have different lengths.
    """
    sequences = _sequences(order, epoch, truncation)
    slots = [_Slot() for _ in range(truncation.slots)]
    done = 0
    while not epoch.max_samples or done < epoch.max_samples:
        for slot in slots:
            while slot.available <= truncation.length:
                following = next(sequences, None)
                if following is None:
                    break
                slot.add(*following)
        pieces = [slot.take(truncation.length) for slot in slots]
        frames = sum(piece.count for slot_pieces in pieces for piece in slot_pieces)
        if not frames:
            return
        if done >= epoch.skip_samples:
            yield _pack(pieces[epoch.rank :: epoch.ranks], load, streams, dtype)
        done += frames


def _sequences(order: SweepOrder, epoch: EpochSpec, truncation: Truncation) -> Iterator[tuple[int, int, int]]:
    """Yield chunk, number and length of the sequences of an epoch, of all ranks."""
    whole = attrs.evolve(
        epoch,
        minibatch_size=truncation.length * truncation.slots,
        rank=0,
        ranks=1,
        max_samples=0,
        skip_samples=0,
    )
    for picks in plan_epoch(order, whole):
        for chunk, sequence in zip(picks.chunks.tolist(), picks.sequences.tolist(), strict=True):
            length = int(order.index[chunk].sample_counts()[sequence])
            if length:
                yield chunk, sequence, length


def _pack(
    pieces: Sequence[Sequence[_Piece]],
    load: Callable[[int], Chunk],
    streams: Sequence[StreamInfo],
    dtype: np.dtype[Any],
) -> Minibatch:
    """Put the pieces of one rank's slots together."""
    flat = [piece for slot in pieces for piece in slot]
    chunks = {number: load(number) for number in sorted({piece.chunk for piece in flat})}
    layout = _layout(pieces, chunks)
    counts = np.array([piece.count for piece in flat], dtype=np.int64)
    ends = np.cumsum(counts)
    totals = np.array([sum(piece.count for piece in slot) for slot in pieces], dtype=np.int64)
    sources = packed_sources(layout, (np.cumsum(totals) - totals)[reader_slots(layout)])
    owners = np.repeat([piece.chunk for piece in flat], counts)[sources] if flat else sources
    found: dict[str, StreamData] = {}
    for stream in streams:
        columns = {number: chunk.columns[stream.name] for number, chunk in chunks.items()}
        begins = _first_rows(flat, chunks, stream.name)
        rows = (np.repeat(begins - ends + counts, counts) + np.arange(len(sources)))[sources]
        found[stream.name] = StreamData(gather_rows(columns, owners, rows, stream, dtype), layout)
    return Minibatch(found, int(counts.sum()))


def _layout(pieces: Sequence[Sequence[_Piece]], chunks: dict[int, Chunk]) -> SequenceLayout:
    has_keys = bool(chunks) and all(len(chunk.keys) for chunk in chunks.values())
    keys = [[_key(chunks[piece.chunk], piece.sequence) for piece in slot] for slot in pieces] if has_keys else ()
    return slot_layout(
        [[piece.count for piece in slot] for slot in pieces],
        keys,
        continued=[bool(slot) and slot[0].first > 0 for slot in pieces],
        continues=[bool(slot) and slot[-1].first + slot[-1].count < slot[-1].length for slot in pieces],
    )


def _key(chunk: Chunk, sequence: int) -> int | str:
    key = chunk.keys[sequence]
    return key if isinstance(key, str) else int(key)


def _first_rows(pieces: Sequence[_Piece], chunks: dict[int, Chunk], stream: str) -> IntArray:
    """Return the first row of each piece in the column of its chunk."""
    rows = []
    for piece in pieces:
        chunk = chunks[piece.chunk]
        column = chunk.columns[stream]
        number = np.array([piece.sequence], dtype=np.int64)
        length = int(column.lengths(number)[0])
        if length != piece.length:
            name = f"'{_key(chunk, piece.sequence)}'" if len(chunk.keys) else str(piece.sequence)
            raise DataError(
                f"sequence {name} has {length} frames in stream '{stream}', but {piece.length} in the longest",
                hint="Truncated training needs streams of equal length.",
            )
        rows.append(int(column.first_rows(number)[0]) + piece.first)
    return np.array(rows, dtype=np.int64)
