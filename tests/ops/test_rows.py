"""Rows of packed minibatches, against slots that are walked through one frame at a time."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from slots import MINIBATCHES, SlotData, walk

from cntk_core.ops.families.delay_rows import delay_rows
from cntk_core.ops.language.layouts import frame_layout, sequence_layout, slot_layout
from cntk_core.ops.language.rows import packed_slots, reader_slots, sequence_rows, sequence_table
from cntk_testing.examples import examples


@examples(200)
@given(MINIBATCHES)
def test_each_row_knows_its_slot_and_step(slots: SlotData):
    layout = slots.layout
    slot, step = packed_slots(layout)
    places = reader_slots(layout)
    found = {(int(places[where]), int(when)): row for row, (where, when) in enumerate(zip(slot, step, strict=True))}
    assert sorted(found) == sorted((s, t) for s, lengths in enumerate(slots.lengths) for t in range(sum(lengths)))
    # Step by step, and in each step the slots in one order.
    assert (np.diff(step) >= 0).all()
    for when in range(layout.steps):
        assert slot[step == when].tolist() == list(range(int(layout.alive[when])))


@examples(200)
@given(MINIBATCHES)
def test_reader_slots_are_a_permutation(slots: SlotData):
    places = reader_slots(slots.layout)
    assert sorted(places.tolist()) == list(range(len(slots.lengths)))
    assert [sum(slots.lengths[place]) for place in places] == slots.layout.lengths.tolist()


@examples(200)
@given(MINIBATCHES)
def test_each_row_knows_its_sequence(slots: SlotData):
    rows = sequence_rows(slots.layout)
    expected = walk(slots)
    places = reader_slots(slots.layout)
    assert len(rows.slot) == len(expected) == slots.layout.frames
    for row in range(slots.layout.frames):
        frame = expected[int(places[rows.slot[row]]), int(rows.step[row])]
        assert (rows.first[row], rows.last[row]) == (frame.first, frame.last)
        assert rows.begun[row] == frame.begun
        assert rows.number[row] == (frame.number if frame.begun else -1)


@examples(200)
@given(MINIBATCHES, st.integers(-4, 4).filter(bool))
def test_a_delay_reads_its_own_sequence(slots: SlotData, shift: int):
    layout = slots.layout
    rows, delayed = sequence_rows(layout), delay_rows(layout, shift)
    places = reader_slots(layout)
    expected = walk(slots)
    row_at = {(int(places[s]), int(t)): r for r, (s, t) in enumerate(zip(rows.slot, rows.step, strict=True))}
    initial = dict(zip(delayed.initial.tolist(), zip(delayed.sequence, delayed.distance, strict=True), strict=True))
    carried = dict(
        zip(delayed.carried.tolist(), zip(delayed.carried_slot, delayed.carried_back, strict=True), strict=True)
    )
    for (slot, step), row in row_at.items():
        frame, wanted = expected[slot, step], step - shift
        if frame.first <= wanted <= frame.last:
            assert delayed.source[row] == row_at[slot, wanted]
            assert row not in initial
            assert row not in carried
            continue
        assert delayed.source[row] == -1
        if wanted < 0 and not frame.begun:
            assert carried[row] == (slot, -wanted)
        else:
            beyond = frame.first - wanted if shift > 0 else wanted - frame.last
            assert initial[row] == (frame.number if frame.begun else -1, beyond)
    assert len(initial) + len(carried) == int((delayed.source < 0).sum())


@examples(200)
@given(MINIBATCHES)
def test_the_table_lists_what_begins(slots: SlotData):
    layout = slots.layout
    table = sequence_table(layout)
    expected = {frame.number: frame for frame in walk(slots).values() if frame.begun}
    assert table.number.tolist() == sorted(expected)
    assert table.length.tolist() == [expected[n].last - expected[n].first + 1 for n in sorted(expected)]
    rows = sequence_rows(layout)
    for place, number in enumerate(table.number.tolist()):
        steps = np.arange(table.length[place])
        found = table.rows(layout, np.full(len(steps), place), steps)
        assert (rows.number[found] == number).all()
        assert (np.diff(rows.step[found]) == 1).all()
    wanted = np.array([*expected, 10_000], np.int64)
    assert table.find(wanted)[-1] == -1
    assert table.number[table.find(wanted)[:-1]].tolist() == list(expected)


def test_computed_once_for_a_layout():
    layout = sequence_layout([3, 1, 0])
    assert sequence_rows(layout) is sequence_rows(layout)
    assert delay_rows(layout, 1) is delay_rows(layout, 1)
    assert delay_rows(layout, 1) is not delay_rows(layout, 2)
    assert sequence_table(layout) is sequence_table(layout)


def test_frames_are_sequences_of_one_step():
    rows = sequence_rows(frame_layout(3))
    assert rows.number.tolist() == [0, 1, 2]
    assert rows.first.tolist() == rows.last.tolist() == [0, 0, 0]
    assert delay_rows(frame_layout(3), 1).source.tolist() == [-1, -1, -1]


def test_no_frames():
    for layout in (sequence_layout([]), sequence_layout([0, 0]), slot_layout([[], []])):
        assert len(sequence_rows(layout).slot) == 0
        assert len(delay_rows(layout, 1).source) == 0
        assert len(sequence_table(layout).number) == 0
        assert sequence_table(layout).find(np.array([0, 1])).tolist() == [-1, -1]


def test_sequences_without_frames_keep_their_numbers():
    table = sequence_table(sequence_layout([0, 2, 0, 3]))
    assert table.number.tolist() == [1, 3]
    assert table.length.tolist() == [2, 3]
