"""The timeline without epochs: minibatches of any sizes, which may go on over the end of a sweep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from cntk_core.ops.language.reader_order import slot_rows
from cntk_core.ops.language.rows import reader_slots
from cntk_core.records.layout import IntArray
from cntk_core.records.minibatch import StreamData
from cntk_kit_readers.chunked import ChunkedReader
from cntk_kit_readers.randomize import Block, SweepOrder
from cntk_kit_readers.timeline import Picks, Walk

_FAR = 1 << 62


@attrs.frozen(eq=False)
class Taken:
    """A minibatch.

    Attributes:
        streams: for each stream of the part that was asked for the frames of all sequences, one after the other in the
            reader's order, and the number of frames of each sequence; nothing where the part has none.
        samples: of all parts.
        ends_sweep: whether a sweep ends in it.
    """

    streams: Mapping[str, tuple[Any, IntArray]]
    samples: int
    ends_sweep: bool


class Endless:
    """Reads a reader's sequences, sweep after sweep.

    Args:
        reader: whose order it is.
        sweeps: how many sweeps there are; None is no end.
        samples: how many samples there are; None is no end.

    Attributes:
        position: samples before the next minibatch.
    """

    def __init__(self, reader: ChunkedReader, *, sweeps: int | None = None, samples: int | None = None) -> None:
        self._reader = reader
        self._sweeps, self._samples = sweeps, samples
        self.position = 0
        self._walk: Walk | None = None

    @property
    def is_endless(self) -> bool:
        """Whether there is no end."""
        return self._sweeps is None and self._samples is None

    def take(self, size: int, part: int = 0, parts: int = 1) -> Taken | None:
        """Return the next sequences as far as they fit into a size, at least one; None at the end.

        Of several parts each takes its share of the size. As in the original, a part has every so many of the sequences
        where they come in the order of the files, and every so many of the chunks where they come at random; it may
        have none.

        Args:
            size: samples, of all parts.
            part, parts: which of the parts of the minibatch is read.

        Raises:
            DataError: the data cannot be read.
        """
        order = self._reader.order()
        ends = [_FAR if self._samples is None else self._samples]
        ends.append(_FAR if self._sweeps is None else self._sweeps * order.samples)
        end = min(ends)
        if self.position >= end:
            return None
        if self._walk is None or self._walk.position != self.position:
            self._walk = Walk(order, self.position)
        walk, sweep = self._walk, self._walk.sweep
        blocks = _whole(walk, size, end) if parts == 1 else _share(order, walk, size, end, part, parts)
        taken, self.position = walk.position - self.position, walk.position
        if not blocks:
            return None if walk.position >= end else Taken({}, taken, walk.sweep > sweep)
        chunks, sequences, lengths = (
            np.concatenate([getattr(block, name) for block in blocks]) for name in attrs.fields_dict(Block)
        )
        found = self._reader.gather(Picks(chunks, sequences, int(lengths.sum()), sweep)).streams
        return Taken({name: _in_order(data) for name, data in found.items()}, taken, walk.sweep > sweep)


def _whole(walk: Walk, size: int, end: int) -> list[Block]:
    """Take the sequences of a minibatch."""
    blocks = [walk.take(size, end, 0, 1, 1)]
    left = size - int(blocks[0].lengths.sum())
    while left > 0 and walk.position < end and walk.next_length <= left:
        blocks.append(walk.take(left, end, 0, 1, 1))
        left -= int(blocks[-1].lengths.sum())
    return blocks


def _share(order: SweepOrder, walk: Walk, size: int, end: int, part: int, parts: int) -> list[Block]:
    """Take the sequences of a part of a minibatch, and pass over those of the others.

    Each part goes along the timeline by itself, until its share of the minibatch is full.
    """
    own = max(size // parts + (part < size % parts), 1)
    mine: list[Block] = []
    places, sweep, first = order.chunk_places(walk.sweep), walk.sweep, True
    while walk.position < end and own > 0:
        if walk.sweep != sweep:
            if not (mine or order.in_file_order):
                break  # this part has none of the chunks, perhaps
            places, sweep, first = order.chunk_places(walk.sweep), walk.sweep, order.in_file_order
        number = walk.sequence if order.in_file_order else int(places[walk.next_chunk])
        is_own, length = number % parts == part, walk.next_length
        if (mine or not first) and is_own and length > own:
            break
        block = walk.take(1, _FAR, 0, 1, 1)
        if is_own:
            mine.append(block)
            own -= length
    return mine


def _in_order(data: StreamData) -> tuple[Any, IntArray]:
    """Return frames sequence by sequence, and the lengths of the sequences, as the reader has them."""
    layout = data.layout
    slots = np.argsort(reader_slots(layout))
    lengths = layout.lengths[slots]
    if (lengths == 1).all():
        return data.data, lengths
    return data.data[np.concatenate([slot_rows(layout, slot) for slot in slots.tolist()])], lengths
