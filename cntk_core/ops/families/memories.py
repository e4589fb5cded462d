"""Memories that frames look at: one for each sequence, whatever dynamic axis the frames have, or one for all.

A memory has one row for each of its steps, such as UnpackSequence makes of a sequence. Frames are those of all time
steps, or in a loop those of one.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np

from cntk_core.errors import DataError
from cntk_core.ops.families.frame_moves import layout_of, pieces_of
from cntk_core.ops.language.op import Array, OpContext
from cntk_core.ops.language.rows import sequence_rows, sequence_table
from cntk_core.records.layout import IntArray


@attrs.frozen(eq=False)
class Blocks:
    """Frames by sequence: a block for each sequence, with a place for each of its frames.

    Attributes:
        numbers: the sequence of each block, by its position in the reader's order. Shape ``(blocks,)``.
        block, place: of each frame. Shape ``(frames,)``.
        step: of each frame in its sequence. Shape ``(frames,)``.
        count, width: blocks, and places of each.
    """

    numbers: IntArray
    block: IntArray
    place: IntArray
    step: IntArray
    count: int
    width: int

    def of(self, rows: Array) -> Array:
        """Frames ``(frames, ...)`` as ``(blocks, places, ...)``, with zeros at places without a frame."""
        shape = (self.count, self.width, *rows.shape[1:])
        if self.count == 1 or self.width == 1:
            return rows.reshape(shape)
        out = np.zeros(shape, rows.dtype)
        out[self.block, self.place] = rows
        return out

    def rows(self, blocks: Array) -> Array:
        """Frames ``(frames, ...)`` from ``(blocks, places, ...)``: the inverse of :meth:`of`."""
        if self.count == 1 or self.width == 1:
            return blocks.reshape(len(self.block), *blocks.shape[2:])
        return blocks[self.block, self.place]


def blocks_of(context: OpContext, frames: int, memories: Sequence[int]) -> Blocks:
    """Say how the frames of the second input look at memories, which are inputs with these indices.

    Raises:
        DataError: a sequence is cut.
    """
    layout = layout_of(context, 1)
    own, rows = sequence_rows(layout), slice(context.first, context.first + frames)
    step, every, zeros = own.step[rows] - own.first[rows], np.arange(frames), np.zeros(frames, np.int64)
    if not any(context.framed[index] for index in memories):
        return Blocks(zeros[:0], zeros, every, step, 1, frames)
    numbers = own.number[rows]
    if (numbers < 0).any():
        raise DataError(
            "attention needs whole sequences, and those of this minibatch are cut",
            hint="Train without truncated=true.",
        )
    found = sequence_table(layout).number
    if frames < layout.frames or len(found) == frames:  # the frames of a time step, as they lie
        return Blocks(numbers, every, zeros, step, frames, 1)
    pieces = pieces_of(layout)
    return Blocks(found, pieces.piece, step, step, len(found), pieces.longest)


def _rows_of(context: OpContext, index: int, blocks: Blocks) -> IntArray | slice:
    """The rows of a memory with a dynamic axis that belong to blocks.

    Raises:
        DataError: a sequence has several memories, or none.
    """
    layout = layout_of(context, index)
    table = sequence_table(layout)
    places = table.find(blocks.numbers)
    if (places < 0).any() or (table.length > 1).any():
        longest = int(table.length.max(initial=0)) if (places >= 0).all() else 0
        raise DataError(
            f"attention needs one memory for each sequence, and there are {longest}",
            hint="UnpackSequence makes a memory of each sequence.",
        )
    rows = table.rows(layout, places, np.zeros_like(places))
    in_order = np.array_equal(rows, np.arange(len(rows)))
    return slice(len(rows)) if in_order else rows


def memory_of(context: OpContext, index: int, value: Array, blocks: Blocks) -> Array:
    """What each block looks at: ``(blocks, steps, ...)``, or ``(1, steps, ...)`` if it is the same for all."""
    return value[_rows_of(context, index, blocks)] if context.framed[index] else value[None]


def remembered(context: OpContext, index: int, value: Array, blocks: Blocks, found: Array) -> Array:
    """The gradient of a memory, of the shape of its ``value``: the inverse of :func:`memory_of`.

    ``found (blocks, steps, ...)`` has those of what each block looks at.
    """
    if not context.framed[index]:
        return np.sum(found, axis=0).reshape(value.shape)
    out = np.zeros_like(value)
    out[_rows_of(context, index, blocks)] = found.reshape(len(found), *value.shape[1:])
    return out
