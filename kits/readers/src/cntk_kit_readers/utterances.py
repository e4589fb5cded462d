"""Utterances: chunks of about equally many frames, and a window of frames around each frame."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cntk_core.records.layout import IntArray
from cntk_kit_readers.source import ChunkInfo, Column

CHUNK_FRAMES = 90_000
"""A chunk ends with the utterance that reaches so many frames: a quarter of an hour."""

ReadUtterance = Callable[[int, NDArray[Any]], None]
"""Reads the frames of an utterance, by its number, into an array ``(frames, dim)``."""


def cut_chunks(lengths: IntArray) -> tuple[list[int], list[ChunkInfo]]:
    """Return the number of the first utterance of each chunk, and of the end, and what the chunks hold."""
    starts, infos = [0], []
    ends = np.cumsum(lengths)
    while starts[-1] < len(lengths):
        first = starts[-1]
        before = int(ends[first - 1]) if first else 0
        last = min(int(np.searchsorted(ends, before + CHUNK_FRAMES, side="right")) + 1, len(lengths))
        own = lengths[first:last]
        infos.append(ChunkInfo(last - first, int(own.sum()), None if (own == 1).all() else own))
        starts.append(last)
    return starts, infos


def read_windows(
    numbers: IntArray,
    lengths: IntArray,
    read: ReadUtterance,
    *,
    dim: int,
    window: tuple[int, int],
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
) -> Column:
    """Read utterances into one array, with repeated frames at their ends, of which every window is a view.

    Args:
        numbers: the utterances.
        lengths: frames of each of them.
        read: reads one.
        dim: values of a frame.
        window: frames that are put before and after each frame; at the ends the first and last are repeated.
        shape: of a sample, in memory order: as many values as a window has.
        dtype: precision of the values.
    """
    left, right = window
    ends = np.cumsum(lengths + left + right)
    rows = ends - lengths - left - right
    frames = np.empty((int(ends[-1]) if len(ends) else 0, dim), dtype=dtype)
    for number, row, length in zip(numbers.tolist(), rows.tolist(), lengths.tolist(), strict=True):
        begin = row + left
        read(number, frames[begin : begin + length])
        frames[row:begin] = frames[begin]
        frames[begin + length : begin + length + right] = frames[begin + length - 1]
    offsets = None if (lengths == 1).all() else np.concatenate([[0], np.cumsum(lengths)])
    if left + right == 0:
        return Column(frames.reshape(len(frames), *shape), offsets)
    width = (1 + left + right) * dim
    count = max(len(frames) - left - right, 0)
    step = frames.itemsize
    windows = np.lib.stride_tricks.as_strided(frames, (count, width), (dim * step, step), writeable=False)
    return Column(windows.reshape(count, *shape), offsets, rows)


def class_column(lengths: IntArray, classes: NDArray[Any], values: NDArray[Any], dim: int) -> Column:
    """Return the classes of frames, one-hot and sparse.

    Args:
        lengths: frames of each utterance.
        classes: of all frames, utterance by utterance.
        values: what stands at the class of each frame, mostly 1.
        dim: number of classes.
    """
    from scipy.sparse import csr_array

    pointers = np.arange(len(classes) + 1, dtype=np.int32 if len(classes) < 2**31 else np.int64)
    data = csr_array((values, classes, pointers), shape=(len(classes), dim))
    return Column(data, None if (lengths == 1).all() else np.concatenate([[0], np.cumsum(lengths)]))
