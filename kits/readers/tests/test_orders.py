"""Where an order of sequences begins in the middle of a sweep, which chunks are in use, and how much is read ahead."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cntk_core.contract.reader import EpochSpec, ReaderContext, StreamInfo
from cntk_kit_readers import chunked
from cntk_kit_readers.chunked import ChunkedReader
from cntk_kit_readers.randomize import Block, FileOrder, RandomOrder, SweepOrder, Window
from cntk_kit_readers.source import Chunk, ChunkInfo, ChunkSource, Column

Lengths = st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=4), min_size=1, max_size=5)


def index_of(chunks: list[list[int]]) -> list[ChunkInfo]:
    counts = [np.array(lengths, np.int64) for lengths in chunks]
    return [ChunkInfo(len(own), int(own.sum()), own) for own in counts]


def sequences(blocks: Iterator[Block]) -> list[tuple[int, int, int]]:
    return [
        each
        for block in blocks
        for each in zip(block.chunks.tolist(), block.sequences.tolist(), block.lengths.tolist(), strict=True)
    ]


@given(Lengths, st.integers(0, 30), st.booleans())
def test_an_order_may_begin_at_any_sample(chunks: list[list[int]], sample: int, shuffled: bool) -> None:
    index = index_of(chunks)
    order: SweepOrder = RandomOrder(index, 3, Window(2)) if shuffled else FileOrder(index)
    everything = sequences(order.blocks(1))
    before, samples, rest = order.start_at(1, sample)
    assert samples == sum(length for _, _, length in everything[:before])
    assert samples <= sample
    left = sequences(rest)
    assert left == everything[before:]
    if sample >= order.samples:
        assert left == []
    else:
        assert sum(length for _, _, length in left) > 0


def test_chunks_alone_in_their_windows_are_in_use_alone() -> None:
    order = RandomOrder(index_of([[1, 2], [3, 1], [2, 2], [1, 1]]), 5, Window(1))
    seen = []
    for block in order.blocks(0):
        (chunk,) = set(block.chunks.tolist())
        assert order.open_chunks == {chunk}
        seen.append(chunk)
    assert sorted(seen) == [0, 1, 2, 3]
    assert order.chunk_places(0).tolist() == [seen.index(chunk) for chunk in range(4)]


class Numbers(ChunkSource):
    def index(self) -> list[ChunkInfo]:
        return [ChunkInfo(5, 5)]

    def load(self, chunk: int) -> Chunk:
        return Chunk({"x": Column(np.arange(5.0)[:, None])})

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("size", "depth"), [(0, 64), (1, 64), (64, 64), (128, 64), (256, 32), (1024, 8), (4096, 2), (8192, 2), (10**6, 2)]
)
def test_minibatches_are_read_ahead_by_their_size(size: int, depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """8192 samples, but at least two minibatches and at most 64."""
    made: list[int] = []
    prefetcher = chunked.Prefetcher
    monkeypatch.setattr(chunked, "Prefetcher", lambda items, deep: made.append(deep) or prefetcher(items, deep))
    reader = ChunkedReader(
        None, ReaderContext(dtype=np.dtype("f8")), source=Numbers(), streams=(StreamInfo("x", (1,)),), window=None
    )
    found = list(reader.minibatches(EpochSpec(minibatch_size=size)))
    reader.close()
    assert sum(minibatch.samples for minibatch in found) == 5
    assert made == [depth]
