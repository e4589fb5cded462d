"""The timeline without epochs: what is taken of it, by one part and by several."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import numpy as np
import pytest

from cntk_core.contract.reader import ReaderContext, StreamInfo
from cntk_kit_readers.chunked import ChunkedReader
from cntk_kit_readers.endless import Endless, Taken
from cntk_kit_readers.randomize import Window
from cntk_kit_readers.source import Chunk, ChunkInfo, ChunkSource, Column


class Source(ChunkSource):
    """Sequences of some lengths: each frame has the number of its sequence, from 0."""

    def __init__(self, chunks: list[list[int]]) -> None:
        self.chunks = chunks

    def index(self) -> list[ChunkInfo]:
        return [ChunkInfo(len(each), sum(each), np.array(each, np.int64)) for each in self.chunks]

    def load(self, chunk: int) -> Chunk:
        first = sum(map(len, self.chunks[:chunk]))
        lengths = np.array(self.chunks[chunk])
        rows = np.repeat(np.arange(first, first + len(lengths)), lengths).astype(np.float32)
        return Chunk({"x": Column(rows[:, None], np.cumsum([0, *lengths]))})

    def close(self) -> None:
        """Nothing is open."""


@attrs.frozen
class _Options:
    """No options."""


class _Reader(ChunkedReader):
    options = _Options


def endless(chunks: list[list[int]], window: Window | None = None, **ends: int) -> Endless:
    context = ReaderContext(dtype=np.dtype(np.float32))
    streams = (StreamInfo("x", (1,), sequence=True),)
    return Endless(_Reader(_Options(), context, source=Source(chunks), streams=streams, window=window, seed=1), **ends)


def numbers(taken: Taken) -> list[int]:
    """Return the sequences of a minibatch; frames have to belong to them."""
    if not taken.streams:
        return []
    frames, lengths = taken.streams["x"]
    found = frames[np.cumsum(lengths) - lengths, 0].astype(int).tolist()
    assert frames[:, 0].astype(int).tolist() == np.repeat(found, lengths).tolist()
    return found


def every(timeline: Endless, size: int, part: int = 0, parts: int = 1) -> Iterator[tuple[list[int], int, bool]]:
    while (taken := timeline.take(size, part, parts)) is not None:
        yield numbers(taken), taken.samples, taken.ends_sweep


def test_whole_sequences_are_taken_as_far_as_they_fit() -> None:
    timeline = endless([[3, 2], [4, 1]], sweeps=2)
    assert list(every(timeline, 5)) == [
        ([0, 1], 5, False), ([2, 3], 5, True), ([0, 1], 5, False), ([2, 3], 5, True),
    ]  # fmt: skip
    assert list(every(endless([[3, 2], [4, 1]], sweeps=1), 2)) == [
        ([0], 3, False), ([1], 2, False), ([2], 4, False), ([3], 1, True),
    ]  # fmt: skip


def test_a_minibatch_goes_on_over_the_end_of_a_sweep() -> None:
    assert list(every(endless([[3, 2], [4]], sweeps=2), 7)) == [
        ([0, 1], 5, False), ([2, 0], 7, True), ([1, 2], 6, True),
    ]  # fmt: skip
    assert list(every(endless([[1, 2]], sweeps=3), 9)) == [([0, 1, 0, 1, 0, 1], 9, True)]
    assert list(every(endless([[1, 2]], sweeps=3), 7)) == [([0, 1, 0, 1, 0], 7, True), ([1], 2, True)]


@pytest.mark.parametrize(("samples", "found"), [(5, [0, 1]), (6, [0, 1, 2]), (3, [0]), (1, [0]), (13, [0, 1, 2, 3, 0])])
def test_samples_end_with_the_sequence_that_begins_within_them(samples: int, found: list[int]) -> None:
    taken = list(every(endless([[3, 2], [4, 1]], samples=samples), 100))
    assert [number for each, _, _ in taken for number in each] == found
    both = list(every(endless([[3, 2], [4, 1]], samples=samples, sweeps=9), 100))
    assert both == taken


def test_an_end_is_that_of_samples_or_of_sweeps() -> None:
    assert endless([[1]]).is_endless
    assert not endless([[1]], sweeps=1).is_endless
    assert not endless([[1]], samples=1).is_endless
    forever = endless([[1, 1]])
    assert [forever.take(3).samples for _ in range(5)] == [3] * 5  # type: ignore[union-attr]


def test_a_timeline_goes_on_where_it_is_put() -> None:
    timeline = endless([[3, 2], [4, 1]], sweeps=1)
    first = list(every(timeline, 3))
    assert timeline.position == 10
    timeline.position = 5
    assert list(every(timeline, 3)) == first[2:]
    timeline.position = 4  # within a sequence: it begins with the next, and the rest of this one counts
    assert list(every(timeline, 3)) == [([2], 5, False), ([3], 1, True)]


def test_parts_take_turns_in_the_order_of_files() -> None:
    chunks = [[2, 2, 2], [2, 2, 2]]
    found = [list(every(endless(chunks, sweeps=2), 8, part, 2)) for part in range(2)]
    assert [[number for each, _, _ in one for number in each] for one in found] == [[0, 2, 4] * 2, [1, 3, 5] * 2]
    assert [each for each, _, _ in found[0]] == [[0, 2], [4, 0], [2, 4]]
    assert [[ends for _, _, ends in one] for one in found] == [[False, True, False], [False, True, True]]


def test_a_part_has_a_sample_more_where_they_do_not_divide() -> None:
    chunks = [[1] * 12]
    found = [list(every(endless(chunks, sweeps=1), 5, part, 2)) for part in range(2)]
    assert [[len(each) for each, _, _ in one] for one in found] == [[3, 3], [2, 2, 2]]
    tiny = list(every(endless(chunks, sweeps=1), 1, 1, 2))  # at least one
    assert [each for each, _, _ in tiny] == [[1], [3], [5], [7], [9], [11]]


def test_parts_have_chunks_of_their_own_at_random() -> None:
    chunks = [[1] * 3, [1] * 3, [1] * 3, [1] * 3]
    found = [list(every(endless(chunks, Window(1), sweeps=3), 4, part, 2)) for part in range(2)]
    seen = [[number for each, _, _ in one for number in each] for one in found]
    assert sorted(seen[0] + seen[1]) == sorted([*range(12)] * 3)
    for part in seen:
        assert {len({number // 3 for number in part[place : place + 3]}) for place in range(0, 18, 3)} == {1}
    assert max(sum(ends for _, _, ends in one) for one in found) == 3  # who has the last chunk sees the last end


def test_a_part_without_chunks_has_nothing() -> None:
    found = [list(every(endless([[1, 1, 1]], Window(1), sweeps=2), 4, part, 2)) for part in range(2)]
    assert [sorted(number for each, _, _ in one for number in each) for one in found] == [[0, 0, 1, 1, 2, 2], []]
    assert all(each == [] for each, _, _ in found[1])


def test_a_long_sequence_is_taken_by_the_part_that_has_it() -> None:
    chunks = [[9, 1, 1, 1]]
    found = [list(every(endless(chunks, sweeps=1), 4, part, 2)) for part in range(2)]
    assert [[each for each, _, _ in one] for one in found] == [[[0], [2]], [[1, 3]]]
