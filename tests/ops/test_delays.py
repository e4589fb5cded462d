"""PastValue and FutureValue, against a walk over each sequence."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from slots import MINIBATCHES, SlotData, make_slots, walk

from cntk_core.errors import DataError, ShapeError
from cntk_core.network.inference import shift_of
from cntk_core.network.node import Node
from cntk_core.ops.families.delays import TAIL
from cntk_core.ops.families.recurrence import DelayAttributes
from cntk_core.ops.language.layouts import sequence_layout
from cntk_core.ops.language.op import OpContext
from cntk_core.ops.language.rows import packed_slots, reader_slots, sequence_rows
from cntk_core.ops.table import core_op, core_ops
from cntk_core.records.layout import SequenceLayout
from cntk_testing.examples import examples

TABLE = core_ops()
DIM = 2
LENGTHS = st.lists(st.integers(0, 5), min_size=1, max_size=5)
OPS = st.sampled_from(["PastValue", "FutureValue"])
STEPS = st.integers(1, 3)


def context(layout: SequenceLayout, state: SequenceLayout | None = None, *, given: bool = False, carried=None):
    return OpContext(
        framed=(True, state is not None) if given else (True,),
        frames=layout.frames,
        layout=layout,
        layouts=(layout, state) if given else (layout,),
        carried={} if carried is None else carried,
    )


def forward(op: str, step: int, inputs, made: OpContext, default: float = 0.1):
    found = TABLE.find("", op)
    return found.forward(np, inputs, DelayAttributes((DIM,), step, default), made)


def gradient(op: str, step: int, grad, inputs, made: OpContext):
    found = TABLE.find("", op)
    attributes = DelayAttributes((DIM,), step)
    return found.gradient(np, grad, None, inputs, attributes, made, [True] * len(inputs))


def by_frame(slots: SlotData, values: np.ndarray) -> dict[tuple[int, int], np.ndarray]:
    """Rows by the reader's slot and the step."""
    places = reader_slots(slots.layout)
    slot, step = packed_slots(slots.layout)
    return {(int(places[s]), int(t)): value for s, t, value in zip(slot, step, values, strict=True)}


def values_for(frames: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((frames, DIM))


@pytest.mark.parametrize(("op", "shift"), [("PastValue", 2), ("FutureValue", -2)])
def test_shift(op, shift):
    node = Node("d", core_op(op), [], attributes=DelayAttributes(time_step=2))
    assert shift_of(node) == shift


@examples(200)
@given(MINIBATCHES, OPS, STEPS, st.booleans())
def test_values(slots: SlotData, op: str, step: int, given_state: bool):
    x = values_for(slots.layout.frames)
    state = np.array([7.0, -8.0])
    made = context(slots.layout, given=given_state)
    found = by_frame(slots, forward(op, step, [x, state] if given_state else [x], made, 0.25))
    source = by_frame(slots, x)
    before = np.broadcast_to(state if given_state else 0.25, (DIM,))
    for (slot, time), frame in walk(slots).items():
        wanted = time - core_op(op).traits.delay * step
        inside = frame.first <= wanted <= frame.last
        # Nothing was carried into this minibatch: the number stands before a sequence that began earlier.
        nothing = np.full(DIM, 0.25) if wanted < 0 and not frame.begun else before
        np.testing.assert_array_equal(found[slot, time], source[slot, wanted] if inside else nothing)


@examples(100)
@given(LENGTHS, OPS, STEPS, st.booleans())
def test_a_state_of_each_sequence(lengths, op, step, long):
    """One step for all, or as many as the delay: the last ones for the past, the first ones for the future."""
    slots = make_slots([[length] if length else [] for length in lengths])
    layout = sequence_layout(lengths)
    steps = step if long else 1
    own = sequence_layout([steps] * len(lengths))
    x, states = values_for(layout.frames), values_for(own.frames, 1)
    made = context(layout, own, given=True)
    found = forward(op, step, [x, states], made)
    rows, owner = sequence_rows(layout), sequence_rows(own)
    state_of = {(n, t): value for n, t, value in zip(owner.number.tolist(), owner.step.tolist(), states, strict=True)}
    for row in range(layout.frames):
        number, time, length = int(rows.number[row]), int(rows.step[row]), int(rows.last[row]) + 1
        wanted = time - core_op(op).traits.delay * step
        if 0 <= wanted < length:
            (source,) = np.flatnonzero((rows.number == number) & (rows.step == wanted))
            np.testing.assert_array_equal(found[row], x[source])
        else:
            place = (steps + wanted if wanted < 0 else wanted - length) if long else 0
            np.testing.assert_array_equal(found[row], state_of[number, place])
    assert slots.layout.frames == layout.frames


@examples(100)
@given(MINIBATCHES, OPS, STEPS, st.booleans())
def test_gradients_are_the_transpose(slots: SlotData, op: str, step: int, given_state: bool):
    """A delay is linear: <g, delay(x, s) - delay(0, 0)> = <gradients, (x, s)>."""
    frames = slots.layout.frames
    x, state, grad = values_for(frames), np.array([7.0, -8.0]), values_for(frames, 1)
    inputs = [x, state] if given_state else [x]
    made = context(slots.layout, given=given_state)
    zeros = [np.zeros_like(item) for item in inputs]
    change = forward(op, step, inputs, made)
    made.carried.clear()
    change = change - forward(op, step, zeros, made)
    found = gradient(op, step, grad, inputs, made)
    assert [item.shape for item in found] == [item.shape for item in inputs]
    product = sum(float((a * b).sum()) for a, b in zip(found, inputs, strict=True))
    np.testing.assert_allclose(product, (grad * change).sum(), atol=1e-9)


@examples(100)
@given(LENGTHS, OPS, STEPS, st.booleans())
def test_gradients_of_a_state_of_each_sequence(lengths, op, step, long):
    layout, own = sequence_layout(lengths), sequence_layout([step if long else 1] * len(lengths))
    x, states, grad = values_for(layout.frames), values_for(own.frames, 1), values_for(layout.frames, 2)
    made = context(layout, own, given=True)
    change = forward(op, step, [x, states], made) - forward(op, step, [0 * x, 0 * states], made)
    by_value, by_state = gradient(op, step, grad, [x, states], made)
    product = (by_value * x).sum() + (by_state * states).sum()
    np.testing.assert_allclose(product, (grad * change).sum(), atol=1e-9)


@st.composite
def cut_slots(draw: st.DrawFn):
    """Slots of whole sequences, and the lengths of the pieces into which every slot is cut."""
    count = draw(st.integers(1, 3))
    slots = [draw(st.lists(st.integers(1, 7), min_size=1, max_size=3)) for _ in range(count)]
    return slots, draw(st.integers(1, 4))


def pieces_of(lengths, size):
    """Cut a slot into pieces of at most ``size`` frames: for each the lengths, and whether it is cut at its ends."""
    found, ends = [], set(np.cumsum(lengths).tolist())
    total = sum(lengths)
    for first in range(0, total, size):
        last = min(first + size, total)
        marks = sorted({first, last} | {end for end in ends if first < end < last})
        found.append((np.diff(marks).tolist(), first not in ends | {0}, last not in ends))
    return found


@examples(200)
@given(cut_slots(), STEPS, st.sampled_from(["", "value"]))
def test_minibatches_in_a_row_are_the_uncut_sequence(cut, step, state):
    slots, size = cut
    whole = make_slots(slots)
    x = values_for(whole.layout.frames)
    states = [np.array([7.0, -8.0])] if state else []
    expected = by_frame(whole, forward("PastValue", step, [x, *states], context(whole.layout, given=bool(state))))
    source = by_frame(whole, x)
    pieces = [pieces_of(lengths, size) for lengths in slots]
    carried: dict = {}
    for number in range(max(len(each) for each in pieces)):
        now = [each[number] if number < len(each) else ([], False, False) for each in pieces]
        part = make_slots([item[0] for item in now], [item[1] for item in now], [item[2] for item in now])
        frames = by_frame(part, np.zeros((part.layout.frames, DIM)))
        rows = np.array([source[slot, number * size + time] for slot, time in frames]).reshape(-1, DIM)
        made = context(part.layout, given=bool(state), carried=carried)
        found = by_frame(part, forward("PastValue", step, [rows, *states], made))
        for (slot, time), value in found.items():
            np.testing.assert_array_equal(value, expected[slot, number * size + time])
    assert not carried  # no sequence goes on after the last


def test_a_short_sequence_that_goes_on_begins_with_its_own_state():
    """One frame of the second sequence, then a delay by 2: its initial state, not the sequence before it."""
    carried: dict = {}
    first = make_slots([[2, 1]], continues=[True])
    own = sequence_layout([1, 1])
    states = np.array([[1.0, 1.0], [5.0, 5.0]])
    x = np.array([[10.0, 10.0], [20.0, 20.0], [30.0, 30.0]])
    forward("PastValue", 2, [x, states], context(first.layout, own, given=True, carried=carried))
    assert carried[TAIL][0].tolist() == [[30.0, 30.0], [5.0, 5.0]]
    second = make_slots([[2]], continued=[True])
    later = context(second.layout, sequence_layout([]), given=True, carried=carried)
    found = forward("PastValue", 2, [np.array([[40.0, 40.0], [50.0, 50.0]]), np.zeros((0, DIM))], later)
    assert found.tolist() == [[5.0, 5.0], [30.0, 30.0]]


def test_nothing_is_carried_back():
    carried: dict = {}
    slots = make_slots([[2]], continues=[True])
    forward("FutureValue", 1, [np.ones((2, DIM))], context(slots.layout, carried=carried))
    assert carried == {}


def test_a_minibatch_that_ends_all_sequences_forgets_the_state():
    carried: dict = {}
    slots = make_slots([[2]], continues=[True])
    forward("PastValue", 1, [np.ones((2, DIM))], context(slots.layout, carried=carried))
    assert TAIL in carried
    slots = make_slots([[2]], continued=[True])
    forward("PastValue", 1, [np.ones((2, DIM))], context(slots.layout, carried=carried))
    assert TAIL not in carried


def test_a_state_that_is_too_short():
    layout, own = sequence_layout([4, 4]), sequence_layout([2, 2])
    with pytest.raises(DataError) as error:
        forward("PastValue", 3, [np.ones((8, DIM)), np.ones((4, DIM))], context(layout, own, given=True))
    assert str(error.value) == (
        "the initial state of a delay by 3 steps has a sequence of 2\n"
        "    It needs one step for all, or as many steps as the delay."
    )


def test_a_sequence_without_state():
    layout, own = sequence_layout([4, 4]), sequence_layout([1])
    with pytest.raises(DataError, match="the initial state of a delay by 1 steps has a sequence of 0"):
        forward("PastValue", 1, [np.ones((8, DIM)), np.ones((1, DIM))], context(layout, own, given=True))


def test_a_slot_that_waits_keeps_its_state():
    carried: dict = {}
    slots = make_slots([[2], [2]], continues=[True, True])
    x = np.arange(8.0).reshape(4, 2)  # the first step of both slots, then the second
    forward("PastValue", 1, [x], context(slots.layout, carried=carried))
    waiting = make_slots([[], [2]], [False, True], [True, True])
    forward("PastValue", 1, [10 * x[:2]], context(waiting.layout, carried=carried))
    assert carried[TAIL][:, 0].tolist() == [[4.0, 5.0], [20.0, 30.0]]


@pytest.mark.parametrize("op", ["PastValue", "FutureValue"])
@pytest.mark.parametrize(
    ("state", "fits"), [((2, 3), True), ((1,), True), ((1, 2, 3), True), ((6,), False), ((3, 2), False), ((3,), False)]
)
def test_an_initial_state_has_the_shape_of_the_value_or_is_a_number(op, state, fits):
    if fits:
        assert core_op(op).infer([(2, 3), state], DelayAttributes()) == (2, 3)
        return
    with pytest.raises(ShapeError, match="the initial state .* does not fit the value"):
        core_op(op).infer([(2, 3), state], DelayAttributes())
