from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cntk_core.ops.language.layouts import frame_layout, sequence_layout, slot_layout
from cntk_core.ops.language.reader_order import pack, packed_slots, unpack
from cntk_core.records.layout import SequenceLayout
from cntk_kit_recipes.recipe.sequences_begun import unpack_sequences

Lengths = st.lists(st.integers(0, 9), max_size=12)


def frames_of(lengths: list[int], offset: int = 0) -> list[np.ndarray]:
    return [np.array([[1000 * i + t + offset, -t] for t in range(n)]).reshape(n, 2) for i, n in enumerate(lengths)]


def check_rules(layout: SequenceLayout) -> None:
    assert layout.alive.sum() == layout.frames
    assert (np.diff(layout.lengths) <= 0).all()
    assert (np.diff(layout.alive) <= 0).all()
    assert layout.start.tolist() == [int(layout.alive[:t].sum()) for t in range(layout.steps)]
    assert [int((layout.lengths > t).sum()) for t in range(layout.steps)] == layout.alive.tolist()
    for slot, step in layout.begins.tolist():
        assert step < layout.lengths[slot]


@given(Lengths)
def test_pack_then_unpack_is_the_identity(lengths: list[int]) -> None:
    layout = sequence_layout(lengths)
    check_rules(layout)
    arrays = frames_of(lengths)
    if not arrays:
        assert (layout.slots, layout.frames, layout.steps) == (0, 0, 0)
        return
    found = unpack(pack(arrays, layout), layout)
    assert [a.tolist() for a in found] == [a.tolist() for a in arrays]


@given(Lengths)
def test_first_rows_of_a_step_are_predecessors(lengths: list[int]) -> None:
    layout = sequence_layout(lengths)
    slots, steps = packed_slots(layout)
    for row, (slot, step) in enumerate(zip(slots.tolist(), steps.tolist(), strict=True)):
        assert row == layout.start[step] + slot
        if step:
            before = layout.start[step - 1] + slot
            assert (slots[before], steps[before]) == (slot, step - 1)


@given(st.lists(st.lists(st.integers(0, 5), max_size=4), max_size=5))
def test_sequences_end_to_end(slots: list[list[int]]) -> None:
    layout = slot_layout(slots, keys=[[f"{s}.{i}" for i in range(len(slot))] for s, slot in enumerate(slots)])
    check_rules(layout)
    arrays = [np.concatenate([np.zeros((0, 2), int), *frames_of(slot, 100 * s)]) for s, slot in enumerate(slots)]
    if not arrays:
        return
    packed = pack(arrays, layout)
    assert [a.tolist() for a in unpack(packed, layout)] == [a.tolist() for a in arrays]
    pieces = dict(zip(layout.keys, unpack_sequences(packed, layout), strict=True))
    expected = {
        f"{s}.{i}": frames.tolist()
        for s, slot in enumerate(slots)
        for i, frames in enumerate(frames_of(slot, 100 * s))
        if len(frames)
    }
    assert {key: piece.tolist() for key, piece in pieces.items()} == expected


def test_longest_first_and_stable() -> None:
    layout = sequence_layout([2, 3, 2, 0, 1], keys=["a", "b", "c", "d", "e"])
    assert layout.order.tolist() == [1, 0, 2, 4, 3]
    assert layout.lengths.tolist() == [3, 2, 2, 1, 0]
    assert layout.alive.tolist() == [4, 3, 1]
    assert layout.start.tolist() == [0, 4, 7]
    assert layout.keys == ("b", "a", "c", "e")
    assert layout.begins.tolist() == [[0, 0], [1, 0], [2, 0], [3, 0]]


@pytest.mark.parametrize("frames", [0, 1, 5])
def test_frames(frames: int) -> None:
    layout = frame_layout(frames)
    check_rules(layout)
    assert layout.is_frames
    assert (layout.frames, layout.slots, layout.steps) == (frames, frames, min(frames, 1))
    assert layout.order.tolist() == list(range(frames))


def test_sequences_of_one_frame_are_frames() -> None:
    assert sequence_layout([1, 1, 1]) is frame_layout(3)


def test_a_slot_that_goes_on() -> None:
    layout = slot_layout([[2], [3, 1]], continued=[True, True], continues=[True, False])
    assert layout.lengths.tolist() == [4, 2]
    assert layout.begins.tolist() == [[0, 3]]
    assert layout.continues == (1,)
    assert layout.order.tolist() == [1, 0]


def test_pack_sparse() -> None:
    from scipy.sparse import csr_array

    arrays = [np.eye(3)[:1], np.eye(3)]
    layout = sequence_layout([1, 3])
    packed = pack([csr_array(a) for a in arrays], layout)
    assert packed.toarray().tolist() == pack(arrays, layout).tolist()
