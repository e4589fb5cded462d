"""Put the picked sequences of a minibatch together: one packed array and one layout for each stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cntk_core.contract.reader import StreamInfo
from cntk_core.ops.language.layouts import frame_layout, sequence_layout
from cntk_core.ops.language.reader_order import packed_sources
from cntk_core.ops.language.rows import packed_slots
from cntk_core.records.layout import IntArray, SequenceLayout
from cntk_core.records.minibatch import Minibatch, StreamData
from cntk_kit_readers.source import Chunk, Column
from cntk_kit_readers.timeline import Picks

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def make_minibatch(
    picks: Picks, load: Callable[[int], Chunk], streams: Sequence[StreamInfo], dtype: np.dtype[Any]
) -> Minibatch:
    """Gather the frames of a minibatch.

    Streams whose sequences have the same lengths share one layout. Frames that lie together in a chunk are not copied.
    """
    chunks = {number: load(number) for number in sorted(set(picks.chunks.tolist()))}
    if chunks and all(_is_frames(chunk) for chunk in chunks.values()):
        return _make_frames(picks, chunks, streams, dtype)
    layouts: list[tuple[IntArray, SequenceLayout]] = []
    found: dict[str, StreamData] = {}
    for stream in streams:
        columns = {number: chunk.columns[stream.name] for number, chunk in chunks.items()}
        lengths = _collect(picks, columns, lambda column, sequences: column.lengths(sequences))
        layout = next((known for counts, known in layouts if np.array_equal(counts, lengths)), None)
        if layout is None:
            layout = sequence_layout(lengths, _keys(picks, chunks))
            layouts.append((lengths, layout))
        found[stream.name] = StreamData(_gather(picks, columns, layout, stream, dtype), layout)
    return Minibatch(found, picks.samples)


def _is_frames(chunk: Chunk) -> bool:
    """Tell whether the sequences of a chunk have one frame each, and no names."""
    return not len(chunk.keys) and all(column.offsets is None for column in chunk.columns.values())


def _make_frames(
    picks: Picks, chunks: Mapping[int, Chunk], streams: Sequence[StreamInfo], dtype: np.dtype[Any]
) -> Minibatch:
    """Gather independent frames: the usual case, and a short way."""
    layout = frame_layout(len(picks.sequences))
    found: dict[str, StreamData] = {}
    if len(chunks) == 1:
        (chunk,) = chunks.values()
        for stream in streams:
            column = chunk.columns[stream.name]
            found[stream.name] = StreamData(_take(column.data, column.first_rows(picks.sequences)), layout)
        return Minibatch(found, picks.samples)
    places = {number: np.flatnonzero(picks.chunks == number) for number in chunks}
    sequences = {number: picks.sequences[here] for number, here in places.items()}
    for stream in streams:
        columns = {number: chunk.columns[stream.name] for number, chunk in chunks.items()}
        if stream.sparse:
            rows = np.empty(len(picks.sequences), dtype=np.int64)
            for number, column in columns.items():
                rows[places[number]] = column.first_rows(sequences[number])
            data = gather_rows(columns, picks.chunks, rows, stream, dtype)
        else:
            dense: dict[int, Any] = {number: column.data for number, column in columns.items()}
            some = next(iter(dense.values()))
            data = np.empty((len(picks.sequences), *some.shape[1:]), dtype=some.dtype)
            for number, column in columns.items():
                values, chosen = dense[number], column.first_rows(sequences[number])
                # ``take`` would copy all frames first where they overlap.
                data[places[number]] = values.take(chosen, axis=0) if values.flags.c_contiguous else values[chosen]
        found[stream.name] = StreamData(data, layout)
    return Minibatch(found, picks.samples)


def _collect(picks: Picks, columns: Mapping[int, Column], what: Callable[[Column, IntArray], IntArray]) -> IntArray:
    """Return a number for each picked sequence, in the reader's order."""
    if len(columns) == 1:
        (column,) = columns.values()
        return what(column, picks.sequences)
    values = np.zeros(len(picks.sequences), dtype=np.int64)
    for number, column in columns.items():
        here = picks.chunks == number
        values[here] = what(column, picks.sequences[here])
    return values


def _keys(picks: Picks, chunks: Mapping[int, Chunk]) -> list[int | str]:
    if not all(len(chunk.keys) for chunk in chunks.values()):
        return []
    pairs = zip(picks.chunks.tolist(), picks.sequences.tolist(), strict=True)
    return [_plain(chunks[number].keys[sequence]) for number, sequence in pairs]


def _plain(key: Any) -> int | str:
    return key if isinstance(key, str) else int(key)


def _gather(
    picks: Picks, columns: Mapping[int, Column], layout: SequenceLayout, stream: StreamInfo, dtype: np.dtype[Any]
) -> NDArray[Any] | csr_array:
    """Return the frames of one stream in packed order."""
    if not columns:
        return _nothing(stream, dtype)
    first = _collect(picks, columns, lambda column, sequences: column.first_rows(sequences))[layout.order]
    rows = packed_sources(layout, first)
    if len(columns) == 1:
        (column,) = columns.values()
        return _take(column.data, rows)
    owners = picks.chunks[layout.order][packed_slots(layout)[0]]
    return gather_rows(columns, owners, rows, stream, dtype)


def gather_rows(
    columns: Mapping[int, Column], owners: IntArray, rows: IntArray, stream: StreamInfo, dtype: np.dtype[Any]
) -> NDArray[Any] | csr_array:
    """Return rows out of several chunks.

    Args:
        columns: chunk number to the stream's frames.
        owners: the chunk of each row.
        rows: the row in the column of its chunk.
        stream: what is gathered.
        dtype: precision of the values.
    """
    if not columns:
        return _nothing(stream, dtype)
    if len(columns) == 1:
        (column,) = columns.values()
        return _take(column.data, rows)
    if stream.sparse:
        return _gather_sparse(columns, owners, rows)
    some = next(iter(columns.values())).data
    frames = np.empty((len(rows), *some.shape[1:]), dtype=some.dtype)
    for number, column in columns.items():
        here = np.flatnonzero(owners == number)
        frames[here] = column.data[rows[here]]
    return frames


def _take(data: NDArray[Any] | csr_array, rows: IntArray) -> NDArray[Any] | csr_array:
    """Return rows of a column: a view where they follow each other, unless the rows overlap."""
    count = len(rows)
    if isinstance(data, np.ndarray) and not data.flags.c_contiguous:
        return data[rows]
    if count and int(rows[-1]) - int(rows[0]) == count - 1 and (np.diff(rows) == 1).all():
        return data[int(rows[0]) : int(rows[0]) + count]
    if isinstance(data, np.ndarray):
        return data.take(rows, axis=0)
    return data[rows]


def _gather_sparse(columns: Mapping[int, Column], owners: IntArray, rows: IntArray) -> csr_array:
    from scipy.sparse import csr_array, vstack

    parts: list[Any] = []
    places: list[IntArray] = []
    for number, column in columns.items():
        here = np.flatnonzero(owners == number)
        parts.append(column.data[rows[here]])
        places.append(here)
    back = np.argsort(np.concatenate(places), kind="stable")
    return csr_array(vstack(parts, format="csr"))[back]


def _nothing(stream: StreamInfo, dtype: np.dtype[Any]) -> NDArray[Any] | csr_array:
    if not stream.sparse:
        return np.zeros((0, *stream.shape), dtype=dtype)
    from scipy.sparse import csr_array

    return csr_array((0, int(np.prod(stream.shape))), dtype=dtype)
