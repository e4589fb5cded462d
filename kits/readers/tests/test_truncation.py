from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cntk_core.contract.reader import EpochSpec, StreamInfo
from cntk_core.errors import DataError
from cntk_core.ops.language.reader_order import unpack
from cntk_core.ops.language.rows import reader_slots
from cntk_core.records.minibatch import Minibatch
from cntk_kit_readers.randomize import FileOrder, RandomOrder, SweepOrder, Window
from cntk_kit_readers.slots import Piece, SlotPlan, slot_minibatches
from cntk_kit_readers.source import Chunk, ChunkInfo, Column
from cntk_kit_readers.truncation import Truncation, truncated_slots

Lengths = st.lists(st.lists(st.integers(0, 7), min_size=1, max_size=5), min_size=1, max_size=4)
A = (StreamInfo("a", (1,), sequence=True),)


def data_of(chunks: list[list[int]]) -> tuple[list[ChunkInfo], list[Chunk]]:
    infos, loaded = [], []
    for number, lengths in enumerate(chunks):
        counts = np.array(lengths, dtype=np.int64)
        offsets = np.concatenate([[0], np.cumsum(counts)])
        values = np.concatenate([1000.0 * number + 100 * i + np.arange(n) for i, n in enumerate(lengths)] or [[]])
        infos.append(ChunkInfo(len(lengths), int(counts.sum()), counts))
        keys = [f"{number}.{i}" for i in range(len(lengths))]
        loaded.append(Chunk({"a": Column(values[:, None], offsets)}, keys))
    return infos, loaded


def minibatches(
    order: SweepOrder, epoch: EpochSpec, cut: Truncation, loaded: list[Chunk], streams: tuple[StreamInfo, ...]
) -> list[Minibatch]:
    plans = truncated_slots(order, epoch, cut)
    return list(slot_minibatches(plans, epoch, loaded.__getitem__, streams, np.dtype(np.float64)))


def read(chunks: list[list[int]], cut: Truncation, *, shuffled: bool = False, **spec: int) -> list[Minibatch]:
    infos, loaded = data_of(chunks)
    order = RandomOrder(infos, 1, Window()) if shuffled else FileOrder(infos)
    return minibatches(order, EpochSpec(**spec), cut, loaded, A)


@given(Lengths, st.integers(1, 4), st.integers(1, 4), st.booleans())
def test_pieces_make_up_the_sequences(chunks: list[list[int]], length: int, slots: int, shuffled: bool) -> None:
    found: dict[str, list[float]] = {}
    current: list[str | None] = [None] * slots
    for minibatch in read(chunks, Truncation(length, slots), shuffled=shuffled):
        layout = minibatch.streams["a"].layout
        assert minibatch.samples == layout.frames <= length * slots
        assert layout.steps <= length
        assert layout.slots == slots
        places = reader_slots(layout)
        begins = {(int(places[s]), int(t)): key for (s, t), key in zip(layout.begins, layout.keys, strict=True)}
        for place, frames in enumerate(unpack(minibatch.streams["a"].data, layout)):
            for step, value in enumerate(frames[:, 0].tolist()):
                if (place, step) in begins:
                    current[place] = str(begins[place, step])
                found.setdefault(str(current[place]), []).append(value)
        goes_on = {int(places[slot]) for slot in layout.continues}
        current = [key if place in goes_on else None for place, key in enumerate(current)]
    assert current == [None] * slots
    assert found == {
        f"{c}.{i}": (1000.0 * c + 100 * i + np.arange(n)).tolist()
        for c, lengths in enumerate(chunks)
        for i, n in enumerate(lengths)
        if n
    }


@given(Lengths, st.integers(1, 3), st.integers(2, 4))
def test_ranks_share_the_slots(chunks: list[list[int]], length: int, ranks: int) -> None:
    cut = Truncation(length, 3)
    whole = read(chunks, cut)
    shares = [read(chunks, cut, rank=rank, ranks=ranks) for rank in range(ranks)]
    assert {len(share) for share in shares} == {len(whole)}
    for number, minibatch in enumerate(whole):
        parts = [share[number].streams["a"].data[:, 0].tolist() for share in shares]
        assert sorted(value for part in parts for value in part) == sorted(minibatch.streams["a"].data[:, 0].tolist())


def test_the_number_of_slots() -> None:
    assert Truncation.of_size(64, 20) == Truncation(20, 3)
    assert Truncation.of_size(5, 20) == Truncation(20, 1)


def test_no_data() -> None:
    assert read([[0, 0]], Truncation(2, 2)) == []


def test_streams_of_different_length() -> None:
    infos, loaded = data_of([[3]])
    loaded[0] = Chunk({"a": loaded[0].columns["a"], "b": Column(np.ones((2, 1)), np.array([0, 2]))}, ["u"])
    streams = (*A, StreamInfo("b", (1,), sequence=True))
    spec, cut = EpochSpec(), Truncation(2, 1)
    with pytest.raises(DataError) as caught:
        minibatches(FileOrder(infos), spec, cut, loaded, streams)
    assert str(caught.value) == (
        "sequence 'u' has 2 frames in stream 'b', but 3 in the longest\n"
        "    Truncated training and sequences that are joined need streams of equal length."
    )


@pytest.mark.parametrize("skip", [0, 1, 3, 4, 6, 99])
@pytest.mark.parametrize("most", [0, 1, 4, 5, 6, 99])
def test_what_was_learned_is_skipped_and_what_is_too_much_is_not_read(skip: int, most: int) -> None:
    """Minibatches are whole: from the first that begins behind what was learned to the one with the last sample."""
    _, loaded = data_of([[4, 2, 3]])
    plans = [SlotPlan([[[Piece(0, number, length, 0, length)]]]) for number, length in enumerate([4, 2, 3])]
    epoch = EpochSpec(skip_samples=skip, max_samples=most)
    found = slot_minibatches(iter(plans), epoch, loaded.__getitem__, A, np.dtype(np.float64))
    begins = {0: 4, 4: 2, 6: 3}
    expected = [count for begin, count in begins.items() if begin >= skip and (not most or begin < most)]
    assert [minibatch.samples for minibatch in found] == expected
