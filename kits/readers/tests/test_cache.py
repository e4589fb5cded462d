"""Chunks that are kept: those of the window always, others up to a number of bytes."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np
import pytest

from cntk_core.contract.reader import EpochSpec, ReaderContext, StreamInfo
from cntk_kit_readers.chunked import ChunkedReader
from cntk_kit_readers.randomize import Window
from cntk_kit_readers.source import Chunk, ChunkCache, ChunkInfo, ChunkSource, Column

PER_CHUNK, CHUNKS = 64, 40
BYTES = PER_CHUNK * 8


class CountedSource(ChunkSource):
    """Chunks of numbers; notes what is loaded, and how many of its chunks are alive."""

    def __init__(self) -> None:
        self.loaded: list[int] = []
        self.alive: set[int] = set()
        self.most_alive = 0

    def index(self) -> list[ChunkInfo]:
        return [ChunkInfo(PER_CHUNK, PER_CHUNK)] * CHUNKS

    def load(self, chunk: int) -> Chunk:
        self.loaded.append(chunk)
        data = _Tracked.of(self, chunk)
        self.most_alive = max(self.most_alive, len(self.alive))
        return Chunk({"x": Column(data)})

    def close(self) -> None:
        pass


class _Tracked(np.ndarray):
    """An array that tells its source when it is gone."""

    @classmethod
    def of(cls, source: CountedSource, chunk: int) -> _Tracked:
        data = np.arange(chunk * PER_CHUNK, (chunk + 1) * PER_CHUNK, dtype=np.float64).reshape(-1, 1).view(cls)
        data.owner = (source, chunk)
        source.alive.add(chunk)
        return data

    def __array_finalize__(self, other: object) -> None:
        self.owner = None

    def __del__(self) -> None:
        if self.owner is not None:
            self.owner[0].alive.discard(self.owner[1])


@attrs.frozen
class _Options:
    """No options."""


class _Reader(ChunkedReader):
    options = _Options


@pytest.fixture
def source() -> CountedSource:
    return CountedSource()


def reader_of(source: CountedSource, window: Window | None, cache_bytes: int) -> _Reader:
    context = ReaderContext(dtype=np.dtype(np.float64))
    streams = (StreamInfo("x", (1,)),)
    return _Reader(
        _Options(), context, source=source, streams=streams, window=window, cache_bytes=cache_bytes, prefetch=False
    )


def read(reader: _Reader, size: int) -> Iterator[float]:
    for minibatch in reader.minibatches(EpochSpec(minibatch_size=size)):
        yield from np.array(minibatch.streams["x"].data)[:, 0].tolist()


@pytest.mark.parametrize("window", [Window(6), Window(6 * PER_CHUNK, in_samples=True)])
def test_a_window_is_kept_whatever_its_size(source: CountedSource, window: Window) -> None:
    """Every chunk is loaded once, and no more are alive than windows overlap, at the ends of the data too."""
    values = list(read(reader_of(source, window, cache_bytes=0), 16))
    assert sorted(values) == list(range(PER_CHUNK * CHUNKS))
    assert sorted(source.loaded) == list(range(CHUNKS))
    assert source.most_alive <= 10


def test_in_file_order_one_chunk_is_enough(source: CountedSource) -> None:
    assert list(read(reader_of(source, None, cache_bytes=0), 16)) == list(range(PER_CHUNK * CHUNKS))
    assert source.loaded == list(range(CHUNKS))
    assert source.most_alive <= 3


def test_small_data_is_kept_for_the_next_sweep(source: CountedSource) -> None:
    reader = reader_of(source, Window(3), cache_bytes=BYTES * CHUNKS)
    for epoch in range(3):
        for _ in reader.minibatches(EpochSpec(epoch=epoch, minibatch_size=100)):
            pass
    assert sorted(source.loaded) == list(range(CHUNKS))


def test_the_last_used_chunks_stay(source: CountedSource) -> None:
    cache = ChunkCache(source, 3 * BYTES)
    for number in (0, 1, 2, 0, 3, 0, 1):
        cache.get(number)
    assert source.loaded == [0, 1, 2, 3, 1]
