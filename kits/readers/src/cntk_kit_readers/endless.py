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
from cntk_kit_readers.randomize import Block
from cntk_kit_readers.timeline import Picks, Walk

_FAR = 1 << 62


@attrs.frozen(eq=False)
class Taken:
    """A minibatch.

    Attributes:
        streams: for each stream of the part that was asked for the frames of all sequences, one after the other in the
            reader's order, and the number of frames of each sequence.
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

        Args:
            size: samples, of all parts.
            part, parts: which of the parts of the minibatch is read; each has every so many of the sequences.

        Raises:
            DataError: the data cannot be read.
        """
        order = self._reader.order()
        ends = [_FAR if self._samples is None else self._samples]
        ends.append(_FAR if self._sweeps is None else self._sweeps * order.samples)
        left = min(ends) - self.position
        if left <= 0:
            return None
        if self._walk is None or self._walk.position != self.position:
            self._walk = Walk(order, self.position)
        walk, limit = self._walk, min(size, left)
        first, sweep, blocks, taken = walk.sequence, walk.sweep, list[Block](), 0
        while not blocks or walk.next_length <= limit - taken:
            if blocks and self._sweeps is not None and walk.sweep >= self._sweeps:
                break
            blocks.append(walk.take(limit - taken, _FAR, 0, 1, 1))
            taken += int(blocks[-1].lengths.sum())
            if taken >= limit:
                break
        self.position = walk.position
        mine = slice((part - first) % parts, None, parts)
        chunks, sequences, lengths = (
            np.concatenate([getattr(block, name) for block in blocks])[mine] for name in attrs.fields_dict(Block)
        )
        picks = Picks(chunks, sequences, int(lengths.sum()), sweep)
        found = self._reader.gather(picks).streams
        return Taken({name: _in_order(data) for name, data in found.items()}, taken, walk.sweep > sweep)


def _in_order(data: StreamData) -> tuple[Any, IntArray]:
    """Return frames sequence by sequence, and the lengths of the sequences, as the reader has them."""
    layout = data.layout
    slots = np.argsort(reader_slots(layout))
    lengths = layout.lengths[slots]
    if (lengths == 1).all():
        return data.data, lengths
    return data.data[np.concatenate([slot_rows(layout, slot) for slot in slots.tolist()])], lengths
