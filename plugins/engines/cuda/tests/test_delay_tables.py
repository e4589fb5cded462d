"""What the tables of delays say: each row's value some steps before, wherever that lies, against a walk by sequence."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import attrs
import numpy as np
import pytest
from cntk_engine_cuda.delay_tables import NOTHING, is_truncated, kept_codes, read_codes, readers_of_states
from hypothesis import given
from hypothesis import strategies as st

from cntk_core.api import SequenceLayout
from cntk_core.api.engines import sequence_layout
from cntk_core.api.readers import slot_layout
from cntk_testing.examples import examples

DEFAULT = -0.5


@attrs.define
class Slot:
    """A slot of the reader's: what its sequence has had so far, and how many values it began with."""

    values: list[float] = attrs.field(factory=list)
    states: list[float] = attrs.field(factory=list)


def packed(layout: SequenceLayout, slots: list[list[float]]) -> Any:
    """Values by slot, in the reader's order of slots, as rows of a minibatch."""
    order = np.argsort([-len(slot) for slot in slots], kind="stable")
    rows = np.zeros(layout.frames)
    for place, source in enumerate(order):
        for step, value in enumerate(slots[source]):
            rows[layout.start[step] + place] = value
    return rows


def decoded(codes: Any, rows: Any, states: Any, tail: Any) -> list[float]:
    """What the kernel makes of a table: ``read_rows`` in kernels/common.cu."""
    found = []
    for code in codes:
        if code >= 0:
            found.append(rows[code])
        elif code == NOTHING:
            found.append(DEFAULT)
        else:
            source, place = (states, -2 - code) if code % 2 == 0 else (tail, -3 - code)
            found.append(source[place // 2])
    return found


def walk(shift: int, minibatches: list[list[list[int]]], kind: str) -> None:
    """Go through minibatches whose slots go on from one to the next, where the length of a sequence is negative."""
    slots = [Slot() for _ in minibatches[0]]
    tail: Any = np.zeros(0)
    carried, counter = [False] * len(slots), 0
    for lengths in minibatches:
        values: list[list[float]] = []
        expected: list[list[float]] = []
        states: list[list[float]] = []
        for number, (slot, parts) in enumerate(zip(slots, lengths, strict=True)):
            values.append([])
            expected.append([])
            for part, length in enumerate(parts):
                if part or not carried[number]:
                    begun = {"none": [DEFAULT] * shift, "one": [7.25] * shift}.get(kind)
                    if begun is None:
                        begun = [1000.0 * (len(states) + 1) + step for step in range(shift)]
                        states.append(begun)
                    slot.states, slot.values = begun, []
                for _ in range(abs(length)):
                    counter += 1
                    expected[-1].append((slot.states + slot.values)[-shift:][0] if slot.states else 0.0)
                    slot.values.append(float(counter))
                    values[-1].append(float(counter))
        continues = [parts[-1] < 0 for parts in lengths]
        layout = slot_layout(
            [[abs(length) for length in parts] for parts in lengths], continued=carried, continues=continues
        )
        own = sequence_layout([shift] * len(states)) if states else None
        context: Any = SimpleNamespace(
            layout=layout,
            layouts=(layout, own),
            framed=(True,) if kind == "none" else (True, kind == "each"),
        )
        given_states = np.array([7.25]) if own is None else packed(own, states)
        rows = packed(layout, values)
        assert decoded(read_codes(context, shift), rows, given_states, tail) == packed(layout, expected).tolist()
        assert is_truncated(layout) == (any(carried) or any(continues))
        tail = np.array(decoded(kept_codes(context, shift), rows, given_states, tail))
        carried = continues


@st.composite
def histories(draw: Any) -> list[list[list[int]]]:
    """Sequences of slots over some minibatches; the last of a slot may go on."""
    count = draw(st.integers(1, 3))
    part = st.lists(st.integers(1, 4), min_size=1, max_size=2)
    found = []
    for _ in range(draw(st.integers(1, 4))):
        slots = [draw(part) for _ in range(count)]
        found.append([[*slot[:-1], slot[-1] * draw(st.sampled_from([1, -1]))] for slot in slots])
    return found


@examples(60)
@given(st.integers(1, 3), histories(), st.sampled_from(["none", "one"]))
def test_each_row_reads_its_sequence_some_steps_before(shift: int, history: Any, kind: str) -> None:
    walk(shift, history, kind)


@examples(30)
@given(st.integers(1, 3), st.lists(st.integers(1, 4), min_size=1, max_size=5))
def test_rows_before_a_sequence_are_those_of_its_initial_state(shift: int, lengths: list[int]) -> None:
    walk(shift, [[[length] for length in lengths]], "each")


def context_of(lengths: list[int], states: SequenceLayout | None) -> Any:
    layout = sequence_layout(lengths)
    return SimpleNamespace(layout=layout, layouts=(layout, states), framed=(True, states is not None))


@pytest.mark.parametrize(
    ("lengths", "shift", "start", "readers"),
    [
        # The longest sequence has slot 0; rows go step by step.
        ([3, 2], 1, [0, 1, 2], [0, 1]),
        ([2, 3], 1, [0, 1, 2], [1, 0]),
        ([1, 3, 2], 1, [0, 1, 2, 3], [2, 0, 1]),
    ],
)
def test_the_readers_of_each_state(lengths: list[int], shift: int, start: list[int], readers: list[int]) -> None:
    found = readers_of_states(context_of(lengths, sequence_layout([1] * len(lengths))), shift)
    assert [part.tolist() for part in found] == [start, readers]


def test_one_state_is_read_by_the_beginnings_of_all_sequences() -> None:
    start, readers = readers_of_states(context_of([3, 2], None), 2)
    assert (start.tolist(), readers.tolist()) == ([0, 4], [0, 1, 2, 3])


def test_states_that_no_row_reads() -> None:
    layout = slot_layout([[2], [3]], continued=[True, True])
    context: Any = SimpleNamespace(layout=layout, layouts=(layout, sequence_layout([1, 1])), framed=(True, True))
    start, readers = readers_of_states(context, 1)
    assert (start.tolist(), readers.tolist()) == ([0, 0, 0], [])


def test_nothing_is_kept_where_no_sequence_goes_on() -> None:
    assert kept_codes(context_of([3, 2], None), 2).tolist() == [NOTHING] * 4
    assert not is_truncated(sequence_layout([3, 2]))
