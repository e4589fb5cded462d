from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cntk_core.contract.reader import EpochSpec
from cntk_kit_readers.randomize import FileOrder, RandomOrder, SweepOrder, Window
from cntk_kit_readers.source import ChunkInfo
from cntk_kit_readers.timeline import balanced_share, plan_epoch
from cntk_testing.examples import examples

Chunks = st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=6), min_size=1, max_size=7)


def index_of(chunks: list[list[int]]) -> list[ChunkInfo]:
    return [ChunkInfo(len(c), sum(c), None if set(c) == {1} else np.array(c, dtype=np.int64)) for c in chunks]


def picked(order: SweepOrder, epoch: EpochSpec) -> list[list[tuple[int, int]]]:
    return [list(zip(p.chunks.tolist(), p.sequences.tolist(), strict=True)) for p in plan_epoch(order, epoch)]


def sizes(order: SweepOrder, **spec: int) -> list[int]:
    return [p.samples for p in plan_epoch(order, EpochSpec(**spec))]


def frames(count: int, per_chunk: int) -> FileOrder:
    return FileOrder(index_of([[1] * min(per_chunk, count - i) for i in range(0, count, per_chunk)]))


@pytest.mark.parametrize("per_chunk", [1, 5, 100])
def test_epoch_sizes_of_frames(per_chunk: int) -> None:
    order = frames(43, per_chunk)
    assert sizes(order, epoch_size=30, minibatch_size=8) == [8, 8, 8, 6]
    assert sizes(order, epoch=1, epoch_size=30, minibatch_size=8) == [8, 5, 8, 8, 1]
    assert sizes(order, epoch=2, epoch_size=30, minibatch_size=8) == [8, 8, 8, 2, 4]
    assert sizes(order, epoch=3, epoch_size=30, minibatch_size=8) == [8, 8, 8, 6]
    assert sizes(order, epoch_size=100, minibatch_size=8) == [8] * 5 + [3] + [8] * 5 + [3] + [8, 6]
    assert sizes(order, minibatch_size=8) == [8] * 5 + [3]


@pytest.mark.parametrize("chunks", [[[3, 1, 7, 2, 5, 4, 6]], [[3], [1, 7], [2, 5], [4], [6]]])
def test_epoch_sizes_of_sequences(chunks: list[list[int]]) -> None:
    order = FileOrder(index_of(chunks))
    found = [sizes(order, epoch=k, epoch_size=15, minibatch_size=12) for k in range(4)]
    assert found == [[11, 7], [10, 3], [10, 5], [10, 4]]


def test_a_long_sequence_makes_a_minibatch_of_its_own() -> None:
    assert sizes(FileOrder(index_of([[3, 50, 4, 4]])), minibatch_size=8) == [3, 50, 8]


def test_ranks_in_file_order_read_as_the_original_does() -> None:
    order = FileOrder(index_of([[3, 9, 7, 2, 11, 4, 6, 8, 5, 5, 3, 4]]))
    found = [sizes(order, minibatch_size=16, rank=r, ranks=4) for r in range(4)]
    totals = [sum(mb[i] for mb in found if i < len(mb)) for i in range(4)]
    assert totals == [19, 13, 18, 17]
    assert sum(map(sum, found)) == 67


@given(Chunks, st.integers(1, 20), st.integers(0, 40), st.booleans(), st.integers(1, 4))
def test_epochs_follow_each_other(
    chunks: list[list[int]], minibatch_size: int, epoch_size: int, shuffled: bool, window: int
) -> None:
    index = index_of(chunks)
    order = RandomOrder(index, 5, Window(window)) if shuffled else FileOrder(index)
    sweep = sum(len(chunk) for chunk in chunks)
    found: list[tuple[int, int]] = []
    for epoch in range(4):
        spec = EpochSpec(epoch, epoch_size, minibatch_size)
        for minibatch in picked(order, spec):
            assert minibatch
            size = sum(chunks[c][s] for c, s in minibatch)
            assert size <= minibatch_size or len(minibatch) == 1
            found += minibatch
    expected = [(c, s) for k in range(len(found) // sweep + 1) for b in order.blocks(k) for c, s in _pairs(b)]
    assert found == expected[: len(found)]
    assert sorted(expected[:sweep]) == [(c, s) for c, chunk in enumerate(chunks) for s in range(len(chunk))]


def _pairs(block) -> list[tuple[int, int]]:
    return list(zip(block.chunks.tolist(), block.sequences.tolist(), strict=True))


@given(Chunks, st.integers(1, 20), st.integers(1, 5), st.booleans(), st.integers(0, 3))
def test_shares_are_disjoint_and_complete(
    chunks: list[list[int]], minibatch_size: int, ranks: int, shuffled: bool, epoch: int
) -> None:
    index = index_of(chunks)
    order = RandomOrder(index, 1, Window(2)) if shuffled else FileOrder(index)
    spec = EpochSpec(epoch, 0, minibatch_size, ranks=ranks)
    shares = [picked(order, EpochSpec(epoch, 0, minibatch_size, rank=r, ranks=ranks)) for r in range(ranks)]
    found = sorted(pair for share in shares for minibatch in share for pair in minibatch)
    assert found == [(c, s) for c, chunk in enumerate(chunks) for s in range(len(chunk))]
    if shuffled:
        whole = picked(order, EpochSpec(epoch, 0, minibatch_size))
        assert {len(share) for share in shares} == {len(whole)}
        for i, minibatch in enumerate(whole):
            assert sorted(pair for share in shares for pair in share[i]) == sorted(minibatch)
    assert spec.ranks == ranks


@given(st.lists(st.integers(1, 30), max_size=30), st.integers(1, 5), st.integers(0, 9))
def test_shares_are_balanced(lengths: list[int], ranks: int, turn: int) -> None:
    array = np.array(lengths, dtype=np.int64)
    loads = [int(array[balanced_share(array, rank, ranks, turn)].sum()) for rank in range(ranks)]
    assert sum(loads) == sum(lengths)
    assert max(loads) - min(loads) <= max(lengths, default=0)


@examples(50)
@given(Chunks, st.integers(1, 9), st.integers(0, 60), st.booleans())
def test_a_skip_leaves_the_same_minibatches(
    chunks: list[list[int]], minibatch_size: int, epoch_size: int, shuffled: bool
) -> None:
    index = index_of(chunks)
    order = RandomOrder(index, 1, Window()) if shuffled else FileOrder(index)
    whole = list(plan_epoch(order, EpochSpec(1, epoch_size, minibatch_size)))
    for k in range(len(whole)):
        skip = sum(p.samples for p in whole[:k])
        rest = picked(order, EpochSpec(1, epoch_size, minibatch_size, skip_samples=skip))
        assert rest == picked(order, EpochSpec(1, epoch_size, minibatch_size))[k:]


def test_max_samples_ends_an_epoch() -> None:
    assert sizes(frames(43, 10), epoch_size=40, minibatch_size=8, max_samples=20) == [8, 8, 4]


@pytest.mark.parametrize(
    "window", [Window(), Window(1), Window(3), Window(20, True), Window(1000, True), Window(1, True)]
)
def test_random_order_stays_in_its_window(window: Window) -> None:
    index = index_of([[1] * 10] * 20)
    order = RandomOrder(index, 3, window)
    first = [_pairs(block) for block in order.blocks(0)]
    flat = [pair for block in first for pair in block]
    assert sorted(flat) == [(c, s) for c in range(20) for s in range(10)]
    assert flat != sorted(flat)
    again = [pair for block in order.blocks(0) for pair in _pairs(block)]
    other = [pair for block in order.blocks(1) for pair in _pairs(block)]
    assert flat == again
    assert flat != other
    if window.size is not None and not window.in_samples:
        for place in range(20 - window.size):
            open_chunks = {c for block in first[place : place + 1] for c, _ in block}
            assert len(open_chunks) <= 2 * window.size


def test_seeds_differ() -> None:
    index = index_of([[1] * 50])
    orders = [[pair for b in RandomOrder(index, seed, Window()).blocks(0) for pair in _pairs(b)] for seed in (0, 1)]
    assert orders[0] != orders[1]


def test_random_places_are_uniform() -> None:
    order = RandomOrder(index_of([[1] * 1000]), 0, Window())
    (block,) = order.blocks(0)
    position = np.empty(1000)
    position[block.sequences] = np.arange(1000)
    assert abs(np.corrcoef(position, np.arange(1000))[0, 1]) < 0.1


def test_an_epoch_far_away_is_entered_directly() -> None:
    order = RandomOrder(index_of([[2, 3], [4]]), 0, Window(1))
    assert sum(p.samples for p in islice(plan_epoch(order, EpochSpec(10**9, 9, 4)), 10)) == 9


@pytest.mark.parametrize("chunks", [1, 3])
def test_more_sequences_than_are_drawn_at_once(chunks):
    """Large chunks in one window come in pieces; each sequence comes once, and the order says to what it comes back."""
    count = 150_000 // chunks
    index = [ChunkInfo(count, count) for _ in range(chunks)]
    order = RandomOrder(index, 1, Window(10**9))
    seen = np.zeros((chunks, count), np.int64)
    for block in order.blocks(0):
        np.add.at(seen, (block.chunks, block.sequences), 1)
        assert order.open_chunks == frozenset(range(chunks))
    assert (seen == 1).all()


@pytest.mark.parametrize("chunks", [[[1, 2, 1, 3, 1]], [[1], [2], [1], [3], [1]], [[1, 2], [1, 3, 1]]])
def test_a_minibatch_has_as_many_sequences_as_it_has_to(chunks: list[list[int]]) -> None:
    order = FileOrder(index_of(chunks))
    found = [[p.samples for p in plan_epoch(order, EpochSpec(minibatch_size=1), least)] for least in (1, 2, 3, 9)]
    assert found == [[1, 2, 1, 3, 1], [3, 4, 1], [4, 4], [8]]
    assert [p.samples for p in plan_epoch(order, EpochSpec(minibatch_size=7), 2)] == [7, 1]


def test_equal_sequences_are_dealt_out_from_the_rank_whose_turn_it_is() -> None:
    equal = np.full(7, 4)
    dealt = [[balanced_share(equal, rank, 3, turn).tolist() for rank in range(3)] for turn in (0, 1, 5)]
    assert dealt == [[[0, 3, 6], [1, 4], [2, 5]], [[2, 5], [0, 3, 6], [1, 4]], [[1, 4], [2, 5], [0, 3, 6]]]
