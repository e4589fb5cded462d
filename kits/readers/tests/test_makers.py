"""Rows that are made when a minibatch is made: order, what cannot be made, what is left when nobody reads on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import pytest

from cntk_core.contract.reader import EpochSpec, ReaderContext, StreamInfo
from cntk_core.errors import DataError, UnsupportedError
from cntk_core.records.minibatch import Minibatch
from cntk_kit_readers.chunked import PREFETCHED_BYTES, ChunkedReader
from cntk_kit_readers.composite import CompositeSource, FrameSource, Part
from cntk_kit_readers.makers import ROWS_AHEAD, PendingRows, RowMaker, made_minibatches
from cntk_kit_readers.numbered import ParallelSource
from cntk_kit_readers.randomize import Window
from cntk_kit_readers.source import Chunk, ChunkInfo, ChunkSource, Column
from cntk_kit_readers.timeline import Picks
from cntk_kit_readers.truncation import Truncation, truncated_slots


@attrs.frozen(eq=False)
class Pending(PendingRows):
    maker: Maker
    numbers: np.ndarray
    sweep: int

    def result(self) -> tuple[np.ndarray, np.ndarray]:
        self.maker.finished += 1
        if self.maker.limit and self.maker.limit in self.numbers:
            raise DataError("too many")
        rows = np.stack([self.numbers * 10.0, np.full(len(self.numbers), self.sweep)], axis=1)
        return rows.astype(np.float32), np.isin(self.numbers, list(self.maker.broken))

    def cancel(self) -> None:
        self.maker.cancelled += 1


class Maker(RowMaker):
    """A row is ten times its number, and the sweep."""

    def __init__(self, broken: Sequence[int] = (), limit: int = 0) -> None:
        self.broken, self.limit = broken, limit
        self.started = self.finished = self.cancelled = 0

    def start(self, numbers: np.ndarray, sweep: int) -> Pending:
        assert numbers.dtype == np.int64
        self.started += 1
        return Pending(self, numbers, sweep)


class Singles(ChunkSource):
    """Sequences of one frame; each is a chunk, or several are."""

    def __init__(self, maker: Maker, name: str = "x", count: int = 12, chunk: int = 1) -> None:
        self.maker, self.name, self.count, self.chunk = maker, name, count, chunk
        self.picked = 0

    @property
    def single_sequences(self) -> bool:
        return self.chunk == 1

    @property
    def reads_picks(self) -> bool:
        return True

    @property
    def makers(self) -> Mapping[str, RowMaker]:
        return {self.name: self.maker}

    def index(self) -> Sequence[ChunkInfo]:
        return [ChunkInfo(self.chunk, self.chunk)] * (self.count // self.chunk)

    def keys(self, chunk: int) -> list[int]:
        return list(range(chunk * self.chunk, (chunk + 1) * self.chunk))

    def load(self, chunk: int) -> Chunk:
        return Chunk({self.name: Column(np.array(self.keys(chunk)))})

    def pick(self, chunks: np.ndarray, sequences: np.ndarray) -> Chunk:
        self.picked += 1
        return Chunk({self.name: Column(chunks * self.chunk + sequences)})

    def close(self) -> None:
        pass


class Table(ChunkSource):
    """Sequences of some lengths, with their keys as values."""

    def __init__(self, lengths: Mapping[int, int]) -> None:
        self.lengths = lengths

    def index(self) -> Sequence[ChunkInfo]:
        counts = np.array(list(self.lengths.values()))
        return [ChunkInfo(len(counts), int(counts.sum()), counts)]

    def keys(self, chunk: int) -> list[int]:
        return list(self.lengths)

    def load(self, chunk: int) -> Chunk:
        counts = list(self.lengths.values())
        values = np.repeat(np.array(list(self.lengths), np.float32), counts)[:, None]
        return Chunk({"t": Column(values, np.cumsum([0, *counts]))})

    def close(self) -> None:
        pass


X, T = StreamInfo("x", (2,)), StreamInfo("t", (1,), sequence=True)


def reader(source: ChunkSource, *streams: StreamInfo, **settings: Any) -> ChunkedReader:
    return ChunkedReader(None, ReaderContext(), source=source, streams=streams, **{"window": None, **settings})


def rows(minibatches: Iterator[Minibatch]) -> list[list[list[float]]]:
    return [minibatch.streams["x"].data.tolist() for minibatch in minibatches]


@pytest.mark.parametrize("chunk", [1, 3])
@pytest.mark.parametrize("prefetch", [True, False])
def test_rows_take_the_place_of_their_numbers(chunk: int, prefetch: bool) -> None:
    found = rows(reader(Singles(Maker(), chunk=chunk), X, window=None, prefetch=prefetch).minibatches(
        EpochSpec(epoch=1, epoch_size=18, minibatch_size=5)
    ))  # fmt: skip
    numbers = [[6, 7, 8, 9, 10], [11]], [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [10, 11]]
    expected = [[[10.0 * n, sweep] for n in each] for sweep, part in zip((1, 2), numbers, strict=True) for each in part]
    assert found == expected


def test_sequences_without_a_row_are_left_out() -> None:
    minibatches = list(reader(Singles(Maker(broken=[1, 4])), X).minibatches(EpochSpec(minibatch_size=4)))
    assert [m.samples for m in minibatches] == [4, 4, 4]
    expected = [[0, 2, 3], [5, 6, 7], [8, 9, 10, 11]]
    assert rows(iter(minibatches)) == [[[10.0 * n, 0] for n in each] for each in expected]


@pytest.mark.parametrize("spec", [EpochSpec(minibatch_size=4), EpochSpec(minibatch_size=4, epoch_size=24)])
def test_a_minibatch_without_rows_is_left_out(spec: EpochSpec) -> None:
    """Its samples count in the next one: a run that goes on begins at the right place."""
    source = Singles(Maker(broken=[0, 1, 2, 3, 8, 9, 10, 11]))
    minibatches = list(reader(source, X).minibatches(spec))
    assert [m.samples for m in minibatches] == [8, 12][: spec.epoch_size // 12 or 1]
    assert [m.streams["x"].data.shape for m in minibatches] == [(4, 2)] * len(minibatches)
    if spec.epoch_size:
        (rest,) = reader(source, X).minibatches(attrs.evolve(spec, skip_samples=8))
        assert rest.streams["x"].data.tolist() == minibatches[1].streams["x"].data.tolist()


@pytest.mark.parametrize("first", ["rows", "table"])
def test_rows_beside_sequences(first: str) -> None:
    maker = Maker(broken=[3])
    parts = [Part(Singles(maker), ("x",)), Part(Table({5: 3, 3: 1, 0: 2, 99: 1, 7: 1}), ("t",))]
    joined = CompositeSource(parts if first == "rows" else parts[::-1])
    (minibatch,) = reader(joined, attrs.evolve(X, sequence=True), T).minibatches(EpochSpec(minibatch_size=50))
    x, t = minibatch.streams["x"], minibatch.streams["t"]
    assert minibatch.samples == 7
    assert sorted(x.data[:, 0].tolist()) == [0, 50, 70]
    assert [str(int(value)) for value in x.data[:, 0] / 10] == list(x.layout.keys)
    assert sorted(t.data[:, 0].tolist()) == [0, 0, 5, 5, 5, 7]
    assert x.layout.slots == t.layout.slots == 3


def test_two_streams_of_rows() -> None:
    """A sequence is left out if either stream lacks its row."""
    parts = [Part(Singles(Maker(broken=[3])), ("x",)), Part(Singles(Maker(broken=[5]), "y"), ("y",))]
    for joined in (CompositeSource(parts), ParallelSource(parts, ["a", "b"])):
        (minibatch,) = reader(joined, X, StreamInfo("y", (2,))).minibatches(EpochSpec(minibatch_size=50))
        expected = [[10 * n, 0] for n in range(12) if n not in (3, 5)]
        assert minibatch.streams["x"].data.tolist() == minibatch.streams["y"].data.tolist() == expected


def test_frames_of_single_sequences() -> None:
    source = FrameSource(CompositeSource([Part(Singles(Maker()), ("x",))]))
    assert source.reads_picks
    (minibatch,) = reader(source, X).minibatches(EpochSpec(minibatch_size=50))
    assert minibatch.streams["x"].data.tolist() == [[10 * n, 0] for n in range(12)]
    assert not minibatch.streams["x"].layout.keys
    picked = source.pick(np.array([7, 2]), np.array([0, 0]))
    assert picked is not None
    assert picked.columns["x"].data.tolist() == [7, 2]
    assert not FrameSource(CompositeSource([Part(Table({1: 1}), ("x",))])).reads_picks
    longer = FrameSource(Table({1: 2}))
    assert not longer.reads_picks
    assert longer.pick(np.array([0]), np.array([0])) is None


def test_a_rank_without_sequences() -> None:
    spec = EpochSpec(minibatch_size=2, rank=2, ranks=3)
    made = list(reader(Singles(Maker()), X, window=Window()).minibatches(spec))
    assert sum(m.samples for m in made) == sum(m.streams["x"].data.shape[0] for m in made)
    assert {m.streams["x"].data.shape[0] for m in made} == {0, 1}
    assert all(m.streams["x"].data.shape[1:] == (2,) for m in made)


def plan(*sizes: int) -> list[Picks]:
    return [Picks(np.arange(size), np.zeros(size, np.int64), size) for size in sizes]


def test_how_far_ahead_rows_are_made() -> None:
    """At least so many rows behind the minibatch that is waited for."""
    maker = Maker()
    source = Singles(maker, count=1000)
    gather = reader(source, X)._gather
    minibatches = made_minibatches(plan(*[16] * 20), gather, source.makers)
    next(minibatches)
    assert maker.started == 1 + ROWS_AHEAD // 16
    next(minibatches)
    assert maker.started == 2 + ROWS_AHEAD // 16
    large = made_minibatches(plan(500, 500, 500, 500), gather, source.makers)
    maker.started = 0
    next(large)
    assert maker.started == 2


def test_rows_that_nobody_wants_are_cancelled() -> None:
    maker = Maker()
    source = Singles(maker, count=1000)
    minibatches = made_minibatches(plan(*[32] * 9), reader(source, X)._gather, source.makers)
    next(minibatches)
    minibatches.close()
    assert (maker.started, maker.finished) == (3, 1)
    assert maker.cancelled == 2


def test_an_error_comes_at_its_place() -> None:
    maker = Maker(limit=9)
    minibatches = reader(Singles(maker), X).minibatches(EpochSpec(minibatch_size=4))
    assert next(minibatches).samples == 4
    assert next(minibatches).samples == 4
    with pytest.raises(DataError, match="too many"):
        next(minibatches)
    assert maker.cancelled == 1


def test_one_frame_cannot_be_cut() -> None:
    with pytest.raises(UnsupportedError) as found:
        reader(Singles(Maker()), X, slots=lambda order, epoch: truncated_slots(order, epoch, Truncation(3, 1)))
    assert str(found.value) == (
        "the stream 'x' has one sample for each sequence, which cannot be cut\n    Leave truncated=true out."
    )


def test_what_is_prepared_is_bounded_by_bytes() -> None:
    small = reader(Singles(Maker()), X)
    assert small._samples_ahead() == 8192
    large = reader(Singles(Maker()), StreamInfo("x", (1024, 1024)))
    assert large._samples_ahead() == PREFETCHED_BYTES // (4 * 1024 * 1024)


def test_made_streams_do_not_narrow_the_window() -> None:
    large = StreamInfo("x", (1 << 20, 1 << 10))
    dtype = np.dtype(np.float32)
    assert ChunkedReader.sized_window(Window(), [large], dtype) == Window(1, in_samples=True)
    window = ChunkedReader.sized_window(Window(), [large], dtype, ("x",))
    assert window is not None
    assert window.size is not None
    assert window.size > 10**9


@pytest.mark.parametrize("broken", [(), (4, 5, 6, 7)])
def test_rows_that_were_learned_are_not_made(broken: Sequence[int]) -> None:
    """Nor are minibatches without any row, which were left out."""
    spec = EpochSpec(minibatch_size=4, epoch_size=12)
    whole = list(reader(Singles(Maker(broken)), X).minibatches(spec))
    maker = Maker(broken)
    found = list(reader(Singles(maker), X).minibatches(attrs.evolve(spec, learned_samples=8)))
    assert [(m.samples, list(m.streams)) for m in found] == [(4, []), (4, []), (4, ["x"])]
    assert maker.started == 1
    assert rows(iter(found[2:])) == rows(iter(whole[-1:]))
